//! The only file of these tests that may use `unsafe`: forked children, one of them with the
//! counter forbidden, a signal handler, and code that runs before `main`.
#![expect(unsafe_code, reason = "fork, prctl, waitpid and signal handlers have no safe form")]

use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, TimeStampCounterReadability, WaitOptions, getpid, kill_process, set_time_stamp_counter_readability,
    waitpid,
};

/// The loader calls the functions in this section before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    super::starter::begin();
}

/// Forks, and returns true in the child. Call it only before `main`, while this process has one
/// thread: then the child has no restrictions.
pub(super) fn fork_before_main() -> bool {
    // SAFETY: has no arguments; no other thread exists, so no lock is copied while it is held.
    // fork(2).
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    child == 0
}

/// How a child ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChildEnd {
    /// It returned this code.
    Exited(i32),
    /// A signal ended it.
    Killed(i32),
}

/// Runs `work` in a forked child whose counter is forbidden with prctl, and returns how the child
/// ended; `None` if this kernel does not support PR_SET_TSC.
pub(crate) fn with_the_counter_forbidden(work: impl FnOnce() -> u8) -> Option<ChildEnd> {
    let end = in_a_child(|| {
        let answer = set_time_stamp_counter_readability(TimeStampCounterReadability::RaiseSIGSEGV);
        if answer.is_ok() { work() } else { NOT_KNOWN }
    });
    (end != ChildEnd::Exited(NOT_KNOWN.into())).then_some(end)
}

/// The exit code of the child if prctl does not support the call.
const NOT_KNOWN: u8 = 99;

/// Runs `work` in a forked child, and returns how the child ended.
pub(crate) fn in_a_child(work: impl FnOnce() -> u8) -> ChildEnd {
    // SAFETY: the child calls only `work` and `_exit`; glibc and musl make malloc usable in the
    // child of a threaded process. fork(2).
    let child = unsafe { libc::fork() };
    match child {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            let code = work();
            // SAFETY: ends the child immediately, without the parent's exit handlers. _exit(2).
            unsafe { libc::_exit(code.into()) }
        }
        child => {
            let ended = waitpid(Pid::from_raw(child), WaitOptions::empty()).expect("a child of this process");
            let (_, status) = ended.expect("it was waited for");
            let killed = status.terminating_signal().map(ChildEnd::Killed);
            killed.or(status.exit_status().map(ChildEnd::Exited)).expect("a child ends in one of two ways")
        }
    }
}

/// Moves the calling process, which must have one thread, to a time namespace whose
/// `CLOCK_MONOTONIC` is behind by this number of seconds. Returns whether the kernel did.
pub(crate) fn move_the_clock_back(seconds: u32) -> bool {
    const CLONE_NEWTIME: libc::c_int = 0x80;
    // SAFETY: takes a flag; the new namespace applies to children and to setns. unshare(2).
    if unsafe { libc::unshare(CLONE_NEWTIME) } != 0 {
        return false;
    }
    if std::fs::write("/proc/self/timens_offsets", format!("monotonic -{seconds} 0\n")).is_err() {
        return false;
    }
    let Ok(namespace) = std::fs::File::open("/proc/self/ns/time_for_children") else { return false };
    // SAFETY: the descriptor is open. setns(2).
    unsafe { libc::setns(std::os::fd::AsRawFd::as_raw_fd(&namespace), CLONE_NEWTIME) == 0 }
}

/// Installs `handler` for a signal every `shortest` time, in a thread that the kernel chooses, until
/// the process ends. The interval is at least four times the cost of a delivery on this machine, so
/// that the interrupted thread always makes progress. Measures that cost with a few deliveries to
/// this process, which must have one thread. `handler` must be async-signal-safe.
pub(crate) fn interrupt_every(shortest: Duration, handler: extern "C" fn(libc::c_int)) {
    const DELIVERIES: usize = 15;
    // SAFETY: sigaction consists of integers, a set of signals and an address, for which zero is a value.
    let mut action = unsafe { std::mem::zeroed::<libc::sigaction>() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `action` is live, and by this function's contract its handler does only what is
    // async-signal-safe. sigaction(2).
    let answer = unsafe { libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()) };
    assert_eq!(answer, 0);
    let mut costs = [Duration::ZERO; DELIVERIES];
    costs.fill_with(|| {
        let begun = Instant::now();
        // The only thread of a process handles its own signal before the call returns. kill(2).
        kill_process(getpid(), Signal::ALARM).expect("a process may signal itself");
        begun.elapsed()
    });
    costs.sort_unstable();
    // The median, because the first delivery prepares the clock, and a delivery may be preempted.
    let every = shortest.max(costs[DELIVERIES / 2] * 4);
    let every = libc::timeval {
        tv_sec: every.as_secs().try_into().expect("a short time"),
        tv_usec: u64::from(every.subsec_micros()).try_into().expect("less than a million"),
    };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: `timer` is live; the old value is not requested. setitimer(2).
    let answer = unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
    assert_eq!(answer, 0);
}
