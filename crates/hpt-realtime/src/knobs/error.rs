//! Errors that occur when settings are changed or restored, or when a journal is used. Where possible, the messages
//! state how to fix the problem.

use std::{
    io,
    path::{Path, PathBuf},
};

/// The reason why a setting was not read, changed or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KnobError {
    /// The setting cannot be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        cause: io::Error,
    },
    /// The process lacks permission to change the setting, or the file system is read-only.
    #[error("no permission to write {path}; run as root, outside a container")]
    NotAllowed {
        /// The file.
        path: PathBuf,
        /// The error that the system returned.
        #[source]
        cause: io::Error,
    },
    /// The kernel refused the value.
    #[error("the kernel refused {value:?} for {path}")]
    Refused {
        /// The file.
        path: PathBuf,
        /// The requested value.
        value: String,
        /// The error that the kernel returned.
        #[source]
        cause: io::Error,
    },
    /// The kernel accepted the write, but the setting has another value.
    #[error("{path} was set to {value:?}, but the kernel changed it to {is:?}")]
    Overridden {
        /// The file.
        path: PathBuf,
        /// The requested value.
        value: String,
        /// The actual value.
        is: String,
    },
    /// This process is already changing the setting.
    #[error("this program is already changing {path}")]
    BeingChanged {
        /// The file.
        path: PathBuf,
    },
    /// Another process changed the setting before this program restored it.
    #[error(
        "another program set {path} to {is:?} during the run; that value is kept, and the entry is removed from the journal"
    )]
    ChangedSince {
        /// The file.
        path: PathBuf,
        /// The actual value.
        is: String,
    },
    /// A journal entry refers to a file that is not a known setting.
    #[error("{path} is not a setting that a journal can restore; its value was left unchanged")]
    NotASetting {
        /// The file.
        path: PathBuf,
    },
    /// A journal entry contains a value that the setting cannot have.
    #[error(
        "the journal contains {value:?} for {path}, which is not a value of this setting; its value was left unchanged"
    )]
    NotAValue {
        /// The file.
        path: PathBuf,
        /// The value.
        value: String,
    },
    /// The value is empty or has several lines.
    #[error("{value:?} is not a valid value for a setting: it must be a single line")]
    NotALine {
        /// The value.
        value: String,
    },
    /// The journal cannot be used. Without a journal, no setting is changed.
    #[error("cannot record changes to settings")]
    Journal(#[from] JournalError),
}

/// The reason why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// A journal is valid only for one boot, but the current boot cannot be identified.
    #[error("cannot read /proc/sys/kernel/random/boot_id, which identifies the current boot; mount /proc")]
    NoBootId,
    /// Another process is changing settings.
    #[error("another process is changing settings of this system (it has locked {path}); wait until it ends")]
    Busy {
        /// The file that the other process has locked.
        path: PathBuf,
    },
    /// A process was killed before it restored the setting.
    #[error("{by:?} was killed and left {path} at {is:?}; `Journal::restore` of the journal in {} restores {before:?}", journal.display())]
    LeftBehind {
        /// The setting's file.
        path: Box<str>,
        /// Its current value.
        is: String,
        /// Its original value.
        before: String,
        /// The program that left the setting changed.
        by: Box<str>,
        /// The directory of the journal that restores the setting, for [`Journal::open`](super::Journal::open).
        journal: Box<Path>,
    },
    /// The journal's file is not a journal, or is damaged.
    #[error("the journal {path} is damaged: {what}; inspect it, restore the settings in it manually, and remove it")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The problem.
        what: &'static str,
    },
    /// The journal belongs to another user, who could have written arbitrary entries.
    #[error(
        "the journal {path} belongs to user {owner}, who could use it to write to any file; inspect it, and restore the settings in it as that user or manually"
    )]
    OfAnotherUser {
        /// The file.
        path: PathBuf,
        /// The user ID.
        owner: u32,
    },
    /// Other users can write to the journal or its directory.
    #[error(
        "{path} has mode {mode:04o}: other users can write to it and could cause a restore to change any setting; inspect it, and remove that permission (chmod go-w {path})"
    )]
    WritableByOthers {
        /// The journal's file or directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The journal cannot be read or written.
    #[error("{} the journal {path}{}", what_failed(.cause), what_helps(.cause))]
    Unusable {
        /// The file or its directory.
        path: PathBuf,
        /// The reason.
        #[source]
        cause: std::io::Error,
    },
}

fn what_failed(cause: &io::Error) -> &'static str {
    if is_refused(cause) { "no permission to use" } else { "cannot use" }
}

fn what_helps(cause: &io::Error) -> &'static str {
    if is_refused(cause) { "; run as root, or as the user who changed the settings" } else { "" }
}

fn is_refused(cause: &io::Error) -> bool {
    cause.kind() == io::ErrorKind::PermissionDenied
}
