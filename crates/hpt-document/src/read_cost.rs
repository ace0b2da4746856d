//! Read overhead: many reads back to back, and single reads.

use serde::{Deserialize, Serialize};

/// Many reads back to back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RepeatedReads {
    /// Number of reads.
    pub reads: u64,
    /// Whether all requested reads were made. If not, a note names the source.
    pub complete: bool,
    /// The total time.
    pub total_s: f64,
    /// CPU time in user mode.
    pub user_s: f64,
    /// CPU time in the kernel.
    pub system_s: f64,
    /// Time per read: total_s / reads.
    pub per_read_ns: Option<f64>,
}

/// Reads timed one at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SingleReads {
    /// Number of reads.
    pub single_samples: Option<u64>,
    /// The median of a single read, including the stopwatch's own read overhead.
    pub single_p50_ns: Option<f64>,
    /// The 99th percentile.
    pub single_p99_ns: Option<f64>,
    /// The 99.9th percentile.
    pub single_p999_ns: Option<f64>,
    /// The maximum.
    pub single_max_ns: Option<f64>,
}
