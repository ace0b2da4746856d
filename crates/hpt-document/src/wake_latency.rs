//! `hpt latency timer` and `hpt latency poll`: wake-up latency, and the latency of a busy-polling thread.

use serde::{Deserialize, Serialize};

use crate::{
    head::Head,
    latency::{ClockReads, LatencyFigures, LatencyRunEnd, LatencyRunTime, LatencyThread},
    words::word_enum,
};

/// Wake-up latency, or the latency of a busy-polling thread. `timer` and `poll` use the same document type with
/// different kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WakeLatencyDocument {
    /// The first keys of every document.
    #[serde(flatten)]
    pub head: Head,
    /// Time from one deadline to the next.
    pub interval_ns: u64,
    /// The first deadline as wall-clock time, in UTC; null without --at. With --at, the wall clock is the
    /// time source.
    pub at: Option<String>,
    /// How the thread waited.
    pub wait_method: WaitMethod,
    /// The GPIO line that was toggled at each deadline; null if there was none.
    pub pulse: Option<String>,
    /// The measuring thread.
    #[serde(flatten)]
    pub measuring: LatencyThread,
    /// The overhead of reading the clock.
    #[serde(flatten)]
    pub reads: ClockReads,
    /// When the run started, and how long it took.
    #[serde(flatten)]
    pub time: LatencyRunTime,
    /// How the run ended.
    #[serde(flatten)]
    pub end: LatencyRunEnd,
    /// One row for each thread.
    pub results: Vec<WakeLatencyRow>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

word_enum! {
    /// How a thread waited for a deadline.
    pub enum WaitMethod {
        /// With the kernel's timer.
        Kernel = "kernel",
        /// With hpt's `Sleeper`.
        Hpt = "hpt",
        /// By polling the clock.
        Polling = "polling",
    }
}

/// The results of one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WakeLatencyRow {
    /// The thread's CPU; null if it was not pinned.
    pub cpu: Option<usize>,
    /// The wake-up latency of the thread.
    #[serde(flatten)]
    pub figures: LatencyFigures,
    /// Number of wake-ups that were discarded because the wall clock was stepped; zero without --at.
    pub clock_stepped: u64,
    /// The length of an interval of the timeline.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub time_series_interval_ns: u64,
    /// Latency over time, in intervals of equal length. Intervals without a deadline are omitted.
    #[cfg_attr(feature = "schema", schemars(length(max = 400)))]
    pub time_series: Vec<TimeSeriesInterval>,
}

/// An interval of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeSeriesInterval(
    /// When it starts, in nanoseconds after the first deadline.
    pub u64,
    /// Number of deadlines in it.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub u64,
    /// Their mean latency, in nanoseconds.
    pub f64,
    /// Their maximum latency, in nanoseconds.
    pub u64,
);
