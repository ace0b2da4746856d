//! The document of `hpt restore`: system settings that hpt changed, and the result of restoring them.

use serde::{Deserialize, Serialize};

use crate::{head::Head, words::word_enum};

/// System settings that hpt changed, and the result of restoring them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt restore: restored settings"))]
pub struct RestoreDocument {
    /// The keys at the start of the document: `schema`, `kind`, `hpt` and `machine`.
    #[serde(flatten)]
    pub head: Head,
    /// The path of the journal, in which hpt records each setting before changing it.
    pub journal: String,
    /// Whether the journal is from an earlier boot and therefore no longer valid.
    pub from_other_boot: bool,
    /// The settings in the journal.
    pub settings: Vec<RestoredSetting>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// One system setting that hpt changed.
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
    /// The value that hpt found before it restored the setting. With --list, the value that hpt set. Null if the
    /// setting already had its original value, or if the value is unknown.
    pub changed_value: Option<String>,
    /// The result of restoring the setting.
    pub outcome: RestoreOutcome,
    /// The reason why the setting was not restored.
    pub reason: Option<String>,
}

word_enum! {
    /// The result of restoring one setting.
    pub enum RestoreOutcome {
        /// The setting was restored.
        Restored = "restored",
        /// The setting already had its original value.
        AlreadyRestored = "already-restored",
        /// Another process changed the setting after hpt did. Therefore, hpt did not restore it.
        ChangedSince = "changed-since",
        /// The setting could not be restored.
        Failed = "failed",
        /// The setting was only listed; hpt did not try to restore it.
        Listed = "listed",
    }
}
