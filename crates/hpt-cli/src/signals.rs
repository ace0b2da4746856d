//! Signals that end a measurement and not hpt: what was measured until then is printed.
//! Measures nothing.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use hpt_core::sleep::Interrupter;

use crate::exit::Failure;

/// Whether a signal has asked this run to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signals {
    interrupted: Arc<AtomicBool>,
    /// The number of that signal; the last one of several. Zero before.
    signal: Arc<AtomicUsize>,
    /// Whether the handlers are installed already.
    listens: Arc<AtomicBool>,
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

impl Signals {
    /// Whether Ctrl-C or SIGTERM asked to end.
    pub(crate) fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// The number of the signal that asked to end.
    pub(crate) fn signal(&self) -> Option<u8> {
        u8::try_from(self.signal.load(Ordering::Relaxed)).ok().filter(|&signal| signal > 0)
    }

    /// Notes which signal it was, before anybody is told that there was one.
    fn note(&self, signal: i32) -> io::Result<()> {
        let number = usize::try_from(signal).expect("a signal's number is positive");
        signal_hook::flag::register_usize(signal, Arc::clone(&self.signal), number).map(drop)
    }

    /// From here on Ctrl-C and SIGTERM end a measurement, not hpt: for subcommands that ask [`interrupted`](Self::interrupted) as they go. A
    /// Ctrl-C after that ends hpt at once. A SIGTERM does not: timeout(1) sends two of them, one to the program and one to its process group.
    pub(crate) fn listen(&self) -> Result<(), Failure> {
        // Twice would take the first signal for the second.
        if self.listens.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let (key, request) = (signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM);
        // The shutdown must come before the flag that it looks at. A Ctrl-C between the two would be lost: another flag is set by it.
        let early = Arc::new(AtomicBool::new(false));
        self.note(key)
            .and_then(|()| self.note(request))
            .and_then(|()| signal_hook::flag::register(key, Arc::clone(&early)))
            .and_then(|_| {
                signal_hook::flag::register_conditional_shutdown(key, 128 + key, Arc::clone(&self.interrupted))
            })
            .and_then(|_| signal_hook::flag::register(key, Arc::clone(&self.interrupted)))
            .and_then(|_| signal_hook::flag::register(request, Arc::clone(&self.interrupted)))
            .map_err(Failure::Signals)?;
        if early.load(Ordering::Relaxed) {
            self.interrupted.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// As [`listen`](Self::listen), for a command that restores something at its end: a hang-up
    /// ends the measurement as well, and a second signal does not end hpt.
    pub(crate) fn listen_until_the_end(&self) -> Result<(), Failure> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
        for signal in [SIGINT, SIGQUIT, SIGTERM, SIGHUP] {
            self.note(signal).map_err(Failure::Signals)?;
            signal_hook::flag::register(signal, Arc::clone(&self.interrupted)).map_err(Failure::Signals)?;
        }
        Ok(())
    }

    /// While the answer lives, Ctrl-C and SIGTERM also end the sleep of whoever waits.
    #[must_use = "the sleep is not interrupted any more when it is dropped"]
    pub(crate) fn interrupts(interrupter: Interrupter) -> Result<Listening, Failure> {
        let signals = [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];
        let mut signals = signal_hook::iterator::Signals::new(signals).map_err(Failure::Signals)?;
        let handle = signals.handle();
        let listen = move || signals.forever().for_each(|_| interrupter.interrupt());
        let thread = thread::Builder::new().spawn(listen).map_err(Failure::NoThread)?;
        Ok(Listening { handle, thread: Some(thread) })
    }
}
