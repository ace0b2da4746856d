//! The one file of these tests that may use `unsafe`: a forked child in which the counter is forbidden.
#![expect(unsafe_code, reason = "fork, prctl and waitpid have no safe form")]

/// How a child ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChildEnd {
    /// It returned this code.
    Exited(i32),
    /// A signal ended it.
    Killed(i32),
}

/// Runs `work` in a forked child whose counter is forbidden by prctl, and says how the child ended. `None` when this kernel does not
/// know PR_SET_TSC.
pub(crate) fn with_the_counter_forbidden(work: impl FnOnce() -> u8) -> Option<ChildEnd> {
    // SAFETY: the child calls only `work` and `_exit`; glibc and musl make malloc usable in the child of a threaded process. fork(2).
    let child = unsafe { libc::fork() };
    match child {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            // SAFETY: PR_SET_TSC takes a number. prctl(2).
            let refused = unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) };
            let code = if refused == 0 { work() } else { NOT_KNOWN };
            // SAFETY: ends the child at once, without the parent's exit handlers. _exit(2).
            unsafe { libc::_exit(code.into()) }
        }
        child => {
            let mut status = 0;
            // SAFETY: `status` is live, `child` is a child of this process. waitpid(2).
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(waited, child, "waitpid: {}", std::io::Error::last_os_error());
            match status {
                status if libc::WIFSIGNALED(status) => Some(ChildEnd::Killed(libc::WTERMSIG(status))),
                status if libc::WEXITSTATUS(status) == i32::from(NOT_KNOWN) => None,
                status => Some(ChildEnd::Exited(libc::WEXITSTATUS(status))),
            }
        }
    }
}

/// The child's word that prctl does not know the call.
const NOT_KNOWN: u8 = 99;
