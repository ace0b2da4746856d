//! Types that the documents of `hpt latency timer`, `poll`, `gpio` and `stall` share.

use serde::{Deserialize, Serialize};

use crate::{
    cpu_absence::CpuAbsence,
    quantiles::{LatencyList, Quantiles},
    thread::Thread,
};

/// The measuring thread and its time source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyThread {
    /// The scheduling settings of the thread. With several threads, these are the settings of the first thread and the
    /// CPUs of all threads.
    pub thread: Thread,
    /// The time source that the thread reads: a counter, or `monotonic` for the kernel's clock.
    pub source: String,
}

/// The start and the duration of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyRunTime {
    /// The wall-clock time at which the run started, in UTC.
    pub started_at: String,
    /// The duration of the run, in seconds, without the warm-up.
    pub elapsed_s: f64,
    /// The length of the warm-up (--warm-up), in nanoseconds; 0 without a warm-up. Its samples are discarded.
    #[serde(default)]
    pub warm_up_ns: u64,
    /// Number of samples that were discarded because they belong to the warm-up.
    #[serde(default)]
    pub warm_up_samples: u64,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyRunEnd {
    /// The CLOCK_MONOTONIC time, in nanoseconds, of the sample that exceeded --stop-above and ended the run: the
    /// deadline of a wake-up, the time at which the line was driven, or the start of a stall. Null if there was no such
    /// sample.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub stopped_at_ns: Option<u64>,
    /// Whether Ctrl-C or another signal ended the run early.
    pub interrupted: bool,
    /// Periods in which a pinned thread did not run on its CPU, in chronological order. No other value includes samples
    /// from these periods.
    pub cpu_absences: Vec<CpuAbsence>,
}

/// The read overhead and the granularity of the clock, which affect every latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockReads {
    /// The read overhead of the clock, in nanoseconds: the median difference between two back-to-back reads. Every
    /// latency includes this overhead.
    pub clock_read_ns: u64,
    /// The granularity of the clock, in nanoseconds: the smallest observed difference between two different readings.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub clock_granularity_ns: Option<u64>,
}

/// The latency distribution of wake-ups or edges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyFigures {
    /// Number of samples.
    pub samples: u64,
    /// Number of deadlines or edges that were skipped because the previous sample took longer than the interval. Missed
    /// deadlines of `hpt latency timer` and `poll` are among the samples, unless `missed_deadlines` is `left-out`.
    pub missed: u64,
    /// The minimum latency, in nanoseconds.
    pub min_ns: u64,
    /// The mean latency, in nanoseconds.
    pub mean_ns: f64,
    /// The quantiles: `p50_ns` and so on.
    #[serde(flatten)]
    pub quantiles: Quantiles<LatencyList>,
    /// The maximum latency, in nanoseconds.
    pub max_ns: u64,
    /// The CLOCK_MONOTONIC time of the maximum latency, in nanoseconds: the deadline of the wake-up, or the time at
    /// which the line was driven.
    pub max_at_ns: u64,
    /// The exact number of samples for each whole microsecond of latency, up to ten milliseconds.
    pub histogram_us: Vec<MicrosecondCount>,
    /// Number of samples with a latency above ten milliseconds.
    pub above_10ms: u64,
    /// The number of samples in each bin, from one nanosecond to the maximum. Bins without samples are omitted.
    #[serde(default)]
    pub histogram_ns: Vec<HistogramBin>,
}

/// A bin of a histogram. Below 16 ns, each bin is one nanosecond wide; above, each power of two has 16 bins of equal width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistogramBin(
    /// The smallest duration in the bin, in nanoseconds.
    pub u64,
    /// The smallest duration above the bin, in nanoseconds.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub u64,
    /// Number of samples in the bin.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub u64,
);

/// The latencies in one interval of a heat map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeatMapColumn(
    /// The start of the interval, in nanoseconds after the first deadline.
    pub u64,
    /// The number of samples in each bin. A bin extends from one power of two (or its 1.5-fold) to the next. Bins
    /// without samples are omitted.
    pub Vec<HistogramBin>,
);

/// Number of samples whose duration falls within one whole microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MicrosecondCount(
    /// The duration in whole microseconds, rounded down.
    pub u64,
    /// Number of samples of that duration.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub u64,
);
