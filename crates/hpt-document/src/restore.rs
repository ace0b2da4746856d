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
    /// Whether the journal is from an earlier boot and therefore no longer valid.
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
    /// The name of the setting.
    pub setting: String,
    /// The file that contains the setting.
    pub path: String,
    /// The command that changed the setting.
    pub changed_by: String,
    /// The value before the change.
    pub original_value: String,
    /// The value before the restore, or the changed value in the journal; null if the value is unknown.
    pub changed_value: Option<String>,
    /// The result.
    pub outcome: RestoreOutcome,
    /// Why the setting was not restored.
    pub reason: Option<String>,
}

word_enum! {
    /// The result of restoring one setting.
    pub enum RestoreOutcome {
        /// It was restored.
        Restored = "restored",
        /// It already had its original value.
        AlreadyRestored = "already-restored",
        /// Another process changed the setting after hpt did, so hpt did not restore it.
        ChangedSince = "changed-since",
        /// It could not be restored.
        Failed = "failed",
        /// The setting was only listed; hpt did not try to restore it.
        Listed = "listed",
    }
}
