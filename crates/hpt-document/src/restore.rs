//! `hpt restore`: settings of the machine that were restored.

use serde::{Deserialize, Serialize};

use crate::{head::Head, words::word_enum};

/// Settings of the machine that hpt changed, and what became of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt restore: restored settings"))]
pub struct RestoreDocument {
    /// The first keys of every document.
    #[serde(flatten)]
    pub head: Head,
    /// The journal's file.
    pub journal: String,
    /// Whether the journal belongs to another boot and is therefore void.
    pub of_another_boot: bool,
    /// The settings in the journal.
    pub settings: Vec<RestoredSetting>,
    /// What else to know about the result.
    pub notes: Vec<String>,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RestoredSetting {
    /// Its name.
    pub setting: String,
    /// Its file.
    pub path: String,
    /// The command that changed it.
    pub changed_by: String,
    /// Its value before the change.
    pub before: String,
    /// Its value until now, or the one in the journal; null if it is not known.
    pub left_at: Option<String>,
    /// What became of it.
    pub outcome: RestoreOutcome,
    /// Why it was not restored.
    pub reason: Option<String>,
}

word_enum! {
    /// What became of a setting.
    pub enum RestoreOutcome {
        /// It was restored.
        PutBack = "put-back",
        /// It already had the value it had before.
        WasBack = "was-back",
        /// Another process changed it since: it was left alone.
        ChangedSince = "changed-since",
        /// It could not be restored.
        Failed = "failed",
        /// Nothing was tried.
        Listed = "listed",
    }
}
