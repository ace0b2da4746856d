//! What figures of one or several runs prove: confidence intervals, comparisons and predictions. docs/statistics.md
//! states the methods and their conditions.

pub(crate) mod difference;
pub(crate) mod quantile;
pub(crate) mod runs;
