//! Summaries of many readings: spreads, medians, steps.
//! Reads no counter and knows no unit but the one its caller names.

use hdrhistogram::Histogram as Hdr;

/// Quantiles of a set of durations in nanoseconds: never a lone figure.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Spread {
    /// How many samples stand behind the figures.
    pub samples: u64,
    /// The smallest sample, in nanoseconds.
    pub min_ns: f64,
    /// Half of the samples are at most this, in nanoseconds.
    pub p50_ns: f64,
    /// 99 % of the samples are at most this, in nanoseconds.
    pub p99_ns: f64,
    /// 99.9 % of the samples are at most this, in nanoseconds.
    pub p999_ns: f64,
    /// The largest sample, in nanoseconds.
    pub max_ns: f64,
    /// The arithmetic mean, in nanoseconds.
    pub mean_ns: f64,
}

/// Counts of tick differences, kept to three significant digits in bounded memory.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Hdr<u64>,
    /// The ends are kept exactly; the counts between them to three digits.
    ends: Option<(u64, u64)>,
}

impl Histogram {
    /// A histogram without samples.
    #[must_use]
    pub fn new() -> Self {
        Self { counts: Hdr::new(3).expect("three significant digits is within 0 to 5"), ends: None }
    }

    /// Adds one sample. Not for a timed region: the table may grow.
    pub fn record(&mut self, ticks: u64) {
        self.counts.saturating_record(ticks);
        let (smallest, largest) = self.ends.unwrap_or((ticks, ticks));
        self.ends = Some((smallest.min(ticks), largest.max(ticks)));
    }

    /// The number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.counts.len()
    }

    /// The spread of the samples, each tick being `tick_ns` nanoseconds long; `None` without samples.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "durations for printing, below 2^53 ticks")]
    pub fn spread(&self, tick_ns: f64) -> Option<Spread> {
        let (smallest, largest) = self.ends?;
        let quantile = |q: f64| self.counts.value_at_quantile(q).clamp(smallest, largest) as f64 * tick_ns;
        Some(Spread {
            samples: self.counts.len(),
            min_ns: smallest as f64 * tick_ns,
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            max_ns: largest as f64 * tick_ns,
            mean_ns: self.counts.mean() * tick_ns,
        })
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// The middle value, the lower of two; `None` of nothing. Reorders `samples`.
#[must_use]
pub fn median(samples: &mut [u64]) -> Option<u64> {
    let middle = samples.len().checked_sub(1)? / 2;
    Some(*samples.select_nth_unstable(middle).1)
}

/// What the non-zero steps of a counter have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    smallest: u64,
    multiple: u64,
    count: u64,
}

impl Steps {
    /// Adds the step between two successive readings; a step of zero says nothing and is passed over.
    pub fn record(&mut self, step_ticks: u64) {
        if step_ticks == 0 {
            return;
        }
        self.smallest = if self.count == 0 { step_ticks } else { self.smallest.min(step_ticks) };
        self.multiple = greatest_common_divisor(self.multiple, step_ticks);
        self.count += 1;
    }

    /// The granularity: the smallest step seen, in ticks; `None` when the counter never moved.
    #[must_use]
    pub const fn smallest_ticks(&self) -> Option<u64> {
        if self.count == 0 { None } else { Some(self.smallest) }
    }

    /// The largest number of ticks of which every step seen is a whole multiple; `None` when the counter
    /// never moved. A counter that is fed from a slower one moves by more than one tick at a time.
    #[must_use]
    pub const fn multiple_ticks(&self) -> Option<u64> {
        if self.count == 0 { None } else { Some(self.multiple) }
    }

    /// How many non-zero steps were seen.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }
}

const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use proptest::{
        collection::vec,
        prelude::{prop_assert, prop_assert_eq, proptest},
    };

    use super::{Histogram, Steps, median};

    #[test]
    fn nothing_has_no_spread_and_no_median() {
        assert_eq!(Histogram::new().spread(1.0), None);
        assert_eq!(median(&mut []), None);
        assert_eq!(Steps::default().smallest_ticks(), None);
    }

    #[test]
    fn a_counter_that_moves_by_thirteen_shows_it() {
        let mut steps = Steps::default();
        for step in [0, 26, 39, 0, 65] {
            steps.record(step);
        }
        assert_eq!((steps.smallest_ticks(), steps.multiple_ticks(), steps.count()), (Some(26), Some(13), 3));
    }

    proptest! {
        #[test]
        fn the_median_has_half_on_each_side(mut samples in vec(0_u64..100, 1..200)) {
            let middle = median(&mut samples).expect("not empty");
            let below = samples.iter().filter(|&&sample| sample < middle).count();
            let above = samples.iter().filter(|&&sample| sample > middle).count();
            prop_assert!(below * 2 <= samples.len() && above * 2 <= samples.len());
        }

        #[test]
        fn quantiles_are_ordered_and_the_ends_are_the_samples(samples in vec(1_u64..1 << 40, 1..300)) {
            let mut histogram = Histogram::new();
            samples.iter().for_each(|&sample| histogram.record(sample));
            let spread = histogram.spread(0.5).expect("not empty");
            let ordered = [spread.min_ns, spread.p50_ns, spread.p99_ns, spread.p999_ns, spread.max_ns];
            prop_assert!(ordered.is_sorted(), "{ordered:?}");
            let largest = *samples.iter().max().expect("not empty");
            prop_assert_eq!(spread.max_ns, largest as f64 * 0.5);
            prop_assert_eq!(spread.samples, samples.len() as u64);
        }
    }
}
