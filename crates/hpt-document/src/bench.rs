//! The document of `hpt bench`: the read overhead of each source.

use serde::{Deserialize, Serialize};

use crate::{
    conditions::Conditions,
    cpu_absence::CpuAbsence,
    head::Head,
    limit::LimitRow,
    load::LoadedPhase,
    not_run::NotRun,
    read_cost::{RepeatedReads, SingleReads},
    warm_up::DiscardedSamples,
    words::word_enum,
};

/// The read overhead of each source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt bench: the read overhead of each source"))]
pub struct BenchDocument {
    /// The keys at the start of the document: `schema`, `kind`, `hpt` and `machine`.
    #[serde(flatten)]
    pub head: Head,
    /// The CPU that the thread was pinned to; null if it was not pinned.
    pub cpu: Option<usize>,
    /// The time source that timed the single reads.
    pub stopwatch: String,
    /// The frequency of the stopwatch, in hertz.
    pub stopwatch_frequency_hz: f64,
    /// The origin of the stopwatch frequency: the definition of the source, a calibration saved since the last boot, or
    /// a calibration made for this run.
    pub stopwatch_frequency_origin: FrequencyOrigin,
    /// The largest possible error of the stopwatch frequency, in parts per million; null if it is unbounded.
    pub stopwatch_bound_ppm: Option<f64>,
    /// The source that counts cycles. `arm-cycles` counts all cycles of the core; `perf-cycles` counts only the cycles
    /// of the thread in user mode. Null if neither source is available.
    pub cycles_source: Option<String>,
    /// The warm-up: `warm_up_ns` and `warm_up_samples`.
    #[serde(flatten)]
    pub warm_up: DiscardedSamples,
    /// Whether Ctrl-C or another signal ended the run early.
    pub interrupted: bool,
    /// Periods in which a pinned thread did not run on its CPU, in chronological order. Values measured in these
    /// periods may include samples from other CPUs.
    pub cpu_absences: Vec<CpuAbsence>,
    /// The time that the measuring thread needed its CPU, but did not get it.
    #[serde(default)]
    pub not_run: NotRun,
    /// The conditions during the measurement.
    #[serde(default)]
    pub conditions: Conditions,
    /// The limits of `--limit`, each with its verdict, in the order in which they were given.
    #[serde(default)]
    pub limits: Vec<LimitRow>,
    /// One row for each source.
    pub results: Vec<BenchRow>,
    /// The loaded phase; null without --load.
    #[serde(default)]
    pub loaded: Option<LoadedPhase<BenchRow>>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// The read overhead of one source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BenchRow {
    /// The name of the source.
    pub id: String,
    /// The way in which the source is read. `kernel` means either the vDSO or a system call; for a captured machine,
    /// hpt cannot determine which.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::read_paths))]
    pub read_path: String,
    /// Whether the source has a constant rate, apart from slewing, and is never stepped.
    pub constant_rate: Option<bool>,
    /// The results of many back-to-back reads.
    #[serde(flatten)]
    pub repeated: RepeatedReads,
    /// Cycles per read, as counted by `cycles_source`. Null if there is no such source, or if the counter may have
    /// wrapped undetected.
    pub cycles_per_read: Option<f64>,
    /// `per_read_ns` divided by the smallest `per_read_ns` of all sources.
    pub ratio_to_cheapest: Option<f64>,
    /// `per_read_ns` divided by the `per_read_ns` of clock_gettime(CLOCK_MONOTONIC), called through the C library.
    pub ratio_to_monotonic: Option<f64>,
    /// The results of reads that were timed one at a time.
    #[serde(flatten)]
    pub single: SingleReads,
    /// The read overhead of the stopwatch, in nanoseconds: the median time of an empty measurement.
    pub stopwatch_overhead_ns: Option<f64>,
    /// The advertised resolution of the source, in nanoseconds.
    pub resolution_ns: Option<f64>,
    /// The granularity of the source, in nanoseconds: the smallest step that was observed.
    pub granularity_ns: Option<f64>,
}

word_enum! {
    /// The origin of a frequency.
    pub enum FrequencyOrigin {
        /// The definition of the source.
        Definition = "definition",
        /// A calibration saved since the last boot.
        Saved = "saved",
        /// A calibration made for this run.
        Measured = "measured",
    }
}
