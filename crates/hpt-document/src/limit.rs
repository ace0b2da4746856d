//! A type for the limits of a run (`--limit`), each with what was seen and whether the limit held.

use serde::{Deserialize, Serialize};

/// A limit of `--limit`, and the verdict on it. If the document has several rows that the limit applies to, the verdict
/// is that of the worst row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitRow {
    /// The limit as it was given, for example `p99.9=50us`.
    pub text: String,
    /// The quantity that is limited: `mean`, `max`, a quantile such as `p99.9`, `missed`, `stalls` or `read`.
    pub quantity: String,
    /// The limit, in nanoseconds; null if the quantity is a count.
    pub limit_ns: Option<u64>,
    /// The limit of a count; null if the quantity is a time.
    pub limit_count: Option<u64>,
    /// The value that was seen, in nanoseconds; null if it is unknown or if the quantity is a count.
    pub seen_ns: Option<f64>,
    /// The count that was seen; null if it is unknown or if the quantity is a time.
    pub seen_count: Option<u64>,
    /// The row of the document that the verdict is about, for example `CPU 3` or `tsc`: the worst one.
    pub worst_row: Option<String>,
    /// Number of samples in this row.
    pub samples: u64,
    /// Number of samples in this row that exceed the limit, or at least exceed it if only quantiles are known; null if
    /// the quantity is not a quantile or the maximum.
    #[serde(default)]
    pub above: Option<u64>,
    /// Number of rows that the limit applies to.
    pub rows: u64,
    /// Whether the value is at most the limit in every row; null if that is unknown, for example because a quantile has
    /// too few samples.
    pub held: Option<bool>,
    /// Why the verdict is unknown, or how many samples exceed the limit; null if there is nothing to add.
    pub reason: Option<String>,
}
