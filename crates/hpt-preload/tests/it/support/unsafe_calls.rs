//! Clocks as C programs read them, forks and signals. The only file of these tests with unsafe calls.
#![expect(unsafe_code, reason = "clock_gettime, fork and signal handlers have no safe form")]

use core::ptr;

/// Calls `clock_gettime` through the dynamic symbol. Returns nanoseconds, or `errno`.
pub(crate) fn clock_ns(id: libc::clockid_t) -> Result<u64, i32> {
    let mut time = libc::timespec { tv_sec: -1, tv_nsec: -1 };
    // SAFETY: `time` is a live timespec; an unknown ID returns EINVAL. clock_gettime(2).
    let answer = unsafe { libc::clock_gettime(id, &raw mut time) };
    if answer == 0 { Ok(nanos(&time)) } else { Err(errno()) }
}

/// Reads the clock with a system call, which no library can interpose.
pub(crate) fn kernels_ns(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: -1, tv_nsec: -1 };
    // SAFETY: `time` is live, and the system call of this number fills the libc crate's timespec, with 64 or 32 bits.
    // clock_gettime(2).
    let answer = unsafe { libc::syscall(libc::SYS_clock_gettime, id, &raw mut time) };
    assert_eq!(answer, 0, "the kernel has clock {id}");
    nanos(&time)
}

fn nanos(time: &libc::timespec) -> u64 {
    let whole = |part: i64| u64::try_from(part).expect("a time that is not negative");
    assert!((0..1_000_000_000).contains(&time.tv_nsec), "{}", time.tv_nsec);
    // These fields do not have 64 bits on all machines.
    #[allow(clippy::useless_conversion, reason = "32 bits on some machines")]
    let (seconds, below) = (i64::from(time.tv_sec), i64::from(time.tv_nsec));
    whole(seconds) * 1_000_000_000 + whole(below)
}

/// Calls `clock_gettime` with a null pointer in a child. Returns its result and `errno`, or the signal that ended the
/// child.
pub(crate) fn with_a_null_pointer(id: libc::clockid_t) -> String {
    let status = in_a_child(|| {
        // SAFETY: clock_gettime(2) returns EFAULT for an invalid pointer or, if the C library itself writes, raises a
        // signal, which may end this child.
        let answer = unsafe { libc::clock_gettime(id, ptr::null_mut()) };
        if answer == -1 && errno() == libc::EFAULT { 14 } else { 99 }
    });
    match (libc::WIFSIGNALED(status), libc::WTERMSIG(status), libc::WEXITSTATUS(status)) {
        (true, signal, _) => format!("signal {signal}"),
        (false, _, code) => format!("exit code {code}"),
    }
}

/// Runs `work` in a forked child, and returns its wait status.
pub(crate) fn in_a_child(work: impl FnOnce() -> u8) -> i32 {
    // SAFETY: the child calls only `work` and `_exit`; glibc and musl make malloc usable in the child of a threaded
    // process. fork(2).
    let child = unsafe { libc::fork() };
    match child {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            let code = work();
            // SAFETY: ends the child at once, without the parent's exit handlers. _exit(2).
            unsafe { libc::_exit(code.into()) }
        }
        child => {
            let mut status = 0;
            // SAFETY: `status` is live, `child` is a child of this process. waitpid(2).
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(waited, child, "waitpid: {}", std::io::Error::last_os_error());
            status
        }
    }
}

/// Returns whether a wait status is that of a child that returned 0.
pub(crate) fn ended_well(status: i32) -> bool {
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

/// Makes SIGUSR1 call `handler`, which must be async-signal-safe.
pub(crate) fn on_sigusr1(handler: extern "C" fn(libc::c_int)) {
    // SAFETY: sigaction consists of integers, a set of signals and an address, for which zero is a value.
    let mut action = unsafe { core::mem::zeroed::<libc::sigaction>() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `action` is live, and by this function's contract its handler does only what is async-signal-safe.
    // sigaction(2).
    let answer = unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, ptr::null_mut()) };
    assert_eq!(answer, 0);
}

/// Returns this thread, for `send_sigusr1`.
pub(crate) fn this_thread() -> libc::pid_t {
    // SAFETY: has no precondition and cannot fail. gettid(2).
    unsafe { libc::gettid() }
}

/// Sends SIGUSR1 to a thread of this process. By number, because musl's handle of a thread is a pointer, which other
/// threads must not have.
pub(crate) fn send_sigusr1(thread: libc::pid_t) {
    let process = libc::pid_t::try_from(std::process::id()).expect("a process number");
    // SAFETY: the call takes three numbers. tgkill(2).
    let answer = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1) };
    assert_eq!(answer, 0);
}

pub(crate) fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().expect("the C library's number")
}

pub(crate) fn set_errno(value: i32) {
    // SAFETY: the function has no precondition. Linux Standard Base 5.0, `__errno_location`.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the place is this thread's own, live and aligned. errno(3).
    unsafe { place.write(value) };
}

/// Makes every attempt of this process to open a file fail with EMFILE.
pub(crate) fn open_no_more_files() {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `none` is live. setrlimit(2).
    let answer = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none) };
    assert_eq!(answer, 0);
}

/// Ends this process with SIGALRM if it still runs after `seconds`.
pub(crate) fn give_up_after(seconds: u32) {
    // SAFETY: takes a number. alarm(2).
    let _ = unsafe { libc::alarm(seconds) };
}

/// Ends this process as `main` does when it returns.
pub(crate) fn exit() -> ! {
    // SAFETY: this process has one thread by now and does not exit already. exit(3).
    unsafe { libc::exit(0) }
}
