//! Types for the loaded phase of a measurement with `--load`.

use serde::{Deserialize, Serialize};

use crate::{conditions::Conditions, cpu_absence::CpuAbsence, explain::Explanation, words::word_enum};

/// The loaded phase of a measurement. The document itself describes the idle phase, which was measured first in the
/// same way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "LoadedPhase"))]
pub struct LoadedPhase<Row> {
    /// The load that hpt generated during this phase.
    pub load: Load,
    /// Whether Ctrl-C or another signal ended this phase early.
    pub interrupted: bool,
    /// The CLOCK_MONOTONIC time, in nanoseconds, of the sample that exceeded --stop-above and ended this phase; null if
    /// there was no such sample.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub stopped_at_ns: Option<u64>,
    /// Periods in which a pinned thread did not run on its CPU, in chronological order.
    pub cpu_absences: Vec<CpuAbsence>,
    /// The conditions during this phase.
    pub conditions: Conditions,
    /// The causes of late samples in this phase.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// The rows of this phase, with the same keys as `results` of the idle phase.
    pub results: Vec<Row>,
}

/// A load that hpt generated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Load {
    /// The kinds of load.
    pub kinds: Vec<LoadKind>,
    /// The program that generated the load: `stress-ng`, or `hpt` for the built-in loads.
    pub program: String,
    /// The version of the program.
    pub version: String,
    /// The CPUs of the load.
    pub cpus: Vec<usize>,
    /// Number of load processes that hpt requested.
    pub processes: u64,
    /// The most memory that the load `memory` uses, in bytes; null without it.
    pub memory_bytes: Option<u64>,
    /// The most disk space that the load `disk` uses, in bytes; null without it.
    pub disk_bytes: Option<u64>,
    /// The directory in which the load `disk` writes; null without it.
    pub disk_directory: Option<String>,
    /// The load average over one minute before the load started (/proc/loadavg); null if it cannot be read.
    pub loadavg_before: Option<f64>,
    /// The load average over one minute at the end of the loaded phase (/proc/loadavg); null if it cannot be read.
    pub loadavg_after: Option<f64>,
}

word_enum! {
    /// A kind of load.
    pub enum LoadKind {
        /// Computations that never pause.
        Cpu = "cpu",
        /// Writes to memory.
        Memory = "memory",
        /// Processes that start and end.
        Fork = "fork",
        /// Writes to a disk.
        Disk = "disk",
        /// Timers that expire.
        Timers = "timers",
    }
}
