//! Tries something that may raise a signal, in a forked child.
//! Decides nothing: the caller knows what a child that died means.

/// Whether a child that does `attempt` lives to its end. `attempt` must only execute instructions: no allocation, no lock, no output, as
/// behoves the child of a process that may have threads (fork(2)).
pub(crate) fn survives(attempt: impl FnOnce()) -> bool {
    // Not fork(3): the C library's takes its own locks, which a signal handler that asks for this may have interrupted.
    // SAFETY: with no flag but the signal and no stack of its own the call is the kernel's fork: the child has a copy of everything. It executes `attempt`,
    // which by this function's contract calls nothing that is not async-signal-safe, and ends in _exit. clone(2).
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    match child {
        // No child could be had: nothing is known, so nothing is promised.
        -1 => false,
        0 => {
            give_up_quietly();
            attempt();
            // SAFETY: ends the child without running the parent's exit handlers. _exit(2).
            unsafe { libc::_exit(0) }
        }
        child => {
            let child = libc::pid_t::try_from(child).unwrap_or(-1);
            let mut status = 0;
            loop {
                // SAFETY: `status` is live and filled by the call; `child` is a child of this process that nobody else knows of. waitpid(2).
                let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
                if waited == child {
                    return libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
                }
                // A handler interrupted the wait; anything else (SIGCHLD ignored, so that the kernel reaped it) tells nothing.
                if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
                    return false;
                }
            }
        }
    }
}

/// In the child: a signal ends it by the default action, whatever the program had in mind for it, and leaves no core file.
fn give_up_quietly() {
    // SAFETY: PR_SET_DUMPABLE takes a number. prctl(2); it is async-signal-safe.
    let _ = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
    for signal in [libc::SIGILL, libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: the default action is no handler and touches nothing of the program. signal(2); it is async-signal-safe.
        let _ = unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

#[cfg(test)]
mod tests {
    use super::survives;

    #[test]
    fn a_child_that_does_nothing_lives() {
        assert!(survives(|| ()));
    }

    #[test]
    fn a_child_that_is_killed_does_not_kill_its_parent() {
        let die = || {
            // SAFETY: raises SIGILL in the calling thread, which ends the child. raise(3) is async-signal-safe.
            let _ = unsafe { libc::raise(libc::SIGILL) };
        };
        assert!(!survives(die));
    }
}
