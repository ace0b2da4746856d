//! The document of `hpt report`: a set of measurements.

use serde::{Deserialize, Serialize};

use crate::{head::Machine, words::word_enum};

/// A set of measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt report: a set of measurements"))]
pub struct ReportDocument {
    /// The version of the document layout.
    pub schema: u32,
    /// The kind of document.
    pub kind: String,
    /// The version of hpt that created the report.
    pub hpt: String,
    /// The name that the user gave the machine; null without --name.
    pub name: Option<String>,
    /// The machine that was measured.
    pub machine: Machine,
    /// The emulator that runs the machine, if its hypervisor or board identifies it.
    pub emulated_by: Option<String>,
    /// The wall-clock time at which the first part started (RFC 3339).
    pub started_at: String,
    /// The total duration, in seconds.
    pub elapsed_s: f64,
    /// Whether Ctrl-C or another signal ended the run early.
    pub interrupted: bool,
    /// The settings of the system that affect latency, and its load; null in reports of older versions.
    #[serde(default)]
    pub conditions: Option<ReportConditions>,
    /// The measurements, in the order in which they were made.
    pub parts: Vec<ReportPart>,
    /// The document of each part, as the command of the part prints it with --format json. The kind of a document
    /// determines its schema.
    pub documents: serde_json::Map<String, serde_json::Value>,
    /// Further remarks on the report.
    pub notes: Vec<String>,
}

/// The settings of the system that affect latency, and its load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportConditions {
    /// Number of CPUs that are online; null if it cannot be read.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub cpus: Option<usize>,
    /// The frequency governors of the CPUs, each listed once; empty if the CPUs have no governor.
    pub governors: Vec<String>,
    /// The preemption model of the kernel, for example `PREEMPT_RT` or `PREEMPT_DYNAMIC`.
    pub preemption: String,
    /// The isolated CPUs, as the kernel lists them, for example `2-3`; empty if none is isolated, null if it cannot be
    /// read.
    pub isolated_cpus: Option<String>,
    /// The load average of the last minute before the first part; null if it cannot be read.
    pub load_before: Option<f64>,
    /// The load average of the last minute after the last part. The measurement itself is included. Null if it cannot be
    /// read.
    pub load_after: Option<f64>,
}

/// One part of a report: a measurement with one command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportPart {
    /// The name of the part, which is also the name of its document.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::report_parts))]
    pub name: String,
    /// The command line that makes the same measurement.
    pub command: String,
    /// The state of the part.
    pub state: ReportPartState,
    /// The reason why the part failed; null if it did not fail.
    pub reason: Option<String>,
    /// The duration of the part, in seconds.
    pub elapsed_s: f64,
}

word_enum! {
    /// The state of a part of a report.
    pub enum ReportPartState {
        /// The part was measured.
        Measured = "measured",
        /// The part ended early.
        Interrupted = "interrupted",
        /// The part was not started.
        NotStarted = "not-started",
        /// The part could not be measured.
        Failed = "failed",
    }
}
