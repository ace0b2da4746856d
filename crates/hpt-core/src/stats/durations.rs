//! A distribution of durations in bounded memory. Requires the feature `stats`.

use std::{fmt, time::Duration};

use super::Histogram;

/// The number of durations beyond a quantile that is printed. It is the same in all output of hpt.
const FEWEST_BEYOND: f64 = 10.0;

/// A distribution of durations, in bounded memory.
///
/// The count, the sum, the minimum and the maximum are exact. Quantiles are exact to the significant digits: to 0.1 % by
/// default.
///
/// # Examples
///
/// The lateness of a loop:
///
/// ```
/// use std::time::Duration;
/// use hpt_core::{Pacer, stats::Durations};
///
/// let mut late = Durations::new();
/// let mut pacer = Pacer::new(Duration::from_millis(1));
/// for _ in 0..20 {
///     late.record(pacer.wait().late);
/// }
/// println!("{late}");
/// assert_eq!(late.count(), 20);
/// assert!(late.quantile(0.5) <= late.max());
/// ```
#[derive(Clone, PartialEq)]
pub struct Durations {
    nanos: Histogram,
    sum_ns: u64,
}

impl Durations {
    /// Creates an empty distribution with three significant digits.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::stats::Durations;
    ///
    /// let late = Durations::new();
    /// assert_eq!((late.count(), late.max()), (0, None));
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::with_digits(3)
    }

    /// Creates an empty distribution with 1 to 5 significant digits; other values are limited to that range. Durations
    /// up to a second take about 25 kB with two digits, and 180 kB with three.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::stats::Durations;
    ///
    /// let mut coarse = Durations::with_digits(2);
    /// [1_234, 5_678].into_iter().for_each(|us| coarse.record(Duration::from_micros(us)));
    /// let median = coarse.quantile(0.5).expect("there are durations");
    /// assert!(median.abs_diff(Duration::from_micros(1_234)) <= Duration::from_micros(13));
    /// ```
    #[must_use]
    pub fn with_digits(digits: u8) -> Self {
        Self { nanos: Histogram::with_digits(digits), sum_ns: 0 }
    }

    /// Adds a duration; one of more than 584 years counts as 584 years. The table may grow: in a loop that must not
    /// allocate memory, record the longest duration that can occur first, and [`clear`](Self::clear) the distribution.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Instant, stats::Durations};
    ///
    /// let mut took = Durations::new();
    /// for _ in 0..10 {
    ///     let start = Instant::now();
    ///     // The work.
    ///     took.record(start.elapsed());
    /// }
    /// assert_eq!(took.count(), 10);
    /// ```
    #[inline]
    pub fn record(&mut self, duration: Duration) {
        self.record_nanos(saturated_nanos(duration));
    }

    /// Adds a duration in nanoseconds, as [`Instant::elapsed_nanos`](crate::Instant::elapsed_nanos) returns it.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Instant, stats::Durations};
    ///
    /// let mut took = Durations::new();
    /// let start = Instant::now();
    /// // The work.
    /// took.record_nanos(start.elapsed_nanos());
    /// assert_eq!(took.count(), 1);
    /// ```
    #[inline]
    pub fn record_nanos(&mut self, nanos: u64) {
        self.nanos.record(nanos);
        self.sum_ns = self.sum_ns.saturating_add(nanos);
    }

    /// Adds the durations of another distribution, for example that of another thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::stats::Durations;
    ///
    /// let [mut all, mut of_a_thread] = [Durations::new(), Durations::new()];
    /// all.record(Duration::from_millis(1));
    /// of_a_thread.record(Duration::from_millis(3));
    /// all.add(&of_a_thread);
    /// assert_eq!((all.count(), all.mean()), (2, Some(Duration::from_millis(2))));
    /// ```
    pub fn add(&mut self, other: &Self) {
        self.nanos.add(&other.nanos);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// Removes all durations, and keeps the memory.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::stats::Durations;
    ///
    /// // Takes the memory for durations up to a second, before a loop that must not allocate.
    /// let mut late = Durations::new();
    /// late.record(Duration::from_secs(1));
    /// late.clear();
    /// assert_eq!((late.count(), late.max()), (0, None));
    /// ```
    pub fn clear(&mut self) {
        self.nanos.clear();
        self.sum_ns = 0;
    }

    /// Returns the number of durations.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::stats::Durations;
    ///
    /// let mut durations = Durations::new();
    /// durations.record(Duration::ZERO);
    /// assert_eq!(durations.count(), 1);
    /// ```
    #[must_use]
    pub fn count(&self) -> u64 {
        self.nanos.samples()
    }

    /// Returns the sum of all durations, at most 584 years.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::stats::Durations;
    ///
    /// let mut durations = Durations::new();
    /// [1, 2, 4].into_iter().for_each(|ms| durations.record(Duration::from_millis(ms)));
    /// assert_eq!(durations.sum(), Duration::from_millis(7));
    /// ```
    #[must_use]
    pub const fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// Returns the shortest duration; `None` if there is none.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::stats::Durations;
    ///
    /// let mut durations = Durations::new();
    /// [12_345, 98_765].into_iter().for_each(|ns| durations.record_nanos(ns));
    /// assert_eq!(durations.min(), Some(Duration::from_nanos(12_345)));
    /// ```
    #[must_use]
    pub fn min(&self) -> Option<Duration> {
        self.nanos.ends().map(|(smallest, _)| Duration::from_nanos(smallest))
    }

    /// Returns the longest duration; `None` if there is none.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::stats::Durations;
    ///
    /// let mut durations = Durations::new();
    /// [12_345, 98_765].into_iter().for_each(|ns| durations.record_nanos(ns));
    /// assert_eq!(durations.max(), Some(Duration::from_nanos(98_765)));
    /// ```
    #[must_use]
    pub fn max(&self) -> Option<Duration> {
        self.nanos.ends().map(|(_, largest)| Duration::from_nanos(largest))
    }

    /// Returns the mean; `None` if there is no duration.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::stats::Durations;
    ///
    /// let mut durations = Durations::new();
    /// assert_eq!(durations.mean(), None);
    /// [1, 2, 6].into_iter().for_each(|ms| durations.record(Duration::from_millis(ms)));
    /// assert_eq!(durations.mean(), Some(Duration::from_millis(3)));
    /// ```
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        self.sum_ns.checked_div(self.count()).map(Duration::from_nanos)
    }

    /// Returns a quantile, for example the 99th percentile for 0.99; `None` if there is no duration. 0 and 1 are the
    /// exact minimum and maximum.
    ///
    /// # Panics
    ///
    /// Panics if `quantile` is not from 0 to 1.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::stats::Durations;
    ///
    /// let mut durations = Durations::new();
    /// (1..=100).for_each(|ms| durations.record(Duration::from_millis(ms)));
    /// let p99 = durations.quantile(0.99).expect("there are durations");
    /// assert!(p99.abs_diff(Duration::from_millis(99)) <= Duration::from_micros(99));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        self.nanos.quantile(quantile).map(Duration::from_nanos)
    }

    /// Returns a quantile of which the sample says enough to report it: the median, or a quantile beyond which at least
    /// ten durations lie. Otherwise returns `None`.
    ///
    /// # Panics
    ///
    /// Panics if `quantile` is not from 0 to 1.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::stats::Durations;
    ///
    /// let mut durations = Durations::new();
    /// (1..=100).for_each(|ms| durations.record(Duration::from_millis(ms)));
    /// // Ten of 100 durations lie beyond the 90th percentile, but only one beyond the 99th.
    /// assert!(durations.supported_quantile(0.9).is_some());
    /// assert_eq!(durations.supported_quantile(0.99), None);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn supported_quantile(&self, quantile: f64) -> Option<Duration> {
        let value = self.quantile(quantile);
        #[expect(clippy::cast_precision_loss, reason = "an estimate is enough")]
        let beyond = self.count() as f64 * (1.0 - quantile);
        // The tolerance is for quantiles that have no exact binary form.
        value.filter(|_| quantile <= 0.5 || beyond >= FEWEST_BEYOND - 1e-6)
    }

    /// Returns the number of durations that are at most `limit`. Durations that the significant digits do not
    /// distinguish from `limit` are included.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::stats::Durations;
    ///
    /// let mut late = Durations::new();
    /// [1, 2, 50].into_iter().for_each(|us| late.record(Duration::from_micros(us)));
    /// assert_eq!(late.count_at_most(Duration::from_micros(3)), 2);
    /// ```
    #[must_use]
    pub fn count_at_most(&self, limit: Duration) -> u64 {
        self.count() - self.nanos.samples_above(saturated_nanos(limit)).start()
    }
}

fn saturated_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Default for Durations {
    fn default() -> Self {
        Self::new()
    }
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

impl fmt::Display for Durations {
    /// Formats the distribution in the form `1000 durations: min 1.20µs, p50 1.31µs, p99 9.77µs, max 22.10µs`, without
    /// the quantiles that the sample does not [support](Self::supported_quantile).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(min), Some(max)) = (self.min(), self.max()) else { return f.write_str("no durations") };
        let plural = if self.count() == 1 { "" } else { "s" };
        write!(f, "{} duration{plural}: min {min:.2?}", self.count())?;
        for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
            if let Some(value) = self.supported_quantile(share) {
                write!(f, ", {name} {value:.2?}")?;
            }
        }
        write!(f, ", max {max:.2?}")
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Durations {
    /// Serializes the count, the sum, the ends and the usual quantiles in nanoseconds; they are `null` if the count is
    /// zero. A quantile above the median is `null` if fewer than ten durations lie beyond it.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;

        let ns = |duration: Option<Duration>| duration.map(saturated_nanos);
        let mut fields = serializer.serialize_struct("Durations", 9)?;
        fields.serialize_field("count", &self.count())?;
        fields.serialize_field("sum_ns", &self.sum_ns)?;
        fields.serialize_field("min_ns", &ns(self.min()))?;
        fields.serialize_field("mean_ns", &ns(self.mean()))?;
        fields.serialize_field("p50_ns", &ns(self.supported_quantile(0.5)))?;
        fields.serialize_field("p90_ns", &ns(self.supported_quantile(0.9)))?;
        fields.serialize_field("p99_ns", &ns(self.supported_quantile(0.99)))?;
        fields.serialize_field("p999_ns", &ns(self.supported_quantile(0.999)))?;
        fields.serialize_field("max_ns", &ns(self.max()))?;
        fields.end()
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
        let none = Durations::with_digits(2);
        assert_eq!((none.count(), none.sum(), none.count_at_most(Duration::MAX)), (0, Duration::ZERO, 0));
        assert_eq!((none.min(), none.max(), none.mean(), none.quantile(0.5)), (None, None, None, None));
    }

    #[test]
    fn the_debug_output_is_short() {
        let mut durations = Durations::with_digits(2);
        (0..40).for_each(|power| durations.record_nanos(1 << power));
        let debug = format!("{durations:?}");
        assert!(debug.len() < 400 && debug.contains("count: 40"), "{debug}");
    }

    #[test]
    #[should_panic(expected = "a quantile is from 0 to 1, not 1.5")]
    fn a_quantile_above_one_is_refused() {
        let _ = Durations::with_digits(2).quantile(1.5);
    }

    #[test]
    fn a_distribution_is_one_line_without_the_quantiles_that_are_guesses() {
        let mut durations = Durations::new();
        assert_eq!(durations.to_string(), "no durations");
        durations.record(Duration::from_micros(2));
        assert_eq!(durations.to_string(), "1 duration: min 2.00µs, p50 2.00µs, max 2.00µs");
        (0..999).for_each(|_| durations.record_nanos(1_500));
        assert_eq!(durations.to_string(), "1000 durations: min 1.50µs, p50 1.50µs, p99 1.50µs, max 2.00µs");
        durations.clear();
        assert_eq!(durations, Durations::new());
    }

    #[test]
    fn the_largest_duration_is_recorded() {
        let mut durations = Durations::with_digits(2);
        durations.record_nanos(u64::MAX);
        durations.record_nanos(0);
        durations.record(Duration::MAX);
        assert_eq!(durations.max(), Some(Duration::from_nanos(u64::MAX)));
        assert_eq!((durations.min(), durations.count_at_most(Duration::ZERO)), (Some(Duration::ZERO), 1));
    }

    #[test]
    fn a_quantile_is_printed_if_ten_durations_lie_beyond_it() {
        let mut durations = Durations::with_digits(2);
        (1..=999).for_each(|ns| durations.record_nanos(ns));
        assert!(durations.supported_quantile(0.5).is_some() && durations.supported_quantile(0.99).is_none());
        durations.record_nanos(1_000);
        assert!(durations.supported_quantile(0.99).is_some() && durations.supported_quantile(0.999).is_none());
    }

    proptest! {
        #[test]
        fn figures_agree_with_the_sorted_durations(samples in vec(0_u64..1 << 40, 1..300), split in 0_usize..300) {
            // Two parts that are added up, as snapshots do it.
            let split = split.min(samples.len());
            let mut parts = [Durations::with_digits(2), Durations::with_digits(2)];
            for (at, &sample) in samples.iter().enumerate() {
                parts[usize::from(at >= split)].record_nanos(sample);
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
