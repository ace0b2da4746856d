//! What the documents of `hpt latency timer`, `poll`, `gpio` and `stall` have in common.

use serde::{Deserialize, Serialize};

use crate::{away::Away, thread::Thread};

/// The measuring thread, and the source that told it the time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyThread {
    /// The thread's scheduling settings; of several threads, those of the first, on the CPUs of
    /// all.
    pub thread: Thread,
    /// The source that told the time: a counter, or `monotonic` for the kernel's clock.
    pub source: String,
}

/// When a run started, and how long it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyRunTime {
    /// When it started, by the wall clock, in UTC.
    pub began: String,
    /// How long it ran.
    pub elapsed_s: f64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyRunEnd {
    /// The time, on CLOCK_MONOTONIC, of the sample that exceeded --stop-above and ended the run:
    /// the deadline of a wake-up, the moment at which the line was driven, or the start of a stall.
    /// Null if there was none.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub broke_at_ns: Option<u64>,
    /// Whether Ctrl-C or another signal ended it early.
    pub interrupted: bool,
    /// When a pinned thread did not run on its CPU, the earliest first. Samples from that time are
    /// in no other figure.
    pub away: Vec<Away>,
}

/// What reading the clock adds to every latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockReads {
    /// The read overhead: the median difference of two back-to-back reads. It is part of every
    /// figure.
    pub look_ns: u64,
    /// The smallest step between two reads that was observed.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub step_ns: Option<u64>,
}

/// The distribution of latencies: how late wake-ups were, or how long edges took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyFigures {
    /// Number of samples.
    pub samples: u64,
    /// Deadlines or edges that were left out because the previous sample took longer than the
    /// interval.
    pub missed: u64,
    /// The smallest.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The median, to three digits, like all quantiles.
    pub p50_ns: u64,
    /// 99 % were at most this. Null if fewer than ten samples lie beyond.
    pub p99_ns: Option<u64>,
    /// 99.9 % were at most this. Null if fewer than ten samples lie beyond.
    pub p999_ns: Option<u64>,
    /// 99.99 % were at most this. Null if fewer than ten samples lie beyond.
    pub p9999_ns: Option<u64>,
    /// 99.999 % were at most this. Null if fewer than ten samples lie beyond.
    pub p99999_ns: Option<u64>,
    /// The largest.
    pub max_ns: u64,
    /// When the largest began, on CLOCK_MONOTONIC: its deadline, or the moment at which the line
    /// was driven.
    pub max_at_ns: u64,
    /// Exact counts up to ten milliseconds.
    pub microseconds: Vec<MicrosecondCount>,
    /// Number of samples beyond that.
    pub beyond: u64,
}

/// How many samples were in one whole microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MicrosecondCount(
    /// Whole microseconds, rounded down.
    pub u64,
    /// Number of samples of that length.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub u64,
);
