//! A program that runs by what this thread runs by, and the signals that are meant for it.
//! Puts nothing in force but the program's own class: `setup` does.

use std::{
    io,
    marker::PhantomData,
    process::{Child, Command},
};

use super::{Class, InClass, RealtimeError};
use crate::sys::{
    process::{NotStarted, Scheduling, start},
    signals::{
        Came, ChildIs, SignalSet, by_default, has_the_terminal_with, ignore, is_ignored, leads_the_session_of,
        look_after, reap_others, send, stop_by,
    },
};

/// From here on no signal ends or stops the calling thread that can be held back, and what is sent to this process is passed on to the [program](Self::start)
/// that it starts. Those that were ignored are ignored still, here and there, but for two: SIGCHLD is ignored in the program alone, and of SIGPIPE it is not known
/// any more how it was, because Rust programs ignore it from their beginning on: the program has it as by default.
///
/// Other threads hold back nothing by this: it is for programs that have one.
#[derive(Debug)]
#[must_use = "signals are as before when this is dropped"]
pub struct Signals {
    held: SignalSet,
    before: SignalSet,
    ignored_children: bool,
    bound_to_its_thread: PhantomData<*const ()>,
}

/// A program that was started, and not waited for yet.
#[derive(Debug)]
#[must_use = "it is to be waited for"]
pub struct Program<'a> {
    child: Child,
    signals: &'a Signals,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit code.
    Exited(u8),
    /// By this signal.
    Killed(i32),
}

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The class was refused to it.
    #[error(transparent)]
    Class(RealtimeError),
    /// There is none, or it cannot be executed, or no process is to be had.
    #[error(transparent)]
    Program(io::Error),
}

impl Signals {
    /// Holds them back.
    ///
    /// # Errors
    ///
    /// What the kernel answers; none is known.
    pub fn hold() -> io::Result<Self> {
        // Whoever started this may have had it ignored, and then nobody is told how a child ended.
        let ignored_children = is_ignored(libc::SIGCHLD);
        by_default(libc::SIGCHLD);
        let held = SignalSet::that_can_be_held();
        let held = SignalSet::of(held.signals().filter(|&signal| !is_ignored(signal)));
        let before = held.hold_back()?;
        Ok(Self { held, before, ignored_children, bound_to_its_thread: PhantomData })
    }

    /// The signal that asked this process to end since, if one did: for who has started nothing yet.
    #[must_use]
    pub fn asked_to_end(&self) -> Option<i32> {
        let endings = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];
        let pending = SignalSet::pending();
        endings.into_iter().find(|&signal| self.held.contains(signal) && pending.contains(signal))
    }

    /// Starts a program. It runs by `class` from its first instruction on, and inherits what else the calling thread runs by: its CPUs, and its timer slack. No
    /// signal is held back from it, and SIGPIPE is as by default.
    ///
    /// # Errors
    ///
    /// [`StartError`].
    pub fn start(&self, command: &mut Command, class: Option<Class>) -> Result<Program<'_>, StartError> {
        let refused = |class: Class, cause| StartError::Class(class.refused(cause));
        let scheduling = class.map(|class| {
            Scheduling::of_this_thread().map(|own| class.scheduling(own)).map_err(|cause| refused(class, cause))
        });
        let ignored = self.ignored_children.then_some(libc::SIGCHLD);
        match (start(command, scheduling.transpose()?, ignored), class) {
            (Ok(child), _) => Ok(Program { child, signals: self }),
            (Err(NotStarted::Scheduling(cause)), Some(class)) => Err(refused(class, cause)),
            (Err(NotStarted::Scheduling(cause) | NotStarted::Program(cause)), _) => Err(StartError::Program(cause)),
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // What came meanwhile was meant for the program.
        while self.held.take().is_some() {}
        let _ = self.before.apply();
        if self.ignored_children {
            ignore(libc::SIGCHLD);
        }
    }
}

impl Class {
    /// Whether the kernel would let the calling thread run by it, which it does for a moment.
    ///
    /// # Errors
    ///
    /// [`RealtimeError::Class`] when the kernel refuses.
    pub fn is_granted(self) -> Result<(), RealtimeError> {
        InClass::of(self).map(drop)
    }
}

impl Program<'_> {
    /// The number of its process.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end. Meanwhile each signal that a process sends to this one is sent to the program as well; what the terminal's keys send has reached it
    /// already, because it is of the same process group. That the terminal is gone the kernel tells only the process that leads the session: where it is this
    /// one, the program is told. When it stops as a job does, this process does the same, so that a shell notices, and it goes on when this one does.
    ///
    /// As the first process of a container this one also reaps processes whose own parent ended.
    ///
    /// Who sends a signal to the whole process group reaches the program twice by this.
    ///
    /// # Errors
    ///
    /// What the kernel answers; none is known.
    pub fn wait(self) -> io::Result<Ended> {
        let child = libc::pid_t::try_from(self.child.id()).map_err(|_| io::ErrorKind::InvalidData)?;
        let is_first = std::process::id() == 1;
        loop {
            if is_first {
                reap_others(child);
            }
            loop {
                match look_after(child)? {
                    ChildIs::Exited(code) => return Ok(Ended::Exited(u8::try_from(code).unwrap_or(u8::MAX))),
                    ChildIs::Killed(signal) => return Ok(Ended::Killed(signal)),
                    ChildIs::Stopped(signal) => self.signals.stop_as_well(child, signal),
                    ChildIs::GoingOn => {}
                    ChildIs::AsBefore => break,
                }
            }
            let Came { signal, sent_by } = self.signals.held.wait();
            if signal == libc::SIGHUP && sent_by.is_none() && leads_the_session_of(child) {
                send(child, signal);
                // As the kernel does, so that one that is stopped notices.
                send(child, libc::SIGCONT);
            }
            // What it sends to its parent is not meant for itself.
            if signal != libc::SIGCHLD && sent_by.is_some_and(|sender| sender != child) {
                send(child, signal);
            }
        }
    }
}

impl Signals {
    /// A shell waits for the process that it started: that one must stop where the program did. SIGSTOP is sent to one process by somebody who means it, and
    /// who may let that one go on and not this; but who has the terminal must give it back to the shell: a shell within stops itself so.
    fn stop_as_well(&self, child: libc::pid_t, signal: libc::c_int) {
        let signal = match signal {
            // Unlike SIGSTOP it stops nobody whom no shell could let go on.
            libc::SIGSTOP if has_the_terminal_with(child) => libc::SIGTSTP,
            other => other,
        };
        if ![libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&signal) || !self.held.contains(signal) {
            return;
        }
        stop_by(signal);
        // Where nobody could let it go on, it did not stop.
        if SignalSet::pending().contains(libc::SIGCONT) {
            let _ = SignalSet::of([libc::SIGCONT]).take();
            // A shell lets the whole group go on, others this process alone. Who goes on already is not harmed.
            send(child, libc::SIGCONT);
        }
    }
}
