//! `hpt report`: a set of measurements.

use serde::{Deserialize, Serialize};

use crate::{head::Machine, words::word_enum};

/// A set of measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt report: a chosen set of measurements"))]
pub struct ReportDocument {
    /// The version of the document layout.
    pub schema: u32,
    /// The kind of document.
    pub kind: String,
    /// The version of hpt that made the report.
    pub hpt: String,
    /// The name that the user gave the machine; null without --name.
    pub name: Option<String>,
    /// The machine.
    pub machine: Machine,
    /// The emulator that runs the machine, if its hypervisor or board identifies it.
    pub emulated_by: Option<String>,
    /// When the first part started, as wall-clock time (RFC 3339).
    pub started_at: String,
    /// The total duration.
    pub elapsed_s: f64,
    /// Whether Ctrl-C or another signal ended the run early.
    pub interrupted: bool,
    /// The measurements, in the order in which they were made.
    pub parts: Vec<ReportPart>,
    /// The document of each part, as its command prints it with --format json. The kind of a document determines its
    /// schema.
    pub documents: serde_json::Map<String, serde_json::Value>,
    /// Further remarks on the report.
    pub notes: Vec<String>,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportPart {
    /// The name of the part, which is also the name of its document.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::report_parts))]
    pub name: String,
    /// The command line of the same measurement.
    pub command: String,
    /// Its state.
    pub state: ReportPartState,
    /// Why the part failed.
    pub reason: Option<String>,
    /// Its duration.
    pub elapsed_s: f64,
}

word_enum! {
    /// The state of a part.
    pub enum ReportPartState {
        /// It was measured.
        Measured = "measured",
        /// It ended early.
        Interrupted = "interrupted",
        /// It was not started.
        NotStarted = "not-started",
        /// It could not be measured.
        Failed = "failed",
    }
}
