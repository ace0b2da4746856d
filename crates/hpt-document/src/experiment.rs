//! `hpt experiment`: published measurements compared with measurements on this machine.

use serde::{Deserialize, Serialize};

use crate::{head::Head, thread::Thread, words::word_enum};

/// Published measurements compared with measurements on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "schema",
    schemars(title = "hpt experiment: published measurements compared with measurements on this machine")
)]
pub struct ExperimentDocument {
    /// The first keys of every document.
    #[serde(flatten)]
    pub head: Head,
    /// The CPU of the measuring thread; null if it was not pinned or nothing was measured.
    pub cpu: Option<usize>,
    /// The scheduling settings of the thread, unless an experiment states different settings; null if nothing was
    /// measured.
    pub thread: Option<Thread>,
    /// Whether Ctrl-C or another signal ended the run early.
    pub interrupted: bool,
    /// The experiments.
    pub experiments: Vec<ExperimentRow>,
    /// All results.
    pub results: Vec<ExperimentFigureRow>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// A published measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentRow {
    /// Its name.
    pub name: String,
    /// The measured quantity.
    pub title: String,
    /// The publication that the measurement comes from.
    pub published_in: String,
    /// The hardware of the published measurement.
    pub hardware: String,
    /// How hpt's measurement differs from the published one.
    pub differences: String,
    /// Its parts.
    pub parts: Vec<ExperimentPartRow>,
}

/// A part of an experiment, measured in one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentPartRow {
    /// Its name.
    pub name: String,
    /// Number of samples that hpt takes without --short and --count: the published number, if it is known.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub full_count: u64,
    /// Number of samples requested.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub count: u64,
    /// Number of these samples that an earlier run measured.
    pub resumed: u64,
    /// The expected duration.
    pub expected_s: f64,
    /// Its state.
    pub state: ExperimentPartState,
}

word_enum! {
    /// The state of a part.
    pub enum ExperimentPartState {
        /// It was not started.
        NotStarted = "not-started",
        /// It was measured in this run.
        Measured = "measured",
        /// It ended early.
        Interrupted = "interrupted",
        /// Its results come from an earlier run.
        Resumed = "resumed",
        /// It could not be measured; the results of the part state the reason.
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
    /// The unit of all values of the row.
    pub unit: String,
    /// The published value; null if there is none.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub published: Option<f64>,
    /// The value measured on this machine; null if it was not measured.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub measured: Option<f64>,
    /// Whether the value was measured.
    pub state: FigureState,
    /// Number of samples.
    pub samples: u64,
    /// The median, if there is a distribution.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub p50: Option<f64>,
    /// The 99th percentile.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub p99: Option<f64>,
    /// The maximum.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub max: Option<f64>,
    /// The distribution; empty if there is none.
    pub distribution: Vec<LengthCount>,
    /// The source that the value was measured with. If it was not measured, the reason, and what the measurement
    /// requires.
    pub method: String,
}

word_enum! {
    /// Whether a value was measured.
    #[derive(Default)]
    pub enum FigureState {
        /// It was measured.
        #[default]
        Measured = "measured",
        /// It cannot be measured on this machine or by this user.
        Unavailable = "unavailable",
        /// It applies only to other machines.
        NotApplicable = "not-applicable",
        /// The run ended before it was measured.
        NotMeasured = "not-measured",
    }
}

/// Number of samples of one duration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LengthCount(
    /// The duration in the unit of the row, with at least three digits.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub f64,
    /// Number of samples of that duration.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub u64,
);
