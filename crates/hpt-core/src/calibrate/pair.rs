//! Takes bracketed readings over a window and keeps the tightest pairs in each part of the window. `fit` computes the
//! line through these pairs.

use std::hint::black_box;

use crate::{
    scale::Scale,
    source::{Pair, TimeSource},
    stats::granule,
    units::{Frequency, Width},
};

/// The number of parts of the window. Each part contributes the pair that limits the line most from below and the pair
/// that limits it most from above.
const PARTS: u64 = 128;
/// The number of back-to-back reads that determine a source's granule.
const READS_FOR_GRANULE: usize = 1024;
/// The largest number of iterations of an empty loop between two of these reads.
const LONGEST_DELAY: usize = 64;

/// The tightest pairs of one source, collected during a window.
///
/// A narrow bracket limits the line from both sides. Of two equally narrow brackets, the position of the reading within
/// the bracket decides which of them limits the line more. To decide this, the pairs are compared with a rough line
/// from the first pair of the window to the first pair of the part. Keeping the wrong pair would loosen the bound but
/// never break it.
#[derive(Debug)]
pub(super) struct Collector {
    width: Width,
    window_ns: u64,
    first: Option<Pair>,
    last_raw: u64,
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
            window_ns,
            first: None,
            last_raw: 0,
            widened: 0,
            rough_tick_ns: nominal.map(Frequency::tick_ns_f64),
            parts: (0..PARTS).map(|_| None).collect(),
            narrowest_ns: None,
            largest_step: 0,
            stepped_back: false,
        }
    }

    /// Adds a pair. Narrow counters are followed across wraps, so pairs must be less than half a wrap apart.
    pub(super) fn offer(&mut self, pair: Pair) {
        let first = match self.first {
            Some(first) => first,
            None => {
                self.last_raw = pair.ticks;
                *self.first.insert(Pair { ticks: 0, ..pair })
            }
        };
        let step = self.width.signed_difference(self.last_raw, pair.ticks);
        self.stepped_back |= step < 0;
        self.largest_step = self.largest_step.max(step.unsigned_abs());
        self.last_raw = pair.ticks;
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
        // Returns the distance of the bracket's ends from the rough line. Distances are compared only within a part,
        // where the error of the line is the same.
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

    #[expect(clippy::cast_precision_loss, reason = "a rough line")]
    fn rough_tick_ns(&mut self, first: &Pair, pair: &Pair) -> f64 {
        let elapsed_ns = pair.before_ns.wrapping_sub(first.before_ns);
        if pair.ticks > 0 && elapsed_ns > self.window_ns / PARTS {
            self.rough_tick_ns = Some(elapsed_ns as f64 / pair.ticks as f64);
        }
        self.rough_tick_ns.unwrap_or(1.0)
    }

    /// Returns the kept pairs in chronological order.
    pub(super) fn pairs(&self) -> Vec<Pair> {
        let kept = self.parts.iter().flatten().flat_map(|part| [part.latest_opening.1, part.earliest_closing.1]);
        let mut pairs: Vec<Pair> = kept.collect();
        pairs.sort_unstable_by_key(|pair| (pair.before_ns, pair.ticks));
        pairs.dedup();
        pairs
    }

    /// Returns the width of the narrowest bracket.
    pub(super) const fn narrowest_ns(&self) -> Option<u64> {
        self.narrowest_ns
    }

    /// Returns the largest step between two pairs, in ticks.
    pub(super) const fn largest_step(&self) -> u64 {
        self.largest_step
    }

    /// Returns whether any reading was lower than the previous one.
    pub(super) const fn stepped_back(&self) -> bool {
        self.stepped_back
    }
}

#[expect(clippy::cast_precision_loss, reason = "differences within a window, compared with a rough line")]
fn above(end_ns: u64, first: &Pair, pair: &Pair, tick_ns: f64) -> f64 {
    end_ns.wrapping_sub(first.before_ns) as f64 - pair.ticks as f64 * tick_ns
}

/// Returns the most that readings of `source` can lag, in ticks.
pub(super) fn granule_ticks<S: TimeSource + ?Sized>(source: &S) -> u64 {
    granule(&mut steps(source))
}

/// Returns the most that readings of `reference` can lag, in nanoseconds.
pub(super) fn granule_ns<R: TimeSource + ?Sized>(reference: &R, scale: Scale) -> u64 {
    let mut steps: Vec<u64> = steps(reference).into_iter().map(|ticks| scale.nanoseconds(ticks)).collect();
    granule(&mut steps)
}

/// Returns the steps between consecutive reads. The delay between reads grows a little each time, so that steps of all
/// sizes occur. Without a delay, the intervals between reads take only a few values, and reveal no granule shorter than
/// the read overhead.
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
    use crate::{
        source::Pair,
        units::{Frequency, Width},
    };

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

    #[test]
    fn a_backward_step_is_detected() {
        let mut collector = Collector::new(Width::BITS_64, None, 1_000);
        for ticks in [100, 90] {
            collector.offer(Pair { before_ns: 0, ticks, after_ns: 1 });
        }
        assert!(collector.stepped_back());
    }
}
