//! The document of `hpt latency timer` and `hpt latency poll`: wake-up latency, or the latency of a busy-polling
//! thread.

use serde::{Deserialize, Serialize};

use crate::{
    conditions::Conditions,
    explain::Explanation,
    gpio_line::GpioDrive,
    head::Head,
    latency::{ClockReads, HeatMapColumn, LatencyFigures, LatencyRunEnd, LatencyRunTime, LatencyThread},
    limit::LimitRow,
    load::LoadedPhase,
    not_run::NotRun,
    words::word_enum,
};

/// Wake-up latency, or the latency of a busy-polling thread. `hpt latency timer` and `hpt latency poll` both print this
/// document, with different kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WakeLatencyDocument {
    /// The keys at the start of the document: `schema`, `kind`, `hpt` and `machine`.
    #[serde(flatten)]
    pub head: Head,
    /// Time from one deadline to the next, in nanoseconds.
    pub interval_ns: u64,
    /// The first deadline as wall-clock time, in UTC; null without --at. With --at, the wall clock is the
    /// time source.
    pub at: Option<String>,
    /// The method by which the threads waited for their deadlines.
    pub wait_method: WaitMethod,
    /// Whether missed deadlines are samples, each with its own latency. Documents without this key leave them out.
    #[serde(default = "left_out")]
    pub missed_deadlines: MissedDeadlines,
    /// The GPIO line that was toggled at each deadline; null if no line was toggled.
    pub pulse: Option<String>,
    /// The way in which that line was driven; null if no line was toggled, or if the document is older than this key.
    #[serde(default)]
    pub pulse_drive: Option<GpioDrive>,
    /// The measuring thread.
    #[serde(flatten)]
    pub measuring: LatencyThread,
    /// The read overhead and the granularity of the clock.
    #[serde(flatten)]
    pub reads: ClockReads,
    /// The start and the duration of the run.
    #[serde(flatten)]
    pub time: LatencyRunTime,
    /// The end of the run.
    #[serde(flatten)]
    pub end: LatencyRunEnd,
    /// The conditions during the measurement.
    #[serde(default)]
    pub conditions: Conditions,
    /// The limits of `--limit`, each with its verdict, in the order in which they were given.
    #[serde(default)]
    pub limits: Vec<LimitRow>,
    /// One row for each thread.
    pub results: Vec<WakeLatencyRow>,
    /// The causes of late wake-ups; empty without --explain.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// The loaded phase; null without --load.
    #[serde(default)]
    pub loaded: Option<LoadedPhase<WakeLatencyRow>>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

const fn left_out() -> MissedDeadlines {
    MissedDeadlines::LeftOut
}

word_enum! {
    /// How the samples treat a deadline that had passed before the thread waited for it.
    pub enum MissedDeadlines {
        /// A missed deadline is a sample: the time from the deadline until the thread ran.
        Counted = "counted",
        /// A missed deadline is no sample, as in cyclictest (--as cyclictest).
        LeftOut = "left-out",
    }
}

word_enum! {
    /// The method by which a thread waits for a deadline.
    pub enum WaitMethod {
        /// The thread waits with the kernel's timer.
        Kernel = "kernel",
        /// The thread waits with hpt's `Sleeper`.
        Hpt = "hpt",
        /// The thread polls the clock.
        Polling = "polling",
    }
}

/// The results of one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WakeLatencyRow {
    /// The CPU that the thread was pinned to; null if it was not pinned.
    pub cpu: Option<usize>,
    /// The latency distribution of the thread.
    #[serde(flatten)]
    pub figures: LatencyFigures,
    /// Confidence intervals of the quantiles: two for each quantile with enough samples.
    #[serde(default)]
    pub intervals: Vec<QuantileInterval>,
    /// The time during which the thread was ready to run, but did not run. The latencies include this time.
    /// The time of the warm-up counts, too.
    pub not_run: NotRun,
    /// Number of wake-ups that were discarded because the wall clock was stepped; 0 without --at.
    pub clock_stepped: u64,
    /// The length of each interval of the time series, in nanoseconds.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub time_series_interval_ns: u64,
    /// The latency over time, in intervals of equal length. Intervals without a deadline are omitted.
    #[cfg_attr(feature = "schema", schemars(length(max = 400)))]
    pub time_series: Vec<TimeSeriesInterval>,
    /// The length of each interval of the heat map, in nanoseconds.
    #[serde(default)]
    pub heat_map_interval_ns: u64,
    /// The distribution of the latency over time, in intervals of equal length. Intervals without a deadline are omitted.
    #[cfg_attr(feature = "schema", schemars(length(max = 100)))]
    #[serde(default)]
    pub heat_map: Vec<HeatMapColumn>,
}

/// A confidence interval of a quantile. It holds for samples that come in bursts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuantileInterval {
    /// The quantile, for example `p99`.
    pub quantile: String,
    /// The probability with which an interval contains the quantile of the process during this run.
    pub confidence: f64,
    /// The lower end, in nanoseconds; null if there are too few independent bursts.
    pub low_ns: Option<u64>,
    /// The upper end, in nanoseconds; null if there are too few independent bursts.
    pub high_ns: Option<u64>,
}

/// An interval of the time series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeSeriesInterval(
    /// The start of the interval, in nanoseconds after the first deadline.
    pub u64,
    /// Number of samples in the interval.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub u64,
    /// The mean latency in the interval, in nanoseconds.
    pub f64,
    /// The maximum latency in the interval, in nanoseconds.
    pub u64,
);
