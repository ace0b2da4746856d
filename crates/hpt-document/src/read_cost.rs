//! Types for the read overhead: many back-to-back reads, and single reads.

use serde::{Deserialize, Serialize};

/// The results of many back-to-back reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RepeatedReads {
    /// Number of back-to-back reads.
    pub reads: u64,
    /// Whether hpt made all requested reads. If not, a note names the source.
    pub complete: bool,
    /// The total time of the back-to-back reads, in seconds.
    pub total_s: f64,
    /// The CPU time of the back-to-back reads in user mode, in seconds.
    pub user_s: f64,
    /// The CPU time of the back-to-back reads in the kernel, in seconds.
    pub system_s: f64,
    /// The mean time of one back-to-back read, in nanoseconds: `total_s` divided by `reads`.
    pub per_read_ns: Option<f64>,
}

/// The results of reads that were timed one at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SingleReads {
    /// Number of reads that were timed one at a time.
    pub single_samples: Option<u64>,
    /// The median time of a single read, in nanoseconds, including the read overhead of the stopwatch.
    pub single_p50_ns: Option<f64>,
    /// The 99th percentile of the time of a single read, in nanoseconds, including the read overhead of the stopwatch;
    /// null if fewer than ten samples are above it.
    pub single_p99_ns: Option<f64>,
    /// The 99.9th percentile of the time of a single read, in nanoseconds, including the read overhead of the
    /// stopwatch; null if fewer than ten samples are above it.
    pub single_p999_ns: Option<f64>,
    /// The maximum time of a single read, in nanoseconds, including the read overhead of the stopwatch.
    pub single_max_ns: Option<f64>,
}
