//! `hpt report --compare`: two reports compared.

use serde::{Deserialize, Serialize};

use crate::{head::Machine, words::word_enum};

/// Two reports compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt report --compare: two reports compared"))]
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
    /// Number of values whose ranges do not overlap.
    pub differing: usize,
    /// All values of both reports.
    pub results: Vec<ComparedFigureRow>,
    /// Rules of `hpt doctor` with different verdicts.
    pub rules: Vec<ComparedRuleRow>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// One of the two reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedReport {
    /// The name of the report in the comparison.
    pub name: String,
    /// The title of the report.
    pub title: String,
    /// When the report was started (RFC 3339).
    pub started_at: String,
    /// The version of hpt that made the report.
    pub hpt: String,
    /// Whether Ctrl-C or another signal ended the run early.
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
    /// The part of the reports.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::report_parts))]
    pub part: String,
    /// The measured quantity.
    pub quantity: String,
    /// The unit of all values of the row.
    pub unit: String,
    /// The first value: the median if there is one, otherwise the mean. For a rate, the middle of its bounds.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub first: Option<f64>,
    /// The lower end of the range of the first value: p50, or the lowest possible rate.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub first_low: Option<f64>,
    /// The upper end of the range of the first value: p99, or the highest possible rate.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub first_high: Option<f64>,
    /// Number of samples of the first value.
    pub first_samples: Option<u64>,
    /// The second value, chosen like the first value.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub second: Option<f64>,
    /// The lower end of the range of the second value.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub second_low: Option<f64>,
    /// The upper end of the range of the second value.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub second_high: Option<f64>,
    /// Number of samples of the second value.
    pub second_samples: Option<u64>,
    /// The second value divided by the first; null for rates.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub ratio: Option<f64>,
    /// Whether the two values differ.
    pub verdict: CompareVerdict,
}

word_enum! {
    /// Whether two values differ.
    pub enum CompareVerdict {
        /// Their ranges do not overlap.
        Differs = "differs",
        /// Their ranges overlap.
        WithinSpread = "within spread",
        /// At least one value has no range.
        SpreadUnknown = "no spread known",
        /// Both values are frequency errors, but relative to different nominal rates.
        DifferentNominalRates = "different nominal rates",
        /// Only the first report has the value.
        OnlyFirst = "only in the first",
        /// Only the second report has the value.
        OnlySecond = "only in the second",
    }
}

/// A rule of `hpt doctor` with different verdicts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedRuleRow {
    /// The name of the rule.
    pub rule: String,
    /// The subject of the rule.
    pub about: String,
    /// The verdict in the first report; null if that report does not contain the rule.
    pub first: Option<String>,
    /// Its verdict in the second report.
    pub second: Option<String>,
}
