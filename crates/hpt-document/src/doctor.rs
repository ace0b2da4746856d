//! The document of `hpt doctor`: the problems that impair latency and timekeeping on a machine.

use serde::{Deserialize, Serialize};

use crate::{head::Head, words::word_enum};

/// The problems that impair latency and timekeeping on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt doctor: problems that impair latency and timekeeping"))]
pub struct DoctorDocument {
    /// The keys at the start of the document: `schema`, `kind`, `hpt` and `machine`.
    #[serde(flatten)]
    pub head: Head,
    /// The CPU that is to be dedicated to one thread; null if no CPU was specified.
    pub cpu: Option<usize>,
    /// Whether a problem of high or low severity was observed. Null if no problem was observed, but a problem is
    /// likely, or a verdict is unknown for a reason other than missing root privileges.
    pub problems_found: Option<bool>,
    /// Number of problems of high severity.
    pub high: u64,
    /// Number of problems of low severity.
    pub low: u64,
    /// Number of findings without an effect on latency.
    pub info: u64,
    /// All rules, each with its verdict.
    pub rules: Vec<DoctorRule>,
    /// The results of short measurements; null if no measurement was requested.
    pub measured: Option<Vec<DoctorMeasurement>>,
    /// Whether Ctrl-C or another signal ended the measurement early.
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
    /// The category of the rule.
    pub theme: String,
    /// The problem in a few words, whether or not it was found.
    pub title: String,
    /// The subject of the check, in a few words.
    pub about: String,
    /// The verdict of the rule.
    pub verdict: DoctorVerdict,
    /// The severity of the finding; null if there is no finding.
    pub severity: Option<DoctorSeverity>,
    /// Whether the finding was observed (true) or inferred from common defaults (false); null if there is no finding.
    pub certain: Option<bool>,
    /// The observation, or the reason why there is none.
    pub observed: String,
    /// The reason why the problem matters.
    pub why: String,
    /// The programs or threads that are affected.
    pub affects: String,
    /// The ways to fix the problem, the best one first; empty if there is no finding.
    pub fixes: Vec<DoctorFix>,
    /// Further reading, such as the kernel's documentation and manual pages.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub references: Vec<String>,
}

word_enum! {
    /// The verdict of a rule.
    pub enum DoctorVerdict {
        /// The rule found a problem, or something that has no effect on latency but is worth knowing.
        Problem = "problem",
        /// The rule found no problem.
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
        /// Delays of a millisecond or more, or incorrect time.
        High = "high",
        /// Delays of less than a millisecond.
        Low = "low",
        /// No effect on latency.
        Info = "info",
    }
}

/// A way to fix a problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DoctorFix {
    /// A description of the fix.
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
    /// The result as text, with the number of samples, the duration, the CPU and the scheduling policy.
    pub result: String,
}
