//! The one file of these tests that may use `unsafe`: starting hpt with the counter forbidden.
#![expect(unsafe_code, reason = "what happens between fork and exec has no safe form")]

use std::{io, os::unix::process::CommandExt, process::Command};

/// Starts the command with PR_TSC_SIGSEGV in force: it outlives exec.
pub(crate) fn forbid_the_counter(command: &mut Command) -> &mut Command {
    let forbid = || {
        // SAFETY: PR_SET_TSC takes a number; prctl is async-signal-safe. prctl(2).
        match unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: `forbid` makes one system call and allocates nothing, as the child of a threaded process must. fork(2).
    unsafe { command.pre_exec(forbid) }
}

/// Asks a process to end as Ctrl-C does.
pub(crate) fn interrupt(process: u32) {
    send(process, libc::SIGINT);
}

/// Asks a process to end as an orderly shutdown does.
pub(crate) fn ask_to_end(process: u32) {
    send(process, libc::SIGTERM);
}

fn send(process: u32, signal: libc::c_int) {
    let process = libc::pid_t::try_from(process).expect("process numbers fit");
    // SAFETY: kill takes two numbers; the process is a child of the test, not yet waited for. kill(2).
    let answer = unsafe { libc::kill(process, signal) };
    assert_eq!(answer, 0, "kill: {}", io::Error::last_os_error());
}
