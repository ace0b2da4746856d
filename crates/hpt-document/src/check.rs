//! The document of `hpt check`: steps with limits, and the verdicts.

use serde::{Deserialize, Serialize};

use crate::{head::Head, limit::LimitRow, words::word_enum};

/// The steps of a check file, each with its limits and the verdicts on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt check: steps with limits, and the verdicts"))]
pub struct CheckDocument {
    /// The keys at the start of the document: `schema`, `kind`, `hpt` and `machine`.
    #[serde(flatten)]
    pub head: Head,
    /// The file that contains the steps. With --init, the file that was written.
    pub file: String,
    /// Whether the limits were derived from this run and written to the file (--init).
    pub init: bool,
    /// The wall-clock time at which the first step started, in UTC.
    pub started_at: String,
    /// The total duration, in seconds.
    pub elapsed_s: f64,
    /// Whether Ctrl-C or another signal ended the run early.
    pub interrupted: bool,
    /// The worst verdict of all steps. `exceeded` is worse than `unknown`.
    pub verdict: CheckVerdict,
    /// The steps, in the order in which they ran.
    pub steps: Vec<CheckStep>,
    /// One row for each limit of each step.
    pub results: Vec<CheckRow>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// A step: one measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckStep {
    /// The name of the step.
    pub name: String,
    /// The command line that makes the same measurement.
    pub command: String,
    /// The state of the step.
    pub state: CheckStepState,
    /// The worst verdict of the step.
    pub verdict: CheckVerdict,
    /// Why the step has no result, or why its verdict is worse than that of its limits; null otherwise.
    pub reason: Option<String>,
    /// The duration of the step, in seconds.
    pub elapsed_s: f64,
    /// The document that the command of the step prints with --format json; null if the step has no result.
    pub document: Option<serde_json::Value>,
}

/// The verdict on a limit of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckRow {
    /// The name of the step.
    pub step: String,
    /// The limit and its verdict.
    #[serde(flatten)]
    pub limit: LimitRow,
}

word_enum! {
    /// The state of a step.
    pub enum CheckStepState {
        /// The step was measured.
        Measured = "measured",
        /// The step ended early.
        Interrupted = "interrupted",
        /// The step was not started.
        NotStarted = "not-started",
        /// The step could not be measured.
        Failed = "failed",
    }
}

word_enum! {
    /// The worst verdict of several limits.
    pub enum CheckVerdict {
        /// All limits held.
        Held = "held",
        /// At least one limit was exceeded, or the command of a step had a negative answer.
        Exceeded = "exceeded",
        /// No limit was exceeded, but the verdict on one is unknown.
        Unknown = "unknown",
    }
}
