//! Receives the signals of the calling thread one after another instead of with handlers (sigprocmask(2),
//! sigwaitinfo(2)), and interrupts a thread's wait (tgkill(2)).

use std::{io, ptr, time::Duration};

/// A set of signals.
#[derive(Clone, Copy)]
pub struct SignalSet(libc::sigset_t);

impl std::fmt::Debug for SignalSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.signals()).finish()
    }
}

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Came {
    pub signal: libc::c_int,
    /// The process that sent it; `None` if the kernel did, for example because of a key pressed in the terminal.
    pub sent_by: Option<libc::pid_t>,
}

impl SignalSet {
    /// Returns the signals that can be waited for. Excludes signals that cannot be blocked, signals caused by the
    /// program's own errors, and signals that the C library uses internally.
    pub fn that_can_be_held() -> Self {
        const MISTAKES: [libc::c_int; 7] =
            [libc::SIGILL, libc::SIGTRAP, libc::SIGABRT, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV, libc::SIGSYS];
        let standard = (1..32).filter(|signal| !MISTAKES.contains(signal));
        let standard = standard.filter(|&signal| ![libc::SIGKILL, libc::SIGSTOP, libc::SIGPIPE].contains(&signal));
        Self::of(standard.chain(libc::SIGRTMIN()..=libc::SIGRTMAX()))
    }

    pub fn of(signals: impl IntoIterator<Item = libc::c_int>) -> Self {
        // SAFETY: sigset_t is an array of integers, for which zero is a valid value.
        let mut set = unsafe { std::mem::zeroed::<libc::sigset_t>() };
        // SAFETY: `set` is live and filled by the call. sigemptyset(3).
        unsafe { libc::sigemptyset(&raw mut set) };
        for signal in signals {
            // SAFETY: `set` is live; with an invalid signal number, the call fails with EINVAL. sigaddset(3).
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
        Self(set)
    }

    pub fn contains(&self, signal: libc::c_int) -> bool {
        // SAFETY: the call reads the set, and returns -1 for an invalid signal number. sigismember(3).
        let answer = unsafe { libc::sigismember(&raw const self.0, signal) };
        answer == 1
    }

    pub fn signals(&self) -> impl Iterator<Item = libc::c_int> + '_ {
        (1..=libc::SIGRTMAX()).filter(|&signal| self.contains(signal))
    }

    /// Blocks these signals in the calling thread, in addition to the signals already blocked. Calling
    /// [`apply`](Self::apply) on the result restores the previous state.
    pub fn hold_back(&self) -> io::Result<Self> {
        self.change(libc::SIG_BLOCK)
    }

    /// Blocks exactly these signals.
    pub fn apply(&self) -> io::Result<Self> {
        self.change(libc::SIG_SETMASK)
    }

    pub(super) fn change(&self, how: libc::c_int) -> io::Result<Self> {
        let mut before = Self::of([]);
        // SAFETY: both sets are live. The call reads the first and fills the second. pthread_sigmask(3).
        let answer = unsafe { libc::pthread_sigmask(how, &raw const self.0, &raw mut before.0) };
        if answer == 0 { Ok(before) } else { Err(io::Error::from_raw_os_error(answer)) }
    }

    /// Returns the signals that are pending for the calling thread.
    pub fn pending() -> Self {
        let mut set = Self::of([]);
        // SAFETY: the set is live and filled by the call. sigpending(2).
        unsafe { libc::sigpending(&raw mut set.0) };
        set
    }

    /// Waits for one of these signals, which must be blocked. Returns the kernel's error if it refuses to wait.
    pub fn wait(&self) -> io::Result<Came> {
        loop {
            // SAFETY: siginfo_t consists of integers and pointers, for which zero is a valid value.
            let mut info = unsafe { std::mem::zeroed::<libc::siginfo_t>() };
            // SAFETY: the set is live and only read; `info` is live and filled by the call. sigwaitinfo(2).
            let signal = unsafe { libc::sigwaitinfo(&raw const self.0, &raw mut info) };
            if signal > 0 {
                return Ok(Came { signal, sent_by: sender(&info) });
            }
            // EINTR: the process was stopped and continued, or another signal arrived.
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Returns one of these signals if it is already pending.
    pub fn take(&self) -> Option<Came> {
        self.wait_for(Duration::ZERO).ok().flatten()
    }

    /// Waits for one of these signals, which must be blocked, for at most `longest`, which must be less than a second.
    /// Returns `None` if none arrived, and the kernel's error if it refuses to wait.
    #[allow(
        clippy::unnecessary_fallible_conversions,
        clippy::useless_conversion,
        reason = "c_long is 32 bits wide on some targets"
    )]
    pub fn wait_for(&self, longest: Duration) -> io::Result<Option<Came>> {
        let mut until = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        until.tv_nsec = libc::c_long::try_from(longest.subsec_nanos()).unwrap_or(0);
        // SAFETY: siginfo_t consists of integers and pointers, for which zero is a valid value.
        let mut info = unsafe { std::mem::zeroed::<libc::siginfo_t>() };
        // SAFETY: the set and the time are live and only read; `info` is live and filled by the call. sigtimedwait(2).
        let signal = unsafe { libc::sigtimedwait(&raw const self.0, &raw mut info, &raw const until) };
        if signal > 0 {
            return Ok(Some(Came { signal, sent_by: sender(&info) }));
        }
        let error = io::Error::last_os_error();
        let is_early = [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&error.kind());
        if is_early { Ok(None) } else { Err(error) }
    }
}

/// Returns the sender if a process sent the signal with kill, tgkill, or sigqueue. sigaction(2), `si_code`.
fn sender(info: &libc::siginfo_t) -> Option<libc::pid_t> {
    let by_a_process = [libc::SI_USER, libc::SI_TKILL, libc::SI_QUEUE].contains(&info.si_code);
    // SAFETY: with these codes the kernel fills in the sender's process ID. sigaction(2).
    by_a_process.then(|| unsafe { info.si_pid() })
}

/// The signal that interrupts a thread's wait in the kernel. It has no other effect: programs without a handler for
/// this signal ignore it, and programs with a handler must expect it at any time. signal(7).
const ROUSING: libc::c_int = libc::SIGURG;

/// Allows [`interrupt`] to interrupt this thread, until [`SignalSet::apply`] is called on the result. If the program
/// has a handler for the signal, that handler stays in place.
pub fn allow_interrupts() -> io::Result<SignalSet> {
    extern "C" fn do_nothing(_: libc::c_int) {}
    // SAFETY: sigaction consists of integers and pointers, for which zero is a valid value.
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

/// Returns the ID of this thread, for [`interrupt`].
pub fn this_thread() -> libc::pid_t {
    // SAFETY: the call takes no argument and always succeeds. gettid(2).
    unsafe { libc::gettid() }
}

/// Interrupts the given thread of this process if it is waiting in the kernel.
pub fn interrupt(thread: libc::pid_t) {
    let process = std::process::id();
    // SAFETY: the call takes three numbers; it is not an error if the thread has already ended. tgkill(2).
    let _ = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, ROUSING) };
}

#[cfg(test)]
mod tests {
    use super::{Came, SignalSet};

    #[test]
    fn a_blocked_signal_stays_pending_and_names_its_sender() {
        let signal = libc::SIGRTMIN() + 3;
        let set = SignalSet::of([signal]);
        let before = set.hold_back().expect("a signal that can be held");
        assert_eq!(set.take(), None);
        // SAFETY: the call sends a signal only to this thread, which blocks the signal. raise(3).
        let sent = unsafe { libc::raise(signal) };
        assert!(sent == 0 && SignalSet::pending().contains(signal));
        let own = libc::pid_t::try_from(std::process::id()).expect("process numbers fit");
        assert_eq!(set.wait().ok(), Some(Came { signal, sent_by: Some(own) }));
        assert!(!SignalSet::pending().contains(signal));
        before.apply().expect("the previous mask");
    }

    #[test]
    fn signals_that_cannot_or_must_not_be_blocked_are_not_in_the_set() {
        let set = SignalSet::that_can_be_held();
        let out = [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, libc::SIGABRT, libc::SIGPIPE];
        assert!(out.into_iter().all(|signal| !set.contains(signal)), "{set:?}");
        let held = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGCHLD, libc::SIGTSTP, libc::SIGRTMAX()];
        assert!(held.into_iter().all(|signal| set.contains(signal)), "{set:?}");
    }
}
