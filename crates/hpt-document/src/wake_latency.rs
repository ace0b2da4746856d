//! `hpt latency timer` and `hpt latency poll`: wake-up latency, and the latency of a busy-polling thread.

use serde::{Deserialize, Serialize};

use crate::{
    head::Head,
    latency::{ClockReads, LatencyFigures, LatencyRunEnd, LatencyRunTime, LatencyThread},
    words::word_enum,
};

/// Wake-up latency, or the latency of a busy-polling thread. `timer` and `poll` have the same
/// document, with different kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WakeLatencyDocument {
    /// The first keys of every document.
    #[serde(flatten)]
    pub head: Head,
    /// Time from one deadline to the next.
    pub interval_ns: u64,
    /// The first deadline by the wall clock, in UTC, if --at requested one; then the wall clock
    /// tells the time.
    pub at: Option<String>,
    /// How the thread waited.
    pub by: WaitMethod,
    /// The GPIO line that was driven to its other level at each deadline; null if none was.
    pub pulse: Option<String>,
    /// The measuring thread.
    #[serde(flatten)]
    pub measuring: LatencyThread,
    /// What reading the clock adds.
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
    /// What else to know about the result.
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
        Looking = "looking",
    }
}

/// One thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WakeLatencyRow {
    /// The thread's CPU; null if it was not pinned.
    pub cpu: Option<usize>,
    /// How late its wake-ups were.
    #[serde(flatten)]
    pub figures: LatencyFigures,
    /// Wake-ups that saw the wall clock being set, and are not counted; zero without --at.
    pub clock_was_set: u64,
    /// The length of a stretch of the course.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub course_every_ns: u64,
    /// Latency over time, in stretches of equal length; those without a deadline are left out.
    #[cfg_attr(feature = "schema", schemars(length(max = 400)))]
    pub course: Vec<LatencyStretch>,
}

/// A stretch of the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyStretch(
    /// When it starts, in nanoseconds after the first deadline.
    pub u64,
    /// Number of deadlines in it.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub u64,
    /// Their mean latency, in nanoseconds.
    pub f64,
    /// Their largest latency, in nanoseconds.
    pub u64,
);
