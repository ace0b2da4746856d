//! Uses a forked child to try instructions that may raise a signal. Does not interpret the death of the child; the
//! caller does.

use std::{
    io,
    time::{Duration, Instant},
};

use super::{process::keeping_errno, wait::pause};

/// The outcome of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The child completed.
    Lived,
    /// A signal killed the child, or the child ended early on its own.
    Died,
    /// No child could be started, the child did not end, or another part of the program reaped it. The result is
    /// unknown; a later trial may succeed.
    NotTried,
}

/// Runs `attempt` in a forked child. `attempt` must only execute instructions. It must not allocate, lock, or write
/// output, as required in the child of a process that may have threads (fork(2)).
///
/// The child has no exit signal. The program therefore gets no SIGCHLD, the kernel does not reap the child if SIGCHLD
/// is ignored, and `waitpid(-1)` in another thread does not reap the child. Only a wait with `__WALL` or `__WCLONE`
/// reaps it. QEMU's user-mode emulation cannot start such a child, so the child has SIGCHLD as its exit signal there.
pub fn attempt_in_child(attempt: impl FnOnce()) -> Attempt {
    keeping_errno(|| attempt_within(LONGEST, attempt))
}

fn attempt_within(longest: Duration, attempt: impl FnOnce()) -> Attempt {
    // The child keeps all other signals blocked, so that it never runs a handler of the program, which might wait for a
    // lock that no thread of the child holds.
    let before = block_signals();
    let child = match fork_with(0) {
        -1 if io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) => fork_with(libc::SIGCHLD),
        child => child,
    };
    if child != 0 {
        set_blocked(&before);
    }
    match child {
        0 => {
            give_up_quietly();
            attempt();
            // SAFETY: the call ends the child without running the parent's exit handlers. _exit(2).
            unsafe { libc::_exit(0) }
        }
        // The process ID of a child, or -1.
        child => {
            let child = libc::pid_t::try_from(child).ok().filter(|&child| child > 0);
            child.map_or(Attempt::NotTried, |child| end_of(child, longest))
        }
    }
}

/// The time after which a child is killed. A child executes only a few instructions, so a child that has not ended
/// after this time never will. If a multithreaded program runs in QEMU's user-mode emulator (7.2), its children can
/// hang before their first instruction: to allocate memory, the emulator takes a lock, which may be held by a thread
/// that does not exist in the child.
const LONGEST: Duration = Duration::from_secs(10);
/// The time to sleep between two checks of a child.
const PAUSE: Duration = Duration::from_millis(1);

/// Waits until `child` ends, and kills it if it has not ended after `longest`.
fn end_of(child: libc::pid_t, longest: Duration) -> Attempt {
    let begun = Instant::now();
    let (mut status, mut is_killed) = (0, false);
    loop {
        // The wait includes children with and without an exit signal.
        let options = libc::__WALL | if is_killed { 0 } else { libc::WNOHANG };
        // SAFETY: `status` is live and filled by the call. waitpid(2).
        match unsafe { libc::waitpid(child, &raw mut status, options) } {
            0 if begun.elapsed() < longest => pause(PAUSE),
            0 => {
                // SAFETY: the call takes two numbers; the child has not been waited for, so its ID cannot have been
                // reused. kill(2).
                let _ = unsafe { libc::kill(child, libc::SIGKILL) };
                is_killed = true;
            }
            ended if ended == child => {
                return match (is_killed, libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0) {
                    (_, true) => Attempt::Lived,
                    (false, false) => Attempt::Died,
                    (true, false) => Attempt::NotTried,
                };
            }
            // A handler interrupted the wait.
            _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            // The child's result is lost.
            _ => return Attempt::NotTried,
        }
    }
}

/// The signals that an instruction can raise.
const RAISED: [libc::c_int; 3] = [libc::SIGILL, libc::SIGSEGV, libc::SIGBUS];

/// Blocks all signals in the calling thread, and returns the signals that were blocked before.
fn block_signals() -> libc::sigset_t {
    // SAFETY: sigset_t is an array of integers, for which zero is a valid value.
    let mut all = unsafe { std::mem::zeroed::<libc::sigset_t>() };
    // SAFETY: `all` is live and filled by the call. sigfillset(3).
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: as above.
    let mut before = unsafe { std::mem::zeroed::<libc::sigset_t>() };
    // SAFETY: both sets are live. The call reads the first and fills the second; it is async-signal-safe.
    // pthread_sigmask(3), signal-safety(7).
    let _ = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
    before
}

/// Blocks exactly these signals in the calling thread.
fn set_blocked(signals: &libc::sigset_t) {
    // SAFETY: the set is live and only read; the previous set may be null. pthread_sigmask(3).
    let _ = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, signals, std::ptr::null_mut()) };
}

/// Forks the process. The parent receives `exit_signal` when the child ends, or no signal if it is 0. Returns like
/// fork(2): 0 in the child, which may call only async-signal-safe functions.
fn fork_with(exit_signal: libc::c_int) -> libc::c_long {
    let (flags, no_stack) = (libc::c_long::from(exit_signal), 0);
    let (first, second) = if cfg!(target_arch = "s390x") { (no_stack, flags) } else { (flags, no_stack) };
    // fork(3) is not used, because the C library takes locks of its own in it. A signal handler that calls this
    // function may have interrupted a thread that holds such a lock.
    // SAFETY: without flags and without a stack of its own, the call is the kernel's fork. The child has a copy of
    // everything, and by this function's contract, it calls only async-signal-safe functions. On s390x, the stack comes
    // before the flags. clone(2), "C library/kernel differences".
    unsafe { libc::syscall(libc::SYS_clone, first, second, 0, 0, 0) }
}

/// Restores the default action of the signals that an instruction can raise, and unblocks them, so that such a signal
/// ends the child without a core file, regardless of the handlers that the program had installed.
fn give_up_quietly() {
    // SAFETY: the call takes a number. It is only a system call, so it is async-signal-safe. prctl(2),
    // PR_SET_DUMPABLE.
    let _ = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
    for signal in RAISED {
        // SAFETY: the default action is not a handler and touches no memory of the program. The call is
        // async-signal-safe. signal(2).
        let _ = unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: sigset_t is an array of integers, for which zero is a valid value.
    let mut raised = unsafe { std::mem::zeroed::<libc::sigset_t>() };
    // SAFETY: `raised` is live and filled by the call. sigemptyset(3).
    unsafe { libc::sigemptyset(&raw mut raised) };
    for signal in RAISED {
        // SAFETY: `raised` is live, and the signal is valid. sigaddset(3).
        unsafe { libc::sigaddset(&raw mut raised, signal) };
    }
    // SAFETY: the set is live and only read; the previous set may be null. pthread_sigmask(3), signal-safety(7).
    let _ = unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const raised, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use std::{
        process::Command,
        sync::atomic::{AtomicU32, Ordering},
        time::Duration,
    };

    use super::{Attempt, attempt_in_child, attempt_within};
    use crate::testing::own_program;

    #[test]
    fn a_child_that_does_nothing_survives() {
        assert_eq!(attempt_in_child(|| ()), Attempt::Lived);
    }

    #[test]
    fn a_child_that_is_killed_does_not_kill_its_parent() {
        let die = || {
            // raise(3) of musl signals the thread that it remembers, which is one of the parent.
            // SAFETY: the call takes no arguments and cannot fail. getpid(2).
            let own = unsafe { libc::syscall(libc::SYS_getpid) };
            // SAFETY: the call takes two numbers. SIGILL ends the child. kill(2).
            let _ = unsafe { libc::syscall(libc::SYS_kill, own, libc::SIGILL) };
        };
        assert_eq!(attempt_in_child(die), Attempt::Died);
    }

    #[test]
    fn a_child_runs_no_handler_of_the_program() {
        extern "C" fn hang(_: libc::c_int) {
            loop {
                // SAFETY: the call waits for a signal and touches nothing. pause(2).
                let _ = unsafe { libc::pause() };
            }
        }
        let handler: extern "C" fn(libc::c_int) = hang;
        // SAFETY: the handler calls only async-signal-safe functions, and no other test sends this signal. signal(2).
        let before = unsafe { libc::signal(libc::SIGWINCH, handler as libc::sighandler_t) };
        let raise = || {
            let child = libc::pid_t::try_from(std::process::id()).expect("a process ID");
            // SAFETY: the call sends a signal to the child. musl's raise(3) would send it to the parent, whose thread ID it
            // remembers. kill(2) is async-signal-safe.
            let _ = unsafe { libc::kill(child, libc::SIGWINCH) };
        };
        // In the handler, the child would hang, and its result would be unknown.
        assert_eq!(attempt_within(Duration::from_secs(2), raise), Attempt::Lived);
        // SAFETY: the previous action, as signal(2) returned it.
        let _ = unsafe { libc::signal(libc::SIGWINCH, before) };
    }

    #[test]
    fn a_child_that_hangs_is_ended() {
        let hang = || loop {
            // SAFETY: the call waits for a signal and touches nothing. pause(2).
            let _ = unsafe { libc::pause() };
        };
        assert_eq!(attempt_within(Duration::from_millis(20), hang), Attempt::NotTried);
    }

    /// Runs one test of this program in a separate process, because the test changes how the whole process handles its
    /// children.
    fn alone(test: &str) {
        let (runner, program) = own_program();
        if !runner.is_empty() {
            return skipped!("an emulator starts children with SIGCHLD only");
        }
        let name = format!("linux::trial::tests::{test}");
        let output = Command::new(program).args(["--exact", &name, "--ignored", "--nocapture"]).output();
        let output = output.expect("this program can be started");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    #[test]
    fn an_ignored_sigchld_does_not_change_the_outcome() {
        alone("with_sigchld_ignored");
    }

    #[test]
    #[ignore = "a part of another test: it changes the process"]
    fn with_sigchld_ignored() {
        // SAFETY: ignoring a signal installs no handler. signal(2).
        let before = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        assert_ne!(before, libc::SIG_ERR);
        assert_eq!(attempt_in_child(|| ()), Attempt::Lived);
    }

    #[test]
    fn a_handler_that_reaps_every_child_does_not_reap_a_trial() {
        alone("with_a_handler_that_reaps_every_child");
    }

    #[test]
    #[ignore = "a part of another test: it changes the process"]
    fn with_a_handler_that_reaps_every_child() {
        static SIGNALS: AtomicU32 = AtomicU32::new(0);
        extern "C" fn reap(_: libc::c_int) {
            SIGNALS.fetch_add(1, Ordering::Relaxed);
            // SAFETY: waitpid may be called without a place for the status; it is async-signal-safe. waitpid(2).
            while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
        }
        // SAFETY: the handler does only what is async-signal-safe. signal(2).
        let before = unsafe { libc::signal(libc::SIGCHLD, reap as extern "C" fn(libc::c_int) as usize) };
        assert_ne!(before, libc::SIG_ERR);
        assert!((0..100).all(|_| attempt_in_child(|| ()) == Attempt::Lived));
        assert_eq!(SIGNALS.load(Ordering::Relaxed), 0, "a trial sends no SIGCHLD");
    }

    #[test]
    fn a_thread_that_waits_for_any_child_does_not_reap_a_trial() {
        alone("with_a_thread_that_waits_for_any_child");
    }

    #[test]
    #[ignore = "a part of another test: it collects every child of the process"]
    fn with_a_thread_that_waits_for_any_child() {
        let mut own = Command::new("sleep").arg("1000").spawn().expect("coreutils");
        let own_id = libc::pid_t::try_from(own.id()).expect("the kernel's process IDs are positive");
        let supervisor = std::thread::spawn(move || {
            let mut strangers = 0;
            loop {
                // SAFETY: waitpid may be called without a place for the status. waitpid(2).
                let child = unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) };
                if child == own_id || child < 0 {
                    return strangers;
                }
                strangers += 1;
            }
        });
        let outcomes: Vec<_> = (0..200).map(|_| attempt_in_child(|| ())).collect();
        own.kill().expect("it is a child of this process");
        let strangers = supervisor.join().expect("a thread that only counts");
        // The supervisor has reaped `own`.
        assert!(own.wait().is_err());
        assert!(outcomes.iter().all(|outcome| *outcome == Attempt::Lived), "{outcomes:?}");
        assert_eq!(strangers, 0, "children that the program did not start");
    }

    #[test]
    fn without_a_free_process_the_result_is_unknown() {
        alone("with_no_free_process");
    }

    #[test]
    #[ignore = "a part of another test: it limits the process"]
    fn with_no_free_process() {
        // Root may start processes beyond the limit; an ordinary user may not.
        // SAFETY: geteuid takes no argument and cannot fail. geteuid(2).
        if unsafe { libc::geteuid() } == 0 {
            // SAFETY: the call takes a number. This process gives up its permissions permanently. setuid(2).
            if unsafe { libc::setuid(65_534) } != 0 {
                return skipped!("this process may not give up its rights");
            }
        }
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `none` is live and only read. setrlimit(2).
        let answer = unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &raw const none) };
        assert_eq!(answer, 0);
        assert_eq!(attempt_in_child(|| ()), Attempt::NotTried);
    }
}
