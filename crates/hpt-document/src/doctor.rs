//! `hpt doctor`: what impairs latency and timekeeping on a machine.

use serde::{Deserialize, Serialize};

use crate::{head::Head, words::word_enum};

/// What impairs latency and timekeeping on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt doctor: what impairs latency and timekeeping"))]
pub struct DoctorDocument {
    /// The first keys of every document.
    #[serde(flatten)]
    pub head: Head,
    /// The CPU to be dedicated to one thread; null if none was named.
    pub cpu: Option<usize>,
    /// Whether a major or minor problem was seen. Null if none was, but one is likely or a rule
    /// could not be decided.
    pub in_the_way: Option<bool>,
    /// Problems that cost a millisecond or more, or make time wrong.
    pub major: u64,
    /// Problems that cost less.
    pub minor: u64,
    /// Findings that cost no latency.
    pub to_know: u64,
    /// Every rule, whatever its verdict.
    pub rules: Vec<DoctorRule>,
    /// The results of a short measurement; null if none was requested.
    pub measured: Option<Vec<DoctorMeasurement>>,
    /// Whether a signal ended the measurement early.
    pub interrupted: bool,
    /// What more permissions would reveal.
    pub root_would_be_told: Vec<String>,
    /// What else to know about the result.
    pub notes: Vec<String>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DoctorRule {
    /// Its name, which does not change.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^[a-z-]+$")))]
    pub rule: String,
    /// The heading it belongs to.
    pub theme: String,
    /// What it examines.
    pub about: String,
    /// Its verdict.
    pub verdict: DoctorVerdict,
    /// How much the finding costs; null if there is none.
    pub severity: Option<DoctorSeverity>,
    /// Whether the finding was observed; false if it follows from the usual defaults. Null if there
    /// is none.
    pub certain: Option<bool>,
    /// What was observed, or why there is nothing to observe.
    pub seen: String,
    /// Why it matters.
    pub why: String,
    /// Whom it affects.
    pub bites: String,
    /// What helps, the best first; empty if there is no finding.
    pub remedies: Vec<DoctorRemedy>,
    /// Further reading: the kernel's documentation, manual pages.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub references: Vec<String>,
}

word_enum! {
    /// A rule's verdict.
    pub enum DoctorVerdict {
        /// A problem, or something to know.
        Found = "found",
        /// As it should be.
        Fine = "fine",
        /// There is nothing of the kind on this machine.
        NotHere = "not-here",
        /// It cannot be determined.
        Untold = "untold",
    }
}

word_enum! {
    /// How much a finding costs.
    pub enum DoctorSeverity {
        /// A millisecond or more, or wrong time.
        Major = "major",
        /// Less than a millisecond.
        Minor = "minor",
        /// No latency.
        ToKnow = "to-know",
    }
}

/// A way to fix a problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DoctorRemedy {
    /// In words.
    pub text: String,
    /// The commands to type; capitals are placeholders.
    pub commands: Vec<String>,
}

/// One short measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DoctorMeasurement {
    /// What was measured.
    pub what: String,
    /// The rules that it concerns.
    pub rules: Vec<String>,
    /// The result, with sample count, duration, CPU and scheduling policy.
    pub result: String,
}
