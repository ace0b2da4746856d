//! Exit codes, and errors with their fixes.

use std::{error::Error, ffi::OsString, io, path::PathBuf, process::ExitCode};

use crate::output::{Answer, chart_option::ChartError, files::WriteError, message};
use hpt_core::{
    SourceId, Unavailable,
    clock::SourceRefused,
    gpio::GpioError,
    knobs::{JournalError, KnobError},
    realtime::{PinError, RealtimeError},
    state::StateError,
    stopwatch::StopwatchError,
};

/// The command line requests something impossible.
pub(crate) const USAGE: u8 = 2;

/// The exit code of an answer: 0 yes, 1 no, 3 unknown.
pub(crate) fn code(answer: Answer) -> ExitCode {
    match answer {
        Answer::Yes => ExitCode::from(0),
        Answer::No => ExitCode::from(1),
        Answer::Unknown => ExitCode::from(3),
    }
}

/// The exit code of a run that a signal ended early, as in shells: 128 plus the signal number.
pub(crate) fn code_of_signal(signal: u8) -> ExitCode {
    ExitCode::from(128_u8.saturating_add(signal))
}

/// An error with all its causes.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(reason) = cause {
        text.push_str(&format!(": {}", in_a_sentence(&reason.to_string())));
        cause = reason.source();
    }
    without_numbers(&text)
}

/// Returns whether no file can exist at that path for any user: only another path helps.
fn is_no_place(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::InvalidInput
    )
}

/// Returns the system's text of an error, adapted to the middle of a sentence.
fn in_a_sentence(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.clone().next()) {
        // Not the name of a signal or of a scheduling policy.
        (Some(first), Some(second)) if second.is_lowercase() => first.to_lowercase().chain(letters).collect(),
        _ => text.to_owned(),
    }
}

/// Returns the text without the error numbers that the standard library adds.
fn without_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    kept
}

/// Why a command has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("cannot use the source {name:?}")]
    Source {
        name: String,
        #[source]
        reason: Unavailable,
    },
    #[error("no such CPU: {cpu} (usable: {usable})")]
    NoSuchCpu { cpu: usize, usable: String },
    #[error("cannot choose the CPU")]
    Cpu(#[source] PinError),
    #[error(transparent)]
    Realtime(RealtimeError),
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
    #[error(
        "cannot tell where to keep state: neither XDG_STATE_HOME nor HOME is set; name a directory with --state-dir"
    )]
    NoStateFolder,
    #[error("{0} exists and is not empty; replace it with --force, or choose another file")]
    CapturedAlready(PathBuf),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Chart(#[from] ChartError),
    #[error("cannot open {path}")]
    Unreadable {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("{path} is not an hpt report: {why}")]
    NotAReport { path: PathBuf, why: String },
    #[error("{0} exists; replace it with --force, or choose another --output")]
    ThereAlready(PathBuf),
    #[error(
        "{0} holds the data that are read: no page takes their place, also with --force; name another with --output"
    )]
    OverItsData(PathBuf),
    #[error("cannot write {path}")]
    NothingWritten {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("{path} does not take what is written: not all samples are in it")]
    Unwritten { path: PathBuf },
    #[error("{path} took less than was measured: {samples} samples are not in it")]
    Dropped { path: PathBuf, samples: u64 },
    #[error("cannot read the capture {path}: {why}")]
    NotACapture { path: PathBuf, why: String },
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
        "{option} is not available for hpt {command}, which has no metrics (probe, calibrate, watch, doctor, latency timer, poll, stall and gpio have)"
    )]
    NoMetrics { option: &'static str, command: &'static str },
    #[error("--textfile {0}: the name must end in .prom")]
    NotAProm(PathBuf),
    #[error("--reference {0} counts no time of the whole machine: choose one of the kernel's clocks, or a counter")]
    NoReference(String),
    #[error("--at {0} is in the past")]
    Past(String),
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
    #[error("clocksource {name:?} is not available (available: {available}){why}")]
    NotOffered { name: String, available: String, why: String },
    #[error("nothing was changed: the clock source was just set to {0} by somebody else; look at it, and try again")]
    ChangedMeanwhile(String),
    #[error("aborted; nothing was changed")]
    NotMeant,
    #[error("confirmation needs a terminal; nothing was changed. --yes confirms")]
    NobodyToAsk,
    #[error("cannot change the setting")]
    Knob(#[from] KnobError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("there is no folder {0}, so no journal in it; without --journal, the one in /run/hpt is looked at")]
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

impl From<PinError> for Failure {
    fn from(error: PinError) -> Self {
        match error {
            PinError::NotAllowed { cpu, allowed } => {
                let usable: Vec<String> = allowed.iter().map(usize::to_string).collect();
                Self::NoSuchCpu { cpu, usable: usable.join(", ") }
            }
            other => Self::Cpu(other),
        }
    }
}

impl From<RealtimeError> for Failure {
    fn from(error: RealtimeError) -> Self {
        match error {
            RealtimeError::Cpu(error) => error.into(),
            other => Self::Realtime(other),
        }
    }
}

impl Failure {
    /// Returns the exit code: 2 if another command line helps, 1 if the user declined, otherwise 3.
    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Self::NotMeant => code(Answer::No),
            Self::Source { reason: Unavailable::Unknown { .. }, .. }
            | Self::NoSuchCpu { .. }
            | Self::Gpio(
                GpioError::NoSuchChip { .. }
                | GpioError::NotAChip { .. }
                | GpioError::NoSuchLine { .. }
                | GpioError::NoSuchName { .. }
                | GpioError::Ambiguous { .. }
                | GpioError::WhichChip { .. }
                | GpioError::SameLine { .. },
            )
            | Self::CapturedAlready(_)
            | Self::NotAReport { .. }
            | Self::Unreadable { .. }
            | Self::NotACapture { .. }
            | Self::ThereAlready(_)
            | Self::OverItsData(_)
            | Self::Usage(_)
            | Self::NoMetrics { .. }
            | Self::NotAProm(_)
            | Self::Past(_)
            | Self::NoReference(_)
            | Self::BesideItself { .. }
            | Self::TooFine { .. }
            | Self::ShowsNoStall { .. }
            | Self::NotTheClock(..)
            | Self::NotOffered { .. }
            | Self::NobodyToAsk
            | Self::NoJournalFolder(_) => ExitCode::from(USAGE),
            Self::Write(WriteError { cause, .. })
            | Self::NothingWritten { cause, .. }
            | Self::Gpio(GpioError::Chip { cause, .. })
                if is_no_place(cause) =>
            {
                ExitCode::from(USAGE)
            }
            _ => code(Answer::Unknown),
        }
    }

    /// Prints on standard error what happened, why, and how to fix it.
    pub(crate) fn report(&self) {
        message::error(causes(self));
        if let Some(remedy) = self.remedy() {
            message::hint(remedy);
        }
    }

    /// The same in one line.
    pub(crate) fn text(&self) -> String {
        let mut text = causes(self);
        if let Some(remedy) = self.remedy() {
            text.push_str(&format!("; {remedy}"));
        }
        text
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::Source { reason, .. } => reason.remedy(),
            Self::Realtime(_) => Some("with --best-effort, hpt goes on without what is refused".to_owned()),
            _ => None,
        }
    }
}
