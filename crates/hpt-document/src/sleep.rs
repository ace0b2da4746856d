//! The document of `hpt sleep`: the overshoot of sleeps.

use serde::{Deserialize, Serialize};

use crate::{
    conditions::Conditions,
    cpu_absence::CpuAbsence,
    explain::Explanation,
    head::Head,
    latency::HistogramBin,
    limit::LimitRow,
    load::LoadedPhase,
    not_run::NotRun,
    quantiles::{Quantiles, SleepList},
    thread::Thread,
    warm_up::DiscardedSamples,
};

/// The overshoot and the CPU time of sleeps, for each sleep method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt sleep: the overshoot of sleeps"))]
pub struct SleepDocument {
    /// The keys at the start of the document: `schema`, `kind`, `hpt` and `machine`.
    #[serde(flatten)]
    pub head: Head,
    /// The CPU that the thread was pinned to; null if it was not pinned.
    pub cpu: Option<usize>,
    /// The scheduling settings of the thread.
    pub thread: Thread,
    /// The time source that measured the sleeps: a counter, or `monotonic` for the kernel's clock.
    pub source: String,
    /// The warm-up: `warm_up_ns` and `warm_up_samples`.
    #[serde(flatten)]
    pub warm_up: DiscardedSamples,
    /// Whether Ctrl-C or another signal ended the run early.
    pub interrupted: bool,
    /// Periods in which a pinned thread did not run on its CPU, in chronological order. Values measured in these
    /// periods may include samples from other CPUs.
    pub cpu_absences: Vec<CpuAbsence>,
    /// The time that the thread was ready but did not run. The time of the sleeps themselves does not count.
    #[serde(default)]
    pub not_run: NotRun,
    /// The conditions during the measurement.
    #[serde(default)]
    pub conditions: Conditions,
    /// The causes of late sleeps, from the kernel's trace.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// The limits of `--limit`, each with its verdict, in the order in which they were given.
    #[serde(default)]
    pub limits: Vec<LimitRow>,
    /// One row for each combination of duration and method.
    pub results: Vec<SleepRow>,
    /// The loaded phase; null without --load.
    #[serde(default)]
    pub loaded: Option<LoadedPhase<SleepRow>>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// The results of one sleep method for one duration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SleepRow {
    /// The requested duration of each sleep, in nanoseconds.
    pub duration_ns: u64,
    /// The sleep method.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::sleep_methods))]
    pub method: String,
    /// Number of sleeps.
    pub samples: u64,
    /// Number of sleeps that ended before their deadline.
    pub early: u64,
    /// The mean overshoot, in nanoseconds.
    pub mean_ns: Option<f64>,
    /// The mean overshoot without the largest 1 % of the values, in nanoseconds.
    pub trimmed_mean_ns: Option<f64>,
    /// The quantiles: `p50_ns` and so on.
    #[serde(flatten)]
    pub quantiles: Quantiles<SleepList>,
    /// The maximum overshoot, in nanoseconds.
    pub max_ns: Option<f64>,
    /// The thread's CPU time divided by the elapsed time; null if the kernel does not report CPU time.
    pub cpu_share: Option<f64>,
    /// The margin at the end of the measurement, in nanoseconds: how long before the deadline the thread begins to spin.
    /// Null for methods that do not adapt the margin.
    pub margin_ns: Option<u64>,
    /// The target of the method `hpt`, and whether it was met; null for other methods.
    #[serde(default)]
    pub target: Option<TargetField>,
    /// The number of sleeps in each bin of the overshoot. Bins without sleeps are omitted.
    #[serde(default)]
    pub histogram_ns: Vec<HistogramBin>,
}

/// The target of a sleep method, and what it takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TargetField {
    /// The target, for example `p99=1 µs`, or `default`.
    pub text: String,
    /// Whether the target was met; null for the default target, or with too few sleeps to tell.
    pub met: Option<bool>,
    /// The share of one CPU that the target's quantile takes; null for targets without a quantile.
    pub needed_cpu_share: Option<f64>,
    /// The share of the wake-ups that were 0.5 ms late or later. No margin covers them.
    pub out_of_reach_share: f64,
}
