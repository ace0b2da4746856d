//! Quantiles of many samples, up to the maximum.
//! Uses nanoseconds only, and reads no clock.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Quantiles up to the maximum, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tails {
    /// Number of samples.
    pub samples: u64,
    /// 50 %.
    pub p50_ns: f64,
    /// 99 %.
    pub p99_ns: f64,
    /// 99.9 %.
    pub p999_ns: f64,
    /// 99.99 %.
    pub p9999_ns: f64,
    /// The maximum.
    pub worst_ns: f64,
}

/// Samples for [`Tails`], in bounded memory: quantiles to three digits, the maximum exactly.
#[derive(Clone, Debug)]
pub struct Samples {
    counts: Histogram<u64>,
    worst: u64,
}

impl Samples {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self { counts: Histogram::new(3).expect("three significant digits is within 0 to 5"), worst: 0 }
    }

    /// Adds a sample. Not for timed code: the table may grow.
    pub fn add(&mut self, sample: u64) {
        // Not `saturating_record`, which clamps a sample instead of growing the table.
        self.counts.record(sample).expect("the table grows");
        self.worst = self.worst.max(sample);
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// Returns the number of samples that are zero.
    #[must_use]
    pub fn zeros(&self) -> u64 {
        self.counts.count_at(0)
    }

    /// Returns the median, in the unit of the samples; `None` without samples.
    #[must_use]
    pub fn median(&self) -> Option<u64> {
        (self.count() > 0).then(|| self.counts.value_at_quantile(0.5).min(self.worst))
    }

    /// Returns the quantiles, if one unit of the samples is `unit_ns` long; `None` without samples.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for printing, below 2^53")]
    pub fn tails(&self, unit_ns: f64) -> Option<Tails> {
        let at = |quantile| self.counts.value_at_quantile(quantile).min(self.worst) as f64 * unit_ns;
        (self.count() > 0).then(|| Tails {
            samples: self.count(),
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            p9999_ns: at(0.9999),
            worst_ns: self.worst as f64 * unit_ns,
        })
    }
}

impl Default for Samples {
    fn default() -> Self {
        Self::new()
    }
}

impl Tails {
    /// Formats median, 99 %, 99.9 %, 99.99 % and maximum for a table, with `places` decimals;
    /// dashes without samples.
    #[must_use]
    pub fn cells(tails: Option<Self>, places: usize) -> [String; 5] {
        let cell = |of: fn(Self) -> f64| tails.map_or("–".to_owned(), |tails| format!("{:.places$}", of(tails)));
        [cell(|t| t.p50_ns), cell(|t| t.p99_ns), cell(|t| t.p999_ns), cell(|t| t.p9999_ns), cell(|t| t.worst_ns)]
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::prop_assert, proptest};

    use super::{Samples, Tails};

    #[test]
    fn a_rare_outlier_is_the_maximum_but_no_quantile() {
        let mut samples = Samples::new();
        (0..20_000).for_each(|_| samples.add(100));
        samples.add(1_234_567);
        let tails = samples.tails(0.5).expect("not empty");
        assert_eq!((tails.samples, tails.p50_ns, tails.p9999_ns, tails.worst_ns), (20_001, 50.0, 50.0, 617_283.5));
    }

    #[test]
    fn samples_of_any_size_are_recorded() {
        let mut samples = Samples::new();
        (0..3).for_each(|_| samples.add(1_000_000));
        samples.add(u64::MAX);
        let p50_ns = samples.tails(1.0).expect("not empty").p50_ns;
        assert!((p50_ns - 1e6).abs() < 1e3, "{p50_ns}");
    }

    #[test]
    fn no_samples_have_no_tails() {
        assert_eq!((Samples::new().tails(1.0), Samples::new().median()), (None, None));
        assert_eq!(Tails::cells(None, 0), ["–"; 5]);
    }

    proptest! {
        #[test]
        fn tails_are_in_order_and_near_the_exact_ones(mut exact in vec(0_u64..1 << 40, 1..500)) {
            let mut samples = Samples::new();
            exact.iter().for_each(|&sample| samples.add(sample));
            let tails = samples.tails(1.0).expect("not empty");
            prop_assert!(tails.p50_ns <= tails.p99_ns && tails.p99_ns <= tails.p999_ns);
            prop_assert!(tails.p999_ns <= tails.p9999_ns && tails.p9999_ns <= tails.worst_ns);
            exact.sort_unstable();
            #[expect(clippy::cast_precision_loss, reason = "below 2^40")]
            let middle = exact[(exact.len() - 1) / 2] as f64;
            prop_assert!((tails.p50_ns - middle).abs() <= middle / 500.0 + 1.0, "{} {}", tails.p50_ns, middle);
        }
    }
}
