//! `hpt sleep`: how late sleeps return.

use serde::{Deserialize, Serialize};

use crate::{away::Away, head::Head, thread::Thread};

/// How late sleeps return with each method, and the CPU time they take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt sleep: how late sleeps return"))]
pub struct SleepDocument {
    /// The first keys of every document.
    #[serde(flatten)]
    pub head: Head,
    /// The CPU it ran on; null if it was not pinned.
    pub cpu: Option<usize>,
    /// The thread's scheduling settings.
    pub thread: Thread,
    /// The source that told the time: a counter, or `monotonic` for the kernel's clock.
    pub source: String,
    /// Whether Ctrl-C or another signal ended it early.
    pub interrupted: bool,
    /// When a pinned thread did not run on its CPU, the earliest first. What was measured then
    /// comes from several CPUs.
    pub away: Vec<Away>,
    /// One row for each duration and method.
    pub results: Vec<SleepRow>,
    /// What else to know about the result.
    pub notes: Vec<String>,
}

/// One duration and one method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SleepRow {
    /// The requested duration.
    pub duration_ns: u64,
    /// The method.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::sleep_methods))]
    pub method: String,
    /// Number of sleeps.
    pub samples: u64,
    /// How many returned before their deadline.
    pub early: u64,
    /// The mean overshoot.
    pub mean_ns: Option<f64>,
    /// The mean overshoot without the largest hundredth.
    pub trimmed_mean_ns: Option<f64>,
    /// The median overshoot.
    pub p50_ns: Option<f64>,
    /// 99 % overshot by at most this.
    pub p99_ns: Option<f64>,
    /// 99.9 % overshot by at most this.
    pub p999_ns: Option<f64>,
    /// The largest overshoot.
    pub max_ns: Option<f64>,
    /// The thread's CPU time divided by the elapsed time; null if the kernel does not report it.
    pub cpu_share: Option<f64>,
    /// How long before the deadline the thread is woken, at the end; null for methods that learn
    /// nothing.
    pub reserve_ns: Option<u64>,
}
