//! Intervals of the difference between two values: of one run each, or of several runs each. docs/statistics.md states
//! the methods.

use statrs::distribution::{ContinuousCDF, Normal};

use super::runs::{mean_and_squares, students_t};

/// The interval that contains a difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Difference {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Difference {
    /// Returns whether the interval excludes equal values.
    pub(crate) fn is_shown(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// Returns the difference from which on an interval of this width would exclude equal values.
    pub(crate) fn resolution(&self) -> f64 {
        (self.value - self.low).max(self.high - self.value)
    }

    /// The difference between two values of one run each, with the interval of each value (MOVER: Zou and Donner,
    /// *Statistics in Medicine* 27, 2008). The confidence is that of the intervals, and `wider` their width in multiples
    /// of it.
    pub(crate) fn of_intervals(first: (f64, (f64, f64)), other: (f64, (f64, f64)), wider: f64) -> Self {
        let ((from, (from_low, from_high)), (to, (to_low, to_high))) = (first, other);
        let value = to - from;
        Self {
            value,
            low: value - wider * (to - to_low).hypot(from_high - from),
            high: value + wider * (to_high - to).hypot(from - from_low),
        }
    }

    /// The difference between two values with limits that they cannot exceed.
    pub(crate) fn of_bounds(first: (f64, (f64, f64)), other: (f64, (f64, f64))) -> Self {
        let ((from, (from_low, from_high)), (to, (to_low, to_high))) = (first, other);
        Self { value: to - from, low: to_low - from_high, high: to_high - from_low }
    }

    /// The difference between the means of several runs each (Student's t-test with the common variance of both groups).
    /// `error` is the probability with which the interval does not contain the difference. `least` is the smallest
    /// standard deviation of a run, because of the steps of its instrument. Returns `None` for fewer than two runs.
    #[expect(clippy::cast_precision_loss, reason = "there are few runs")]
    pub(crate) fn of_runs(first: &[f64], other: &[f64], error: f64, least: f64) -> Option<Self> {
        let ((from, from_squares), (to, to_squares)) = (mean_and_squares(first)?, mean_and_squares(other)?);
        let (one, two) = (first.len() as f64, other.len() as f64);
        let freedom = one + two - 2.0;
        let variance = ((from_squares + to_squares) / freedom).max(least * least);
        let width = students_t(1.0 - error / 2.0, freedom)? * (variance * (1.0 / one + 1.0 / two)).sqrt();
        let value = to - from;
        Some(Self { value, low: value - width, high: value + width })
    }
}

/// Returns the factor by which intervals at this confidence have to be wider, so that the probability of an error is
/// `error`, if the estimates are normally distributed. Never below 1.
pub(crate) fn wider(confidence: f64, error: f64) -> f64 {
    let normal = Normal::standard();
    (normal.inverse_cdf(1.0 - error / 2.0) / normal.inverse_cdf(f64::midpoint(1.0, confidence))).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::{Difference, wider};

    #[test]
    fn the_difference_of_runs_is_that_of_the_t_test() {
        // R: t.test(c(5, 7, 9), c(1, 2, 3, 4), var.equal = TRUE)$conf.int is 1.3344 to 7.6656.
        let found = Difference::of_runs(&[1.0, 2.0, 3.0, 4.0], &[5.0, 7.0, 9.0], 0.05, 0.0).expect("seven");
        assert!((found.low - 1.3344).abs() < 1e-3 && (found.high - 7.6656).abs() < 1e-3, "{found:?}");
        assert!(found.is_shown() && (found.resolution() - 3.1656).abs() < 1e-3);
        // Equal runs of a coarse instrument prove no difference that is smaller than its steps allow.
        let coarse = |least| Difference::of_runs(&[1.0; 3], &[1.1; 3], 0.05, least).expect("six");
        assert!(coarse(0.0).is_shown() && !coarse(0.1).is_shown());
        assert_eq!(Difference::of_runs(&[1.0], &[2.0, 3.0], 0.05, 0.0), None);
    }

    #[test]
    fn the_difference_of_intervals_uses_the_ends_that_face_each_other() {
        let found = Difference::of_intervals((10.0, (7.0, 14.0)), (20.0, (17.0, 40.0)), 1.0);
        assert_eq!((found.value, found.low), (10.0, 5.0));
        assert!((found.high - (10.0 + 20.0_f64.hypot(3.0))).abs() < 1e-12);
        assert!(!Difference::of_intervals((10.0, (7.0, 14.0)), (20.0, (17.0, 40.0)), 2.1).is_shown());
        let bounds = Difference::of_bounds((0.0, (-1.0, 1.0)), (2.5, (1.5, 3.5)));
        assert_eq!((bounds.low, bounds.high), (0.5, 4.5));
    }

    #[test]
    fn many_comparisons_need_wider_intervals() {
        assert!((wider(0.999, 0.001) - 1.0).abs() < 1e-9 && (wider(0.999, 0.05) - 1.0).abs() < 1e-9);
        // The normal quantiles for 0.9999 and 0.999 are 3.891 and 3.291.
        assert!((wider(0.999, 0.0001) - 3.891 / 3.291).abs() < 1e-3);
    }
}
