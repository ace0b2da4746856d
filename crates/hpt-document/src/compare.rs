//! The document of `hpt compare` and `hpt report --compare`: a comparison of two or more sides.

use serde::{Deserialize, Serialize};

use crate::{head::Machine, report::ReportConditions, words::word_enum};

/// A comparison of two or more sides, each with one run or with several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt compare: a comparison of two or more sides"))]
pub struct CompareDocument {
    /// The version of the document layout.
    pub schema: u32,
    /// The kind of document.
    pub kind: String,
    /// The version of hpt that made the comparison.
    pub hpt: String,
    /// The method of the comparison.
    pub method: CompareMethod,
    /// Whether the runs of the sides were taken in turns; null with one run a side, or if a run does not state its start.
    pub in_turns: Option<bool>,
    /// The probability with which all intervals of ratios and of differences together contain the true values.
    pub confidence: f64,
    /// The sides, in the order of the command line. The first one is the reference for ratios and verdicts.
    #[cfg_attr(feature = "schema", schemars(length(min = 2)))]
    pub sides: Vec<ComparedSide>,
    /// Number of quantities of which at least one side differs from the first.
    pub differing: usize,
    /// Number of quantities of which at least one side is surely longer than the first. Only durations count.
    pub worse: usize,
    /// Number of quantities whose values could be judged.
    pub judged: usize,
    /// Number of quantities in the documents.
    pub quantities: usize,
    /// One row for each value: the rows of one quantity are adjacent, in the order of the sides.
    pub results: Vec<ComparedFigureRow>,
    /// The sides in the order of their worst wake-up latency, the best one first. Sides without this value come last,
    /// in the order of their problems.
    pub ranking: Vec<RankedSide>,
    /// The settings that differ between the sides.
    pub settings: Vec<ComparedSettingRow>,
    /// The conditions of the measurements that differ, such as the load of the system. They change from run to run.
    #[serde(default)]
    pub conditions: Vec<ComparedSettingRow>,
    /// The rules of `hpt doctor` with different verdicts.
    pub rules: Vec<ComparedRuleRow>,
    /// Settings that separate the slowest sides from the others, as text. A setting that coincides with a difference is
    /// not necessarily its cause.
    pub coincidences: Vec<String>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

word_enum! {
    /// The method of a comparison.
    pub enum CompareMethod {
        /// Each side has one run. Its intervals come from the samples, and are about this run alone.
        WithinRuns = "within-runs",
        /// Each side has at least three runs. Each run is one observation of every quantity.
        BetweenRuns = "between-runs",
    }
}

/// One of the sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedSide {
    /// The name of the side in this comparison.
    pub name: String,
    /// The file that contains the runs.
    pub file: String,
    /// Number of runs.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub runs: usize,
    /// The title of the first run.
    pub title: String,
    /// The wall-clock time at which the first run was started (RFC 3339); null if its document does not state it.
    pub started_at: Option<String>,
    /// The version of hpt that made the first run.
    pub hpt: String,
    /// Whether Ctrl-C or another signal ended one of the runs early.
    pub interrupted: bool,
    /// The emulator that ran the machine, if the emulator is known.
    pub emulated_by: Option<String>,
    /// The settings of the system that affect latency, and its load, during the first run; null if the document does not
    /// contain them.
    pub conditions: Option<ReportConditions>,
    /// The machine that was measured in the first run.
    pub machine: Machine,
}

/// The value of one quantity on one side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedFigureRow {
    /// The part of the reports that contains the quantity, or the kind of the documents without the word `latency`.
    pub part: String,
    /// The measured quantity.
    pub quantity: String,
    /// The unit of all values in the row.
    pub unit: String,
    /// The name of the side.
    pub side: String,
    /// The value of one run, or the mean of several: the geometric mean if all values are positive. For a frequency error,
    /// the midpoint of its range. Null if a run does not contain the value.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub value: Option<f64>,
    /// The value of each run that contains it.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    #[serde(default)]
    pub runs: Vec<f64>,
    /// The lower end of the interval that contains the value: of one run at 99.9 % confidence, of several at 95 %.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub low: Option<f64>,
    /// The upper end of the interval that contains the value.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub high: Option<f64>,
    /// The maximum of all runs; null if the documents do not contain it.
    pub max: Option<f64>,
    /// Number of samples of the value, in all runs.
    pub samples: Option<u64>,
    /// The value divided by the value of the first side; null for frequency errors, if either value is missing, or if
    /// the first value is not positive.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub ratio: Option<f64>,
    /// The lower end of the interval that contains the ratio.
    #[serde(default)]
    pub ratio_low: Option<f64>,
    /// The upper end of the interval that contains the ratio.
    #[serde(default)]
    pub ratio_high: Option<f64>,
    /// The ratio to the value of the first side, or its reciprocal, from which on a difference would be seen; null
    /// without an interval.
    #[serde(default)]
    pub resolution: Option<f64>,
    /// The verdict on whether the value differs from that of the first side.
    pub verdict: CompareVerdict,
    /// Whether the value is an outlier: at least three sides have the quantity, and the value is further from the
    /// median of all than 3.5 times the usual distance, and at least 1.5 times as large or as small.
    pub outlier: bool,
}

word_enum! {
    /// The verdict on whether a value differs from that of the first side.
    pub enum CompareVerdict {
        /// The side is the first one.
        Reference = "reference",
        /// The interval of the ratio or of the difference excludes equal values.
        Differs = "differs",
        /// The interval contains equal values. The values may differ by less than `resolution`.
        NotShown = "no difference shown",
        /// There are too few samples, or too few independent bursts, in at least one run.
        TooFew = "too few samples",
        /// hpt has no interval for this value from one run, as for a maximum, which one late sample decides. Three runs a
        /// side have one.
        NotJudged = "not judged",
        /// The values are maxima of runs whose numbers of samples differ by more than 5 %.
        DifferentLengths = "different lengths",
        /// Both values are frequency errors, but they are relative to different nominal rates.
        DifferentNominalRates = "different nominal rates",
        /// This side does not have the value.
        Missing = "missing",
        /// The first side does not have the value.
        NoReference = "not in the first",
    }
}

/// The place of one side in the ranking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankedSide {
    /// The place, beginning with 1; sides with the same value share a place.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub place: usize,
    /// The name of the side.
    pub side: String,
    /// The maximum wake-up latency of the kernel's timer on all measured CPUs, in nanoseconds.
    pub wake_max_ns: Option<u64>,
    /// The 99th percentile of the wake-up latency of the kernel's timer, in nanoseconds: the highest of all CPUs.
    pub wake_p99_ns: Option<u64>,
    /// The median wake-up latency of the kernel's timer, in nanoseconds: the highest of all CPUs.
    pub wake_p50_ns: Option<u64>,
    /// Time per read of the recommended source, in nanoseconds.
    pub read_cost_ns: Option<f64>,
    /// Number of problems of high and of low severity that `hpt doctor` found; null if it was not run.
    pub problems: Option<u64>,
    /// Whether the maximum wake-up latency is an outlier among the sides.
    pub outlier: bool,
}

/// A setting that differs between the sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedSettingRow {
    /// The name of the setting.
    pub setting: String,
    /// The value on each side, in the order of the sides; null if the first run of the side does not contain the setting. Several runs with different values have all of them.
    pub values: Vec<Option<String>>,
}

/// A rule of `hpt doctor` with different results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedRuleRow {
    /// The name of the rule.
    pub rule: String,
    /// The subject of the check, in a few words.
    pub about: String,
    /// The verdict on each side, in the order of the sides; for a problem, the severity and the observation. Null if
    /// the first run of the side does not contain the rule.
    pub verdicts: Vec<Option<String>>,
}
