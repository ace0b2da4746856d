//! A distribution of durations in bounded memory.

use std::{fmt, time::Duration};

use hdrhistogram::Histogram;

/// The number of durations beyond a quantile that is printed. It is the same in all output of hpt.
const FEWEST_BEYOND: f64 = 10.0;

/// A distribution of durations.
///
/// The count, the sum, the minimum and the maximum are exact. Quantiles are exact to the significant digits of
/// [`SpanTimes`](crate::SpanTimes): to 1 % by default.
#[derive(Clone, PartialEq)]
pub struct Durations {
    counts: Histogram<u64>,
    sum_ns: u64,
    ends_ns: Option<(u64, u64)>,
}

impl fmt::Debug for Durations {
    /// Without the counts, which are long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Durations")
            .field("count", &self.count())
            .field("min", &self.min())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max())
            .finish_non_exhaustive()
    }
}

impl Durations {
    /// Creates an empty distribution with 1 to 5 significant digits; other values are limited to that range.
    pub(crate) fn new(digits: u8) -> Self {
        let counts = Histogram::new(digits.clamp(1, 5)).expect("1 to 5 digits are valid");
        Self { counts, sum_ns: 0, ends_ns: None }
    }

    #[inline]
    pub(crate) fn record(&mut self, nanoseconds: u64) {
        // `saturating_record` would never grow the table.
        self.counts.record(nanoseconds).expect("the table grows to hold any 64-bit value");
        self.sum_ns = self.sum_ns.saturating_add(nanoseconds);
        self.ends_ns = Some(match self.ends_ns {
            Some((smallest, largest)) => (smallest.min(nanoseconds), largest.max(nanoseconds)),
            None => (nanoseconds, nanoseconds),
        });
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts).expect("the table grows to hold any 64-bit value");
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.ends_ns = match (self.ends_ns, other.ends_ns) {
            (Some((smallest, largest)), Some((low, high))) => Some((smallest.min(low), largest.max(high))),
            (ends, None) | (None, ends) => ends,
        };
    }

    /// Returns the number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// Returns the sum of all durations.
    #[must_use]
    pub const fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// Returns the shortest duration; `None` if there is none.
    #[must_use]
    pub fn min(&self) -> Option<Duration> {
        self.ends_ns.map(|(smallest, _)| Duration::from_nanos(smallest))
    }

    /// Returns the longest duration; `None` if there is none.
    #[must_use]
    pub fn max(&self) -> Option<Duration> {
        self.ends_ns.map(|(_, largest)| Duration::from_nanos(largest))
    }

    /// Returns the mean; `None` if there is no duration.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        self.sum_ns.checked_div(self.count()).map(Duration::from_nanos)
    }

    /// Returns a quantile, for example the 99th percentile for 0.99; `None` if there is no duration.
    ///
    /// # Panics
    ///
    /// Panics if `quantile` is not from 0 to 1.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        assert!((0.0..=1.0).contains(&quantile), "a quantile is from 0 to 1, not {quantile}");
        let (smallest, largest) = self.ends_ns?;
        Some(Duration::from_nanos(self.counts.value_at_quantile(quantile).clamp(smallest, largest)))
    }

    /// Returns a quantile of which the sample says enough to print it: the median, or a quantile beyond which at least
    /// ten durations lie.
    pub(crate) fn printable_quantile(&self, quantile: f64) -> Option<Duration> {
        #[expect(clippy::cast_precision_loss, reason = "an estimate is enough")]
        let beyond = self.count() as f64 * (1.0 - quantile);
        // The tolerance is for quantiles that have no exact binary form.
        (quantile <= 0.5 || beyond >= FEWEST_BEYOND - 1e-6).then(|| self.quantile(quantile)).flatten()
    }

    /// Returns the number of durations that are at most `limit`. Durations that the significant digits do not
    /// distinguish from `limit` are included.
    #[must_use]
    pub fn count_at_most(&self, limit: Duration) -> u64 {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        match self.ends_ns {
            None => 0,
            Some((smallest, _)) if limit_ns < smallest => 0,
            Some((_, largest)) if limit_ns >= largest => self.count(),
            Some(_) => self.counts.count_between(0, limit_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::{
        collection::vec,
        prelude::{prop_assert, prop_assert_eq, proptest},
    };

    use super::Durations;

    #[test]
    fn without_durations_there_are_no_figures() {
        let none = Durations::new(2);
        assert_eq!((none.count(), none.sum(), none.count_at_most(Duration::MAX)), (0, Duration::ZERO, 0));
        assert_eq!((none.min(), none.max(), none.mean(), none.quantile(0.5)), (None, None, None, None));
    }

    #[test]
    fn the_debug_output_is_short() {
        let mut durations = Durations::new(2);
        (0..40).for_each(|power| durations.record(1 << power));
        let debug = format!("{durations:?}");
        assert!(debug.len() < 400 && debug.contains("count: 40"), "{debug}");
    }

    #[test]
    #[should_panic(expected = "a quantile is from 0 to 1, not 1.5")]
    fn a_quantile_above_one_is_refused() {
        let _ = Durations::new(2).quantile(1.5);
    }

    #[test]
    fn the_largest_duration_is_recorded() {
        let mut durations = Durations::new(2);
        durations.record(u64::MAX);
        durations.record(0);
        assert_eq!(durations.max(), Some(Duration::from_nanos(u64::MAX)));
        assert_eq!((durations.min(), durations.count_at_most(Duration::ZERO)), (Some(Duration::ZERO), 1));
    }

    #[test]
    fn a_quantile_is_printed_if_ten_durations_lie_beyond_it() {
        let mut durations = Durations::new(2);
        (1..=999).for_each(|ns| durations.record(ns));
        assert!(durations.printable_quantile(0.5).is_some() && durations.printable_quantile(0.99).is_none());
        durations.record(1_000);
        assert!(durations.printable_quantile(0.99).is_some() && durations.printable_quantile(0.999).is_none());
    }

    proptest! {
        #[test]
        fn figures_agree_with_the_sorted_durations(samples in vec(0_u64..1 << 40, 1..300), split in 0_usize..300) {
            // Two parts that are added up, as snapshots do it.
            let split = split.min(samples.len());
            let mut parts = [Durations::new(2), Durations::new(2)];
            for (at, &sample) in samples.iter().enumerate() {
                parts[usize::from(at >= split)].record(sample);
            }
            let [mut all, second] = parts;
            all.add(&second);
            let mut sorted = samples.clone();
            sorted.sort_unstable();
            prop_assert_eq!(all.count(), samples.len() as u64);
            prop_assert_eq!(all.sum(), Duration::from_nanos(samples.iter().sum()));
            prop_assert_eq!(all.min(), sorted.first().copied().map(Duration::from_nanos));
            prop_assert_eq!(all.max(), sorted.last().copied().map(Duration::from_nanos));
            let exact = sorted[(samples.len() - 1) / 2];
            let median = all.quantile(0.5).expect("not empty");
            prop_assert!(median.as_nanos().abs_diff(exact.into()) <= u128::from(exact / 100 + 1), "{median:?} {exact}");
            let limit = sorted[split.min(samples.len() - 1)];
            let at_most = all.count_at_most(Duration::from_nanos(limit));
            let least = sorted.partition_point(|&sample| sample <= limit) as u64;
            let most = sorted.partition_point(|&sample| sample <= limit + limit / 100 + 1) as u64;
            prop_assert!((least..=most).contains(&at_most), "{least} {at_most} {most}");
        }
    }
}
