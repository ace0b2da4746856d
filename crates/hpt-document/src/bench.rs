//! `hpt bench`: the read overhead of each source.

use serde::{Deserialize, Serialize};

use crate::{
    away::Away,
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
    /// The CPU it ran on; null if it was not pinned.
    pub cpu: Option<usize>,
    /// The source that timed single reads.
    pub stopwatch: String,
    /// The frequency of the stopwatch.
    pub stopwatch_frequency_hz: f64,
    /// The origin of that frequency: the definition of the source, a calibration saved in this
    /// boot, or one made for this run.
    pub stopwatch_frequency_from: FrequencyOrigin,
    /// The largest possible error of that frequency, in parts per million.
    pub stopwatch_bound_ppm: Option<f64>,
    /// The source that counts cycles: arm-cycles counts all cycles of the core, perf-cycles those
    /// of the thread in user mode. Null if neither is available.
    pub cycles_by: Option<String>,
    /// Whether Ctrl-C or another signal ended it early.
    pub interrupted: bool,
    /// Times in which a pinned thread did not run on its CPU, the earliest first. Values measured then come from
    /// several CPUs.
    pub away: Vec<Away>,
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
    /// What a read passes through; `kernel` where only a live machine would show whether it is the vDSO or a system
    /// call.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::read_paths))]
    pub read_path: String,
    /// Many reads back to back.
    #[serde(flatten)]
    pub repeated: RepeatedReads,
    /// Cycles per read, counted by the source in cycles_by. Null if there is no such source, or if the counter may have
    /// wrapped unnoticed.
    pub cycles_per_call: Option<f64>,
    /// per_call_ns divided by the smallest per_call_ns of all sources.
    pub ratio_to_cheapest: Option<f64>,
    /// per_call_ns divided by that of clock_gettime(CLOCK_MONOTONIC), called through the C library.
    pub ratio_to_monotonic: Option<f64>,
    /// Reads timed one at a time.
    #[serde(flatten)]
    pub single: SingleReads,
    /// The read overhead of the stopwatch: the median time of an empty measurement.
    pub empty_p50_ns: Option<f64>,
    /// The resolution that the source states.
    pub resolution_ns: Option<f64>,
    /// The granularity: the smallest step that was observed.
    pub granularity_ns: Option<f64>,
}

word_enum! {
    /// The origin of a frequency.
    pub enum FrequencyOrigin {
        /// The definition of the source.
        Definition = "definition",
        /// A calibration saved in this boot.
        Kept = "kept",
        /// A calibration made for this run.
        Measured = "measured",
    }
}
