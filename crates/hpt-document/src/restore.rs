//! `hpt restore`: settings of the machine that were restored.

use serde::{Deserialize, Serialize};

use crate::head::Head;

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

/// What became of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RestoreOutcome {
    /// It was restored.
    PutBack,
    /// It already had the value it had before.
    WasBack,
    /// Another process changed it since: it was left alone.
    ChangedSince,
    /// It could not be restored.
    Failed,
    /// Nothing was tried.
    Listed,
}

impl RestoreOutcome {
    /// The word that documents use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PutBack => "put-back",
            Self::WasBack => "was-back",
            Self::ChangedSince => "changed-since",
            Self::Failed => "failed",
            Self::Listed => "listed",
        }
    }
}
