//! `hpt clocksource set` and `compare`: read overhead of the kernel's clocks under each clocksource.

use serde::{Deserialize, Serialize};

use crate::{
    cpu_absence::CpuAbsence,
    head::Head,
    read_cost::{RepeatedReads, SingleReads},
};

/// Read overhead of the kernel's clocks under each clocksource. `set` and `compare` use the same document type with
/// different kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClocksourceCostDocument {
    /// The first keys of every document.
    #[serde(flatten)]
    pub head: Head,
    /// The CPU that the thread was pinned to; null if it was not pinned.
    pub cpu: Option<usize>,
    /// The source that timed single reads.
    pub stopwatch: String,
    /// The clocksource before the change.
    pub before: String,
    /// The clocksource at the end, as read back from the kernel; null if it cannot be read.
    pub after: Option<String>,
    /// The requested clocksources.
    pub requested: Vec<String>,
    /// The clocksources that the kernel did not accept.
    pub refused: Vec<RefusedClocksource>,
    /// The journal that records the change.
    pub journal: String,
    /// Whether Ctrl-C or another signal ended the run early.
    pub interrupted: bool,
    /// Periods in which a pinned thread did not run on its CPU, the earliest first. Values measured in these periods
    /// come from several CPUs.
    pub cpu_absences: Vec<CpuAbsence>,
    /// One row for each clock and clocksource.
    pub results: Vec<ClockCost>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// The read overhead of one clock under one clocksource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockCost {
    /// The clocksource.
    pub clocksource: String,
    /// hpt's name for the clock.
    pub clock: String,
    /// How the clock is read.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::clock_read_paths))]
    pub read_path: String,
    /// Many reads back to back.
    #[serde(flatten)]
    pub repeated: RepeatedReads,
    /// per_read_ns divided by the per_read_ns of the same clock under the first clocksource.
    pub ratio_to_first: Option<f64>,
    /// Reads timed one at a time.
    #[serde(flatten)]
    pub single: SingleReads,
    /// The resolution that clock_getres reports.
    pub resolution_ns: Option<u64>,
    /// The granularity: the smallest step that was observed.
    pub granularity_ns: Option<f64>,
}

/// A clocksource that the kernel did not accept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RefusedClocksource {
    /// The clocksource.
    pub clocksource: String,
    /// Why it could not be measured: the error, or the clocksource that replaced it.
    pub reason: String,
}
