//! The kernel's own conversion from the processor's counter to nanoseconds, from the page of a perf event. The
//! functions access only the page that the caller supplies, so tests can replace it with a script.

use hpt_sys::perf::EventPage;

use crate::source::linux::event_page::{CAPABILITIES, LOCK, MOST_CHANGES};

/// Offsets of fields in `struct perf_event_mmap_page`, in bytes. Linux, include/uapi/linux/perf_event.h.
const TIME_SHIFT: usize = 50;
const TIME_MULT: usize = 52;
const TIME_ZERO: usize = 64;
const TIME_CYCLES: usize = 80;
const TIME_MASK: usize = 88;

/// The capability bits `cap_user_time` (the multiplier and the shift are valid), `cap_user_time_zero` (the start value
/// is valid) and `cap_user_time_short` (the counter has fewer than 64 bits). Linux, include/uapi/linux/perf_event.h.
const TELLS_RATE: u64 = 1 << 3;
const TELLS_ZERO: u64 = 1 << 4;
const IS_SHORT: u64 = 1 << 5;

/// The conversion from ticks of the processor's counter to nanoseconds of the kernel's scheduler clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) mult: u32,
    /// The shift, which is less than 64.
    pub(super) shift: u32,
    zero_ns: u64,
    /// A recent reading of the counter. The field `mask` contains the counter's valid bits.
    cycles: u64,
    mask: u64,
}

impl Line {
    /// Returns the time of the scheduler clock at a counter reading of `ticks`, in nanoseconds. The reading of a narrow
    /// counter is extended to the 64-bit value nearest to the reading in the page.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "modulo 2^64, like the kernel's own clock")]
    pub(super) const fn nanos(&self, ticks: u64) -> u64 {
        // The difference is signed, unlike in the kernel's own example: a reading from just before the page was updated
        // must not be taken for a reading almost one wrap later.
        let since = ticks.wrapping_sub(self.cycles) & self.mask;
        let since = if since > self.mask >> 1 { since | !self.mask } else { since };
        let extended = self.cycles.wrapping_add(since);
        let scaled = (extended as u128 * self.mult as u128) >> self.shift;
        self.zero_ns.wrapping_add(scaled as u64)
    }

    /// Returns the number of valid bits of the counter.
    pub(super) const fn bits(&self) -> u32 {
        self.mask.count_ones()
    }
}

/// The reason why a page contains no usable conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoLine {
    /// The page's capability bits do not indicate a conversion. The field contains these bits.
    NotTold(u64),
    /// The kernel was changing the page during each attempt to read it.
    Restless,
    /// The page's numbers do not form a valid conversion.
    NoSense,
}

/// Returns the current conversion in the page.
///
/// # References
///
/// Linux, include/uapi/linux/perf_event.h, `struct perf_event_mmap_page`: the comments on `time_zero`, and on the loop
/// around `lock`.
#[inline(always)]
pub(super) fn line<P: EventPage>(page: &P) -> Result<Line, NoLine> {
    for _ in 0..MOST_CHANGES {
        let changes = page.read_u32(LOCK);
        let capabilities = page.read_u64(CAPABILITIES);
        let (mult, shift) = (page.read_u32(TIME_MULT), page.read_u16(TIME_SHIFT));
        let zero_ns = page.read_u64(TIME_ZERO);
        let (cycles, mask) = if capabilities & IS_SHORT == 0 {
            (0, u64::MAX)
        } else {
            (page.read_u64(TIME_CYCLES), page.read_u64(TIME_MASK))
        };
        // The sequence number is odd while the kernel is changing the page.
        if changes % 2 != 0 || page.read_u32(LOCK) != changes {
            continue;
        }
        if capabilities & (TELLS_RATE | TELLS_ZERO) != TELLS_RATE | TELLS_ZERO {
            return Err(NoLine::NotTold(capabilities));
        }
        let is_a_line = mult > 0 && shift < 64 && mask > 0 && mask & mask.wrapping_add(1) == 0;
        return if is_a_line {
            Ok(Line { mult, shift: shift.into(), zero_ns, cycles, mask })
        } else {
            Err(NoLine::NoSense)
        };
    }
    Err(NoLine::Restless)
}

/// Returns the capability bits as text.
pub(super) fn told(capabilities: u64) -> String {
    let word = |bit, name: &'static str| if capabilities & bit == 0 { format!("no {name}") } else { name.to_owned() };
    [word(TELLS_RATE, "cap_user_time"), word(TELLS_ZERO, "cap_user_time_zero"), word(IS_SHORT, "cap_user_time_short")]
        .join(", ")
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use proptest::{
        collection::vec,
        prelude::{any, prop_assert, prop_assert_eq, proptest},
    };

    use super::{
        CAPABILITIES, IS_SHORT, LOCK, Line, MOST_CHANGES, NoLine, TELLS_RATE, TELLS_ZERO, TIME_CYCLES, TIME_MASK,
        TIME_MULT, TIME_SHIFT, TIME_ZERO, line, told,
    };
    use crate::source::linux::event_page::scripted::Script;
    use hpt_sys::perf::EventPage;

    const ALL: u64 = TELLS_RATE | TELLS_ZERO | IS_SHORT;

    /// The values in the page between two changes.
    #[derive(Clone, Copy, Debug)]
    struct Shown {
        lock: u32,
        capabilities: u64,
        mult: u32,
        shift: u16,
        zero: u64,
        cycles: u64,
        mask: u64,
    }

    /// 16 ns per tick, from one second on, with a 56-bit counter.
    const SHOWN: Shown = Shown {
        lock: 4,
        capabilities: ALL,
        mult: 16 << 20,
        shift: 20,
        zero: 1_000_000_000,
        cycles: 500,
        mask: (1 << 56) - 1,
    };

    impl EventPage for Script<Shown> {
        fn read_u16(&self, offset: usize) -> u16 {
            assert_eq!(offset, TIME_SHIFT);
            self.next().shift
        }

        fn read_u32(&self, offset: usize) -> u32 {
            let now = self.next();
            match offset {
                LOCK => now.lock,
                TIME_MULT => now.mult,
                other => panic!("no field of 32 bits at {other}"),
            }
        }

        fn read_u64(&self, offset: usize) -> u64 {
            let now = self.next();
            match offset {
                CAPABILITIES => now.capabilities,
                TIME_ZERO => now.zero,
                TIME_CYCLES => now.cycles,
                TIME_MASK => now.mask,
                other => panic!("no field of 64 bits at {other}"),
            }
        }

        fn counter(&self, _index: u32) -> Option<u64> {
            panic!("the page is not used to read a counter")
        }
    }

    fn quiet(shown: Shown) -> Result<Line, NoLine> {
        line(&Script::new(&[(1, shown)]))
    }

    #[test]
    fn a_stable_page_yields_a_line() {
        let line = quiet(SHOWN).expect("a complete conversion");
        assert_eq!((line.nanos(500), line.nanos(1_500)), (1_000_008_000, 1_000_024_000));
        assert_eq!(line.bits(), 56);
        // The same without a mask: the page has no such fields on x86.
        let wide =
            quiet(Shown { capabilities: TELLS_RATE | TELLS_ZERO, cycles: 7, mask: 0, ..SHOWN }).expect("a conversion");
        assert_eq!((wide.nanos(500), wide.bits()), (1_000_008_000, 64));
    }

    #[test]
    fn a_short_counter_is_extended_across_its_wrap_both_ways() {
        let line = quiet(Shown { cycles: (1 << 56) - 10, zero: 0, ..SHOWN }).expect("a conversion");
        let at = |ticks: u64| line.nanos(ticks);
        assert_eq!(at(5) - at((1 << 56) - 10), 15 * 16);
        // From just before the page was updated: not a wrap later.
        assert_eq!(at((1 << 56) - 10) - at((1 << 56) - 20), 10 * 16);
    }

    #[test]
    fn without_both_capability_bits_there_is_no_line() {
        for capabilities in [0, TELLS_RATE, TELLS_ZERO, !(TELLS_RATE | TELLS_ZERO)] {
            assert_eq!(quiet(Shown { capabilities, ..SHOWN }), Err(NoLine::NotTold(capabilities)));
        }
        assert_eq!(told(TELLS_RATE), "cap_user_time, no cap_user_time_zero, no cap_user_time_short");
    }

    #[test]
    fn implausible_numbers_are_rejected() {
        for wrong in [
            Shown { mult: 0, ..SHOWN },
            Shown { shift: 64, ..SHOWN },
            Shown { shift: u16::MAX, ..SHOWN },
            Shown { mask: 0, ..SHOWN },
            Shown { mask: 0xff00, ..SHOWN },
        ] {
            assert_eq!(quiet(wrong), Err(NoLine::NoSense), "{wrong:?}");
        }
    }

    #[test]
    fn a_page_that_changes_is_read_again() {
        let moved = Shown { lock: 6, mult: 8 << 20, zero: 77, cycles: 9_000, ..SHOWN };
        let expected = quiet(moved).expect("a conversion");
        for reads in 1..8 {
            assert_eq!(line(&Script::new(&[(reads, SHOWN), (1, moved)])), Ok(expected), "after {reads} reads");
        }
        assert_eq!(line(&Script::new(&[(8, SHOWN), (1, moved)])), quiet(SHOWN), "after the last read");
    }

    #[test]
    fn a_page_that_never_settles_does_not_block_the_reader() {
        assert_eq!(quiet(Shown { lock: 5, ..SHOWN }), Err(NoLine::Restless));
        let restless: Vec<_> = (0..200).map(|change| (1, Shown { lock: 2 * change, ..SHOWN })).collect();
        assert_eq!(line(&Script::new(&restless)), Err(NoLine::Restless));
        assert!(u32::try_from(restless.len()).expect("two hundred") > 8 * MOST_CHANGES);
    }

    /// A kernel that switches to a new start value between any two reads, while ticks advance.
    #[derive(Debug)]
    struct Moving {
        ticks: Cell<u64>,
        changes: RefCell<Vec<u8>>,
        lock: Cell<u32>,
        cycles: Cell<u64>,
        mask: u64,
    }

    impl Moving {
        fn pass(&self) {
            self.ticks.set(self.ticks.get() + 3);
            if self.changes.borrow_mut().pop().is_some_and(|change| change > 200) {
                self.cycles.set(self.ticks.get());
                self.lock.set(self.lock.get() + 2);
            }
        }
    }

    impl EventPage for Moving {
        fn read_u16(&self, _offset: usize) -> u16 {
            self.pass();
            1
        }

        fn read_u32(&self, offset: usize) -> u32 {
            self.pass();
            if offset == LOCK { self.lock.get() } else { 6 }
        }

        fn read_u64(&self, offset: usize) -> u64 {
            self.pass();
            match offset {
                CAPABILITIES => ALL,
                TIME_CYCLES => self.cycles.get(),
                TIME_MASK => self.mask,
                _ => 40,
            }
        }

        fn counter(&self, _index: u32) -> Option<u64> {
            panic!("the page is not used to read a counter")
        }
    }

    proptest! {
        #[test]
        fn every_reading_lies_between_its_beginning_and_its_end(
            begun in 0_u64..1 << 60,
            bits in 56_u32..64,
            changes in vec(any::<u8>(), 0..80),
        ) {
            let page = Moving {
                ticks: Cell::new(begun),
                changes: RefCell::new(changes),
                lock: Cell::new(0),
                cycles: Cell::new(begun),
                mask: (1 << bits) - 1,
            };
            for _ in 0..20 {
                let before = page.ticks.get();
                let line = line(&page).expect("the page stays unchanged long enough");
                // The counter, with its number of bits, at some time after the page was read.
                let ns = line.nanos(page.ticks.get() & page.mask);
                prop_assert!((40 + before * 3..=40 + page.ticks.get() * 3).contains(&ns), "{before} {ns}");
            }
        }

        #[test]
        fn any_page_yields_a_line_or_a_reason(
            numbers in (any::<u64>(), any::<u32>(), any::<u16>(), any::<u64>(), any::<u64>(), any::<u64>()),
            ticks in any::<u64>(),
        ) {
            let (capabilities, mult, shift, zero, cycles, mask) = numbers;
            if let Ok(line) = quiet(Shown { lock: 2, capabilities, mult, shift, zero, cycles, mask }) {
                let _ = line.nanos(ticks);
            }
        }

        #[test]
        fn nanoseconds_agree_with_exact_arithmetic(mult in 1_u32.., shift in 0_u16..32, ticks in any::<u64>(), zero in any::<u64>()) {
            let capabilities = TELLS_RATE | TELLS_ZERO;
            let line = quiet(Shown { capabilities, mult, shift, zero, ..SHOWN }).expect("a conversion");
            // Computed in parts, as in the kernel's own example.
            let (quotient, rest) = (ticks >> shift, ticks & ((1 << shift) - 1));
            let exact = zero
                .wrapping_add(quotient.wrapping_mul(u64::from(mult)))
                .wrapping_add((rest * u64::from(mult)) >> shift);
            prop_assert_eq!(line.nanos(ticks), exact);
        }
    }
}
