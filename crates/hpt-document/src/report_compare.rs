//! The document of `hpt report --compare`: a comparison of two reports.

use serde::{Deserialize, Serialize};

use crate::{head::Machine, words::word_enum};

/// A comparison of two reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt report --compare: a comparison of two reports"))]
pub struct ReportCompareDocument {
    /// The version of the document layout.
    pub schema: u32,
    /// The kind of document.
    pub kind: String,
    /// The version of hpt that made the comparison.
    pub hpt: String,
    /// The first report.
    pub first: ComparedReport,
    /// The second report.
    pub second: ComparedReport,
    /// Number of quantities whose values differ, that is, whose ranges do not overlap.
    pub differing: usize,
    /// One row for each quantity in either report.
    pub results: Vec<ComparedFigureRow>,
    /// The rules of `hpt doctor` with different results in the two reports.
    pub rules: Vec<ComparedRuleRow>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// One of the two reports.
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
    /// The machine that the report describes.
    pub machine: Machine,
}

/// The values of one quantity in both reports.
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
    /// The value in the first report: the median if there is one, otherwise the mean or the only value. For a frequency
    /// error, the midpoint of its range. Null if the first report does not contain the value.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub first: Option<f64>,
    /// The lower end of the range of the first value: the median, or the lowest possible frequency error.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub first_low: Option<f64>,
    /// The upper end of the range of the first value: the 99th percentile, or the highest possible frequency error.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub first_high: Option<f64>,
    /// Number of samples of the first value.
    pub first_samples: Option<u64>,
    /// The value in the second report, chosen in the same way as the first value. Null if the second report does not
    /// contain the value.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub second: Option<f64>,
    /// The lower end of the range of the second value: the median, or the lowest possible frequency error.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub second_low: Option<f64>,
    /// The upper end of the range of the second value: the 99th percentile, or the highest possible frequency error.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub second_high: Option<f64>,
    /// Number of samples of the second value.
    pub second_samples: Option<u64>,
    /// The second value divided by the first value; null for frequency errors, if a report does not contain the value,
    /// or if the first value is not positive.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub ratio: Option<f64>,
    /// The verdict on whether the two values differ.
    pub verdict: CompareVerdict,
}

word_enum! {
    /// The verdict on whether two values differ.
    pub enum CompareVerdict {
        /// The ranges of the values do not overlap.
        Differs = "differs",
        /// The ranges of the values overlap.
        WithinSpread = "within spread",
        /// At least one value has no range.
        SpreadUnknown = "no spread known",
        /// Both values are frequency errors, but they are relative to different nominal rates.
        DifferentNominalRates = "different nominal rates",
        /// Only the first report has the value.
        OnlyFirst = "only in the first",
        /// Only the second report has the value.
        OnlySecond = "only in the second",
    }
}

/// A rule of `hpt doctor` with different results in the two reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedRuleRow {
    /// The name of the rule.
    pub rule: String,
    /// The subject of the check, in a few words.
    pub about: String,
    /// The verdict in the first report; for a problem, the severity and the observation. Null if that report does not
    /// contain the rule.
    pub first: Option<String>,
    /// The verdict in the second report; for a problem, the severity and the observation. Null if that report does not
    /// contain the rule.
    pub second: Option<String>,
}
