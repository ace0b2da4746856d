//! Why a setting was not changed or put back, or a journal not used: what is missing, and what helps.
//! Tries nothing.

use std::{io, path::PathBuf};

/// Why a setting was not read, changed or put back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KnobError {
    /// The setting cannot be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// The right to change it is missing.
    #[error("{path} may not be written by this user; run as root, outside of a container")]
    NotAllowed {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// The kernel refused the value.
    #[error("the kernel refused {value:?} for {path}")]
    Refused {
        /// The file.
        path: PathBuf,
        /// The value asked for.
        value: String,
        /// What it said.
        #[source]
        cause: io::Error,
    },
    /// The kernel accepted the value and has another one.
    #[error("{path} was set to {value:?}, and the kernel has {is:?}: it overrode the wish")]
    Overridden {
        /// The file.
        path: PathBuf,
        /// The value asked for.
        value: String,
        /// The value it has.
        is: String,
    },
    /// This process is changing it already.
    #[error("{path} is being changed by this program already")]
    BeingChanged {
        /// The file.
        path: PathBuf,
    },
    /// Somebody else set it while this program had it changed.
    #[error("{path} was set to {is:?} by somebody else meanwhile: it is left alone, and the journal forgets it")]
    ChangedSince {
        /// The file.
        path: PathBuf,
        /// The value it has.
        is: String,
    },
    /// A journal names a file that hpt has no setting in.
    #[error("{path} is not a setting that hpt changes: it is left alone")]
    NotASetting {
        /// The file.
        path: PathBuf,
    },
    /// A value of several lines, or none.
    #[error("{value:?} is no value of a setting: it must be one line")]
    NotALine {
        /// The value.
        value: String,
    },
    /// The journal of changes, without which nothing is changed, does not do.
    #[error("the journal of changed settings")]
    Journal(#[from] JournalError),
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The journal is bound to a boot, and nobody tells which one this is.
    #[error("/proc/sys/kernel/random/boot_id cannot be read, and the journal is bound to this boot; mount /proc")]
    NoBootId,
    /// Another process is changing settings.
    #[error("another hpt is changing settings of this machine (it holds {path}); wait for its end")]
    Busy {
        /// The file that it locked.
        path: PathBuf,
    },
    /// A process was killed while it had the setting changed.
    #[error("{path} was left at {is:?} by {by:?}, which was killed; `{remedy}` puts {before:?} back")]
    LeftBehind {
        /// The setting's file.
        path: Box<str>,
        /// What it is set to.
        is: String,
        /// What it was set to before.
        before: String,
        /// Who left it.
        by: Box<str>,
        /// The command that puts it back.
        remedy: Box<str>,
    },
    /// The journal's file is not one, or damaged.
    #[error("the journal {path} is damaged: {what}; look at it, set by hand what it names, and remove it")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The journal belongs to another user, who may have it say anything.
    #[error(
        "the journal {path} belongs to user {owner}, who could have any file written by it; look at it, and put back what it names as that user, or by hand"
    )]
    OfSomebodyElse {
        /// The file.
        path: PathBuf,
        /// The user's number.
        owner: u32,
    },
    /// Other users can write to the journal or its folder.
    #[error(
        "{path} has mode {mode:04o}, so other users can write to it, and a journal there could make hpt write to any setting; look at it, and remove that right (chmod go-w {path})"
    )]
    WritableByOthers {
        /// The journal's file or folder.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The journal cannot be read or written.
    #[error("cannot use the journal {path}{}", what_helps(.cause))]
    Unusable {
        /// The file or its folder.
        path: PathBuf,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
}

fn what_helps(cause: &io::Error) -> &'static str {
    let is_refused = cause.kind() == io::ErrorKind::PermissionDenied;
    if is_refused { "; run as root, or as the user who changed the settings" } else { "" }
}
