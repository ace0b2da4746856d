//! The document of `hpt sleep --curve`: the overshoot of sleeps against their CPU time, for many settings.

use serde::{Deserialize, Serialize};

use crate::{
    conditions::Conditions, cpu_absence::CpuAbsence, head::Head, not_run::NotRun, sleep::TargetField, thread::Thread,
};

/// The overshoot and the CPU time of sleeps, for many settings of each sleep method, and the settings to use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt sleep --curve: overshoot against CPU time"))]
pub struct SleepCurveDocument {
    /// The keys at the start of the document: `schema`, `kind`, `hpt` and `machine`.
    #[serde(flatten)]
    pub head: Head,
    /// The CPU that the thread was pinned to; null if it was not pinned.
    pub cpu: Option<usize>,
    /// The scheduling settings of the thread.
    pub thread: Thread,
    /// The time source that measured the sleeps: a counter, or `monotonic` for the kernel's clock.
    pub source: String,
    /// The number of sleeps per setting and duration that came before the measured ones. The settings learned from them.
    pub learning_sleeps: u64,
    /// Whether Ctrl-C or another signal ended the run early.
    pub interrupted: bool,
    /// Periods in which a pinned thread did not run on its CPU, in chronological order.
    pub cpu_absences: Vec<CpuAbsence>,
    /// The time that the thread was ready but did not run. The time of the sleeps themselves does not count.
    pub not_run: NotRun,
    /// The conditions during the measurement.
    pub conditions: Conditions,
    /// For each duration and each limit of p99: the setting that takes the least CPU time.
    pub recommendations: Vec<SleepRecommendation>,
    /// One row for each combination of duration and setting.
    pub results: Vec<SleepCurveRow>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// The results of one setting for one duration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SleepCurveRow {
    /// The requested duration of each sleep, in nanoseconds.
    pub duration_ns: u64,
    /// The sleep method.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::sleep_methods))]
    pub method: String,
    /// The setting of the method: the margin of `fixed`, or the target of `hpt`, for example `p99=5 µs` or `default`. Null
    /// for methods without settings.
    pub setting: Option<String>,
    /// Number of sleeps.
    pub samples: u64,
    /// Number of sleeps that ended before their deadline.
    pub early: u64,
    /// The median overshoot, in nanoseconds.
    pub p50_ns: Option<f64>,
    /// The 90th percentile of the overshoot, in nanoseconds; null if fewer than ten samples are above it.
    pub p90_ns: Option<f64>,
    /// The 99th percentile of the overshoot, in nanoseconds; null if fewer than ten samples are above it.
    pub p99_ns: Option<f64>,
    /// The lower bound of the 99th percentile at 95 % confidence if samples are independent, in nanoseconds; null with `p99_ns`.
    pub p99_low_ns: Option<f64>,
    /// The upper bound of the 99th percentile at 95 % confidence if samples are independent, in nanoseconds; null with `p99_ns`.
    pub p99_high_ns: Option<f64>,
    /// The mean overshoot without the largest 1 % of the values, in nanoseconds.
    pub trimmed_mean_ns: Option<f64>,
    /// The maximum overshoot, in nanoseconds.
    pub max_ns: Option<f64>,
    /// The thread's CPU time divided by the elapsed time; null if the kernel does not report CPU time.
    pub cpu_share: Option<f64>,
    /// Whether no other setting for this duration has both a lower p99 and less CPU time, or equals one and improves on
    /// the other; null if p99 or the CPU time is unknown.
    pub is_best: Option<bool>,
    /// The margin at the end of the measurement, in nanoseconds: how long before the deadline the thread begins to spin.
    /// Null for methods that do not adapt the margin.
    pub margin_ns: Option<u64>,
    /// The target of the method `hpt`, and whether it was met; null for other methods.
    pub target: Option<TargetField>,
}

/// The setting with the least CPU time for a duration, among those whose p99 is below a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SleepRecommendation {
    /// The requested duration of each sleep, in nanoseconds.
    pub duration_ns: u64,
    /// The limit of p99, in nanoseconds.
    pub limit_ns: u64,
    /// The sleep method; null if no setting has an upper bound of p99 below the limit.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::sleep_methods))]
    pub method: Option<String>,
    /// The setting of the method, as in `results`.
    pub setting: Option<String>,
    /// The 99th percentile of the overshoot, in nanoseconds.
    pub p99_ns: Option<f64>,
    /// The upper bound of the 99th percentile at 95 % confidence if samples are independent, in nanoseconds. It is below the limit.
    pub p99_high_ns: Option<f64>,
    /// The thread's CPU time divided by the elapsed time.
    pub cpu_share: Option<f64>,
}
