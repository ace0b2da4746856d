//! What every subcommand needs: the machine, interruption, pinning, the state folder.
//! Prints nothing.

use std::{
    env,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use hpt_core::{
    Calibration, Host, Opened, SourceId, Unavailable,
    host::{Facts, read_regular_file},
    knobs::Journal,
    realtime::{Pinned, allowed_cpus},
    sleep::Interrupter,
    source,
    state::{Binding, StateError, Store},
};

use crate::{cli::CpuChoice, exit::Failure, render::Format};

/// The file in the state folder that calibrations are kept in.
const CALIBRATIONS: &str = "calibrations";

/// The file in a captured machine's folder that holds what no file of the machine holds.
pub(crate) const FACTS: &str = "facts.json";

/// The machine and this run.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) host: Host,
    /// prctl forbade the counter when hpt was started; it has allowed it to itself since.
    pub(crate) counter_was_forbidden: bool,
    /// How results are to be printed, for what prints them as they come.
    pub(crate) format: Format,
    interrupted: Arc<AtomicBool>,
}

/// A thread that listens for signals on behalf of a sleeper; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Listening {
    handle: signal_hook::iterator::Handle,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.handle.close();
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

impl Context {
    pub(crate) fn new(forbidden: std::io::Result<bool>, format: Format) -> Result<Self, Failure> {
        Ok(Self {
            host: Host::live(),
            counter_was_forbidden: forbidden.map_err(Failure::CounterForbidden)?,
            format,
            interrupted: Arc::default(),
        })
    }

    /// A machine captured by `hpt probe --capture`.
    pub(crate) fn captured(folder: &Path) -> Result<Host, Failure> {
        let path = folder.join(FACTS);
        let wrong =
            |cause: Box<dyn std::error::Error + Send + Sync>| Failure::NotACapture { path: path.clone(), cause };
        let content = read_regular_file(&path).map_err(|cause| wrong(cause.into()))?;
        let facts: Facts = serde_json::from_slice(&content).map_err(|cause| wrong(cause.into()))?;
        Ok(Host::captured(folder, facts))
    }

    /// The same for what must put something back before it ends: also a hang-up, and no second signal ends hpt at once.
    pub(crate) fn listen_until_the_end(&self) -> Result<(), Failure> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
        for signal in [SIGINT, SIGQUIT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&self.interrupted)).map_err(Failure::Signals)?;
        }
        Ok(())
    }

    /// The journal of settings that hpt changes: `--store`, else /run/hpt.
    pub(crate) fn journal(&self, folder: Option<&Path>) -> Result<Journal, Failure> {
        Ok(Journal::open(folder.unwrap_or(Path::new(Journal::FOLDER)), &self.host)?)
    }

    /// From here on Ctrl-C and SIGTERM end a measurement, not hpt: for subcommands that ask [`interrupted`](Self::interrupted) as they go. The
    /// second one ends hpt at once.
    pub(crate) fn listen(&self) -> Result<(), Failure> {
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&self.interrupted))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&self.interrupted)))
                .map_err(Failure::Signals)?;
        }
        Ok(())
    }

    /// While the answer lives, Ctrl-C and SIGTERM also end the sleep of whoever waits.
    #[must_use = "the sleep is not interrupted any more when it is dropped"]
    pub(crate) fn interrupts(&self, interrupter: Interrupter) -> Result<Listening, Failure> {
        let signals = [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];
        let mut signals = signal_hook::iterator::Signals::new(signals).map_err(Failure::Signals)?;
        let handle = signals.handle();
        let thread = thread::spawn(move || signals.forever().for_each(|_| interrupter.interrupt()));
        Ok(Listening { handle, thread: Some(thread) })
    }

    /// Whether Ctrl-C or SIGTERM asked to end: print what is there.
    pub(crate) fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// What is to be said beside every result.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.counter_was_forbidden {
            notes.push(
                "prctl forbade the counter (PR_TSC_SIGSEGV) when hpt was started; hpt has allowed it to itself, other programs \
                 started from here are ended by SIGSEGV when they read a clock"
                    .to_owned(),
            );
        }
        notes
    }

    /// Refuses a name that no source has, with the nearest ones.
    pub(crate) fn known(&self, name: &str) -> Result<(), Failure> {
        match source::open(&self.host, name) {
            Err(reason @ Unavailable::Unknown { .. }) => Err(Failure::Source { name: name.to_owned(), reason }),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Opens the sources called `names`, each once.
    pub(crate) fn open_all(&self, names: &[String]) -> Result<Vec<Opened>, Failure> {
        let repeated = |index: usize, name: &String| names[..index].contains(name);
        let once = names.iter().enumerate().filter(|&(index, name)| !repeated(index, name));
        once.map(|(_, name)| self.open(name)).collect()
    }

    /// Opens the source called `name`.
    pub(crate) fn open(&self, name: &str) -> Result<Opened, Failure> {
        source::open(&self.host, name).map_err(|reason| Failure::Source { name: name.to_owned(), reason })
    }

    /// The CPU that is meant; `None` where the thread is not to be pinned.
    pub(crate) fn cpu(choice: Option<CpuChoice>) -> Option<usize> {
        match choice {
            Some(CpuChoice::Any) => None,
            Some(CpuChoice::Number(cpu)) => Some(cpu),
            // The highest allowed one: the kernel's own work and interrupts gather on the lowest.
            None => allowed_cpus().last().copied(),
        }
    }

    /// Pins this thread as asked; the guard says where.
    pub(crate) fn pin(&self, choice: Option<CpuChoice>) -> Result<Option<Pinned>, Failure> {
        Ok(Self::cpu(choice).map(Pinned::to).transpose()?)
    }

    /// The state folder: `--store`, else XDG_STATE_HOME/hpt, else ~/.local/state/hpt.
    pub(crate) fn store(&self, folder: Option<&Path>) -> Result<Store, Failure> {
        let given = folder.map(Path::to_owned);
        let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        given
            .or_else(|| absolute("XDG_STATE_HOME").map(|state| state.join("hpt")))
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state/hpt")))
            .map(Store::new)
            .ok_or(Failure::NoStateFolder)
    }

    fn binding(&self) -> Result<Binding, Failure> {
        Binding::of(&self.host).ok_or(Failure::NoBootId)
    }

    /// The calibrations kept in `store`, if they are of this boot and this processor.
    pub(crate) fn saved(&self, store: &Store) -> Result<Vec<Calibration>, Failure> {
        let payload = store.load(CALIBRATIONS, &self.binding()?)?;
        let path = store.path(CALIBRATIONS);
        serde_json::from_slice(&payload)
            .map_err(|_| StateError::Corrupt { path, what: "its content is not a list of calibrations" }.into())
    }

    /// Keeps `calibrations` in `store`, beside those of other sources that are still good. Returns the file; `None` when there was nothing
    /// to keep.
    pub(crate) fn save(&self, store: &Store, calibrations: &[Calibration]) -> Result<Option<PathBuf>, Failure> {
        if calibrations.is_empty() {
            return Ok(None);
        }
        let binding = self.binding()?;
        let replaced = |id: &SourceId| calibrations.iter().any(|calibration| calibration.source == *id);
        let mut kept = match self.saved(store) {
            // What is stale, foreign or corrupt is what saving replaces. What cannot be read may be good.
            Err(Failure::State(StateError::Unreadable { path, cause })) => {
                return Err(StateError::Unreadable { path, cause }.into());
            }
            other => other.unwrap_or_default(),
        };
        kept.retain(|calibration| !replaced(&calibration.source));
        kept.extend_from_slice(calibrations);
        let payload = serde_json::to_vec_pretty(&kept).expect("numbers and names have a JSON form");
        store.save(CALIBRATIONS, &binding, &payload)?;
        Ok(Some(store.path(CALIBRATIONS)))
    }
}
