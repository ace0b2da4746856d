//! The document of `hpt report --compare`: a comparison of two or more reports.

use serde::{Deserialize, Serialize};

use crate::{head::Machine, report::ReportConditions, words::word_enum};

/// A comparison of two or more reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt report --compare: a comparison of two or more reports"))]
pub struct ReportCompareDocument {
    /// The version of the document layout.
    pub schema: u32,
    /// The kind of document.
    pub kind: String,
    /// The version of hpt that made the comparison.
    pub hpt: String,
    /// The reports, in the order of the command line. The first one is the reference for ratios and verdicts.
    #[cfg_attr(feature = "schema", schemars(length(min = 2)))]
    pub reports: Vec<ComparedReport>,
    /// Number of quantities of which at least one value differs from the first report, that is, whose intervals do
    /// not overlap.
    pub differing: usize,
    /// Number of quantities in the reports.
    pub quantities: usize,
    /// One row for each value: the rows of one quantity are adjacent, in the order of the reports.
    pub results: Vec<ComparedFigureRow>,
    /// The reports in the order of their worst wake-up latency, the best one first. Reports without this value come last,
    /// in the order of their problems.
    pub ranking: Vec<RankedReport>,
    /// The settings that differ between the reports.
    pub settings: Vec<ComparedSettingRow>,
    /// The conditions of the measurements that differ, such as the load of the system.
    #[serde(default)]
    pub conditions: Vec<ComparedSettingRow>,
    /// The rules of `hpt doctor` with different verdicts.
    pub rules: Vec<ComparedRuleRow>,
    /// Settings that separate the slowest reports from the others, as text. A setting that coincides with a difference is
    /// not necessarily its cause.
    pub coincidences: Vec<String>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// One of the reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedReport {
    /// The name of the report in this comparison.
    pub name: String,
    /// The title of the report.
    pub title: String,
    /// The wall-clock time at which the report was started (RFC 3339).
    pub started_at: String,
    /// The version of hpt that created the report.
    pub hpt: String,
    /// Whether Ctrl-C or another signal ended the run of the report early.
    pub interrupted: bool,
    /// The emulator that ran the machine, if the emulator is known.
    pub emulated_by: Option<String>,
    /// The settings of the system that affect latency, and its load; null in reports of older versions.
    pub conditions: Option<ReportConditions>,
    /// The machine that the report describes.
    pub machine: Machine,
}

/// The value of one quantity in one report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedFigureRow {
    /// The part of the reports that contains the quantity.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::report_parts))]
    pub part: String,
    /// The measured quantity.
    pub quantity: String,
    /// The unit of all values in the row.
    pub unit: String,
    /// The name of the report.
    pub report: String,
    /// The value: the median if there is one, otherwise the mean or the only value. For a frequency error, the midpoint of
    /// its range. Null if the report does not contain the value.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub value: Option<f64>,
    /// The lower end of the interval that contains the value.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub low: Option<f64>,
    /// The upper end of the interval that contains the value.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub high: Option<f64>,
    /// The maximum; null if the report does not contain it.
    pub max: Option<f64>,
    /// Number of samples of the value.
    pub samples: Option<u64>,
    /// The value divided by the value of the first report; null for frequency errors, if either value is missing, or if
    /// the first value is not positive.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub ratio: Option<f64>,
    /// The ratio to the value of the first report, or its reciprocal, from which on a difference would be seen; null
    /// without intervals.
    #[serde(default)]
    pub resolution: Option<f64>,
    /// The verdict on whether the value differs from that of the first report.
    pub verdict: CompareVerdict,
    /// Whether the value is an outlier: at least three reports have the quantity, and the value is further from the
    /// median of all than 3.5 times the usual distance, and at least 1.5 times as large or as small.
    pub outlier: bool,
}

word_enum! {
    /// The verdict on whether a value differs from that of the first report.
    pub enum CompareVerdict {
        /// The report is the first one.
        Reference = "reference",
        /// The intervals of the values do not overlap.
        Differs = "differs",
        /// The intervals of the values overlap. The values may differ by less than `resolution`.
        NotShown = "no difference shown",
        /// At least one value has no interval: there are too few independent bursts, or hpt has no method for it.
        NoInterval = "no interval",
        /// Both values are frequency errors, but they are relative to different nominal rates.
        DifferentNominalRates = "different nominal rates",
        /// This report does not have the value.
        Missing = "missing",
        /// The first report does not have the value.
        NoReference = "not in the first",
    }
}

/// The place of one report in the ranking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankedReport {
    /// The place, beginning with 1; reports with the same value share a place.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub place: usize,
    /// The name of the report.
    pub report: String,
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
    /// Whether the maximum wake-up latency is an outlier among the reports.
    pub outlier: bool,
}

/// A setting that differs between the reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedSettingRow {
    /// The name of the setting.
    pub setting: String,
    /// The value in each report, in the order of the reports; null if the report does not contain the setting.
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
    /// The verdict in each report, in the order of the reports; for a problem, the severity and the observation. Null if
    /// the report does not contain the rule.
    pub verdicts: Vec<Option<String>>,
}
