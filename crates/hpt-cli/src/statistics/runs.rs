//! What the figures of several equal runs prove. Each run is one observation, however many samples it has.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The mean and the standard deviation of the logarithms of positive figures.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Logs {
    runs: f64,
    mean: f64,
    deviation: f64,
}

impl Logs {
    /// Returns `None` for fewer than two figures, or if one of them is not positive.
    #[expect(clippy::cast_precision_loss, reason = "there are few runs")]
    fn of(figures: &[f64]) -> Option<Self> {
        if figures.len() < 2 || !figures.iter().all(|&figure| figure > 0.0) {
            return None;
        }
        let runs = figures.len() as f64;
        let mean = figures.iter().map(|figure| figure.ln()).sum::<f64>() / runs;
        let squares: f64 = figures.iter().map(|figure| (figure.ln() - mean).powi(2)).sum();
        Some(Self { runs, mean, deviation: (squares / (runs - 1.0)).sqrt() })
    }
}

/// Returns the quantile `part` of Student's t-distribution.
pub(super) fn students_t(part: f64, freedom: f64) -> Option<f64> {
    Some(StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(part))
}

/// Returns the figure that the next run exceeds with the probability `error`, if the runs are independent and the
/// logarithms of their figures are normally distributed. Returns `None` for fewer than two figures, or if one of them is
/// not positive.
pub(crate) fn upper_prediction(figures: &[f64], error: f64) -> Option<f64> {
    let Logs { runs, mean, deviation } = Logs::of(figures)?;
    let width = students_t(1.0 - error, runs - 1.0)? * deviation * (1.0 + 1.0 / runs).sqrt();
    Some((mean + width).exp())
}

#[cfg(test)]
mod tests {
    use super::{students_t, upper_prediction};

    #[test]
    fn quantiles_of_the_t_distribution_are_those_of_tables() {
        for (part, freedom, expected) in [(0.975, 4.0, 2.776), (0.99, 4.0, 3.747), (0.995, 1.0, 63.657)] {
            let found = students_t(part, freedom).expect("a distribution");
            assert!((found / expected - 1.0).abs() < 1e-3, "{part} {freedom}: {found}");
        }
    }

    #[test]
    fn a_prediction_is_above_the_figures_and_grows_with_their_spread() {
        let near = upper_prediction(&[10.0, 10.1, 9.9, 10.0, 10.0], 0.01).expect("five");
        let far = upper_prediction(&[10.0, 20.0, 5.0, 10.0, 10.0], 0.01).expect("five");
        assert!(near > 10.1 && near < 10.5 && far > 50.0, "{near} {far}");
        assert_eq!(upper_prediction(&[1.0], 0.01), None);
        assert_eq!(upper_prediction(&[1.0, 0.0], 0.01), None);
    }
}
