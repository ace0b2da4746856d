//! Values that an experiment measured on this machine, and distributions that accumulate over several runs.

use std::collections::BTreeMap;

use hpt_core::{Spread, stats::Histogram};
use hpt_document::experiment::FigureState;
use serde::{Deserialize, Serialize};

use crate::output::{has_tail, rounded, tail};

/// A value that was measured on this machine. `what` is the name of the published value, if one exists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) what: String,
    pub(crate) unit: String,
    pub(crate) standing: FigureState,
    /// The value, or `None` if it was not measured. In that case, `how` contains the reason.
    pub(crate) value: Option<f64>,
    /// Whether the value is a quantile beyond which fewer than ten samples lie. It is printed nevertheless, because the
    /// publication prints it.
    #[serde(default)]
    pub(crate) has_few_samples: bool,
    /// The part of the time during which the thread was ready but did not run, while the value was measured.
    #[serde(default)]
    pub(crate) not_run_share: Option<f64>,
    pub(crate) samples: u64,
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) max: Option<f64>,
    /// The durations in this unit, with at least three digits, and the number of samples of each duration.
    pub(crate) distribution: Vec<(f64, u64)>,
    /// The source of the value; if the value was not measured, the reason and the requirements for measuring it.
    pub(crate) how: String,
}

/// Rounds a value for documents, keeping a few digits even if the value is small.
pub(super) fn to_digits(value: f64) -> f64 {
    let size = value.abs();
    if size >= 1.0 || size <= f64::MIN_POSITIVE {
        return rounded(value);
    }
    let step = 10_f64.powf(size.log10().floor() - 3.0);
    // Formatting and parsing the value removes the rounding error of the division.
    let digits = format!("{:.*}", decimals(step), (value / step).round() * step);
    digits.parse().unwrap_or(value)
}

/// Returns the number of decimal places of a step below one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a step has few decimal places")]
pub(crate) fn decimals(step: f64) -> usize {
    (-step.log10()).round().clamp(0.0, 15.0) as usize
}

impl Measured {
    /// Creates a single value with this number of samples.
    pub(crate) fn figure(what: &str, value: f64, unit: &str, samples: u64, how: impl Into<String>) -> Self {
        Self {
            what: what.to_owned(),
            unit: unit.to_owned(),
            standing: FigureState::Measured,
            value: Some(to_digits(value)),
            has_few_samples: false,
            not_run_share: None,
            samples,
            p50: None,
            p99: None,
            max: None,
            distribution: Vec::new(),
            how: how.into(),
        }
    }

    /// Creates a value from the mean and the quantiles of a distribution; `scale` converts nanoseconds to the unit.
    pub(crate) fn mean_of(what: &str, spread: &Spread, scale: f64, unit: &str, how: impl Into<String>) -> Self {
        let figure = |ns: f64| Some(to_digits(ns * scale));
        Self {
            p50: figure(spread.p50_ns),
            p99: figure(spread.p99_ns).and_then(|p99| tail(spread.samples, 0.99, p99)),
            max: figure(spread.max_ns),
            ..Self::figure(what, spread.mean_ns * scale, unit, spread.samples, how)
        }
    }

    /// Creates a value that cannot be measured on this machine, with the reason and the requirements.
    pub(crate) fn unavailable(what: &str, unit: &str, why: impl Into<String>) -> Self {
        Self { standing: FigureState::Unavailable, value: None, ..Self::figure(what, 0.0, unit, 0, why) }
    }

    /// Adds the share of the time during which the thread did not run, unless the value is missing or has its own share.
    #[must_use]
    pub(crate) fn or_not_run_for(self, share: Option<f64>) -> Self {
        let share = share.filter(|_| self.value.is_some());
        Self { not_run_share: self.not_run_share.or(share), ..self }
    }

    /// Creates a value that can be measured only on other machines.
    pub(crate) fn not_applicable(what: &str, unit: &str, why: impl Into<String>) -> Self {
        Self { standing: FigureState::NotApplicable, ..Self::unavailable(what, unit, why) }
    }
}

/// Returns the first of two measured values divided by the second; `None` if one of them is missing from the result.
pub(super) fn ratio(what: &str, found: &[Measured], [first, second]: [&str; 2]) -> Option<Measured> {
    let of = |what: &str| found.iter().find(|figure| figure.what == what);
    let (first, second) = (of(first)?, of(second)?);
    let samples = first.samples.min(second.samples);
    Some(match (first.value, second.value) {
        (Some(dividend), Some(divisor)) if dividend > 0.0 && divisor > 0.0 => {
            Measured::figure(what, dividend / divisor, "times", samples, format!("{} / {}", first.what, second.what))
        }
        (Some(_), Some(_)) => Measured::not_applicable(what, "times", "one of the two values is not above zero"),
        _ => {
            let missing = if first.value.is_none() { first } else { second };
            Measured::unavailable(what, "times", missing.how.as_str())
        }
    })
}

/// A growing distribution, which can include the counts of an earlier run.
#[derive(Default)]
pub(super) struct Tally {
    /// Durations in picoseconds, rounded to five digits, and the number of samples of each duration.
    counts: BTreeMap<u64, u64>,
    /// The exact maximum, in nanoseconds.
    longest_ns: f64,
}

/// Rounds to five digits: no source has a higher resolution, and the granularity of each source remains visible.
pub(super) fn to_five_digits(mut length: u64) -> u64 {
    let mut step = 1;
    while length / step >= 100_000 {
        step *= 10;
    }
    length = (length / step + u64::from(length % step * 2 >= step)) * step;
    length
}

impl Tally {
    /// Adds durations in units of `unit_ns` nanoseconds.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "durations are neither negative nor as long as years"
    )]
    pub(super) fn add(&mut self, classes: impl Iterator<Item = (f64, u64)>, unit_ns: f64) {
        for (length, samples) in classes {
            let length_ns = length * unit_ns;
            *self.counts.entry(to_five_digits((length_ns * 1e3).round() as u64)).or_default() += samples;
            self.longest_ns = self.longest_ns.max(length_ns);
        }
    }

    /// Adds counts of durations in ticks of a source.
    #[expect(clippy::cast_precision_loss, reason = "durations are below 2^53 ticks")]
    pub(super) fn add_ticks(&mut self, ticks: &Histogram, tick_ns: f64) {
        // Each bin is represented by its upper end, and the upper end of the last bin may exceed the maximum.
        let longest = ticks.spread(1.0).map_or(0.0, |spread| spread.max_ns);
        self.add(ticks.classes().map(|class| ((class.largest_ticks as f64).min(longest), class.samples)), tick_ns);
    }

    /// Adds the counts of the same value from an earlier run.
    pub(super) fn go_on(&mut self, before: &[Measured], what: &str, unit_ns: f64) {
        if let Some(before) = before.iter().find(|figure| figure.what == what) {
            self.add(before.distribution.iter().copied(), unit_ns);
            self.longest_ns = self.longest_ns.max(before.max.unwrap_or(0.0) * unit_ns);
        }
    }

    /// Returns the quantile `part`, in nanoseconds.
    #[expect(clippy::cast_precision_loss, reason = "counts and durations are below 2^53")]
    pub(super) fn quantile_ns(&self, part: f64) -> f64 {
        let wanted = (self.counts.values().sum::<u64>() as f64 * part).ceil().max(1.0);
        let mut seen = 0;
        let found = self.counts.iter().find(|&(_, samples)| {
            seen += samples;
            seen as f64 >= wanted
        });
        found.map_or(0.0, |(&length, _)| length as f64 / 1e3).min(self.longest_ns)
    }

    /// Returns the mean and the distribution as `figure` does, but with the quantile `part` as the value.
    pub(super) fn quantile_figure(
        &self,
        (what, part): (&str, f64),
        unit_ns: f64,
        unit: &str,
        how: impl Into<String>,
    ) -> Option<Measured> {
        let figure = self.figure(what, unit_ns, unit, how)?;
        let value = Some(to_digits(self.quantile_ns(part) / unit_ns));
        Some(Measured { value, has_few_samples: !has_tail(figure.samples, part), ..figure })
    }

    /// Returns the minimum, in nanoseconds.
    pub(super) fn smallest_ns(&self) -> Option<f64> {
        self.counts.first_key_value().map(|_| to_digits(self.quantile_ns(0.0)))
    }

    /// Returns the mean, the quantiles and the whole distribution; `None` if there are no samples.
    #[expect(clippy::cast_precision_loss, reason = "counts and durations are below 2^53")]
    pub(super) fn figure(&self, what: &str, unit_ns: f64, unit: &str, how: impl Into<String>) -> Option<Measured> {
        let samples: u64 = self.counts.values().sum();
        let sum_ns: f64 = self.counts.iter().map(|(&length, &samples)| length as f64 / 1e3 * samples as f64).sum();
        let spread = Spread {
            samples,
            min_ns: self.quantile_ns(0.0),
            p50_ns: self.quantile_ns(0.5),
            p99_ns: self.quantile_ns(0.99),
            p999_ns: self.quantile_ns(0.999),
            max_ns: self.longest_ns,
            mean_ns: sum_ns / samples.max(1) as f64,
        };
        let length = |&length: &u64| to_digits((length as f64 / 1e3).min(self.longest_ns) / unit_ns);
        let distribution = self.counts.iter().map(|(one, &samples)| (length(one), samples)).collect();
        (samples > 0).then(|| Measured { distribution, ..Measured::mean_of(what, &spread, 1.0 / unit_ns, unit, how) })
    }
}

#[cfg(test)]
mod tests {
    use hpt_core::stats::Histogram;

    use hpt_document::experiment::FigureState;

    use super::{Measured, Tally, ratio, to_digits, to_five_digits};

    #[test]
    fn a_missing_figure_has_no_value() {
        let unavailable = Measured::unavailable("a figure", "ns", "it requires a register");
        assert_eq!(
            (unavailable.value, unavailable.samples, unavailable.how.as_str()),
            (None, 0, "it requires a register")
        );
        assert_eq!(Measured::not_applicable("a figure", "ns", "").standing, FigureState::NotApplicable);
    }

    #[test]
    fn a_quantile_with_too_few_samples_beyond_it_is_missing() {
        let p99 = |samples: u32| {
            let mut tally = Tally::default();
            tally.add((0..samples).map(|ns| (f64::from(ns), 1)), 1.0);
            let figure = tally.figure("late", 1.0, "ns", "by a source").expect("it has samples");
            assert!(figure.p50.is_some() && figure.max.is_some(), "{figure:?}");
            figure.p99
        };
        assert_eq!((p99(100), p99(999), p99(1_000)), (None, None, Some(989.0)));
    }

    #[test]
    fn a_published_quantile_is_measured_even_with_few_samples_but_marked() {
        let published = |samples: u32| {
            let mut tally = Tally::default();
            tally.add((0..samples).map(|ns| (f64::from(ns), 1)), 1.0);
            let figure = tally.quantile_figure(("late", 0.99), 1.0, "ns", "by a source").expect("it has samples");
            (figure.value, figure.has_few_samples, figure.p99)
        };
        assert_eq!(published(100), (Some(98.0), true, None));
        assert_eq!(published(1_000), (Some(989.0), false, Some(989.0)));
    }

    #[test]
    fn a_ratio_needs_two_values_above_zero() {
        let figure = |what: &str, value| Measured::figure(what, value, "ns", 7, "by a source");
        let of = |one, other| ratio("ratio", &[figure("one", one), figure("other", other)], ["one", "other"]);
        assert_eq!(of(288.0, 6.0).and_then(|ratio| ratio.value), Some(48.0));
        let zero = of(288.0, 0.0).expect("both were measured");
        assert_eq!((zero.value, zero.standing), (None, FigureState::NotApplicable));
        assert_eq!(of(-17.0, 6.0).and_then(|ratio| ratio.value), None);
        let found = [figure("one", 1.0), Measured::unavailable("other", "ns", "it requires a register")];
        let missing = ratio("ratio", &found, ["one", "other"]).expect("both are in the result");
        assert_eq!((missing.value, missing.how.as_str()), (None, "it requires a register"));
        assert_eq!(ratio("ratio", &found, ["one", "another"]), None);
    }

    #[test]
    fn small_figures_keep_their_digits() {
        let given = [0.0, 0.007_426_9, 0.000_012_345_6, 0.806_555, 4.567_89, 123_456.789_4];
        assert_eq!(given.map(to_digits), [0.0, 0.007_427, 0.000_012_35, 0.8066, 4.568, 123_456.789]);
    }

    #[test]
    fn samples_of_an_earlier_run_count_as_if_it_had_continued() {
        let ticks = |counted: &[u64]| {
            let mut histogram = Histogram::new();
            counted.iter().for_each(|&one| histogram.record(one));
            histogram
        };
        let figure = |tally: &Tally| tally.figure("a figure", 1.0, "ns", "by a source").expect("it has samples");
        let (mut first, mut whole) = (Tally::default(), Tally::default());
        first.add_ticks(&ticks(&[20, 20, 30]), 0.5);
        let mut second = Tally::default();
        second.go_on(&[figure(&first)], "a figure", 1.0);
        second.go_on(&[figure(&first)], "another figure", 1.0);
        second.add_ticks(&ticks(&[20, 123_457]), 0.5);
        whole.add_ticks(&ticks(&[20, 20, 20, 30, 123_457]), 0.5);
        assert_eq!(figure(&second), figure(&whole));
        let found = figure(&whole);
        assert_eq!((found.samples, found.p50, found.max), (5, Some(10.0), Some(61_728.5)));
        assert_eq!(found.distribution.iter().map(|&(_, samples)| samples).sum::<u64>(), 5);
        let mut waits = Tally::default();
        waits.add([(2.999, 4), (3.0, 1)].into_iter(), 1_000.0);
        let found = waits.figure("late", 1_000.0, "µs", "").expect("five");
        assert_eq!(found.distribution, [(2.999, 4), (3.0, 1)]);
        assert_eq!([99_999, 100_004, 100_005, 1_234_567].map(to_five_digits), [99_999, 100_000, 100_010, 1_234_600]);
        assert_eq!(Tally::default().figure("late", 1.0, "ns", ""), None);
    }
}
