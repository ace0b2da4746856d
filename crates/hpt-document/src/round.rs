//! The digits of figures in documents.

/// Rounds a figure to three decimals, which is finer than any measurement by hpt.
#[must_use]
pub fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Rounds a share, from 0 to 1, to a hundredth of a percent.
#[must_use]
pub fn rounded_share(share: f64) -> f64 {
    (share * 1e4).round() / 1e4
}
