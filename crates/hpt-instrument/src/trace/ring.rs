//! Pages of the kernel's ring buffer, as read from trace_pipe_raw (the kernel's include/linux/ring_buffer.h and
//! kernel/trace/ring_buffer.c).

use super::format::Layout;

/// Flags in the field that contains the number of valid bytes.
const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
/// The types of entries other than events.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// The number of bits of a time difference within an entry, and of the part of an absolute time that an entry contains.
const DELTA_BITS: u32 = 27;
const ABSOLUTE_BITS: u32 = 59;

/// The state of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// The time of the page, in nanoseconds.
    pub(super) time: u64,
    /// Whether events before this page were lost, and how many if the kernel counted them.
    pub(super) lost: Option<Option<u64>>,
    /// Whether the whole page was parsed. If not, its remaining entries contradict the format.
    pub(super) is_whole: bool,
}

/// An integer of up to eight bytes.
pub(super) fn integer(bytes: &[u8], big_endian: bool) -> u64 {
    let shifted = |value: u64, &byte: &u8| value << 8 | u64::from(byte);
    if big_endian { bytes.iter().fold(0, shifted) } else { bytes.iter().rev().fold(0, shifted) }
}

/// Parses a page, and passes the time and the content of each event to `on_event`. `None` if the page has no header.
pub(super) fn parse(page: &[u8], layout: Layout, mut on_event: impl FnMut(u64, &[u8])) -> Option<Page> {
    let number = |bytes: &[u8]| integer(bytes, layout.big_endian);
    let (header, data) = page.split_at_checked(layout.data_offset)?;
    let (time, commit) = header.split_at_checked(8)?;
    let (start, commit) = (number(time), number(commit.get(..layout.commit_size)?));
    let length = usize::try_from(commit & (MISSED_STORED - 1)).ok()?;
    let whole = data.get(..length);
    let count =
        (commit & MISSED_STORED != 0).then(|| data.get(length..length.checked_add(layout.commit_size)?)).flatten();
    let lost = (commit & MISSED_EVENTS != 0).then(|| count.map(number));
    let mut page = Page { time: start, lost, is_whole: whole.is_some() };
    let mut rest = whole.unwrap_or_default();
    let mut now = start;
    while !rest.is_empty() {
        let Some((entry, behind)) = rest.split_at_checked(4) else {
            page.is_whole = false;
            break;
        };
        let word = u32::try_from(number(entry)).unwrap_or_default();
        let (kind, delta) = if layout.big_endian {
            (word >> DELTA_BITS, u64::from(word & ((1 << DELTA_BITS) - 1)))
        } else {
            (word & 31, u64::from(word >> 5))
        };
        let first = behind.get(..4).map(number);
        let entry = match kind {
            // The rest of the page is empty.
            PADDING if delta == 0 => break,
            TIME_EXTEND | TIME_STAMP => first.map(|first| {
                let long = (first << DELTA_BITS).wrapping_add(delta);
                now = if kind == TIME_EXTEND {
                    now.wrapping_add(long)
                } else {
                    start >> ABSOLUTE_BITS << ABSOLUTE_BITS | long & ((1 << ABSOLUTE_BITS) - 1)
                };
                (4, None)
            }),
            PADDING | 0 => first.and_then(|length| {
                now = now.wrapping_add(delta);
                let length = usize::try_from(length).ok().filter(|&length| length >= 4)?;
                // The next multiple of a damaged length does not fit in 32 bits.
                let length = length.checked_next_multiple_of(4)?;
                Some((length, (kind == 0).then(|| behind.get(4..length)).flatten()))
            }),
            words => {
                now = now.wrapping_add(delta);
                let length = usize::try_from(words).unwrap_or(0) * 4;
                Some((length, behind.get(..length)))
            }
        };
        let Some((next, (length, content))) = entry.and_then(|entry| Some((behind.get(entry.0..)?, entry))) else {
            page.is_whole = false;
            break;
        };
        debug_assert!(length >= 4, "every entry is at least as long as a word");
        if let Some(content) = content {
            on_event(now, content);
        }
        rest = next;
    }
    Some(page)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};

    use super::{Page, parse};
    use crate::trace::format::Layout;

    const LAYOUTS: [Layout; 3] = [
        Layout { big_endian: false, commit_size: 8, data_offset: 16, page_size: 4_096 },
        Layout { big_endian: false, commit_size: 4, data_offset: 12, page_size: 4_096 },
        Layout { big_endian: true, commit_size: 8, data_offset: 16, page_size: 4_096 },
    ];

    fn bytes(value: u64, size: usize, layout: Layout) -> Vec<u8> {
        if layout.big_endian { value.to_be_bytes()[8 - size..].to_vec() } else { value.to_le_bytes()[..size].to_vec() }
    }

    fn entry(kind: u32, delta: u32, layout: Layout) -> Vec<u8> {
        let word = if layout.big_endian { kind << 27 | delta } else { delta << 5 | kind };
        bytes(word.into(), 4, layout)
    }

    fn page(time: u64, flags: u64, entries: &[u8], layout: Layout) -> Vec<u8> {
        let commit = entries.len() as u64 | flags;
        [bytes(time, 8, layout), bytes(commit, layout.commit_size, layout), entries.to_vec()].concat()
    }

    fn parsed(page: &[u8], layout: Layout) -> (Option<Page>, Vec<(u64, Vec<u8>)>) {
        let mut events = Vec::new();
        let state = parse(page, layout, |time, content| events.push((time, content.to_vec())));
        (state, events)
    }

    #[test]
    fn all_kinds_of_entries_are_parsed() {
        for layout in LAYOUTS {
            let entries = [
                entry(2, 5, layout),
                b"abcdefgh".to_vec(),
                entry(30, 3, layout),
                bytes(1, 4, layout),
                // A discarded entry.
                entry(29, 1, layout),
                bytes(8, 4, layout),
                vec![0; 4],
                entry(0, 2, layout),
                bytes(12, 4, layout),
                b"ijklmnop".to_vec(),
                entry(31, 7, layout),
                bytes(2, 4, layout),
                entry(1, 1, layout),
                b"qrst".to_vec(),
                entry(29, 0, layout),
                vec![255; 8],
            ]
            .concat();
            let (state, events) = parsed(&page(1_000, 0, &entries, layout), layout);
            assert_eq!(state, Some(Page { time: 1_000, lost: None, is_whole: true }));
            let later = 1_005 + (1 << 27) + 3 + 1 + 2;
            let absolute = (2 << 27) + 7 + 1;
            let expected = [(1_005, b"abcdefgh".to_vec()), (later, b"ijklmnop".to_vec()), (absolute, b"qrst".to_vec())];
            assert_eq!(events, expected, "{layout:?}");
        }
    }

    #[test]
    fn an_entry_of_the_greatest_length_is_damaged() {
        for layout in LAYOUTS {
            for length in [u32::MAX, u32::MAX - 3] {
                let entries = [entry(0, 1, layout), bytes(length.into(), 4, layout), vec![0; 8]].concat();
                let (state, events) = parsed(&page(1, 0, &entries, layout), layout);
                assert_eq!((state, events.len()), (Some(Page { time: 1, lost: None, is_whole: false }), 0));
            }
        }
    }

    #[test]
    fn lost_events_are_reported() {
        for layout in LAYOUTS {
            let none = parsed(&page(1, 1 << 31, &[], layout), layout).0.expect("a header");
            assert_eq!(none.lost, Some(None));
            let mut counted = page(1, 3 << 30, &[], layout);
            counted.extend(bytes(17, layout.commit_size, layout));
            assert_eq!(parsed(&counted, layout).0.expect("a header").lost, Some(Some(17)));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_a_panic(content in proptest::collection::vec(any::<u8>(), 0..300), length in 0_u16..300) {
            for layout in LAYOUTS {
                let _ = parsed(&content, layout);
                let mut page = page(1, 0, &content, layout);
                page.splice(8..8 + layout.commit_size, bytes(length.into(), layout.commit_size, layout));
                let (state, events) = parsed(&page, layout);
                prop_assert!(state.is_some() && events.len() <= content.len() / 4);
            }
        }
    }
}
