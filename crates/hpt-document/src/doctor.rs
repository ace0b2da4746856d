//! `hpt doctor`: what impairs latency and timekeeping on a machine.

use serde::{Deserialize, Serialize};

use crate::{head::Head, words::word_enum};

/// The problems that impair latency and timekeeping on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt doctor: what impairs latency and timekeeping"))]
pub struct DoctorDocument {
    /// The first keys of every document.
    #[serde(flatten)]
    pub head: Head,
    /// The CPU to be dedicated to one thread; null if no CPU was named.
    pub cpu: Option<usize>,
    /// Whether a problem of high or low severity was observed. Null if no problem was observed, but a problem is likely
    /// or the verdict of a rule is unknown.
    pub problems_found: Option<bool>,
    /// Number of problems of high severity.
    pub high: u64,
    /// Number of problems of low severity.
    pub low: u64,
    /// Number of findings without an effect on latency.
    pub info: u64,
    /// Every rule, with its verdict.
    pub rules: Vec<DoctorRule>,
    /// The results of a short measurement; null if no measurement was requested.
    pub measured: Option<Vec<DoctorMeasurement>>,
    /// Whether a signal ended the measurement early.
    pub interrupted: bool,
    /// The checks that require root.
    pub needs_root: Vec<String>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// A rule and its verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DoctorRule {
    /// The name of the rule, which is stable across versions.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^[a-z-]+$")))]
    pub rule: String,
    /// The category that the rule belongs to.
    pub theme: String,
    /// The problem in a few words, whether or not it was found.
    pub title: String,
    /// The subject of the check, in a few words.
    pub about: String,
    /// The verdict of the rule.
    pub verdict: DoctorVerdict,
    /// The severity of the finding; null if there is no finding.
    pub severity: Option<DoctorSeverity>,
    /// Whether the finding was observed. False if it is inferred from common defaults; null if there is no finding.
    pub certain: Option<bool>,
    /// The observation, or the reason why there is none.
    pub observed: String,
    /// Why the problem matters.
    pub why: String,
    /// The programs or threads that are affected.
    pub affects: String,
    /// How to fix the problem, the best way first; empty if there is no finding.
    pub fixes: Vec<DoctorFix>,
    /// Further reading: the kernel's documentation, manual pages.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub references: Vec<String>,
}

word_enum! {
    /// A rule's verdict.
    pub enum DoctorVerdict {
        /// A problem or a note.
        Problem = "problem",
        /// No problem.
        Pass = "pass",
        /// The rule does not apply to this machine.
        NotApplicable = "not-applicable",
        /// The verdict cannot be determined.
        Unknown = "unknown",
    }
}

word_enum! {
    /// The severity of a finding.
    pub enum DoctorSeverity {
        /// A delay of a millisecond or more, or wrong time.
        High = "high",
        /// A delay of less than a millisecond.
        Low = "low",
        /// No effect on latency.
        Info = "info",
    }
}

/// A way to fix a problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DoctorFix {
    /// A description.
    pub text: String,
    /// The commands to run. Words in capitals are placeholders.
    pub commands: Vec<String>,
}

/// The result of one short measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DoctorMeasurement {
    /// The measured quantity.
    pub what: String,
    /// The rules whose findings the measurement supports.
    pub rules: Vec<String>,
    /// The result, with sample count, duration, CPU and scheduling policy.
    pub result: String,
}
