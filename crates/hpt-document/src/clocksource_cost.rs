//! The document of `hpt clocksource set` and `hpt clocksource compare`: the read overhead of the kernel's clocks under
//! each clocksource.

use serde::{Deserialize, Serialize};

use crate::{
    cpu_absence::CpuAbsence,
    head::Head,
    not_run::NotRun,
    read_cost::{RepeatedReads, SingleReads},
};

/// The read overhead of the kernel's clocks under each clocksource. `hpt clocksource set` and `hpt clocksource compare`
/// both print this document, with different kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClocksourceCostDocument {
    /// The keys at the start of the document: `schema`, `kind`, `hpt` and `machine`.
    #[serde(flatten)]
    pub head: Head,
    /// The CPU that the thread was pinned to; null if it was not pinned.
    pub cpu: Option<usize>,
    /// The time source that timed the single reads.
    pub stopwatch: String,
    /// The clocksource that was active before the change.
    pub before: String,
    /// The clocksource that was active at the end, as read back from the kernel; null if it could not be read.
    pub after: Option<String>,
    /// The requested clocksources.
    pub requested: Vec<String>,
    /// The requested clocksources that the kernel did not accept.
    pub refused: Vec<RefusedClocksource>,
    /// The path of the journal, in which hpt recorded the original clocksource before changing it.
    pub journal: String,
    /// Whether Ctrl-C or another signal ended the run early.
    pub interrupted: bool,
    /// Periods in which a pinned thread did not run on its CPU, in chronological order. Values measured in these
    /// periods may include samples from other CPUs.
    pub cpu_absences: Vec<CpuAbsence>,
    /// The time that the measuring thread needed its CPU, but did not get it.
    #[serde(default)]
    pub not_run: NotRun,
    /// One row for each combination of clock and clocksource.
    pub results: Vec<ClockCost>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// The read overhead of one clock under one clocksource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockCost {
    /// The clocksource that was active during the measurement.
    pub clocksource: String,
    /// hpt's name for the clock.
    pub clock: String,
    /// The way in which the clock is read.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::clock_read_paths))]
    pub read_path: String,
    /// The results of many back-to-back reads.
    #[serde(flatten)]
    pub repeated: RepeatedReads,
    /// `per_read_ns` divided by the `per_read_ns` of the same clock under the first clocksource.
    pub ratio_to_first: Option<f64>,
    /// The results of reads that were timed one at a time.
    #[serde(flatten)]
    pub single: SingleReads,
    /// The resolution that clock_getres reports for the clock, in nanoseconds.
    pub resolution_ns: Option<u64>,
    /// The granularity of the clock, in nanoseconds: the smallest step that was observed.
    pub granularity_ns: Option<f64>,
}

/// A requested clocksource that the kernel did not accept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RefusedClocksource {
    /// The requested clocksource.
    pub clocksource: String,
    /// The reason why the clocksource could not be measured: the error, or the clocksource that replaced it.
    pub reason: String,
}
