//! A program that runs with this thread's settings and receives the signals sent to this process. This module applies
//! only the program's scheduling policy; `setup` applies the other settings.

use std::{
    io,
    marker::PhantomData,
    process::{Child, Command},
    time::{Duration, Instant},
};

use hpt_sys::{
    child::{
        ChildIs, NotStarted, has_the_terminal_with, ignore, is_ignored, is_over, leads_the_session_of, look_after,
        reap, reap_others, send, start, stop_by,
    },
    process::{Scheduling, reset_action},
    signals::{Came, SignalSet},
    wait::pause,
};

use super::{
    Policy, PolicyGuard, RealtimeError,
    program_times::{ProgramTimes, ThreadWaits},
};

/// The interval at which /proc shows whether a program has ended.
const WATCHED_EVERY: Duration = Duration::from_millis(20);

/// The interval at which the figures of the program's threads are read.
const READ_EVERY: Duration = Duration::from_millis(100);

/// A guard that prevents all signals that can be blocked from ending or stopping the calling thread. Signals sent to
/// this process are forwarded to the program that [`start`](Self::start) starts. Signals that were ignored before
/// remain ignored in both processes, with two exceptions. SIGCHLD is ignored in the program only. The original
/// disposition of SIGPIPE is no longer known, because Rust programs ignore SIGPIPE from the start; the program gets the
/// default disposition.
///
/// Signals are not blocked in other threads, so use this only in single-threaded programs.
#[derive(Debug)]
#[must_use = "the previous signal handling is restored when this is dropped"]
pub struct Signals {
    held: SignalSet,
    before: SignalSet,
    ignored_children: bool,
    bound_to_its_thread: PhantomData<*const ()>,
}

/// A program that has been started and has not been waited for yet.
#[derive(Debug)]
#[must_use = "the program must be waited for"]
pub struct Program<'a> {
    child: Child,
    signals: &'a Signals,
    begun: Instant,
}

/// The way in which a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The program exited with this code.
    Exited(u8),
    /// The program was killed by this signal.
    Killed(i32),
}

/// The reason why a program was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The scheduling policy was refused.
    #[error(transparent)]
    Policy(RealtimeError),
    /// The file does not exist or cannot be executed, or no process can be created.
    #[error(transparent)]
    Program(io::Error),
    /// A sandbox does not let this process receive from a socket, through which a new process reports that it cannot
    /// execute the program.
    #[error("recv(2) was refused, through which a new process reports an error")]
    Receiving(#[source] io::Error),
}

impl Signals {
    /// Blocks all signals that can be blocked.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error, although no such error is known to occur.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::process::Command;
    /// use hpt_realtime::Signals;
    ///
    /// let signals = Signals::hold()?;
    /// let ended = signals.start(&mut Command::new("make"), None)?.wait()?;
    /// println!("{ended:?}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hold() -> io::Result<Self> {
        // The parent may have ignored SIGCHLD. In that case, the kernel would not report that a child has ended.
        let ignored_children = is_ignored(libc::SIGCHLD);
        reset_action(libc::SIGCHLD);
        let held = SignalSet::that_can_be_held();
        let held = SignalSet::of(held.signals().filter(|&signal| !is_ignored(signal)));
        let before = held.hold_back()?;
        Ok(Self { held, before, ignored_children, bound_to_its_thread: PhantomData })
    }

    /// Returns the signal that asked this process to end, if there was one. Intended for callers that have not started
    /// a program yet.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use hpt_realtime::Signals;
    ///
    /// let signals = Signals::hold()?;
    /// // Preparations that take some time.
    /// if let Some(signal) = signals.asked_to_end() {
    ///     println!("signal {signal} came first");
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn asked_to_end(&self) -> Option<i32> {
        let endings = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];
        let pending = SignalSet::pending();
        endings.into_iter().find(|&signal| self.held.contains(signal) && pending.contains(signal))
    }

    /// Starts a program. It runs under `policy` from its first instruction on, and inherits other settings of the
    /// calling thread: its CPUs and its timer slack. No signal is blocked in the program, and SIGPIPE has the default
    /// action.
    ///
    /// # Errors
    ///
    /// Returns [`StartError`] if the policy is refused or the program cannot be started.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::process::Command;
    /// use hpt_realtime::{Policy, Signals, StartError};
    ///
    /// let signals = Signals::hold()?;
    /// match signals.start(Command::new("aplay").arg("music.wav"), Some(Policy::Fifo(10))) {
    ///     Ok(program) => println!("{:?}", program.wait()?),
    ///     Err(StartError::Policy(refused)) => println!("{refused}"),
    ///     Err(refused) => println!("not started: {refused}"),
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn start(&self, command: &mut Command, policy: Option<Policy>) -> Result<Program<'_>, StartError> {
        let refused = |policy: Policy, cause| StartError::Policy(policy.refused(cause));
        let scheduling = policy.map(|policy| {
            Scheduling::of_this_thread().map(|own| policy.scheduling(own)).map_err(|cause| refused(policy, cause))
        });
        let ignored = self.ignored_children.then_some(libc::SIGCHLD);
        let begun = Instant::now();
        match (start(command, scheduling.transpose()?, ignored), policy) {
            (Ok(child), _) => Ok(Program { child, signals: self, begun }),
            (Err(NotStarted::Receiving(cause)), _) => Err(StartError::Receiving(cause)),
            (Err(NotStarted::Scheduling(cause)), Some(policy)) => Err(refused(policy, cause)),
            (Err(NotStarted::Scheduling(cause) | NotStarted::Program(cause)), _) => Err(StartError::Program(cause)),
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // Signals that arrived in the meantime were intended for the program.
        while self.held.take().is_some() {}
        let _ = self.before.apply();
        if self.ignored_children {
            ignore(libc::SIGCHLD);
        }
    }
}

impl Policy {
    /// Checks whether the kernel allows this policy for the calling thread, by applying it briefly.
    ///
    /// # Errors
    ///
    /// Returns [`RealtimeError::Policy`] if the kernel refuses the policy.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_realtime::Policy;
    ///
    /// if let Err(refused) = Policy::Fifo(10).is_granted() {
    ///     println!("{refused}");
    /// }
    /// assert!(Policy::Fifo(100).is_granted().is_err());
    /// ```
    pub fn is_granted(self) -> Result<(), RealtimeError> {
        PolicyGuard::new(self).map(drop)
    }
}

impl Program<'_> {
    /// Returns the process ID of the program.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::process::Command;
    /// use hpt_realtime::Signals;
    ///
    /// let signals = Signals::hold()?;
    /// let program = signals.start(&mut Command::new("make"), None)?;
    /// println!("process {}", program.process());
    /// program.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the program ends. In the meantime, each signal that another process sends to this process is
    /// forwarded to the program. Signals from terminal keys, such as Ctrl-C, have already reached the program, because
    /// it is in the same process group. The kernel reports a hang-up of the terminal only to the session leader; if
    /// this process is the session leader, it forwards that signal to the program. When job control stops the program,
    /// this process stops too, so that the shell notices. When this process is continued, it continues the program.
    ///
    /// If this process is the first process of a container, it also reaps orphaned processes.
    ///
    /// A signal that is sent to the whole process group reaches the program twice.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error if it refuses to report the state of the program, as in a sandbox. The program has
    /// ended nevertheless, unless /proc is not mounted.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::process::Command;
    /// use hpt_realtime::{Ended, Signals};
    ///
    /// let signals = Signals::hold()?;
    /// match signals.start(&mut Command::new("make"), None)?.wait()? {
    ///     Ended::Exited(code) => println!("exit code {code}"),
    ///     Ended::Killed(signal) => println!("killed by signal {signal}"),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait(self) -> io::Result<Ended> {
        self.wait_and_read(None).map(|(ended, ..)| ended)
    }

    /// Waits like [`wait`](Self::wait), and also returns the times that the program took. Every tenth of a second, reads
    /// how long the threads of the program waited for a CPU.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Self::wait).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::process::Command;
    /// use hpt_realtime::Signals;
    ///
    /// let signals = Signals::hold()?;
    /// let (_, times) = signals.start(&mut Command::new("make"), None)?.wait_timed()?;
    /// println!("{:?}, of which {:?} in user mode", times.real, times.user);
    /// if let Some(ready) = times.not_run {
    ///     println!("its threads waited {:?} for a CPU", ready.waited);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_timed(self) -> io::Result<(Ended, ProgramTimes)> {
        let begun = self.begun;
        let mut waits = ThreadWaits::default();
        let (ended, at, (user, system)) = self.wait_and_read(Some(&mut waits))?;
        Ok((ended, ProgramTimes { real: at - begun, user, system, not_run: waits.sum() }))
    }

    /// Waits until the program ends. Returns how and when it ended, and its CPU time.
    fn wait_and_read(self, mut waits: Option<&mut ThreadWaits>) -> io::Result<(Ended, Instant, (Duration, Duration))> {
        let child = libc::pid_t::try_from(self.child.id()).map_err(|_| io::ErrorKind::InvalidData)?;
        let is_first = std::process::id() == 1;
        loop {
            if is_first {
                reap_others(child);
            }
            loop {
                let state = match look_after(child) {
                    Ok(state) => state,
                    Err(cause) => {
                        self.wait_for_the_end_of(child);
                        return Err(cause);
                    }
                };
                let ended = match state {
                    ChildIs::Exited(code) => Some(Ended::Exited(u8::try_from(code).unwrap_or(u8::MAX))),
                    ChildIs::Killed(signal) => Some(Ended::Killed(signal)),
                    ChildIs::Stopped(_) | ChildIs::GoingOn | ChildIs::AsBefore => None,
                };
                if let Some(ended) = ended {
                    let at = Instant::now();
                    // The kernel's figures of a child that has ended are complete, and are gone once it is released.
                    waits.iter_mut().for_each(|waits| waits.read(child));
                    return Ok((ended, at, reap(child)?));
                }
                match state {
                    ChildIs::Stopped(signal) => self.signals.stop_as_well(child, signal),
                    ChildIs::AsBefore => break,
                    ChildIs::GoingOn | ChildIs::Exited(_) | ChildIs::Killed(_) => {}
                }
            }
            let came = match &mut waits {
                Some(waits) => {
                    waits.read(child);
                    self.signals.held.wait_for(READ_EVERY)
                }
                None => self.signals.held.wait().map(Some),
            };
            // If a sandbox refuses to wait for signals, none is forwarded, but the end of the program is noticed.
            let Ok(came) = came else {
                pause(WATCHED_EVERY);
                continue;
            };
            let Some(Came { signal, sent_by }) = came else { continue };
            if signal == libc::SIGHUP && sent_by.is_none() && leads_the_session_of(child) {
                send(child, signal);
                // The kernel also sends SIGCONT after SIGHUP, so that a stopped process notices the hang-up.
                send(child, libc::SIGCONT);
            }
            // Signals that the program sends to its parent are not intended for the program itself.
            if signal != libc::SIGCHLD && sent_by.is_some_and(|sender| sender != child) {
                send(child, signal);
            }
        }
    }
}

impl Program<'_> {
    /// Waits until the child has ended, if the kernel refuses to report its state. Forwards signals meanwhile.
    fn wait_for_the_end_of(&self, child: libc::pid_t) {
        while is_over(child) == Some(false) {
            while let Some(Came { signal, sent_by }) = self.signals.held.take() {
                if signal != libc::SIGCHLD && sent_by.is_some_and(|sender| sender != child) {
                    send(child, signal);
                }
            }
            pause(WATCHED_EVERY);
        }
    }
}

impl Signals {
    /// Stops this process too, because the shell waits for this process and not for the program. If the program was
    /// stopped by SIGSTOP, this process does not stop: the signal was sent to the program alone on purpose, and the
    /// sender may later continue only the program. The exception is a program that controls the terminal, for example
    /// an inner shell that stops itself. In that case, this process must return the terminal to the outer shell.
    fn stop_as_well(&self, child: libc::pid_t, signal: libc::c_int) {
        let signal = match signal {
            // Unlike SIGSTOP, SIGTSTP does not stop a process that no shell could continue.
            libc::SIGSTOP if has_the_terminal_with(child) => libc::SIGTSTP,
            other => other,
        };
        if ![libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&signal) || !self.held.contains(signal) {
            return;
        }
        stop_by(signal);
        // If no shell could continue this process, it has not stopped.
        if SignalSet::pending().contains(libc::SIGCONT) {
            let _ = SignalSet::of([libc::SIGCONT]).take();
            // A shell continues the whole process group; other senders may continue only this process. SIGCONT does not
            // affect a running process.
            send(child, libc::SIGCONT);
        }
    }
}
