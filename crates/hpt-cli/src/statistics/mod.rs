//! What figures of one or several runs prove: confidence intervals, comparisons and predictions. docs/statistics.md
//! states the methods and their conditions.

pub(crate) mod difference;
pub(crate) mod few;
pub(crate) mod quantile;
pub(crate) mod runs;

use hpt_core::Spread;

use crate::output::has_tail;

/// Returns a quantile of a distribution; `None` if it does not contain this one, or if fewer than ten samples lie beyond
/// it. The median takes one sample.
pub(crate) fn known_quantile(spread: &Spread, share: f64) -> Option<f64> {
    let all = [(0.5, spread.p50_ns), (0.99, spread.p99_ns), (0.999, spread.p999_ns)];
    let (_, ns) = *all.iter().find(|(known, _)| (known - share).abs() < 1e-9)?;
    (share <= 0.5 || has_tail(spread.samples, share)).then_some(ns)
}
