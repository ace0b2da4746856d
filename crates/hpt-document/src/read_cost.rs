//! Types for the read overhead: many back-to-back reads, and single reads.

use serde::{Deserialize, Serialize};

use crate::quantiles::{Quantiles, SingleReadList};

/// The results of many back-to-back reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Time per back-to-back read, in nanoseconds: the median of the batches. If the wall clock is too coarse to time a
    /// batch, the mean.
    pub per_read_ns: Option<f64>,
    /// The 25th percentile of the time per read over the batches, in nanoseconds; null if there are fewer than 40
    /// batches.
    pub per_read_p25_ns: Option<f64>,
    /// The 75th percentile of the time per read over the batches, in nanoseconds; null if there are fewer than 40
    /// batches.
    pub per_read_p75_ns: Option<f64>,
    /// Time per read in the fastest batch, in nanoseconds.
    pub per_read_min_ns: Option<f64>,
    /// Number of batches of back-to-back reads. A batch that contains a time in which the thread did not run takes
    /// longer, but does not change the median.
    #[serde(default)]
    pub batches: u64,
    /// The mean time of one back-to-back read, in nanoseconds: `total_s` divided by `reads`. The mean includes the times
    /// in which the thread did not run.
    pub mean_read_ns: Option<f64>,
    /// The part of the time during which the thread was ready but did not run, from 0 to 1, while the source was
    /// measured; null if the kernel does not report it.
    pub not_run_share: Option<f64>,
}

/// The results of reads that were timed one at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SingleReads {
    /// Number of reads that were timed one at a time.
    pub single_samples: Option<u64>,
    /// The quantiles: `single_p50_ns` and so on.
    #[serde(flatten)]
    pub quantiles: Quantiles<SingleReadList>,
    /// The maximum time of a single read, in nanoseconds, including the read overhead of the stopwatch.
    pub single_max_ns: Option<f64>,
}
