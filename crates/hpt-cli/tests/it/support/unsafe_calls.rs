//! The one file of these tests that may use `unsafe`: starting hpt with the counter forbidden, signals, locks.
#![expect(unsafe_code, reason = "what happens between fork and exec has no safe form")]

use std::{
    ffi::CStr,
    fs::File,
    io,
    os::{
        fd::AsRawFd,
        unix::{fs::OpenOptionsExt, process::CommandExt},
    },
    process::Command,
};

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

/// Starts the command with a limit on how long a real-time thread of it may run without waiting: then none of them spins.
pub(crate) fn limit_realtime(command: &mut Command) -> &mut Command {
    let limit = || {
        let second = libc::rlimit { rlim_cur: 1_000_000, rlim_max: 1_000_000 };
        // SAFETY: setrlimit reads a struct that is there, and is async-signal-safe. setrlimit(2).
        match unsafe { libc::setrlimit(libc::RLIMIT_RTTIME, &raw const second) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: `limit` makes one system call and allocates nothing, as the child of a threaded process must. fork(2).
    unsafe { command.pre_exec(limit) }
}

/// Starts the command with a limit on the length of the files that it writes: SIGXFSZ ends it in the middle of a write that would go beyond.
#[allow(clippy::cast_possible_truncation, reason = "a length in tests; a limit has the width of a long")]
pub(crate) fn limit_files(command: &mut Command, bytes: u64) -> &mut Command {
    let limit = move || {
        let length = libc::rlimit { rlim_cur: bytes as libc::rlim_t, rlim_max: bytes as libc::rlim_t };
        // SAFETY: setrlimit reads a struct that is there, and is async-signal-safe. setrlimit(2).
        match unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const length) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: `limit` makes one system call and allocates nothing, as the child of a threaded process must. fork(2).
    unsafe { command.pre_exec(limit) }
}

/// A new terminal: the side that shows it, and the side that a program writes to. It controls no process.
pub(crate) fn terminal() -> io::Result<(File, File)> {
    let open = |path: &str| File::options().read(true).write(true).custom_flags(libc::O_NOCTTY).open(path);
    let shown = open("/dev/ptmx")?;
    let mut name = [0_u8; 64];
    // SAFETY: unlockpt takes a number. unlockpt(3).
    let unlocked = unsafe { libc::unlockpt(shown.as_raw_fd()) };
    // SAFETY: ptsname_r writes no more than the length that it is given. ptsname(3).
    let named = unsafe { libc::ptsname_r(shown.as_raw_fd(), name.as_mut_ptr().cast(), name.len()) };
    if (unlocked, named) != (0, 0) {
        return Err(io::Error::last_os_error());
    }
    let name = CStr::from_bytes_until_nul(&name).map_err(io::Error::other)?;
    let written = open(name.to_str().map_err(io::Error::other)?)?;
    Ok((shown, written))
}

/// From here on what the tests start is ended by Ctrl-C and by the end of its terminal, as at a terminal: who started the tests in the background, or by nohup, may have
/// had these signals ignored, and that is inherited.
pub(crate) fn heed_the_terminal() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
            // SAFETY: the default is no function of ours. signal(2).
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    });
}

/// Asks a process to end as Ctrl-C does.
pub(crate) fn interrupt(process: u32) {
    send(process, libc::SIGINT);
}

/// Asks all processes of a group to end, as a terminal does when Ctrl-C is pressed.
pub(crate) fn interrupt_group(leader: u32) {
    let group = libc::pid_t::try_from(leader).expect("process numbers fit");
    // SAFETY: killpg takes two numbers; the group's leader is a child of the test, not yet waited for. killpg(3).
    let answer = unsafe { libc::killpg(group, libc::SIGINT) };
    assert_eq!(answer, 0, "killpg: {}", io::Error::last_os_error());
}

/// Asks a process to end as an orderly shutdown does.
pub(crate) fn ask_to_end(process: u32) {
    send(process, libc::SIGTERM);
}

/// Waits until no other process has the file locked, and locks it for as long as it is open.
pub(crate) fn lock(file: &File) {
    // SAFETY: takes a file that is open and a flag. flock(2).
    let answer = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) };
    assert_eq!(answer, 0, "flock: {}", io::Error::last_os_error());
}

/// Stops a process, whatever it does.
pub(crate) fn stop(process: u32) {
    send(process, libc::SIGSTOP);
}

/// Lets a stopped process go on.
pub(crate) fn go_on(process: u32) {
    send(process, libc::SIGCONT);
}

/// Sends a signal to a process that the test started, or that one of those started.
pub(crate) fn send(process: u32, signal: libc::c_int) {
    let process = libc::pid_t::try_from(process).expect("process numbers fit");
    // SAFETY: kill takes two numbers, and touches no memory whosever the process is. kill(2).
    let answer = unsafe { libc::kill(process, signal) };
    assert_eq!(answer, 0, "kill: {}", io::Error::last_os_error());
}

/// Allows a thread of this user exactly these CPUs, as `taskset` does.
pub(crate) fn allow_cpus(thread: u32, cpus: &[usize]) {
    // SAFETY: cpu_set_t is an array of integers, for which zero is a value.
    let mut set = unsafe { std::mem::zeroed::<libc::cpu_set_t>() };
    for &cpu in cpus {
        assert!(cpu < 8 * size_of::<libc::cpu_set_t>(), "CPU {cpu} is beyond the kernel's sets");
        // SAFETY: `cpu` is below the number of bits in the set. CPU_SET(3).
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    let thread = libc::pid_t::try_from(thread).expect("a thread's number");
    // SAFETY: the set is live and its size is given. sched_setaffinity(2).
    let answer = unsafe { libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), &raw const set) };
    assert_eq!(answer, 0, "{}", io::Error::last_os_error());
}
