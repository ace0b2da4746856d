//! The document of `hpt doctor --try`: fixes that were tried, and whether a measurement shows that they help.

use serde::{Deserialize, Serialize};

use crate::{doctor::Goal, head::Head, words::word_enum};

/// Fixes that were applied and undone in alternating rounds, and the effect of each on a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt doctor --try: fixes, and the measured effect of each"))]
pub struct DoctorTryDocument {
    /// The keys at the start of the document: `schema`, `kind`, `hpt` and `machine`.
    #[serde(flatten)]
    pub head: Head,
    /// The use of the machine, which determines the fixes.
    pub goal: Goal,
    /// The CPU of the time-critical thread.
    pub cpu: usize,
    /// The command line of the measurement.
    pub measurement: String,
    /// The figure of the measurement that is compared: `mean`, `max`, `read`, or a quantile such as `p99`.
    pub figure: String,
    /// The time limit of the whole run, in seconds.
    pub duration_s: f64,
    /// The duration of the whole run, in seconds.
    pub elapsed_s: f64,
    /// Number of rounds in which each fix is on.
    pub rounds: u64,
    /// Whether Ctrl-C or another signal ended the run early.
    pub interrupted: bool,
    /// The median of the figure without any fix, in nanoseconds; null if nothing was measured.
    pub baseline_ns: Option<f64>,
    /// The interquartile range of the figure without any fix, in nanoseconds; null if nothing was measured.
    pub baseline_spread_ns: Option<f64>,
    /// The median of the figure with all fixes that are worth keeping, in nanoseconds; null if there are none.
    pub result_ns: Option<f64>,
    /// Whether the fixes that are worth keeping stay in effect until the machine reboots (--keep).
    pub kept_until_reboot: bool,
    /// The fixes: first those that are worth keeping, the best one first, and then the others.
    pub results: Vec<TriedFix>,
    /// The files that --output wrote.
    pub files: Vec<String>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// A fix, and its effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TriedFix {
    /// The name of the fix, which is stable across versions.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^[a-z-]+$")))]
    pub fix: String,
    /// The name of the rule that found the problem.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^[a-z-]+$")))]
    pub rule: String,
    /// A description of the fix in a few words.
    pub text: String,
    /// The settings that the fix changes; empty if it changes no file.
    pub settings: Vec<TriedSetting>,
    /// The verdict on the fix.
    pub verdict: TryVerdict,
    /// Whether the fix is worth keeping: it is helpful, even together with better fixes.
    pub keep: bool,
    /// The median of the figure in the rounds without the fix, in nanoseconds; null if it was not measured.
    pub off_ns: Option<f64>,
    /// The median of the figure in the rounds with the fix, in nanoseconds; null if it was not measured.
    pub on_ns: Option<f64>,
    /// The probability of a difference like this, or a larger one, if the fix had no effect: the two-sided exact rank-sum
    /// test. Null if there are no rounds to compare.
    pub p_value: Option<f64>,
    /// The figure in each round without the fix, in nanoseconds.
    pub off_rounds_ns: Vec<f64>,
    /// The figure in each round with the fix, in nanoseconds.
    pub on_rounds_ns: Vec<f64>,
    /// The better fixes that were on while this fix was compared.
    pub on_top_of: Vec<String>,
    /// Why the verdict is what it is; null if the figures say it all.
    pub reason: Option<String>,
}

/// A setting that a fix changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TriedSetting {
    /// The file that contains the setting.
    pub path: String,
    /// The value before the change; null if it cannot be read.
    pub original_value: Option<String>,
    /// The value with the fix.
    pub value: String,
}

word_enum! {
    /// The verdict on a fix.
    pub enum TryVerdict {
        /// The figure is better with the fix, by more than the spread between rounds.
        Helpful = "helpful",
        /// The difference is not larger than the spread between rounds.
        WithinSpread = "within-spread",
        /// The figure is worse with the fix, by more than the spread between rounds.
        Worse = "worse",
        /// The fix cannot be applied on this machine.
        NotPossible = "not-possible",
        /// There are too few rounds for a verdict.
        Unknown = "unknown",
    }
}
