//! Computes the count of a perf event from its page and its counter. The functions access only the page and the
//! counter that the caller supplies, so tests can replace both with scripts.

use hpt_sys::perf::EventPage;

use crate::source::linux::event_page::{CAPABILITIES, LOCK, MOST_CHANGES};

/// Offsets of fields in `struct perf_event_mmap_page`, in bytes. Linux, include/uapi/linux/perf_event.h.
const INDEX: usize = 12;
const OFFSET: usize = 16;
const PMC_WIDTH: usize = 48;

/// `cap_user_rdpmc`: programs may read the counter. Linux, include/uapi/linux/perf_event.h.
const CAN_READ_COUNTER: u64 = 1 << 2;

/// Returns the event's count. Returns `None` if no counter is assigned to the event or programs have no access to the
/// counter. In that state, the instruction would kill the process, so each call checks the state. Also returns `None`
/// if this crate does not read this counter, or if the kernel changes the page during each attempt.
///
/// # References
///
/// Linux, include/uapi/linux/perf_event.h, `struct perf_event_mmap_page`.
#[inline(always)]
pub(super) fn count<P: EventPage>(page: &P) -> Option<u64> {
    for _ in 0..MOST_CHANGES {
        let changes = page.read_u32(LOCK);
        let index = page.read_u32(INDEX);
        if index == 0 || page.read_u64(CAPABILITIES) & CAN_READ_COUNTER == 0 {
            return None;
        }
        let offset = page.read_u64(OFFSET);
        let width = page.read_u16(PMC_WIDTH);
        let counter = page.counter(index)?;
        // The sequence number is odd while the kernel is changing the page.
        if changes % 2 == 0 && page.read_u32(LOCK) == changes {
            return Some(offset.wrapping_add(sign_extended(counter, width)?));
        }
    }
    None
}

/// Returns the counter's lower `bits` bits as a signed 64-bit number, because the counter counts up from a negative
/// value to an overflow. Returns `None` if no counter has this width.
#[inline(always)]
#[expect(clippy::cast_possible_wrap, clippy::cast_sign_loss, reason = "the top bit of the counter is the sign")]
fn sign_extended(counter: u64, bits: u16) -> Option<u64> {
    let unused = 64_u32.checked_sub(bits.into()).filter(|&unused| unused < 64)?;
    Some((((counter << unused) as i64) >> unused) as u64)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use proptest::{
        collection::vec,
        prelude::{any, prop_assert, prop_assert_eq, proptest},
    };

    use super::{CAN_READ_COUNTER, CAPABILITIES, INDEX, LOCK, MOST_CHANGES, OFFSET, PMC_WIDTH, count, sign_extended};
    use crate::source::linux::event_page::scripted::Script;
    use hpt_sys::perf::EventPage;

    /// The values in the page between two changes.
    #[derive(Clone, Copy, Debug)]
    struct Shown {
        lock: u32,
        index: u32,
        offset: u64,
        capabilities: u64,
        width: u16,
        counter: u64,
    }

    const SHOWN: Shown =
        Shown { lock: 4, index: 32, offset: 1_000, capabilities: CAN_READ_COUNTER, width: 64, counter: 23 };

    /// Reading a counter that the page did not name kills the process.
    #[derive(Debug)]
    struct Scripted {
        shown: Script<Shown>,
        given: Cell<u32>,
    }

    impl Scripted {
        fn new(script: &[(u32, Shown)]) -> Self {
            Self { shown: Script::new(script), given: Cell::new(0) }
        }
    }

    impl EventPage for Scripted {
        fn read_u16(&self, offset: usize) -> u16 {
            assert_eq!(offset, PMC_WIDTH);
            self.shown.next().width
        }

        fn read_u32(&self, offset: usize) -> u32 {
            let now = self.shown.next();
            match offset {
                LOCK => now.lock,
                INDEX => {
                    self.given.set(now.index);
                    now.index
                }
                other => panic!("no field of 32 bits at {other}"),
            }
        }

        fn read_u64(&self, offset: usize) -> u64 {
            let now = self.shown.next();
            match offset {
                OFFSET => now.offset,
                CAPABILITIES => now.capabilities,
                other => panic!("no field of 64 bits at {other}"),
            }
        }

        fn counter(&self, index: u32) -> Option<u64> {
            assert!(index != 0 && index == self.given.get(), "the page did not name this counter");
            Some(self.shown.next().counter)
        }
    }

    #[test]
    fn a_stable_page_is_read_as_offset_plus_counter() {
        assert_eq!(count(&Scripted::new(&[(1, SHOWN)])), Some(1_023));
    }

    #[test]
    fn a_negative_counter_is_added_with_its_sign() {
        let below = Shown { width: 48, counter: (1 << 48) - 24, ..SHOWN };
        assert_eq!(count(&Scripted::new(&[(1, below)])), Some(976));
        // Bits above the width do not belong to the counter.
        let dirty = Shown { width: 32, counter: 0xdead_0000_0000_0005, ..SHOWN };
        assert_eq!(count(&Scripted::new(&[(1, dirty)])), Some(1_005));
    }

    #[test]
    fn without_an_index_or_permission_no_counter_is_read() {
        assert_eq!(count(&Scripted::new(&[(1, Shown { index: 0, ..SHOWN })])), None);
        assert_eq!(count(&Scripted::new(&[(1, Shown { capabilities: !CAN_READ_COUNTER, ..SHOWN })])), None);
        // This also holds if the counter is lost between two readings, or within one reading.
        for reads in 1..12 {
            let lost = Shown { lock: 6, index: 0, offset: 9_000, ..SHOWN };
            let script = Scripted::new(&[(reads, SHOWN), (1, lost)]);
            let counted = count(&script);
            assert!(counted.is_none() || (reads >= 7 && counted == Some(1_023)), "{reads}: {counted:?}");
        }
    }

    #[test]
    fn a_page_that_changes_is_read_again() {
        let moved = Shown { lock: 6, index: 2, offset: 5_000, counter: 7, ..SHOWN };
        for reads in 1..7 {
            assert_eq!(count(&Scripted::new(&[(reads, SHOWN), (1, moved)])), Some(5_007), "after {reads} reads");
        }
    }

    #[test]
    fn a_page_that_never_settles_does_not_block_the_reader() {
        assert_eq!(count(&Scripted::new(&[(1, Shown { lock: 5, ..SHOWN })])), None);
        let restless: Vec<_> = (0..200).map(|change| (1, Shown { lock: 2 * change, ..SHOWN })).collect();
        assert_eq!(count(&Scripted::new(&restless)), None);
        assert!(u32::try_from(restless.len()).expect("two hundred") > 7 * MOST_CHANGES);
    }

    #[test]
    fn an_impossible_width_is_rejected() {
        assert_eq!((sign_extended(1, 0), sign_extended(1, 65), sign_extended(1, u16::MAX)), (None, None, None));
        assert_eq!(count(&Scripted::new(&[(1, Shown { width: 0, ..SHOWN })])), None);
    }

    /// A kernel that moves the event from counter to counter, between any two reads, while cycles advance.
    #[derive(Debug)]
    struct Moving {
        cycles: Cell<u64>,
        changes: RefCell<Vec<u8>>,
        lock: Cell<u32>,
        index: Cell<u32>,
        offset: Cell<u64>,
        width: u16,
    }

    impl Moving {
        fn pass(&self) {
            self.cycles.set(self.cycles.get() + 3);
            match self.changes.borrow_mut().pop() {
                // No counter, twice as often as any.
                None | Some(0..=127) => {}
                // To another counter, which starts below zero so that it overflows in time.
                Some(to) => {
                    let period = u64::from(to) << 8;
                    self.index.set(u32::from(to % 5));
                    self.offset.set(self.cycles.get().wrapping_add(period));
                    self.lock.set(self.lock.get() + 2);
                }
            }
        }
    }

    impl EventPage for Moving {
        fn read_u16(&self, _offset: usize) -> u16 {
            self.pass();
            self.width
        }

        fn read_u32(&self, offset: usize) -> u32 {
            self.pass();
            if offset == LOCK { self.lock.get() } else { self.index.get() }
        }

        fn read_u64(&self, offset: usize) -> u64 {
            self.pass();
            if offset == OFFSET { self.offset.get() } else { CAN_READ_COUNTER }
        }

        fn counter(&self, _index: u32) -> Option<u64> {
            self.pass();
            let mask = u64::MAX >> (64 - u32::from(self.width));
            Some(self.cycles.get().wrapping_sub(self.offset.get()) & mask)
        }
    }

    proptest! {
        #[test]
        fn every_count_lies_between_its_beginning_and_its_end(
            width in 24_u16..=64,
            begun in 0_u64..1 << 60,
            changes in vec(any::<u8>(), 0..60),
        ) {
            let page = Moving {
                cycles: Cell::new(begun),
                changes: RefCell::new(changes),
                lock: Cell::new(0),
                index: Cell::new(1),
                offset: Cell::new(begun),
                width,
            };
            for _ in 0..20 {
                let before = page.cycles.get();
                let counted = count(&page);
                let after = page.cycles.get();
                if let Some(counted) = counted {
                    prop_assert!((before..=after).contains(&counted), "{before} {counted} {after}");
                } else {
                    prop_assert!(page.index.get() == 0 || after - before > 16);
                }
            }
        }

        #[test]
        fn sign_extension_agrees_with_exact_arithmetic(counter in any::<u64>(), bits in 1_u16..=64) {
            let span = 1_i128 << bits;
            let low = i128::from(counter) % span;
            let exact = if low >= span / 2 { low - span } else { low };
            let extended = sign_extended(counter, bits).expect("1 to 64 bits");
            prop_assert_eq!(i128::from(hpt_sys::cast::signed(extended)), exact);
        }
    }
}
