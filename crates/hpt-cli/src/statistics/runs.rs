//! What the figures of several equal runs prove. Each run is one observation, however many samples it has.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Returns the mean, and the sum of the squared distances from it. Returns `None` for fewer than two figures.
#[expect(clippy::cast_precision_loss, reason = "there are few runs")]
pub(crate) fn mean_and_squares(figures: &[f64]) -> Option<(f64, f64)> {
    if figures.len() < 2 {
        return None;
    }
    let mean = figures.iter().sum::<f64>() / figures.len() as f64;
    Some((mean, figures.iter().map(|figure| (figure - mean).powi(2)).sum()))
}

/// Returns the quantile `part` of Student's t-distribution. From a million degrees of freedom on, it is that of the normal
/// distribution, whose computation does not take longer and longer.
pub(super) fn students_t(part: f64, freedom: f64) -> Option<f64> {
    const MANY: f64 = 1e6;
    if freedom > MANY {
        return Some(Normal::standard().inverse_cdf(part));
    }
    Some(StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(part))
}

/// Returns the interval that contains the mean of the process behind several figures, at 95 % confidence.
#[expect(clippy::cast_precision_loss, reason = "there are few runs")]
pub(crate) fn interval_of_mean(figures: &[f64]) -> Option<(f64, f64)> {
    let (mean, squares) = mean_and_squares(figures)?;
    let runs = figures.len() as f64;
    let width = students_t(0.975, runs - 1.0)? * (squares / (runs - 1.0) / runs).sqrt();
    Some((mean - width, mean + width))
}

/// Returns the figure that the next run exceeds with the probability `error`, if the runs are independent and the
/// logarithms of their figures are normally distributed. Returns `None` for fewer than two figures, or if one of them is
/// not positive.
#[expect(clippy::cast_precision_loss, reason = "there are few runs")]
pub(crate) fn upper_prediction(figures: &[f64], error: f64) -> Option<f64> {
    let logs: Option<Vec<f64>> = figures.iter().map(|&figure| (figure > 0.0).then(|| figure.ln())).collect();
    let (mean, squares) = mean_and_squares(&logs?)?;
    let runs = figures.len() as f64;
    let width = students_t(1.0 - error, runs - 1.0)? * (squares / (runs - 1.0) * (1.0 + 1.0 / runs)).sqrt();
    Some((mean + width).exp())
}

#[cfg(test)]
mod tests {
    use super::{students_t, upper_prediction};

    #[test]
    fn quantiles_of_the_t_distribution_are_those_of_tables() {
        for (part, freedom, expected) in
            [(0.975, 4.0, 2.776), (0.99, 4.0, 3.747), (0.995, 1.0, 63.657), (0.975, 1e9, 1.960)]
        {
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
