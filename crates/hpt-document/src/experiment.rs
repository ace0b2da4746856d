//! `hpt experiment`: published measurements compared with those of this machine.

use serde::{Deserialize, Serialize};

use crate::{head::Head, thread::Thread, words::word_enum};

/// Published measurements compared with those of this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "schema",
    schemars(title = "hpt experiment: published measurements compared with those of this machine")
)]
pub struct ExperimentDocument {
    /// The first keys of every document.
    #[serde(flatten)]
    pub head: Head,
    /// The CPU that the measuring thread stayed on; null if it was not pinned or nothing was
    /// measured.
    pub cpu: Option<usize>,
    /// The thread's scheduling settings, unless an experiment states others; null if nothing was
    /// measured.
    pub thread: Option<Thread>,
    /// Whether Ctrl-C or another signal ended it early.
    pub interrupted: bool,
    /// The experiments.
    pub experiments: Vec<ExperimentRow>,
    /// Every figure.
    pub results: Vec<ExperimentFigureRow>,
    /// What else to know about the result.
    pub notes: Vec<String>,
}

/// A published measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentRow {
    /// Its name.
    pub name: String,
    /// What it measures.
    pub title: String,
    /// Where it was published.
    pub published_in: String,
    /// The hardware it was made on.
    pub hardware: String,
    /// What hpt does differently.
    pub differs: String,
    /// The parts it is made in.
    pub parts: Vec<ExperimentPartRow>,
}

/// A part of an experiment that is measured in one go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentPartRow {
    /// Its name.
    pub name: String,
    /// Number of samples without --short and --count: as many as were published, if that is known.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub full_count: u64,
    /// Number of samples requested.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub count: u64,
    /// How many of these an earlier run made.
    pub taken_up: u64,
    /// About how long that takes.
    pub expected_s: f64,
    /// What became of it.
    pub state: ExperimentPartState,
}

word_enum! {
    /// What became of a part.
    pub enum ExperimentPartState {
        /// It was not started.
        NotBegun = "not begun",
        /// It was measured in this run.
        Measured = "measured",
        /// It ended early.
        Interrupted = "interrupted",
        /// Its figures come from an earlier run.
        TakenUp = "taken up",
        /// It could not be measured; its figures say why.
        Failed = "failed",
    }
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentFigureRow {
    /// The experiment it belongs to.
    pub experiment: String,
    /// What it measures.
    pub what: String,
    /// The unit of all figures of the row.
    pub unit: String,
    /// The published figure; null if there is none.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub published: Option<f64>,
    /// This machine's figure; null if it was not measured.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub measured: Option<f64>,
    /// Whether it was measured.
    pub state: FigureState,
    /// Number of samples.
    pub samples: u64,
    /// The median, if there is a distribution.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub p50: Option<f64>,
    /// 99 % are at most this.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub p99: Option<f64>,
    /// The largest.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub max: Option<f64>,
    /// The distribution; empty if there is none.
    pub distribution: Vec<LengthCount>,
    /// The source it was measured with; or why it was not measured, and what that would take.
    pub how: String,
}

word_enum! {
    /// Whether a figure was measured.
    #[derive(Default)]
    pub enum FigureState {
        /// It was measured.
        #[default]
        Measured = "measured",
        /// It cannot be measured on this machine or by this user.
        Missing = "missing",
        /// It belongs to other machines.
        Elsewhere = "elsewhere",
        /// hpt did not get that far.
        NotMade = "not-made",
    }
}

/// How many samples have one length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LengthCount(
    /// The length in the unit of the row, to three digits at least.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub f64,
    /// Number of samples of that length.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub u64,
);
