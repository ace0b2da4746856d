//! A histogram for any number of samples. Requires the feature `stats`.

use std::{fmt, ops::RangeInclusive};

use hdrhistogram::Histogram as Hdr;

use super::Spread;

/// A histogram of tick differences or other integers, in bounded memory. [`Durations`](super::Durations) is one of durations.
#[derive(Clone)]
pub struct Histogram {
    counts: Hdr<u64>,
    /// The exact minimum and maximum; the counts keep only three significant digits.
    ends: Option<(u64, u64)>,
}

/// A class (bucket) of a [`Histogram`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Class {
    /// The largest value of the class, in ticks.
    pub largest_ticks: u64,
    /// The number of samples in the class.
    pub samples: u64,
}

impl PartialEq for Histogram {
    /// Compares the samples and the precision, and not the size of the tables.
    fn eq(&self, other: &Self) -> bool {
        self.ends == other.ends && self.counts.sigfig() == other.counts.sigfig() && self.classes().eq(other.classes())
    }
}

impl fmt::Debug for Histogram {
    /// Without the counts, which are long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99] = [0.5, 0.99].map(|part| self.quantile(part));
        let (min, max) = self.ends.unzip();
        f.debug_struct("Histogram")
            .field("samples", &self.samples())
            .field("min", &min)
            .field("p50", &p50)
            .field("p99", &p99)
            .field("max", &max)
            .finish_non_exhaustive()
    }
}

impl Histogram {
    /// Creates an empty histogram with three significant digits.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::stats::Histogram;
    ///
    /// let histogram = Histogram::new();
    /// assert_eq!((histogram.samples(), histogram.quantile(0.5)), (0, None));
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::with_digits(3)
    }

    /// Creates an empty histogram with 1 to 5 significant digits; other values are limited to that range.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::stats::Histogram;
    ///
    /// let mut fine = Histogram::with_digits(5);
    /// [123_456, 654_321].into_iter().for_each(|ticks| fine.record(ticks));
    /// assert_eq!(fine.quantile(0.5), Some(123_456));
    /// ```
    #[must_use]
    pub fn with_digits(digits: u8) -> Self {
        Self { counts: Hdr::new(digits.clamp(1, 5)).expect("1 to 5 significant digits are valid"), ends: None }
    }

    /// Creates an empty histogram whose table holds samples up to `largest`, and is already in memory.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::stats::Histogram;
    ///
    /// // Samples up to a million ticks need no further memory.
    /// let mut histogram = Histogram::with_room(1_000_000);
    /// assert_eq!(histogram.samples(), 0);
    /// histogram.record(999_999);
    /// ```
    #[must_use]
    pub fn with_room(largest: u64) -> Self {
        let mut histogram = Self::new();
        histogram.counts.record(largest).expect("the table grows to hold any 64-bit value");
        // Clearing writes each entry, so no sample waits for a page fault.
        histogram.counts.reset();
        histogram
    }

    /// Adds one sample. Do not call it in a timed region: the table may grow.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::stats::Histogram;
    ///
    /// let mut histogram = Histogram::new();
    /// [7, 7, 9].into_iter().for_each(|ticks| histogram.record(ticks));
    /// assert_eq!((histogram.samples(), histogram.quantile(0.5)), (3, Some(7)));
    /// ```
    #[inline]
    pub fn record(&mut self, ticks: u64) {
        self.record_times(ticks, 1);
    }

    /// Adds the sample `ticks` this number of times.
    #[inline]
    fn record_times(&mut self, ticks: u64, times: u64) {
        // `saturating_record` would never grow the table.
        self.counts.record_n(ticks, times).expect("the table grows to hold any 64-bit value");
        let (smallest, largest) = self.ends.unwrap_or((ticks, ticks));
        self.ends = Some((smallest.min(ticks), largest.max(ticks)));
    }

    /// Adds `count` samples, each of which is `step` smaller than the previous one. The first is `largest`. The time that
    /// this takes depends on the number of classes, and not on `count`.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::stats::Histogram;
    ///
    /// // A pause of 35 µs delayed the samples that were due every 10 µs.
    /// let mut histogram = Histogram::new();
    /// histogram.record_descending(35, 10, 4);
    /// assert_eq!((histogram.samples(), histogram.quantile(0.0), histogram.quantile(1.0)), (4, Some(5), Some(35)));
    /// ```
    pub fn record_descending(&mut self, largest: u64, step: u64, count: u64) {
        let (mut ticks, mut left) = (largest, count);
        while left > 0 {
            let above_the_class = ticks - self.counts.lowest_equivalent(ticks);
            let of_the_class = above_the_class.checked_div(step).map_or(left, |steps| left.min(steps + 1));
            self.record_times(ticks, of_the_class);
            left -= of_the_class;
            let smallest = ticks.saturating_sub(step.saturating_mul(of_the_class - 1));
            self.ends = self.ends.map(|(least, most)| (least.min(smallest), most));
            ticks = smallest.saturating_sub(step);
        }
    }

    /// Returns the number of samples.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::stats::Histogram;
    ///
    /// let mut histogram = Histogram::new();
    /// (0..5).for_each(|ticks| histogram.record(ticks));
    /// assert_eq!(histogram.samples(), 5);
    /// ```
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.counts.len()
    }

    /// Removes all samples, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.counts.reset();
        self.ends = None;
    }

    /// Adds the samples of another histogram.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::stats::Histogram;
    ///
    /// let [mut all, mut of_a_thread] = [Histogram::new(), Histogram::new()];
    /// all.record(5);
    /// of_a_thread.record(9);
    /// all.add(&of_a_thread);
    /// assert_eq!((all.samples(), all.quantile(1.0)), (2, Some(9)));
    /// ```
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts).expect("the table grows to hold any 64-bit value");
        let Some((smallest, largest)) = other.ends else { return };
        let (own_smallest, own_largest) = self.ends.unwrap_or((smallest, largest));
        self.ends = Some((smallest.min(own_smallest), largest.max(own_largest)));
    }

    /// Returns the quantile `part` of the samples, in ticks; `None` if there are no samples. 0 and 1 are the exact minimum
    /// and maximum.
    ///
    /// # Panics
    ///
    /// Panics if `part` is not from 0 to 1.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::stats::Histogram;
    ///
    /// let mut histogram = Histogram::new();
    /// (1..=100).for_each(|ticks| histogram.record(ticks));
    /// assert_eq!((histogram.quantile(0.5), histogram.quantile(1.0)), (Some(50), Some(100)));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn quantile(&self, part: f64) -> Option<u64> {
        assert!((0.0..=1.0).contains(&part), "a quantile is from 0 to 1, not {part}");
        let (smallest, largest) = self.ends?;
        if part == 0.0 || part == 1.0 {
            return Some(if part == 0.0 { smallest } else { largest });
        }
        Some(self.counts.value_at_quantile(part).clamp(smallest, largest))
    }

    /// Returns the smallest and the largest possible number of samples above `ticks`. They differ only if the class
    /// (bucket) that contains `ticks` has samples, and can have samples on both sides.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::stats::Histogram;
    ///
    /// let mut histogram = Histogram::new();
    /// (1..=100).for_each(|ticks| histogram.record(ticks));
    /// assert_eq!(histogram.samples_above(90), 10..=10);
    /// ```
    #[must_use]
    pub fn samples_above(&self, ticks: u64) -> RangeInclusive<u64> {
        let Some((smallest, largest)) = self.ends.filter(|&(_, largest)| largest > ticks) else { return 0..=0 };
        if smallest > ticks {
            return self.samples()..=self.samples();
        }
        let from = |from: u64| if from > largest { 0 } else { self.counts.count_between(from, largest) };
        let certainly = from(self.counts.highest_equivalent(ticks).saturating_add(1));
        // The maximum is exact.
        certainly.max(1)..=from(ticks + 1)
    }

    /// Iterates over the classes (buckets) in ascending order. Classes without samples are omitted.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::stats::Histogram;
    ///
    /// let mut histogram = Histogram::new();
    /// [5, 9, 5].into_iter().for_each(|ticks| histogram.record(ticks));
    /// let classes: Vec<_> = histogram.classes().map(|class| (class.largest_ticks, class.samples)).collect();
    /// assert_eq!(classes, [(5, 2), (9, 1)]);
    /// ```
    pub fn classes(&self) -> impl Iterator<Item = Class> {
        self.counts.iter_recorded().map(|class| Class {
            largest_ticks: class.value_iterated_to(),
            samples: class.count_since_last_iteration(),
        })
    }

    /// Returns the smallest and the largest sample; `None` if there are no samples.
    pub(super) const fn ends(&self) -> Option<(u64, u64)> {
        self.ends
    }

    /// Returns the distribution of the samples, given the length of a tick in nanoseconds; `None` if there are no
    /// samples.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::stats::Histogram;
    ///
    /// let mut histogram = Histogram::new();
    /// (1..=100).for_each(|ticks| histogram.record(ticks));
    /// // A tick of a 100 MHz counter takes 10 ns.
    /// let spread = histogram.spread(10.0).expect("there are samples");
    /// assert_eq!((spread.min_ns, spread.p50_ns, spread.max_ns), (10.0, 500.0, 1_000.0));
    /// ```
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

#[cfg(test)]
mod tests {
    use proptest::{
        collection::vec,
        prelude::{prop_assert, prop_assert_eq, proptest},
    };

    use super::Histogram;

    #[test]
    fn an_empty_histogram_has_no_distribution() {
        assert_eq!(Histogram::new().spread(1.0), None);
    }

    #[test]
    fn histograms_with_the_same_samples_are_equal_whatever_their_tables_hold() {
        let (mut used, mut roomy, mut plain) = (Histogram::new(), Histogram::with_room(1 << 40), Histogram::new());
        used.record(1 << 50);
        used.clear();
        let are_equal = |all: [&Histogram; 3]| all.iter().all(|one| all.iter().all(|other| one == other));
        assert!(are_equal([&used, &roomy, &plain]));
        [&mut used, &mut roomy, &mut plain].into_iter().for_each(|histogram| histogram.record(7));
        assert!(are_equal([&used, &roomy, &plain]));
        plain.record(7);
        assert!(used != plain && plain != roomy && Histogram::with_digits(2) != Histogram::new());
    }

    #[test]
    fn the_debug_output_is_short() {
        let mut histogram = Histogram::new();
        (0..64).for_each(|power| histogram.record(1 << power));
        let debug = format!("{histogram:?}");
        assert!(debug.len() < 400 && debug.contains("samples: 64"), "{debug}");
    }

    #[test]
    fn the_ends_are_exact_quantiles_and_nothing_else_is_one() {
        let mut histogram = Histogram::new();
        [0, u64::MAX].into_iter().for_each(|ticks| histogram.record(ticks));
        assert_eq!((histogram.quantile(0.0), histogram.quantile(1.0)), (Some(0), Some(u64::MAX)));
        for nonsense in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            let quantile = std::panic::catch_unwind(|| Histogram::new().quantile(nonsense));
            assert!(quantile.is_err(), "{nonsense}");
        }
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

    proptest! {
        #[test]
        fn descending_samples_are_recorded_as_one_by_one(largest in 0_u64..1 << 40, step in 1_u64..1 << 30, count in 0_u64..3_000) {
            let count = count.min(largest / step + 1);
            let (mut together, mut singly) = (Histogram::new(), Histogram::new());
            together.record_descending(largest, step, count);
            (0..count).for_each(|place| singly.record(largest - place * step));
            prop_assert_eq!(together, singly);
        }

        #[test]
        fn the_number_of_samples_above_a_limit_is_in_the_range(samples in vec(0_u64..1 << 24, 1..300), limit in 0_u64..1 << 24) {
            let mut histogram = Histogram::new();
            samples.iter().for_each(|&sample| histogram.record(sample));
            let above = |limit: u64| samples.iter().filter(|&&sample| sample > limit).count() as u64;
            let counted = histogram.samples_above(limit);
            prop_assert!(counted.contains(&above(limit)), "{counted:?}");
            // A class is at most a thousandth wide.
            prop_assert!(*counted.start() >= above(limit + limit / 1_000 + 1));
            prop_assert!(limit >= 2_048 || counted.start() == counted.end());
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
