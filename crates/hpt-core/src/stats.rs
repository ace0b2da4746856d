//! Summarizes many readings: distributions, medians and steps. Does not read any counter. Values keep the unit of the
//! caller unless a name includes a unit.

use hdrhistogram::Histogram as Hdr;

/// The distribution of a set of durations: quantiles, minimum, maximum and mean, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Spread {
    /// The number of samples.
    pub samples: u64,
    /// The minimum, in nanoseconds.
    pub min_ns: f64,
    /// The median, in nanoseconds.
    pub p50_ns: f64,
    /// The 99th percentile, in nanoseconds.
    pub p99_ns: f64,
    /// The 99.9th percentile, in nanoseconds.
    pub p999_ns: f64,
    /// The maximum, in nanoseconds.
    pub max_ns: f64,
    /// The arithmetic mean, in nanoseconds.
    pub mean_ns: f64,
}

/// A histogram of tick differences, with three significant digits, in bounded memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    counts: Hdr<u64>,
    /// The exact minimum and maximum; the counts keep only three significant digits.
    ends: Option<(u64, u64)>,
}

impl Histogram {
    /// Creates an empty histogram.
    #[must_use]
    pub fn new() -> Self {
        Self { counts: Hdr::new(3).expect("a precision of 0 to 5 significant digits is valid"), ends: None }
    }

    /// Adds one sample. Do not call it in a timed region: the table may grow.
    pub fn record(&mut self, ticks: u64) {
        // `saturating_record` would never grow the table.
        self.counts.record(ticks).expect("the table grows to hold any 64-bit value");
        let (smallest, largest) = self.ends.unwrap_or((ticks, ticks));
        self.ends = Some((smallest.min(ticks), largest.max(ticks)));
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.counts.len()
    }

    /// Adds the samples of another histogram.
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts).expect("the table grows to hold any 64-bit value");
        let Some((smallest, largest)) = other.ends else { return };
        let (own_smallest, own_largest) = self.ends.unwrap_or((smallest, largest));
        self.ends = Some((smallest.min(own_smallest), largest.max(own_largest)));
    }

    /// Returns the quantile `part` (0 to 1) of the samples, in ticks; `None` if there are no samples.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let (smallest, largest) = self.ends?;
        Some(self.counts.value_at_quantile(part).clamp(smallest, largest))
    }

    /// Iterates over the classes (buckets) in ascending order. Each item consists of the largest value of the class, in
    /// ticks, and the number of samples in the class. Classes without samples are omitted.
    pub fn classes(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts.iter_recorded().map(|class| (class.value_iterated_to(), class.count_since_last_iteration()))
    }

    /// Returns the distribution of the samples, given the length of a tick in nanoseconds; `None` if there are no
    /// samples.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "durations for printing, below 2^53 ticks")]
    pub fn spread(&self, tick_ns: f64) -> Option<Spread> {
        let (smallest, largest) = self.ends?;
        let quantile = |part: f64| self.quantile(part).unwrap_or(largest) as f64 * tick_ns;
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

/// Returns the median or, for an even number of samples, the lower of the two middle values; `None` if there are no
/// samples. Reorders `samples`.
#[must_use]
pub fn median(samples: &mut [u64]) -> Option<u64> {
    let middle = samples.len().checked_sub(1)? / 2;
    Some(*samples.select_nth_unstable(middle).1)
}

/// Statistics of the non-zero steps of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    smallest: u64,
    largest: u64,
    multiple: u64,
    count: u64,
}

impl Steps {
    /// Adds the step between two consecutive readings; ignores a step of zero.
    pub fn record(&mut self, step_ticks: u64) {
        if step_ticks == 0 {
            return;
        }
        self.smallest = if self.count == 0 { step_ticks } else { self.smallest.min(step_ticks) };
        self.largest = self.largest.max(step_ticks);
        self.multiple = greatest_common_divisor(self.multiple, step_ticks);
        self.count += 1;
    }

    /// Returns the granularity: the smallest step observed, in ticks; `None` if the counter never advanced.
    #[must_use]
    pub const fn smallest_ticks(&self) -> Option<u64> {
        if self.count == 0 { None } else { Some(self.smallest) }
    }

    /// Returns the largest step observed, in ticks; 0 if the counter never advanced. The largest step includes delays
    /// from interrupts and late kernel ticks.
    #[must_use]
    pub const fn largest_ticks(&self) -> u64 {
        self.largest
    }

    /// Returns the greatest common divisor of all steps observed, in ticks; `None` if the counter never advanced. A
    /// counter that is driven by a slower counter advances by more than one tick at a time.
    #[must_use]
    pub const fn multiple_ticks(&self) -> Option<u64> {
        if self.count == 0 { None } else { Some(self.multiple) }
    }

    /// Returns the number of non-zero steps observed.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }
}

/// Returns the granule of a counter: the largest lag of a reading behind the true count. Estimates the granule from
/// `steps`, the differences between back-to-back reads. Sorts `steps` and removes zeros, outliers and duplicates from
/// it.
///
/// If a counter advances in granules, its steps are multiples of a granule, rounded to ticks. Their sizes form clusters
/// that are one granule apart, and the largest gap between neighboring sizes is the granule. The smallest step is used
/// instead if it is smaller, or if there are too few sizes to form clusters. One tick is added for each rounded size,
/// so that the estimate is never below the granule. Returns one if the counter did not advance.
#[must_use]
pub fn granule(steps: &mut Vec<u64>) -> u64 {
    const FEWEST_SIZES: usize = 4;
    steps.retain(|&step| step > 0);
    steps.sort_unstable();
    // The largest quarter of the steps is attributed to interrupts and migrations. The sizes of these steps are far
    // apart, regardless of the granule.
    steps.truncate(steps.len() - steps.len() / 4);
    steps.dedup();
    let Some(&smallest) = steps.first() else {
        return 1;
    };
    if smallest <= 1 {
        return 1;
    }
    let largest_gap = steps.windows(2).map(|pair| pair[1] - pair[0]).max();
    match largest_gap {
        Some(gap) if steps.len() >= FEWEST_SIZES => (smallest + 1).min(gap + 2),
        _ => smallest + 1,
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

    use super::{Histogram, Steps, granule, median};

    #[test]
    fn an_empty_sample_has_no_spread_and_no_median() {
        assert_eq!(Histogram::new().spread(1.0), None);
        assert_eq!(median(&mut []), None);
        assert_eq!(Steps::default().smallest_ticks(), None);
    }

    #[test]
    fn a_large_value_is_counted_exactly() {
        let mut histogram = Histogram::new();
        for (ticks, times) in [(100, 1_000), (5_000, 1_000), (1_000_000, 10), (u64::MAX, 1)] {
            (0..times).for_each(|_| histogram.record(ticks));
        }
        let spread = histogram.spread(1.0).expect("it has samples");
        let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 1e-3;
        assert!(near(spread.p50_ns, 5_000.0) && near(spread.p99_ns, 5_000.0), "{spread:?}");
        assert!(near(spread.p999_ns, 1_000_000.0) && near(spread.max_ns, 18_446_744_073_709_551_615.0), "{spread:?}");
        assert_eq!(spread.samples, 2_011);
    }

    #[test]
    fn a_counter_that_advances_by_13_has_a_granule_of_13() {
        let mut steps = Steps::default();
        for step in [0, 26, 39, 0, 65] {
            steps.record(step);
        }
        assert_eq!((steps.smallest_ticks(), steps.multiple_ticks(), steps.count()), (Some(26), Some(13), 3));
    }

    #[test]
    fn no_ticks_and_single_ticks_have_a_granule_of_one() {
        assert_eq!((granule(&mut vec![]), granule(&mut vec![0, 0]), granule(&mut vec![0, 1, 0, 1])), (1, 1, 1));
    }

    #[test]
    fn a_microsecond_clock_has_a_granule_of_one_microsecond() {
        assert_eq!(granule(&mut vec![0, 1000, 0, 0, 1000, 1000, 2000]), 1001);
    }

    proptest! {
        #[test]
        fn a_granule_is_never_underestimated(
            granule_thousandths in 1_000_u64..200_000,
            gaps in vec(20_u64..90, 8..400),
        ) {
            // A counter that returns ⌊k·g⌋, read at fixed intervals of true time.
            let shown = |now: u64| now * 1000 / granule_thousandths * granule_thousandths / 1000;
            let mut now = 0;
            let mut steps: Vec<u64> = gaps.iter().map(|gap| {
                let before = shown(now);
                now += gap;
                shown(now) - before
            }).collect();
            prop_assert!(granule(&mut steps) * 1000 >= granule_thousandths, "{granule_thousandths}");
        }

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
