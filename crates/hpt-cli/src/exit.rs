//! Exit codes, and failures with what helps.

use std::{
    error::Error,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use crate::render::Answer;
use hpt_core::{
    Unavailable,
    host::CaptureError,
    knobs::{JournalError, KnobError},
    realtime::{PinError, RealtimeError},
    state::StateError,
    stopwatch::StopwatchError,
};

/// The code of an answer: 0 yes, 1 no, 2 could not tell or wrong usage.
pub(crate) fn code(answer: Answer) -> ExitCode {
    match answer {
        Answer::Yes => ExitCode::from(0),
        Answer::No => ExitCode::from(1),
        Answer::Unknown => ExitCode::from(2),
    }
}

/// Says something on standard error. If nobody listens, there is nobody to tell.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "hpt: {text}");
}

/// An error with all its causes.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(reason) = cause {
        text.push_str(&format!(": {reason}"));
        cause = reason.source();
    }
    text
}

/// Why a command could not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("cannot use the source {name:?}")]
    Source {
        name: String,
        #[source]
        reason: Unavailable,
    },
    #[error("cannot choose the CPU")]
    Cpu(#[from] PinError),
    #[error(transparent)]
    Realtime(#[from] RealtimeError),
    #[error("cannot time a single read")]
    Stopwatch(#[from] StopwatchError),
    #[error("cannot keep the calibration")]
    State(#[from] StateError),
    #[error("cannot bind the calibration to this boot: /proc/sys/kernel/random/boot_id cannot be read; mount /proc")]
    NoBootId,
    #[error("cannot tell where to keep state: neither XDG_STATE_HOME nor HOME is set; name a folder with --store")]
    NoStateFolder,
    #[error("cannot capture this machine")]
    Capture(#[from] CaptureError),
    #[error("cannot write {path}")]
    Write {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },
    #[error("{path} is not a captured machine; `hpt probe --capture DIR` makes one")]
    NotACapture {
        path: PathBuf,
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    #[error("{0}")]
    Usage(&'static str),
    #[error("the kernel's clock sources cannot be read: /sys/devices/system/clocksource is not there; mount /sys")]
    NoClockSources,
    #[error("the kernel offers no clock source {name:?}, only {available}{why}")]
    NotOffered { name: String, available: String, why: String },
    #[error("nothing was changed: the clock source was just set to {0} by somebody else; look at it, and try again")]
    ChangedMeanwhile(String),
    #[error("nothing was changed: it was not meant")]
    NotMeant,
    #[error(
        "nothing was changed: nobody can be asked, because standard input is no terminal; --yes says that it is meant"
    )]
    NobodyToAsk,
    #[error("cannot change the setting")]
    Knob(#[from] KnobError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("cannot print the result")]
    Print(#[source] std::io::Error),
    #[error("cannot listen for Ctrl-C")]
    Signals(#[source] std::io::Error),
    #[error(
        "prctl forbids this process to read the counter, and prctl(PR_SET_TSC, PR_TSC_ENABLE) is refused; start hpt from another shell"
    )]
    CounterForbidden(#[source] std::io::Error),
}

impl Failure {
    /// Says on standard error what happened, why, and what helps.
    pub(crate) fn report(&self) {
        say(&self.text());
    }

    /// What happened, why, and what helps.
    pub(crate) fn text(&self) -> String {
        let mut text = causes(self);
        if let Some(remedy) = self.remedy() {
            text.push_str(&format!("\nhpt: {remedy}"));
        }
        text
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::Source { reason, .. } => reason.remedy(),
            _ => None,
        }
    }
}
