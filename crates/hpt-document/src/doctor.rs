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
    /// The use of the machine, which determines the severity of the findings.
    #[serde(default)]
    pub goal: Goal,
    /// Whether a problem of high or low severity was observed. Null if no problem was observed, but a problem is
    /// likely, or a verdict that matters for the goal is unknown for a reason other than missing root privileges.
    pub problems_found: Option<bool>,
    /// Number of problems of high severity.
    pub high: u64,
    /// Number of problems of low severity.
    pub low: u64,
    /// Number of notes: findings that do not count as problems for the goal.
    pub info: u64,
    /// The requested rules, by default all, each with its verdict.
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
    /// The goals for which the finding counts as a problem, or could if there is none. For all other goals, it is a
    /// note.
    #[serde(default)]
    pub goals: Vec<Goal>,
    /// The severity of the finding for the goal of the document; null if there is no finding.
    pub severity: Option<Severity>,
    /// Whether the finding was observed (true) or inferred from common defaults (false); null if there is no finding.
    pub certain: Option<bool>,
    /// The observation, or the reason why there is none.
    pub observed: String,
    /// The values that the rule examined: files, and system calls with the section of their manual page.
    #[serde(default)]
    pub evidence: Vec<DoctorEvidence>,
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

/// A value that a rule examined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DoctorEvidence {
    /// The file, or the system call with the section of its manual page.
    pub file: String,
    /// The CPUs whose files have this value, as a list such as `0-3`; null if the file is not that of a CPU.
    pub cpus: Option<String>,
    /// The value.
    pub value: String,
}

word_enum! {
    /// The verdict of a rule.
    pub enum DoctorVerdict {
        /// The rule found a problem or a note.
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
    /// The use of a machine.
    #[derive(Default)]
    pub enum Goal {
        /// No particular use: only faults and misconfiguration count as problems.
        #[default]
        General = "general",
        /// Accurate time and accurate intervals.
        Timekeeping = "timekeeping",
        /// Threads that must react within a bounded time.
        Realtime = "realtime",
        /// Repeatable measurements of the speed of programs.
        Benchmarks = "benchmarks",
    }
}

word_enum! {
    /// The severity of a finding.
    pub enum Severity {
        /// A note, which does not count as a problem for the goal.
        Info = "info",
        /// Delays of less than a millisecond, typically between a few and several hundred microseconds.
        Low = "low",
        /// Delays of a millisecond or more, or incorrect time.
        High = "high",
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
    /// Whether the commands are the whole fix. If not, the text describes further steps, or the commands only print
    /// information.
    #[serde(default)]
    pub commands_suffice: bool,
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
