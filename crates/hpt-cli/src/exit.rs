//! Exit codes, and failures with what helps.

use std::{
    error::Error,
    ffi::OsString,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use crate::output::{Answer, chart_option::ChartError, files::WriteError, without_escapes};
use hpt_core::{
    SourceId, Unavailable,
    clock::SourceRefused,
    gpio::GpioError,
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
    let _ = writeln!(io::stderr(), "hpt: {}", without_escapes(text));
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
    #[error("there is no CPU {cpu}: {online} run")]
    NoSuchCpu { cpu: usize, online: String },
    #[error("cannot choose the CPU")]
    Cpu(#[from] PinError),
    #[error(transparent)]
    Realtime(#[from] RealtimeError),
    #[error(transparent)]
    Gpio(#[from] GpioError),
    #[error("cannot time a single read")]
    Stopwatch(#[from] StopwatchError),
    #[error("cannot keep the calibration")]
    State(#[from] StateError),
    #[error(
        "cannot keep the calibration: another hpt is about to write {0}, and does not come to an end; end it, and try again"
    )]
    SavedByAnother(PathBuf),
    #[error("cannot bind the calibration to this boot: /proc/sys/kernel/random/boot_id cannot be read; mount /proc")]
    NoBootId,
    #[error("cannot tell where to keep state: neither XDG_STATE_HOME nor HOME is set; name a folder with --store")]
    NoStateFolder,
    #[error("{0} is there already, and is not empty; --force replaces it, or name another file")]
    CapturedAlready(PathBuf),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Chart(#[from] ChartError),
    #[error("{path} is no report that can be read: {why}")]
    NotAReport { path: PathBuf, why: String },
    #[error("{0} is there already; --force replaces it, or name another by --out")]
    ThereAlready(PathBuf),
    #[error("{0} holds the data that are read: no page takes their place, also with --force; name another by --out")]
    OverItsData(PathBuf),
    #[error("nothing was written: {path} cannot be")]
    NothingWritten {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("{path} does not take what is written: not all samples are in it")]
    Unwritten { path: PathBuf },
    #[error("{path} took less than was measured: {samples} samples are not in it")]
    Dropped { path: PathBuf, samples: u64 },
    #[error("{path} is not a captured machine; `hpt capture FILE` makes one")]
    NotACapture {
        path: PathBuf,
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    #[error("cannot start {name:?}: {why}")]
    NotStarted {
        name: OsString,
        why: &'static str,
        #[source]
        cause: io::Error,
    },
    #[error("the program was started, and how it ended cannot be told")]
    LostProgram(#[source] io::Error),
    #[error("{0}")]
    Usage(&'static str),
    #[error(
        "{watched} beside {reference} would show nothing, because both are one reading; choose another --reference, or other sources"
    )]
    BesideItself { watched: String, reference: String },
    #[error(
        "readings of {source_id} are {step} apart by themselves: no stall below {least} can be told; take --above {least} or more, or another --source"
    )]
    TooFine { source_id: SourceId, step: String, least: String },
    #[error("{source_id} cannot show a stall: {why}; take another --source")]
    ShowsNoStall { source_id: SourceId, why: &'static str },
    #[error("{0} cannot tell hpt's time")]
    NotTheClock(String, #[source] SourceRefused),
    #[error(
        "the kernel's clock sources cannot be read: /sys/devices/system/clocksource is not there, or tells nothing; mount /sys"
    )]
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
    #[error("there is no folder {0}, so no journal in it; without --store, the one in /run/hpt is looked at")]
    NoJournalFolder(PathBuf),
    #[error("cannot print the result")]
    Print(#[source] std::io::Error),
    #[error(
        "cannot create a thread, so nothing was measured; raise the limit on threads and processes (ulimit -u, pids.max, TasksMax) or on memory (ulimit -v)"
    )]
    NoThread(#[source] io::Error),
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
