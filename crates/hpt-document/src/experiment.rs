//! The document of `hpt experiment`: published measurements compared with measurements on this machine.

use serde::{Deserialize, Serialize};

use crate::{head::Head, not_run::NotRun, thread::Thread, words::word_enum};

/// Published measurements compared with measurements on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "schema",
    schemars(title = "hpt experiment: published measurements compared with measurements on this machine")
)]
pub struct ExperimentDocument {
    /// The keys at the start of the document: `schema`, `kind`, `hpt` and `machine`.
    #[serde(flatten)]
    pub head: Head,
    /// The CPU of the measuring thread; null if it was not pinned or nothing was measured.
    pub cpu: Option<usize>,
    /// The scheduling settings of the measuring thread, which apply unless an experiment states other settings; null if
    /// nothing was measured.
    pub thread: Option<Thread>,
    /// Whether Ctrl-C or another signal ended the run early.
    pub interrupted: bool,
    /// The time that the measuring thread needed its CPU, but did not get it.
    #[serde(default)]
    pub not_run: NotRun,
    /// The experiments, with their parts.
    pub experiments: Vec<ExperimentRow>,
    /// The results of all experiments.
    pub results: Vec<ExperimentFigureRow>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// A published measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentRow {
    /// The name of the experiment.
    pub name: String,
    /// The measured quantity.
    pub title: String,
    /// The publication that the measurement comes from.
    pub published_in: String,
    /// The hardware of the published measurement.
    pub hardware: String,
    /// The differences between hpt's measurement and the published one.
    pub differences: String,
    /// The parts of the experiment.
    pub parts: Vec<ExperimentPartRow>,
}

/// A part of an experiment, measured in one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentPartRow {
    /// The name of the part.
    pub name: String,
    /// Number of samples that hpt takes without --short and --count. This is the published number, if it is known.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub full_count: u64,
    /// Number of samples requested.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub count: u64,
    /// Number of requested samples that come from an earlier run.
    pub resumed: u64,
    /// The expected duration, in seconds.
    pub expected_s: f64,
    /// The state of the part.
    pub state: ExperimentPartState,
}

word_enum! {
    /// The state of a part of an experiment.
    pub enum ExperimentPartState {
        /// The part was not started in this run.
        NotStarted = "not-started",
        /// The part was measured in this run.
        Measured = "measured",
        /// The part ended early.
        Interrupted = "interrupted",
        /// The results of the part come from an earlier run.
        Resumed = "resumed",
        /// The part could not be measured. Its results state the reason.
        Failed = "failed",
    }
}

/// One result: the published and the measured value of a quantity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentFigureRow {
    /// The experiment that the result belongs to.
    pub experiment: String,
    /// The measured quantity.
    pub quantity: String,
    /// The unit of all values in the row.
    pub unit: String,
    /// The published value; null if there is none.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub published: Option<f64>,
    /// The value measured on this machine; null if it was not measured.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub measured: Option<f64>,
    /// Whether the measured value is a quantile beyond which fewer than ten samples lie. The value is present
    /// nevertheless, because the publication states this quantile.
    #[serde(default)]
    pub has_few_samples: bool,
    /// The part of the time during which the thread was ready but did not run, from 0 to 1, while the value was
    /// measured; null if the kernel does not report it, or if the value was not measured in this run.
    pub not_run_share: Option<f64>,
    /// Whether the value was measured.
    pub state: FigureState,
    /// Number of samples of the measured value.
    pub samples: u64,
    /// The median of the measured distribution, in the unit of the row; null if there is no distribution.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub p50: Option<f64>,
    /// The 99th percentile of the measured distribution, in the unit of the row; null if there is no distribution, or
    /// if fewer than ten samples are above it.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub p99: Option<f64>,
    /// The maximum of the measured distribution, in the unit of the row; null if there is no distribution.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub max: Option<f64>,
    /// The measured distribution; empty if there is none.
    pub distribution: Vec<LengthCount>,
    /// The source that the value was measured with. If the value was not measured, the reason and the requirements for
    /// measuring it.
    pub method: String,
}

word_enum! {
    /// Whether a value was measured.
    #[derive(Default)]
    pub enum FigureState {
        /// The value was measured.
        #[default]
        Measured = "measured",
        /// The value cannot be measured on this machine or by this user.
        Unavailable = "unavailable",
        /// The value applies only to other machines.
        NotApplicable = "not-applicable",
        /// The run ended before the value was measured.
        NotMeasured = "not-measured",
    }
}

/// Number of samples of one duration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LengthCount(
    /// The duration, in the unit of the row, with at least three significant digits.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub f64,
    /// Number of samples of that duration.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub u64,
);
