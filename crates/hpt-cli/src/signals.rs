//! Signals that end a measurement but not hpt, which then prints the partial result.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use hpt_core::sleep::Waker;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::exit::Failure;

/// The state of the signals that ask hpt to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signals {
    interrupted: Arc<AtomicBool>,
    /// The number of the last such signal, or zero if there was none.
    signal: Arc<AtomicUsize>,
    /// Whether SIGUSR1 asked for the result so far.
    wants_result: Arc<AtomicBool>,
    /// Whether the handlers are installed.
    listens: Arc<AtomicBool>,
}

/// A thread that interrupts a sleeper on a signal. The thread ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Listening {
    ends: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

/// The interval at which that thread looks for a signal.
const LOOK: Duration = Duration::from_millis(20);

impl Drop for Listening {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Signals {
    /// Returns whether a signal asked hpt to stop.
    pub(crate) fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Returns the number of the signal that asked hpt to stop, if any.
    pub(crate) fn signal(&self) -> Option<u8> {
        u8::try_from(self.signal.load(Ordering::Relaxed)).ok().filter(|&signal| signal > 0)
    }

    /// Registers a handler that records the signal number. This handler runs before the handler that sets the flag.
    fn note(&self, signal: i32) -> io::Result<()> {
        let number = usize::try_from(signal).expect("a signal's number is positive");
        signal_hook::flag::register_usize(signal, Arc::clone(&self.signal), number).map(drop)
    }

    /// Makes Ctrl-C, SIGTERM and a hang-up end the measurement, but not hpt, for subcommands that poll
    /// [`interrupted`](Self::interrupted). A second Ctrl-C ends hpt immediately. A second SIGTERM does not, because
    /// timeout(1) sends two: one to the program and one to its process group.
    pub(crate) fn listen(&self) -> Result<(), Failure> {
        // If the handlers were installed twice, the first signal would count as the second.
        if self.listens.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        for signal in heeded(&[SIGINT, SIGTERM, SIGHUP]) {
            self.note(signal).map_err(Failure::Signals)?;
            if signal == SIGINT {
                // The shutdown handler must be registered before the handler that sets its flag.
                let flag = Arc::clone(&self.interrupted);
                signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, flag)
                    .map_err(Failure::Signals)?;
            }
            signal_hook::flag::register(signal, Arc::clone(&self.interrupted)).map_err(Failure::Signals)?;
        }
        self.count_early_signal();
        Ok(())
    }

    /// Makes a signal count that arrived after [`note`](Self::note) and before the handler that sets the flag. It would be
    /// lost otherwise.
    fn count_early_signal(&self) {
        if self.signal().is_some() {
            self.interrupted.store(true, Ordering::Relaxed);
        }
    }

    /// Like [`listen`](Self::listen), but for a command that restores something when it ends. SIGQUIT also ends the
    /// measurement, and a second signal does not end hpt.
    pub(crate) fn listen_until_the_end(&self) -> Result<(), Failure> {
        // A later call of `listen`, by a part of a larger measurement, must not make a second signal end hpt.
        self.listens.store(true, Ordering::Relaxed);
        for signal in heeded(&[SIGINT, SIGQUIT, SIGTERM, SIGHUP]) {
            self.note(signal).map_err(Failure::Signals)?;
            signal_hook::flag::register(signal, Arc::clone(&self.interrupted)).map_err(Failure::Signals)?;
        }
        self.count_early_signal();
        Ok(())
    }

    /// Makes SIGUSR1 ask for the result so far, for commands that call
    /// [`take_request`](Self::take_request).
    pub(crate) fn listen_for_requests(&self) -> Result<(), Failure> {
        let request = signal_hook::consts::SIGUSR1;
        signal_hook::flag::register(request, Arc::clone(&self.wants_result)).map(drop).map_err(Failure::Signals)
    }

    /// Returns whether SIGUSR1 has asked for the result so far, and nothing has taken the request.
    pub(crate) fn is_asked(&self) -> bool {
        self.wants_result.load(Ordering::Relaxed)
    }

    /// Returns whether SIGUSR1 has asked for the result so far since the last call.
    pub(crate) fn take_request(&self) -> bool {
        // Without a request, a measuring thread only loads the flag.
        self.is_asked() && self.wants_result.swap(false, Ordering::Relaxed)
    }

    /// Makes Ctrl-C, SIGTERM and a hang-up interrupt a sleep until the returned value is dropped.
    #[must_use = "signals no longer interrupt the sleep after this is dropped"]
    pub(crate) fn interrupts(waker: Waker) -> Result<Listening, Failure> {
        let (came, ends) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for signal in heeded(&[SIGINT, SIGTERM, SIGHUP]) {
            signal_hook::flag::register(signal, Arc::clone(&came)).map_err(Failure::Signals)?;
        }
        // A pipe or a socket from the signal handler would depend on system calls that a sandbox may refuse.
        let is_over = Arc::clone(&ends);
        let look = move || {
            while !is_over.load(Ordering::Relaxed) {
                if came.swap(false, Ordering::Relaxed) {
                    waker.wake();
                }
                thread::park_timeout(LOOK);
            }
        };
        let thread = thread::Builder::new().spawn(look).map_err(Failure::NoThread)?;
        Ok(Listening { ends, thread: Some(thread) })
    }
}

/// Returns the signals, without SIGHUP if it is ignored: under nohup(1), a run continues after a hang-up.
fn heeded(signals: &[i32]) -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_ignored = is_ignored(&status, SIGHUP);
    signals.iter().copied().filter(|&signal| signal != SIGHUP || !is_ignored).collect()
}

/// Returns whether a process ignores a signal, according to its file /proc/PID/status.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{SIGHUP, SIGINT, Signals, is_ignored};

    #[test]
    fn an_ignored_signal_is_read_from_the_status_of_the_process() {
        let status = "SigBlk:\t0000000000000003\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n";
        assert!(is_ignored(status, SIGHUP) && !is_ignored(status, SIGINT));
        assert!(!is_ignored("", SIGHUP) && !is_ignored("SigIgn:\tnone\n", SIGHUP));
    }

    #[test]
    fn a_signal_between_two_registrations_is_not_lost() {
        for until_the_end in [false, true] {
            let signals = Signals::default();
            // The first handler has recorded it, and the second one was not there.
            signals.signal.store(15, Ordering::Relaxed);
            let listening = if until_the_end { signals.listen_until_the_end() } else { signals.listen() };
            listening.expect("handlers can be installed");
            assert!(signals.interrupted());
        }
    }
}
