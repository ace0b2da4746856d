//! `hpt restore`: system settings that were restored.

use serde::{Deserialize, Serialize};

use crate::{head::Head, words::word_enum};

/// System settings that hpt changed, and the result of restoring them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt restore: restored settings"))]
pub struct RestoreDocument {
    /// The first keys of every document.
    #[serde(flatten)]
    pub head: Head,
    /// The file of the journal, in which hpt records each setting before changing it.
    pub journal: String,
    /// Whether the journal is from an earlier boot and therefore void.
    pub from_other_boot: bool,
    /// The settings in the journal.
    pub settings: Vec<RestoredSetting>,
    /// Further remarks on the result.
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
    pub original_value: String,
    /// Its value before the restore, or the one in the journal; null if it is not known.
    pub changed_value: Option<String>,
    /// The result.
    pub outcome: RestoreOutcome,
    /// Why it was not restored.
    pub reason: Option<String>,
}

word_enum! {
    /// The result of restoring one setting.
    pub enum RestoreOutcome {
        /// It was restored.
        Restored = "restored",
        /// It already had its original value.
        AlreadyRestored = "already-restored",
        /// Another process has changed it since then, so hpt left it unchanged.
        ChangedSince = "changed-since",
        /// It could not be restored.
        Failed = "failed",
        /// Nothing was attempted.
        Listed = "listed",
    }
}
