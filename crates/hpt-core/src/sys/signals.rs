//! Signals of the calling thread, one after another instead of handlers, one that ends what another thread waits for, and what becomes of a child:
//! sigprocmask(2), sigwaitinfo(2), tgkill(2), kill(2), waitpid(2).
//! Passes nothing on: who waits decides.

use std::{fs::File, io, ptr};

use rustix::{
    process::{Pid, WaitOptions, waitpid},
    termios::tcgetpgrp,
    thread::gettid,
};

/// A set of signals.
#[derive(Clone, Copy)]
pub(crate) struct SignalSet(libc::sigset_t);

impl std::fmt::Debug for SignalSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.signals()).finish()
    }
}

/// A signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Came {
    pub(crate) signal: libc::c_int,
    /// The process that sent it; `None` where the kernel did, as for a key of the terminal.
    pub(crate) sent_by: Option<libc::pid_t>,
}

/// What became of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildIs {
    Exited(libc::c_int),
    Killed(libc::c_int),
    Stopped(libc::c_int),
    GoingOn,
    /// Nothing new.
    AsBefore,
}

impl SignalSet {
    /// Those that can be waited for: not those that no process can hold back, nor those that tell of its own mistakes, nor the C library's own.
    pub(crate) fn that_can_be_held() -> Self {
        const MISTAKES: [libc::c_int; 7] =
            [libc::SIGILL, libc::SIGTRAP, libc::SIGABRT, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV, libc::SIGSYS];
        let standard = (1..32).filter(|signal| !MISTAKES.contains(signal));
        let standard = standard.filter(|&signal| ![libc::SIGKILL, libc::SIGSTOP, libc::SIGPIPE].contains(&signal));
        Self::of(standard.chain(libc::SIGRTMIN()..=libc::SIGRTMAX()))
    }

    pub(crate) fn of(signals: impl IntoIterator<Item = libc::c_int>) -> Self {
        // SAFETY: sigset_t is an array of integers, for which zero is a value.
        let mut set = unsafe { std::mem::zeroed::<libc::sigset_t>() };
        // SAFETY: `set` is live and filled by the call. sigemptyset(3).
        unsafe { libc::sigemptyset(&raw mut set) };
        for signal in signals {
            // SAFETY: `set` is live; a number that is no signal is answered with EINVAL. sigaddset(3).
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
        Self(set)
    }

    pub(crate) fn contains(&self, signal: libc::c_int) -> bool {
        // SAFETY: reads the set; a number that is no signal is answered with -1. sigismember(3).
        let answer = unsafe { libc::sigismember(&raw const self.0, signal) };
        answer == 1
    }

    pub(crate) fn signals(&self) -> impl Iterator<Item = libc::c_int> + '_ {
        (1..=libc::SIGRTMAX()).filter(|&signal| self.contains(signal))
    }

    /// Holds these back from the calling thread, beside those that are already, until [`apply`](Self::apply) of what was before.
    pub(crate) fn hold_back(&self) -> io::Result<Self> {
        self.change(libc::SIG_BLOCK)
    }

    /// Holds back exactly these.
    pub(crate) fn apply(&self) -> io::Result<Self> {
        self.change(libc::SIG_SETMASK)
    }

    fn change(&self, how: libc::c_int) -> io::Result<Self> {
        let mut before = Self::of([]);
        // SAFETY: both sets are live; the first is read, the second is filled. pthread_sigmask(3).
        let answer = unsafe { libc::pthread_sigmask(how, &raw const self.0, &raw mut before.0) };
        if answer == 0 { Ok(before) } else { Err(io::Error::from_raw_os_error(answer)) }
    }

    /// Those that came and are held back.
    pub(crate) fn pending() -> Self {
        let mut set = Self::of([]);
        // SAFETY: the set is live and filled by the call. sigpending(2).
        unsafe { libc::sigpending(&raw mut set.0) };
        set
    }

    /// Waits for one of these, which must be held back.
    pub(crate) fn wait(&self) -> Came {
        loop {
            // SAFETY: siginfo_t consists of integers and pointers, for which zero is a value.
            let mut info = unsafe { std::mem::zeroed::<libc::siginfo_t>() };
            // SAFETY: the set is live and read, `info` is live and filled. sigwaitinfo(2).
            let signal = unsafe { libc::sigwaitinfo(&raw const self.0, &raw mut info) };
            if signal > 0 {
                return Came { signal, sent_by: sender(&info) };
            }
            // EINTR: stopped and continued, or a signal of another kind.
        }
    }

    /// One of these that has come already.
    pub(crate) fn take(&self) -> Option<Came> {
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: siginfo_t consists of integers and pointers, for which zero is a value.
        let mut info = unsafe { std::mem::zeroed::<libc::siginfo_t>() };
        // SAFETY: the set and the time are live and read, `info` is live and filled. sigtimedwait(2).
        let signal = unsafe { libc::sigtimedwait(&raw const self.0, &raw mut info, &raw const at_once) };
        (signal > 0).then(|| Came { signal, sent_by: sender(&info) })
    }
}

/// Who sent it, if a process did: by kill, tgkill or sigqueue. sigaction(2), `si_code`.
fn sender(info: &libc::siginfo_t) -> Option<libc::pid_t> {
    let by_a_process = [libc::SI_USER, libc::SI_TKILL, libc::SI_QUEUE].contains(&info.si_code);
    // SAFETY: with these codes the kernel fills the sender's process number. sigaction(2).
    by_a_process.then(|| unsafe { info.si_pid() })
}

/// Whether the process ignores the signal.
pub(crate) fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: sigaction consists of integers and pointers, for which zero is a value.
    let mut action = unsafe { std::mem::zeroed::<libc::sigaction>() };
    // SAFETY: without a new action the call only fills the structure, which is live. sigaction(2).
    let answer = unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) };
    answer == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Lets the kernel do with the signal what it does by default.
pub(crate) fn by_default(signal: libc::c_int) {
    // SAFETY: the default action is no handler and touches nothing of the program. signal(2).
    let _ = unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Lets the kernel drop the signal.
pub(crate) fn ignore(signal: libc::c_int) {
    // SAFETY: no handler, and nothing of the program is touched; it is async-signal-safe. signal(2).
    let _ = unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Whether this process leads the session that the child is in as well: the kernel tells it alone that their terminal is gone.
pub(crate) fn leads_the_session_of(child: libc::pid_t) -> bool {
    // Not by rustix: a session that was begun outside of the process's PID namespace is 0 in it, and
    // the number that rustix returns must not be.
    // SAFETY: takes a number; a process that is not there is answered with -1. getsid(2).
    let session = unsafe { libc::getsid(child) };
    u32::try_from(session) == Ok(std::process::id())
}

/// Whether the terminal of this process, where it has one, belongs to its process group at the moment, or to the child's: a shell has one of its own.
pub(crate) fn has_the_terminal_with(child: libc::pid_t) -> bool {
    let Ok(terminal) = File::open("/dev/tty") else {
        return false;
    };
    // Not by rustix: a group from outside of the PID namespace is 0, as a session is.
    // SAFETY: takes nothing, and always succeeds. getpgrp(2).
    let own = unsafe { libc::getpgrp() };
    // SAFETY: takes a number; a process that is not there is answered with -1. getpgid(2).
    let of_the_child = unsafe { libc::getpgid(child) };
    tcgetpgrp(terminal).is_ok_and(|foreground| [own, of_the_child].contains(&foreground.as_raw_pid()))
}

/// Ends what a thread waits for in the kernel, and does nothing else: who sets no handler for it does not miss it, and who does expects it for no reason. signal(7).
const ROUSING: libc::c_int = libc::SIGURG;

/// Lets this thread be roused by [`rouse`], until [`SignalSet::apply`] of what was held back before. A handler that the program has is left in place.
pub(crate) fn heed_rousing() -> io::Result<SignalSet> {
    extern "C" fn do_nothing(_: libc::c_int) {}
    // SAFETY: sigaction consists of integers and pointers, for which zero is a value.
    let mut action = unsafe { std::mem::zeroed::<libc::sigaction>() };
    // SAFETY: without a new action the call only fills the structure, which is live. sigaction(2).
    let answer = unsafe { libc::sigaction(ROUSING, ptr::null(), &raw mut action) };
    if answer == 0 && [libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction) {
        action.sa_sigaction = do_nothing as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: the structure is live, and its handler touches nothing. sigaction(2).
        let _ = unsafe { libc::sigaction(ROUSING, &raw const action, ptr::null_mut()) };
    }
    SignalSet::of([ROUSING]).change(libc::SIG_UNBLOCK)
}

/// The number of this thread, for [`rouse`].
pub(crate) fn this_thread() -> libc::pid_t {
    gettid().as_raw_pid()
}

/// Ends what that thread of this process waits for in the kernel.
pub(crate) fn rouse(thread: libc::pid_t) {
    let process = std::process::id();
    // SAFETY: takes three numbers; that the thread has ended already is no error of anybody. tgkill(2).
    let _ = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, ROUSING) };
}

/// Sends a signal to a child that was not waited for yet, so that its number is its own.
pub(crate) fn send(child: libc::pid_t, signal: libc::c_int) {
    // SAFETY: takes two numbers. kill(2); that the child has ended already is no error of anybody.
    let _ = unsafe { libc::kill(child, signal) };
}

/// Does to this process what the signal, which is held back, does by default; for those that stop it.
pub(crate) fn stop_by(signal: libc::c_int) {
    let only = SignalSet::of([signal]);
    // SAFETY: takes a number. raise(3).
    let _ = unsafe { libc::raise(signal) };
    // Here it stops, unless it is in an orphaned process group. signal(7).
    if let Ok(before) = only.change(libc::SIG_UNBLOCK) {
        let _ = before.apply();
    }
}

/// Takes note of processes that ended and are not `child`, so that the kernel forgets them. The first process of a container becomes the parent of all whose
/// own parent ended.
pub(crate) fn reap_others(child: libc::pid_t) {
    loop {
        // SAFETY: siginfo_t consists of integers and of pointers that nobody follows, for which zero is a value.
        let mut ended = unsafe { std::mem::zeroed::<libc::siginfo_t>() };
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: `ended` is live and filled by the call. waitid(2).
        let answer = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut ended, flags) };
        if answer != 0 {
            return;
        }
        // SAFETY: waitid filled the fields of a child that ended, or left zero. sigaction(2), waitid(2).
        let process = unsafe { ended.si_pid() };
        if process == 0 || process == child {
            return;
        }
        if !matches!(waitpid(Pid::from_raw(process), WaitOptions::NOHANG), Ok(Some(_))) {
            return;
        }
    }
}

/// What became of the child since the last time, without waiting.
pub(crate) fn look_after(child: libc::pid_t) -> io::Result<ChildIs> {
    let options = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
    let Some((_, status)) = waitpid(Pid::from_raw(child), options)? else { return Ok(ChildIs::AsBefore) };
    let exited = status.exit_status().map(ChildIs::Exited);
    let killed = || status.terminating_signal().map(ChildIs::Killed);
    let stopped = || status.stopping_signal().map(ChildIs::Stopped);
    Ok(exited.or_else(killed).or_else(stopped).unwrap_or(ChildIs::GoingOn))
}

#[cfg(test)]
mod tests {
    use super::{Came, SignalSet, is_ignored};

    #[test]
    fn what_is_held_back_waits_and_says_who_sent_it() {
        let signal = libc::SIGRTMIN() + 3;
        let set = SignalSet::of([signal]);
        let before = set.hold_back().expect("a signal that can be held");
        assert_eq!(set.take(), None);
        // SAFETY: sends a signal to this thread alone, which holds it back. raise(3).
        let sent = unsafe { libc::raise(signal) };
        assert!(sent == 0 && SignalSet::pending().contains(signal));
        let own = libc::pid_t::try_from(std::process::id()).expect("process numbers fit");
        assert_eq!(set.wait(), Came { signal, sent_by: Some(own) });
        assert!(!SignalSet::pending().contains(signal));
        before.apply().expect("what was before");
    }

    #[test]
    fn what_cannot_or_must_not_be_held_is_not_in_the_set() {
        let set = SignalSet::that_can_be_held();
        let out = [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, libc::SIGABRT, libc::SIGPIPE];
        assert!(out.into_iter().all(|signal| !set.contains(signal)), "{set:?}");
        let held = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGCHLD, libc::SIGTSTP, libc::SIGRTMAX()];
        assert!(held.into_iter().all(|signal| set.contains(signal)), "{set:?}");
        // Rust programs do, from their beginning on.
        assert!(is_ignored(libc::SIGPIPE) && !is_ignored(libc::SIGUSR1));
    }
}
