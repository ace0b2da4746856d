//! The median and the spread of a few values, such as one figure of several runs.

/// The median; `None` if there are no values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The interquartile range; `None` if there are no values.
pub(crate) fn spread(values: &[f64]) -> Option<f64> {
    Some(quantile(values, 0.75)? - quantile(values, 0.25)?)
}

/// Interpolates linearly between the two nearest values.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "there are few values, and the position is between the first and the last"
)]
fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = part * (sorted.len().checked_sub(1)?) as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(low + (high - low) * place.fract())
}

#[cfg(test)]
mod tests {
    use super::{median, spread};

    #[test]
    fn quantiles_lie_between_values() {
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[1.0, 2.0]), median(&[])), (Some(2.0), Some(1.5), None));
        assert_eq!((spread(&[1.0, 2.0, 3.0, 4.0, 5.0]), spread(&[7.0]), spread(&[])), (Some(2.0), Some(0.0), None));
    }
}
