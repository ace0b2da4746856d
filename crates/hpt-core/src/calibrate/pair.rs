//! Takes bracketed readings over a window and keeps the tightest pairs in each part of the window. `fit` computes the
//! line through these pairs.

use std::hint::black_box;

use hpt_sys::{
    cast::signed,
    units::{Frequency, Width},
};

use crate::{
    scale::Scale,
    source::{Pair, TimeSource},
    stats::granule,
};

/// The number of parts into which the window is divided. Each part contributes two pairs: those that limit the line
/// most tightly from below and from above.
const PARTS: u64 = 128;
/// The number of back-to-back reads that determine a source's granule.
const READS_FOR_GRANULE: usize = 1024;
/// The longest delay between two of these reads, in iterations of an empty loop.
const LONGEST_DELAY: usize = 64;
/// The largest assumed deviation from the nominal rate in either direction, as a fraction. The self-test of a source
/// accepts no larger deviation.
const RATE_TOLERANCE: f64 = 0.05;

/// The tightest pairs of one source, collected during a window.
///
/// A narrow bracket limits the line from both sides. If two brackets are equally narrow, the position of the reading
/// within each bracket decides which pair limits the line more tightly. To estimate this position, the pairs are
/// compared with a rough line from the first pair of the window to the first pair of the part. A wrong estimate would
/// loosen the bound but could not invalidate it.
#[derive(Debug)]
pub(super) struct Collector {
    width: Width,
    nominal: Option<Frequency>,
    /// The shortest time in which the source can advance by half a wrap; `u64::MAX` if it has no nominal rate.
    half_a_wrap_ns: u64,
    window_ns: u64,
    first: Option<Pair>,
    /// The previous pair, with the reading that the source returned.
    last: Option<Pair>,
    widened: u64,
    rough_tick_ns: Option<f64>,
    parts: Vec<Option<Part>>,
    narrowest_ns: Option<u64>,
    largest_step: u64,
    stepped_back: bool,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    tick_ns: f64,
    latest_opening: (f64, Pair),
    earliest_closing: (f64, Pair),
}

impl Collector {
    pub(super) fn new(width: Width, nominal: Option<Frequency>, window_ns: u64) -> Self {
        Self {
            width,
            nominal,
            half_a_wrap_ns: nominal.map_or(u64::MAX, |nominal| half_a_wrap_ns(width, nominal)),
            window_ns,
            first: None,
            last: None,
            widened: 0,
            rough_tick_ns: nominal.map(Frequency::tick_ns_f64),
            parts: (0..PARTS).map(|_| None).collect(),
            narrowest_ns: None,
            largest_step: 0,
            stepped_back: false,
        }
    }

    /// Adds a pair. Wraps of narrow counters are tracked. If this thread or the whole machine was stopped for half a
    /// wrap or more, the nominal rate determines the number of wraps. If the stop was too long for that, or if there is
    /// no sufficiently narrow bracket next to it, the pairs before it are discarded.
    pub(super) fn offer(&mut self, pair: Pair) {
        // If the stop was within this bracket, the next pair shows how long it lasted. This pair would not limit the
        // line.
        if pair.after_ns.saturating_sub(pair.before_ns) >= self.half_a_wrap_ns {
            return;
        }
        let first = *self.first.get_or_insert(Pair { ticks: 0, ..pair });
        let last = *self.last.get_or_insert(pair);
        let Some(step) = self.step(&last, &pair) else {
            let stepped_back = self.stepped_back;
            *self = Self { stepped_back, ..Self::new(self.width, self.nominal, self.window_ns) };
            return self.offer(pair);
        };
        self.stepped_back |= step < 0;
        self.largest_step = self.largest_step.max(step.unsigned_abs());
        self.last = Some(pair);
        self.widened = self.widened.wrapping_add_signed(step);
        let pair = Pair { ticks: self.widened, ..pair };
        self.narrowest_ns = Some(self.narrowest_ns.map_or(pair.width_ns(), |kept| kept.min(pair.width_ns())));
        let elapsed = pair.before_ns.wrapping_sub(first.before_ns);
        let part = u128::from(elapsed) * u128::from(PARTS) / u128::from(self.window_ns.max(1));
        let part = usize::try_from(part).unwrap_or(usize::MAX).min(self.parts.len() - 1);
        let tick_ns = match self.parts[part] {
            Some(part) => part.tick_ns,
            None => self.rough_tick_ns(&first, &pair),
        };
        // The distances of the bracket's ends from the rough line. Distances are compared only within a part, where the
        // error of the line is the same.
        let opening = above(pair.before_ns, &first, &pair, tick_ns);
        let closing = above(pair.after_ns, &first, &pair, tick_ns);
        let kept = self.parts[part].get_or_insert(Part {
            tick_ns,
            latest_opening: (opening, pair),
            earliest_closing: (closing, pair),
        });
        if opening > kept.latest_opening.0 {
            kept.latest_opening = (opening, pair);
        }
        if closing < kept.earliest_closing.0 {
            kept.earliest_closing = (closing, pair);
        }
    }

    /// Returns the step from one pair to the next, in ticks; `None` if the number of wraps between them is unknown.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "positive limits that need not be exact"
    )]
    fn step(&self, last: &Pair, pair: &Pair) -> Option<i64> {
        let most_ns = pair.after_ns.saturating_sub(last.before_ns);
        let Some(nominal) = self.nominal.filter(|_| most_ns >= self.half_a_wrap_ns) else {
            return Some(self.width.signed_difference(last.ticks, pair.ticks));
        };
        let least_ns = pair.before_ns.saturating_sub(last.after_ns);
        let least = (least_ns as f64 / nominal.tick_ns_f64() * (1.0 - RATE_TOLERANCE)) as u64;
        let most = (most_ns as f64 / nominal.tick_ns_f64() * (1.0 + RATE_TOLERANCE)) as u64;
        // If the limits are at most half a wrap apart, a single number of wraps is possible.
        most.checked_sub(least).filter(|&apart| apart <= self.width.mask() / 2).map(|_| {
            let expected = u64::midpoint(least, most);
            let shown = self.width.difference(last.ticks, pair.ticks);
            signed(expected).wrapping_add(self.width.signed_difference(expected, shown))
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "a rough line")]
    fn rough_tick_ns(&mut self, first: &Pair, pair: &Pair) -> f64 {
        let elapsed_ns = pair.before_ns.wrapping_sub(first.before_ns);
        if pair.ticks > 0 && elapsed_ns > self.window_ns / PARTS {
            self.rough_tick_ns = Some(elapsed_ns as f64 / pair.ticks as f64);
        }
        self.rough_tick_ns.unwrap_or(1.0)
    }

    /// Returns the pairs that were kept, in chronological order.
    pub(super) fn pairs(&self) -> Vec<Pair> {
        let kept = self.parts.iter().flatten().flat_map(|part| [part.latest_opening.1, part.earliest_closing.1]);
        let mut pairs: Vec<Pair> = kept.collect();
        pairs.sort_unstable_by_key(|pair| (pair.before_ns, pair.ticks));
        pairs.dedup();
        pairs
    }

    /// Returns the width of the narrowest bracket, in nanoseconds; `None` if there are no pairs.
    pub(super) const fn narrowest_ns(&self) -> Option<u64> {
        self.narrowest_ns
    }

    /// Returns the largest step between two consecutive pairs, in ticks.
    pub(super) const fn largest_step(&self) -> u64 {
        self.largest_step
    }

    /// Returns the pairs that were kept and after which the source advanced, in chronological order.
    pub(super) fn followed_pairs(&self) -> Vec<Pair> {
        let mut pairs = self.pairs();
        pairs.retain(|pair| pair.ticks < self.widened);
        pairs
    }

    /// Returns whether any reading was lower than the previous one.
    pub(super) const fn stepped_back(&self) -> bool {
        self.stepped_back
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a positive limit that need not be exact; for a wide counter it is the longest time"
)]
fn half_a_wrap_ns(width: Width, nominal: Frequency) -> u64 {
    ((width.mask() / 2) as f64 * nominal.tick_ns_f64() / (1.0 + RATE_TOLERANCE)) as u64
}

#[expect(clippy::cast_precision_loss, reason = "differences within a window, compared with a rough line")]
fn above(end_ns: u64, first: &Pair, pair: &Pair, tick_ns: f64) -> f64 {
    end_ns.wrapping_sub(first.before_ns) as f64 - pair.ticks as f64 * tick_ns
}

/// Returns the largest lag of a reading of `source`, in ticks.
pub(super) fn granule_ticks<S: TimeSource + ?Sized>(source: &S) -> u64 {
    granule(&mut steps(source))
}

/// Returns the largest lag of a reading of `reference`, in nanoseconds.
pub(super) fn granule_ns<R: TimeSource + ?Sized>(reference: &R, scale: Scale) -> u64 {
    let mut steps: Vec<u64> = steps(reference).into_iter().map(|ticks| scale.nanos(ticks)).collect();
    granule(&mut steps)
}

/// Returns the steps between consecutive reads. The delay between reads varies, so that steps of all sizes occur.
/// Without a delay, the intervals between reads would have only a few distinct lengths and would not reveal a granule
/// shorter than the read overhead.
fn steps<S: TimeSource + ?Sized>(source: &S) -> Vec<u64> {
    let width = source.info().width;
    let read_after = |delay: usize| {
        for turn in 0..delay {
            black_box(turn);
        }
        source.ticks_end()
    };
    let readings: Vec<u64> = (0..READS_FOR_GRANULE).map(|read| read_after(read % LONGEST_DELAY)).collect();
    readings.windows(2).map(|pair| width.difference(pair[0], pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::{Collector, PARTS};
    use crate::source::Pair;
    use hpt_sys::units::{Frequency, Width};

    #[test]
    fn each_part_of_the_window_keeps_its_tightest_pairs() {
        let mut collector = Collector::new(Width::BITS_64, Some(Frequency::GIGAHERTZ), PARTS * 100);
        // The reading is early in the first bracket, late in the second, and anywhere in the third, which is wide.
        for (before_ns, ticks, after_ns) in [(0, 0, 9), (20, 27, 29), (40, 50, 90), (150, 152, 158)] {
            collector.offer(Pair { before_ns, ticks, after_ns });
        }
        let kept: Vec<_> = collector.pairs().iter().map(|pair| pair.before_ns).collect();
        assert_eq!((kept, collector.narrowest_ns()), (vec![0, 20, 150], Some(8)));
    }

    #[test]
    fn a_narrow_counter_is_followed_across_its_wrap() {
        let mut collector = Collector::new(Width::BITS_32, None, 1_000);
        for (before_ns, ticks) in [(0, 0xffff_fff0), (500, 0x10), (999, 0x30)] {
            collector.offer(Pair { before_ns, ticks, after_ns: before_ns });
        }
        let ticks: Vec<_> = collector.pairs().iter().map(|pair| pair.ticks).collect();
        assert_eq!((ticks, collector.stepped_back()), (vec![0, 0x20, 0x40], false));
    }

    /// The ACPI timer, which wraps in 4.7 s.
    fn acpi_timer() -> (Width, Frequency) {
        (Width::new(24).expect("24 bits"), Frequency::from_hertz(3_579_545).expect("not zero"))
    }

    /// Returns the ticks since zero of an ACPI timer that runs at `percent` of its nominal rate, without wraps.
    fn ticks_at(time_ns: u64, percent: u64) -> u64 {
        time_ns / 1_000 * 3_579_545 * percent / 100_000_000
    }

    /// Reads the ACPI timer in a bracket of 2 µs at each of these times, and after 10 µs more.
    fn collected(times_ns: &[u64], percent: u64) -> Collector {
        let (width, nominal) = acpi_timer();
        let mut collector = Collector::new(width, Some(nominal), 100_000_000);
        for before_ns in times_ns.iter().flat_map(|&time_ns| [time_ns, time_ns + 10_000]) {
            let ticks = ticks_at(before_ns + 1_000, percent) & width.mask();
            collector.offer(Pair { before_ns, ticks, after_ns: before_ns + 2_000 });
        }
        collector
    }

    #[test]
    fn a_narrow_counter_is_followed_across_a_stop_of_its_reader() {
        for percent in [96, 100, 104] {
            for stopped_ms in [2_200_u64, 2_300, 2_400, 3_000, 4_600, 4_700, 8_000, 20_000] {
                let collector = collected(&[0, 50_000, stopped_ms * 1_000_000], percent);
                assert!(!collector.stepped_back(), "{stopped_ms} ms, {percent} %");
                let last = collector.pairs().pop().expect("it was read");
                // Since the first reading, which was taken as late in its bracket.
                let true_ticks = ticks_at(last.before_ns, percent);
                assert!(last.ticks.abs_diff(true_ticks) <= 1, "{stopped_ms} ms, {percent} %: {last:?}");
            }
        }
    }

    #[test]
    fn a_reading_with_a_stop_of_its_reader_in_its_bracket_is_not_used() {
        let (width, nominal) = acpi_timer();
        for read_us in [500, 2_999_999] {
            let mut collector = Collector::new(width, Some(nominal), 100_000_000);
            let times_us = [(0, 0, 2), (499, read_us, 3_000_000), (3_001_000, 3_001_000, 3_001_002)];
            for (before_us, at_us, after_us) in times_us {
                let ticks = ticks_at(at_us * 1_000, 100) & width.mask();
                collector.offer(Pair { before_ns: before_us * 1_000, ticks, after_ns: after_us * 1_000 });
            }
            let kept: Vec<_> = collector.pairs().iter().map(|pair| (pair.before_ns, pair.ticks)).collect();
            assert_eq!(kept, [(0, 0), (3_001_000_000, ticks_at(3_001_000_000, 100))]);
            assert!(!collector.stepped_back());
        }
    }

    #[test]
    fn the_pairs_before_a_stop_of_many_wraps_are_discarded() {
        let collector = collected(&[0, 50_000, 60_000_000_000], 100);
        let kept: Vec<_> = collector.pairs().iter().map(|pair| pair.before_ns).collect();
        assert!(!collector.stepped_back() && kept.iter().all(|&before_ns| before_ns >= 60_000_000_000), "{kept:?}");
        assert_eq!(collector.pairs().first().map(|pair| pair.ticks), Some(0));
    }

    #[test]
    fn a_backward_step_of_a_narrow_counter_is_detected() {
        let (width, nominal) = acpi_timer();
        let mut collector = Collector::new(width, Some(nominal), 100_000_000);
        for (before_ns, ticks) in [(0, 100), (1_000, 90)] {
            collector.offer(Pair { before_ns, ticks, after_ns: before_ns + 100 });
        }
        assert!(collector.stepped_back());
    }

    #[test]
    fn a_backward_step_is_detected() {
        let mut collector = Collector::new(Width::BITS_64, None, 1_000);
        for ticks in [100, 90] {
            collector.offer(Pair { before_ns: 0, ticks, after_ns: 1 });
        }
        assert!(collector.stepped_back());
    }
}
