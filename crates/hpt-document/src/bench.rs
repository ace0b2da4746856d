//! `hpt bench`: the read overhead of each source.

use serde::{Deserialize, Serialize};

use crate::{
    cpu_absence::CpuAbsence,
    head::Head,
    read_cost::{RepeatedReads, SingleReads},
    words::word_enum,
};

/// The read overhead of each source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt bench: the read overhead of each source"))]
pub struct BenchDocument {
    /// The first keys of every document.
    #[serde(flatten)]
    pub head: Head,
    /// The CPU that the thread was pinned to; null if it was not pinned.
    pub cpu: Option<usize>,
    /// The source that timed single reads.
    pub stopwatch: String,
    /// The frequency of the stopwatch.
    pub stopwatch_frequency_hz: f64,
    /// The origin of that frequency: the definition of the source, a calibration saved since the last boot, or a
    /// calibration made for this run.
    pub stopwatch_frequency_origin: FrequencyOrigin,
    /// The largest possible error of that frequency, in parts per million.
    pub stopwatch_bound_ppm: Option<f64>,
    /// The source that counts cycles: arm-cycles counts all cycles of the core, perf-cycles counts only the cycles of
    /// the thread in user mode. Null if neither source is available.
    pub cycles_source: Option<String>,
    /// Whether Ctrl-C or another signal ended the run early.
    pub interrupted: bool,
    /// Periods in which a pinned thread did not run on its CPU, the earliest first. Values measured in these periods
    /// come from several CPUs.
    pub cpu_absences: Vec<CpuAbsence>,
    /// One row for each source.
    pub results: Vec<BenchRow>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// The read overhead of one source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BenchRow {
    /// The source.
    pub id: String,
    /// How the source is read. `kernel`: through the vDSO or a system call; for a captured machine, it is not known
    /// which.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::read_paths))]
    pub read_path: String,
    /// Many reads back to back.
    #[serde(flatten)]
    pub repeated: RepeatedReads,
    /// Cycles per read, counted by the source in cycles_source. Null if there is no such source, or if the
    /// counter may have wrapped undetected.
    pub cycles_per_read: Option<f64>,
    /// per_read_ns divided by the smallest per_read_ns of all sources.
    pub ratio_to_cheapest: Option<f64>,
    /// per_read_ns divided by the per_read_ns of clock_gettime(CLOCK_MONOTONIC), called through the C library.
    pub ratio_to_monotonic: Option<f64>,
    /// Reads timed one at a time.
    #[serde(flatten)]
    pub single: SingleReads,
    /// The read overhead of the stopwatch: the median time of an empty measurement.
    pub stopwatch_overhead_ns: Option<f64>,
    /// The advertised resolution of the source.
    pub resolution_ns: Option<f64>,
    /// The granularity: the smallest step that was observed.
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
