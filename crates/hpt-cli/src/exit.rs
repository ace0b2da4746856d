//! Exit codes, errors, and the fixes for errors.

use std::{
    error::Error,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use hpt_core::{SourceError, SourceId, clock::UseSourceError, stopwatch::StopwatchError};
use hpt_instrument::{
    gpio::GpioError,
    measure::{FrameError, KernelReadsError},
};
use hpt_realtime::{
    PinError, RealtimeError,
    knobs::{Journal, JournalError, KnobError},
    state::StateError,
};
use hpt_sys::host::{CaptureTextError, CpuList};

use crate::output::{Answer, chart_option::ChartError, files::WriteError, message, one_or_many};

/// The exit code for a command line that is invalid or requests something impossible.
pub(crate) const USAGE: u8 = 2;

/// Returns the exit code for an answer: 0 yes, 1 no, 3 unknown.
pub(crate) fn code(answer: Answer) -> ExitCode {
    match answer {
        Answer::Yes => ExitCode::from(0),
        Answer::No => ExitCode::from(1),
        Answer::Unknown => ExitCode::from(3),
    }
}

/// Returns the exit code for a run that a signal ended early: 128 plus the signal number, as in shells.
pub(crate) fn code_of_signal(signal: u8) -> ExitCode {
    ExitCode::from(128_u8.saturating_add(signal))
}

/// Returns the text of an error with all its causes.
pub(crate) fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = wording(error);
    let mut cause = error.source();
    while let Some(reason) = cause {
        text.push_str(&format!(": {}", in_a_sentence(&wording(reason))));
        cause = reason.source();
    }
    without_numbers(&text)
}

/// Returns the text of an error without its causes. If the library suggests a function, the text suggests an option or
/// a command instead.
fn wording(error: &(dyn Error + 'static)) -> String {
    // These errors use the text of the error that they contain.
    match error.downcast_ref() {
        Some(Failure::Realtime(error)) => return wording(error),
        Some(Failure::Gpio(error)) => return wording(error),
        Some(Failure::Cpu(error)) => return wording(error),
        Some(Failure::Journal(error)) => return wording(error),
        _ => {}
    }
    if let Some(JournalError::LeftBehind { path, is, before, by, journal, .. }) = error.downcast_ref() {
        let command = restore_command(journal);
        format!("{by:?} was killed and left {path} at {is:?}; run `{command}` to restore {before:?}")
    } else if let Some(RealtimeError::Throttled { policy, throttling, .. }) = error.downcast_ref() {
        format!(
            "the kernel throttles a thread under {policy} that never blocks: {throttling}; disable throttling (--no-throttling) or accept it (--accept-throttling)"
        )
    } else if let Some(GpioError::NoSuchName { name, chips, similar, .. }) = error.downcast_ref() {
        format!("no line of {chips} is named {name:?}{similar}; `hpt latency gpio --list` shows all names")
    } else if let Some(CaptureTextError { line, problem, is_capture: false, .. }) = error.downcast_ref() {
        format!("line {line}: {problem}; `hpt capture FILE` writes one")
    } else {
        error.to_string()
    }
}

/// Returns the command that restores the settings in the journal in `folder`.
pub(crate) fn restore_command(folder: &Path) -> String {
    if folder == Path::new(Journal::FOLDER) {
        "hpt restore".to_owned()
    } else {
        format!("hpt restore --journal {}", folder.display())
    }
}

/// Returns the fix for a source that is not available. If the library suggests a function, the fix suggests a command
/// instead.
pub(crate) fn source_remedy(reason: &SourceError) -> Option<String> {
    match reason {
        SourceError::IllegalInstruction => Some(
            "use the source that `hpt probe` chooses; hpt cannot distinguish between a missing counter, an emulator, and a kernel that closes the counter".to_owned(),
        ),
        SourceError::Captured => Some("run hpt on the system itself".to_owned()),
        SourceError::Unknown { nearest, .. } if nearest.is_empty() => {
            Some("run `hpt probe` to list all names".to_owned())
        }
        other => other.remedy(),
    }
}

/// Returns whether the path itself is the problem. In this case, only a different path helps.
fn is_no_place(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::InvalidInput
    )
}

/// Adapts an error text from the system for use within a sentence.
fn in_a_sentence(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.clone().next()) {
        // Names of signals and scheduling policies stay in capitals.
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

/// The reason why a command has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("cannot use the source {name:?}")]
    Source {
        name: String,
        #[source]
        reason: SourceError,
    },
    #[error("CPU {cpu} is not online (online: {online})")]
    NotOnline { cpu: usize, online: CpuList },
    #[error(transparent)]
    Cpu(#[from] PinError),
    #[error(transparent)]
    Realtime(RealtimeError),
    #[error(transparent)]
    Gpio(#[from] GpioError),
    #[error(transparent)]
    Frames(#[from] FrameError),
    #[error("cannot time a single read")]
    Stopwatch(#[from] StopwatchError),
    #[error("cannot read in the kernel")]
    InKernel(#[from] KernelReadsError),
    #[error("cannot access the saved calibration")]
    State(#[from] StateError),
    #[error(
        "cannot save the calibration: another hpt process has held the lock on {0} for too long; stop that process and try again"
    )]
    SavedByAnother(PathBuf),
    #[error("cannot tie the calibration to this boot: cannot read /proc/sys/kernel/random/boot_id; mount /proc")]
    NoBootId,
    #[error(
        "cannot determine the state directory: neither XDG_STATE_HOME nor HOME is set; specify one with --state-dir"
    )]
    NoStateFolder,
    #[error("{0} exists; replace it with --force or choose another file")]
    CapturedAlready(PathBuf),
    #[error("nothing can be captured: not one file in /proc or /sys can be read here")]
    NothingCaptured,
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
    #[error("cannot compare {path}: {why}")]
    NotComparable { path: PathBuf, why: String },
    #[error(
        "the numbers of runs do not allow a comparison: {0}; give each side one run, or at least three so that the spread between runs is known"
    )]
    NumbersOfRuns(String),
    #[error("cannot use {path} as a check: {why}")]
    NotACheck { path: PathBuf, why: String },
    #[error("cannot use {path} as a recording of a logic analyzer: {why}")]
    NotARecording { path: PathBuf, why: String },
    #[error("cannot open {path}")]
    NoCheck {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("{0} exists; replace it with --force or choose another file")]
    CheckThereAlready(PathBuf),
    #[error("{0} exists; replace it with --force or choose another --output")]
    ThereAlready(PathBuf),
    #[error(
        "cannot write to {0}: it contains the input data, so not even --force replaces it; choose another --output"
    )]
    OverItsData(PathBuf),
    #[error("cannot write {path}")]
    NothingWritten {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot write all samples to {path}: writing did not finish in time")]
    Unwritten { path: PathBuf },
    #[error(
        "{samples} {} missing from {path}: writing was slower than measuring",
        one_or_many(*.samples, "sample is", "samples are")
    )]
    Dropped { path: PathBuf, samples: u64 },
    #[error("cannot read the system snapshot {path}: {why}")]
    NotACapture { path: PathBuf, why: String },
    #[error("cannot start {name:?}: {why}")]
    NotStarted {
        name: OsString,
        why: &'static str,
        #[source]
        cause: io::Error,
    },
    #[error("cannot determine how the program ended")]
    LostProgram(#[source] io::Error),
    #[error("{0}")]
    Usage(&'static str),
    #[error(
        "{option} is not available for hpt {command}, which has no metrics (only probe, calibrate, watch, doctor, and latency timer, poll, stall and gpio have metrics)"
    )]
    NoMetrics { option: &'static str, command: String },
    #[error("the request for a measurement cannot be read")]
    NoRequest(#[source] io::Error),
    #[error("--textfile {0}: the name must end in .prom")]
    NotAProm(PathBuf),
    #[error("--reference {0} does not count system-wide time; choose one of the kernel's clocks, or a counter")]
    NoReference(String),
    #[error("cannot calibrate {0} against itself; choose another --reference or other sources")]
    CalibratedByItself(String),
    #[error("--at {0} is in the past")]
    Past(String),
    #[error(
        "cannot compare {watched} with {reference}: both return the same reading; choose another --reference or other sources"
    )]
    WatchedIsReference { watched: String, reference: String },
    #[error(
        "successive readings of {source_id} are already {step} apart, so stalls below {least} cannot be detected; use --above {least} or more, or another --source"
    )]
    TooFine { source_id: SourceId, step: String, least: String },
    #[error("cannot detect stalls with {source_id}: {why}; use another --source")]
    ShowsNoStall { source_id: SourceId, why: &'static str },
    #[error("cannot start the load: {0}")]
    Load(String),
    #[error("cannot use {0} as the clock of the measurement")]
    NotTheClock(String, #[source] UseSourceError),
    #[error("cannot read the kernel's clocksources: /sys/devices/system/clocksource is missing or empty; mount /sys")]
    NoClockSources,
    #[error("clocksource {name:?} is not available (available: {available}){why}")]
    NotOffered { name: String, available: String, why: String },
    #[error("nothing was changed: another process has just set the clocksource to {0}; check it and try again")]
    ChangedMeanwhile(String),
    #[error("aborted; nothing was changed")]
    NotMeant,
    #[error("nothing was changed, because confirmation needs a terminal; use --yes to confirm")]
    NoTerminal,
    #[error("{0}, which requires root; run it with sudo")]
    NeedsRoot(&'static str),
    #[error("{0}")]
    NotTried(String),
    #[error("cannot change the setting")]
    Knob(#[from] KnobError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("there is no directory {0}; without --journal, hpt uses the journal in /run/hpt")]
    NoJournalFolder(PathBuf),
    #[error("cannot print the result")]
    Print(#[source] std::io::Error),
    #[error(
        "cannot create a thread, so nothing was measured; raise the limit on threads and processes (ulimit -u, pids.max, TasksMax) or on memory (ulimit -v)"
    )]
    NoThread(#[source] io::Error),
    #[error(
        "the kernel refused clock_nanosleep, so no wake-up can be measured; a sandbox (seccomp) may forbid this system call"
    )]
    SleepRefused(#[source] io::Error),
    #[error("cannot listen for Ctrl-C")]
    Signals(#[source] std::io::Error),
    #[error(
        "this process is not permitted to read the counter (PR_TSC_SIGSEGV), and the kernel refused prctl(PR_SET_TSC, PR_TSC_ENABLE); start hpt from another shell"
    )]
    CounterForbidden(#[source] std::io::Error),
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
    /// Returns the exit code: 2 if a different command line can succeed, 1 if the user declined, otherwise 3.
    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Self::NotMeant => code(Answer::No),
            Self::Source { reason: SourceError::Unknown { .. }, .. }
            | Self::NotOnline { .. }
            | Self::Cpu(PinError::NotPresent { .. } | PinError::Offline { .. } | PinError::OutsideCpuset { .. })
            | Self::Gpio(
                GpioError::NoSuchChip { .. }
                | GpioError::NotAChip { .. }
                | GpioError::NoSuchLine { .. }
                | GpioError::NoSuchName { .. }
                | GpioError::Ambiguous { .. }
                | GpioError::WhichChip { .. }
                | GpioError::SameLine { .. },
            )
            | Self::Frames(FrameError::NoInterface { .. })
            | Self::CapturedAlready(_)
            | Self::NotAReport { .. }
            | Self::NotComparable { .. }
            | Self::NumbersOfRuns(_)
            | Self::NotACheck { .. }
            | Self::NotARecording { .. }
            | Self::NoCheck { .. }
            | Self::CheckThereAlready(_)
            | Self::Unreadable { .. }
            | Self::NotACapture { .. }
            | Self::ThereAlready(_)
            | Self::OverItsData(_)
            | Self::Usage(_)
            | Self::NoMetrics { .. }
            | Self::NotAProm(_)
            | Self::Past(_)
            | Self::NoReference(_)
            | Self::CalibratedByItself(_)
            | Self::WatchedIsReference { .. }
            | Self::TooFine { .. }
            | Self::ShowsNoStall { .. }
            | Self::NotTheClock(..)
            | Self::NotOffered { .. }
            | Self::NoTerminal
            | Self::NotTried(_)
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

    /// Prints to standard error what failed, why, and how to fix it.
    pub(crate) fn report(&self) {
        message::error(causes(self));
        if let Some(remedy) = self.remedy() {
            message::hint(remedy);
        }
    }

    /// Returns the error and the fix in one line.
    pub(crate) fn text(&self) -> String {
        let mut text = causes(self);
        if let Some(remedy) = self.remedy() {
            text.push_str(&format!("; {remedy}"));
        }
        text
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::Source { reason, .. } => source_remedy(reason),
            Self::NoCheck { path, .. } => Some(format!(
                "`hpt check --init {}` writes one from what this machine does now; ready files are in /usr/share/hpt/check",
                path.display()
            )),
            Self::Realtime(_) => Some("use --best-effort to continue without the settings that are refused".to_owned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hpt_core::{SourceError, SourceId};
    use hpt_instrument::gpio::GpioError;
    use hpt_realtime::knobs::{Journal, JournalError, KnobError};
    use hpt_sys::host::Capture;

    use super::{Failure, causes, source_remedy};

    /// Fixes that name functions of the library are of no use in a shell.
    #[test]
    fn fixes_name_commands_and_options() {
        let left = |journal: &str| JournalError::LeftBehind {
            path: "/sys/any".into(),
            is: "hpet".to_owned(),
            before: "tsc".to_owned(),
            by: "a test".into(),
            journal: Path::new(journal).into(),
        };
        let text = causes(&Failure::from(KnobError::from(left(Journal::FOLDER))));
        assert!(text.ends_with("left /sys/any at \"hpet\"; run `hpt restore` to restore \"tsc\""), "{text}");
        let text = causes(&Failure::from(left("/tmp/any")));
        assert!(text.contains("run `hpt restore --journal /tmp/any` to"), "{text}");
        let name = "GPIO99".to_owned();
        let text = causes(&Failure::from(GpioError::NoSuchName {
            name,
            chips: "gpiochip0".to_owned(),
            similar: String::new(),
        }));
        assert!(text.ends_with("; `hpt latency gpio --list` shows all names"), "{text}");
        let text = causes(&Capture::parse(b"no capture").expect_err("another file"));
        assert!(text.ends_with("; `hpt capture FILE` writes one"), "{text}");
        let unknown = |nearest| SourceError::Unknown { name: "any".to_owned(), nearest };
        assert!(source_remedy(&unknown(vec![])).is_some_and(|fix| fix.contains("`hpt probe`")));
        assert!(source_remedy(&unknown(vec![SourceId::new("tsc")])).is_some_and(|fix| fix == "did you mean tsc?"));
        assert!(source_remedy(&SourceError::Captured).is_some_and(|fix| fix.starts_with("run hpt")));
        assert!(source_remedy(&SourceError::IllegalInstruction).is_some_and(|fix| fix.contains("`hpt probe`")));
    }
}
