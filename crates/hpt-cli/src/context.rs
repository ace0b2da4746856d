//! The context of every subcommand: the machine, its sources, the output settings, and the state directory.

use std::{
    env, io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::{Duration, Instant},
};

use hpt_core::{Calibration, Host, Opened, SourceError, SourceId, clock, source};
use hpt_document::{Document, head::Head};
use hpt_realtime::{
    ChoiceReason, ChosenCpu, Pinned, choose_cpu,
    knobs::Journal,
    state::{Binding, Locked, StateError, Store},
};
use hpt_sys::host::{Capture, Facts};

use crate::{
    arguments::CpuChoice,
    exit::{Failure, causes},
    output::{
        self, Format,
        files::{self, WriteError},
        message,
        metrics::gauge::Gauge,
    },
    signals::Signals,
};

/// The file in the state directory that contains calibrations.
const CALIBRATIONS: &str = "calibrations";

/// The maximum time to wait for the lock. Saving takes milliseconds, so a process that holds the lock longer is
/// probably stopped.
const LONGEST_TURN: Duration = Duration::from_secs(10);

/// The machine, and the settings of this run.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) host: Host,
    /// Whether access to the counter was disabled with prctl when hpt started. hpt has since enabled it.
    pub(crate) counter_was_forbidden: bool,
    /// The output format, for commands that print results during the measurement.
    pub(crate) format: Format,
    /// The file to which metrics are written.
    textfile: Option<PathBuf>,
    /// Ctrl-C and other requests to stop.
    pub(crate) signals: Signals,
    /// Whether the result is part of a larger result.
    is_of_a_part: bool,
    /// The CPU for threads whose CPU was not specified, once it has been chosen.
    chosen_cpu: OnceLock<Option<ChosenCpu>>,
}

/// The devices that every thread can read, with a lower read overhead than a system call, and that are wide enough for
/// `Instant`.
const DEVICES: [&str; 2] = ["bcm-systimer", "a9-global-timer"];

/// Returns a note if a device is faster to read than the kernel's clock. `timed_by` is the source that provided the
/// time. `how` states how a device is selected. `opens` checks whether a source can be opened.
fn note_of_a_device(
    timed_by: &SourceId,
    how: impl FnOnce(&str) -> String,
    opens: impl Fn(&str) -> bool,
) -> Option<String> {
    let device = DEVICES.into_iter().find(|device| timed_by.as_str() == "monotonic" && opens(device))?;
    let how = how(device);
    Some(format!(
        "Instant used the kernel's clock, because no processor counter is trusted on this machine; {device} is faster to read: {how}"
    ))
}

impl Context {
    pub(crate) fn new(
        forbidden: std::io::Result<bool>,
        format: Format,
        textfile: Option<&Path>,
    ) -> Result<Self, Failure> {
        if let Some(path) = textfile {
            // Check before measuring, because the collector silently ignores other names.
            if path.extension().is_none_or(|extension| extension != "prom") {
                return Err(Failure::NotAProm(path.to_owned()));
            }
            files::check_replacing(path)
                .map_err(|cause| Failure::Write(WriteError { path: path.to_owned(), cause }))?;
        }
        Ok(Self {
            textfile: textfile.map(Path::to_owned),
            host: Host::live(),
            counter_was_forbidden: forbidden.map_err(Failure::CounterForbidden)?,
            format,
            signals: Signals::default(),
            is_of_a_part: false,
            chosen_cpu: OnceLock::new(),
        })
    }

    /// Returns the context for a measurement that is part of a larger one. The part prints nothing,
    /// writes no metrics, and ends when the larger measurement ends.
    pub(crate) fn of_a_part(&self) -> Self {
        Self {
            textfile: None,
            host: Host::live(),
            counter_was_forbidden: self.counter_was_forbidden,
            format: Format::Json,
            signals: self.signals.clone(),
            is_of_a_part: true,
            chosen_cpu: self.chosen_cpu.clone(),
        }
    }

    /// Returns whether the result is part of a larger result. If so, nothing is printed before it or saved with it.
    pub(crate) const fn is_of_a_part(&self) -> bool {
        self.is_of_a_part
    }

    /// Returns the format of a result that SIGUSR1 asks for. People read that of a part of a larger result.
    pub(crate) fn format_of_request(&self) -> Format {
        if self.is_of_a_part { Format::Human } else { self.format }
    }

    /// Returns whether metrics are written to a file.
    pub(crate) const fn keeps_metrics(&self) -> bool {
        self.textfile.is_some()
    }

    /// Writes the metrics of a document if requested, and replaces the previous file atomically.
    pub(crate) fn keep_metrics(&self, data: &Document) -> Result<(), Failure> {
        self.keep_text(|| output::textfile(data))
    }

    /// Writes the metrics of an incomplete document during the measurement.
    pub(crate) fn keep_metrics_so_far(&self, head: &Head, gauges: Vec<Gauge>) -> Result<(), Failure> {
        self.keep_text(|| Some(output::textfile_so_far(head, gauges)))
    }

    fn keep_text(&self, text: impl FnOnce() -> Option<String>) -> Result<(), Failure> {
        let Some(path) = &self.textfile else { return Ok(()) };
        let Some(text) = text() else { return Ok(()) };
        files::replace(path, text.as_bytes())
            .map_err(|cause| Failure::Write(WriteError { path: path.clone(), cause }))?;
        message::detail(format_args!("wrote {}", path.display()));
        Ok(())
    }

    /// Opens the system snapshot in a file that `hpt capture` wrote.
    pub(crate) fn captured(path: &Path) -> Result<Host, Failure> {
        let wrong = |cause: Box<dyn std::error::Error + Send + Sync>| {
            // The text of the cause already contains the path.
            let whole = causes(cause.as_ref());
            let why = whole.strip_prefix(&format!("cannot read {}: ", path.display())).unwrap_or(&whole).to_owned();
            Failure::NotACapture { path: path.to_owned(), why }
        };
        message::detail(format_args!("reading the system snapshot {}", path.display()));
        let capture = Capture::open(path).map_err(|refused| wrong(refused.into()))?;
        let facts: Facts =
            serde_json::from_str(capture.facts()).map_err(|cause| wrong(format!("its facts: {cause}").into()))?;
        Ok(Host::captured(capture, facts))
    }

    /// Opens the journal of changed settings in the directory given with `--journal`, or otherwise in /run/hpt.
    pub(crate) fn journal(&self, folder: Option<&Path>) -> Result<Journal, Failure> {
        if let Some(folder) = folder {
            refuse_a_link(folder)?;
        }
        let journal = Journal::open(folder.unwrap_or(Path::new(Journal::FOLDER)), &self.host)?;
        message::detail(format_args!("journal of changed settings: {}", journal.path().display()));
        Ok(journal)
    }

    /// Returns the number of the signal that asked hpt to stop, if any.
    pub(crate) fn signal(&self) -> Option<u8> {
        self.signals.signal()
    }

    /// Returns whether Ctrl-C or SIGTERM asked hpt to stop. If so, the command prints its partial result.
    pub(crate) fn interrupted(&self) -> bool {
        self.signals.interrupted()
    }

    /// Returns `Break` if Ctrl-C or SIGTERM asked hpt to stop.
    pub(crate) fn check(&self) -> ControlFlow<()> {
        continue_if(!self.interrupted())
    }

    /// Returns the notes that every result contains.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.counter_was_forbidden {
            notes.push(
                "access to the counter was disabled (PR_TSC_SIGSEGV) when hpt started; hpt enabled it for itself, but other programs \
                 that are started from the same shell receive SIGSEGV when they read a clock"
                    .to_owned(),
            );
        }
        let chosen = self.chosen_cpu.get().copied().flatten();
        if let Some(chosen) = chosen.filter(|chosen| chosen.reason != ChoiceReason::Highest) {
            notes.push(format!("{chosen}; --cpu selects another one"));
        }
        notes
    }

    /// Returns a note for a result that was timed with `Instant`, if a device can be read faster
    /// than the kernel's clock. hpt opens no device automatically, because that requires a
    /// permission and keeps the device mapped.
    pub(crate) fn note_of_a_device(&self, how: impl FnOnce(&str) -> String) -> Option<String> {
        note_of_a_device(&clock::source().id, how, |name| self.open(name).is_ok())
    }

    /// Rejects an unknown source name, and suggests similar ones.
    pub(crate) fn known(&self, name: &str) -> Result<(), Failure> {
        match source::open(&self.host, name) {
            Err(reason @ SourceError::Unknown { .. }) => Err(Failure::Source { name: name.to_owned(), reason }),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Opens the sources with these `names`. Opens each source only once.
    pub(crate) fn open_all(&self, names: &[String]) -> Result<Vec<Opened>, Failure> {
        let repeated = |index: usize, name: &String| names[..index].contains(name);
        let once = names.iter().enumerate().filter(|&(index, name)| !repeated(index, name));
        once.map(|(_, name)| self.open(name)).collect()
    }

    /// Opens the source with this `name`.
    pub(crate) fn open(&self, name: &str) -> Result<Opened, Failure> {
        let opened =
            source::open(&self.host, name).map_err(|reason| Failure::Source { name: name.to_owned(), reason })?;
        message::detail(format_args!("opened {name} (read path: {})", opened.as_dyn().info().read_path.name()));
        Ok(opened)
    }

    /// Returns the chosen CPU, or `None` if the thread must not be pinned.
    pub(crate) fn cpu(&self, choice: Option<CpuChoice>) -> Option<usize> {
        match choice {
            Some(CpuChoice::Any) => None,
            Some(CpuChoice::Number(cpu)) => Some(cpu),
            None => self.chosen_cpu.get_or_init(|| choose_cpu(&self.host)).map(|chosen| chosen.cpu),
        }
    }

    /// Pins this thread as requested. The returned guard provides the CPU number.
    pub(crate) fn pin(&self, choice: Option<CpuChoice>) -> Result<Option<Pinned>, Failure> {
        let pinned = self.cpu(choice).map(Pinned::new).transpose()?;
        if let Some(pinned) = &pinned {
            message::detail(format_args!("pinned to CPU {}", pinned.cpu()));
        }
        Ok(pinned)
    }

    /// Opens the state directory, which is `--state-dir` if given, otherwise $XDG_STATE_HOME/hpt or ~/.local/state/hpt.
    pub(crate) fn store(&self, folder: Option<&Path>) -> Result<Store, Failure> {
        if let Some(folder) = folder {
            refuse_a_link(folder)?;
        }
        let given = folder.map(Path::to_owned);
        let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        given
            .or_else(|| absolute("XDG_STATE_HOME").map(|state| state.join("hpt")))
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state/hpt")))
            .map(Store::new)
            .ok_or(Failure::NoStateFolder)
    }

    /// Returns the binding that ties a saved file to this boot and this processor.
    pub(crate) fn binding(&self) -> Result<Binding, Failure> {
        Binding::new(&self.host).ok_or(Failure::NoBootId)
    }

    /// Returns the calibrations saved in `store`, if they belong to this boot and this processor.
    pub(crate) fn saved(&self, store: &Store) -> Result<Vec<Calibration>, Failure> {
        let payload = store.load(CALIBRATIONS, &self.binding()?)?;
        let path = store.path(CALIBRATIONS);
        serde_json::from_slice(&payload)
            .map_err(|_| StateError::Corrupt { path, what: "its content is not a list of calibrations" }.into())
    }

    /// Saves `calibrations` in `store`, together with the valid saved calibrations of other sources. Returns the path
    /// of the file, or `None` if there was nothing to save.
    pub(crate) fn save(&self, store: &Store, calibrations: &[Calibration]) -> Result<Option<PathBuf>, Failure> {
        if calibrations.is_empty() {
            return Ok(None);
        }
        let binding = self.binding()?;
        // Lock before reading. Otherwise, this process could discard what another process has just added.
        let _in_turn = in_turn(store)?;
        let replaced = |id: &SourceId| calibrations.iter().any(|calibration| calibration.source == *id);
        let mut kept = match self.saved(store) {
            // Saving replaces outdated, foreign and damaged files. A file that cannot be read is kept, because it may
            // be valid.
            Err(Failure::State(StateError::Unreadable { path, cause })) => {
                return Err(StateError::Unreadable { path, cause }.into());
            }
            other => other.unwrap_or_default(),
        };
        kept.retain(|calibration| !replaced(&calibration.source));
        kept.extend_from_slice(calibrations);
        let payload = serde_json::to_vec_pretty(&kept).expect("numbers and names have a JSON form");
        store.save(CALIBRATIONS, &binding, &payload)?;
        message::detail(format_args!("saved calibrations in {}", store.path(CALIBRATIONS).display()));
        Ok(Some(store.path(CALIBRATIONS)))
    }
}

/// Refuses a directory that root would reach through another user's link. The library reports all other problems.
fn refuse_a_link(folder: &Path) -> Result<(), Failure> {
    match files::check_folder(folder) {
        Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
            Err(Failure::Write(WriteError { path: folder.to_owned(), cause }))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Waits for the lock, so that only one process saves at a time.
fn in_turn(store: &Store) -> Result<Locked, Failure> {
    let begun = Instant::now();
    loop {
        match store.lock(CALIBRATIONS)? {
            Some(locked) => return Ok(locked),
            None if begun.elapsed() < LONGEST_TURN => crate::pause::pause(Duration::from_millis(5)),
            None => return Err(Failure::SavedByAnother(store.path(CALIBRATIONS))),
        }
    }
}

/// Returns `Continue` if a measurement is to continue, and `Break` if it is to end.
pub(crate) const fn continue_if(more: bool) -> ControlFlow<()> {
    if more { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

#[cfg(test)]
mod tests {
    use super::{SourceId, note_of_a_device};

    #[test]
    fn a_device_is_suggested_only_for_the_kernels_clock_and_if_it_opens() {
        let note = |timed_by, opens| {
            note_of_a_device(&SourceId::new(timed_by), |device| format!("--source {device}"), |_| opens)
        };
        assert!(note("monotonic", true).is_some_and(|note| note.ends_with("faster to read: --source bcm-systimer")));
        assert_eq!((note("monotonic", false), note("arm-counter", true)), (None, None));
    }
}
