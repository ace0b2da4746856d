//! The only file of these tests that may use `unsafe`: starting hpt with the counter forbidden,
//! signals, locks.
#![expect(unsafe_code, reason = "what happens between fork and exec has no safe form")]

use std::{
    fs::File,
    io,
    os::{fd::AsRawFd, unix::process::CommandExt},
    process::Command,
};

use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock, open},
    process::{
        Pid, Resource, Rlimit, Signal, TimeStampCounterReadability, kill_process, kill_process_group,
        set_time_stamp_counter_readability, setrlimit,
    },
    pty::{OpenptFlags, openpt, ptsname, unlockpt},
    thread::{CpuSet, sched_setaffinity},
};

/// Starts the command with PR_TSC_SIGSEGV, which persists across exec.
pub(crate) fn forbid_the_counter(command: &mut Command) -> &mut Command {
    let forbid = || Ok(set_time_stamp_counter_readability(TimeStampCounterReadability::RaiseSIGSEGV)?);
    // SAFETY: `forbid` makes one system call and allocates nothing, as the child of a threaded process must. fork(2).
    unsafe { command.pre_exec(forbid) }
}

/// Starts the command with a limit on the time that a real-time thread may run without blocking,
/// which prevents spinning.
pub(crate) fn limit_realtime(command: &mut Command) -> &mut Command {
    let limit = || Ok(setrlimit(Resource::Rttime, exactly(1_000_000))?);
    // SAFETY: `limit` makes one system call and allocates nothing, as the child of a threaded process must. fork(2).
    unsafe { command.pre_exec(limit) }
}

/// Starts the command with a limit on the size of files that it writes: SIGXFSZ ends it during a
/// write beyond the limit.
pub(crate) fn limit_files(command: &mut Command, bytes: u64) -> &mut Command {
    let limit = move || Ok(setrlimit(Resource::Fsize, exactly(bytes))?);
    // SAFETY: `limit` makes one system call and allocates nothing, as the child of a threaded process must. fork(2).
    unsafe { command.pre_exec(limit) }
}

fn exactly(limit: u64) -> Rlimit {
    Rlimit { current: Some(limit), maximum: Some(limit) }
}

/// Opens a new terminal: the side that displays it, and the side that a program writes to. It is
/// not a controlling terminal.
pub(crate) fn terminal() -> io::Result<(File, File)> {
    let shown = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    unlockpt(&shown)?;
    let written = open(ptsname(&shown, Vec::new())?, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    Ok((shown.into(), written.into()))
}

/// Sets the number of columns of a terminal.
pub(crate) fn set_columns(terminal: &File, columns: u16) {
    let size = libc::winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCSWINSZ reads one `winsize`, which outlives the call. ioctl_tty(2).
    let done = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
}

/// Restores the default of the signals of Ctrl-C and hang-up for the processes that the tests
/// start. Tests in the background or under nohup may have inherited that these are ignored.
pub(crate) fn heed_the_terminal() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
            // SAFETY: the default is no function of ours. signal(2).
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    });
}

/// Sends SIGINT to a process, like Ctrl-C.
pub(crate) fn interrupt(process: u32) {
    send(process, libc::SIGINT);
}

/// Sends SIGINT to all processes of a group, like a terminal on Ctrl-C.
pub(crate) fn interrupt_group(leader: u32) {
    kill_process_group(number(leader), Signal::INT).expect("the group of a child of the test");
}

/// Sends SIGTERM to a process, like an orderly shutdown.
pub(crate) fn ask_to_end(process: u32) {
    send(process, libc::SIGTERM);
}

/// Waits until no other process has the file locked, and locks it until it is closed.
pub(crate) fn lock(file: &File) {
    flock(file, FlockOperation::LockExclusive).expect("a file can be locked");
}

/// Stops a process unconditionally.
pub(crate) fn stop(process: u32) {
    send(process, libc::SIGSTOP);
}

/// Continues a stopped process.
pub(crate) fn go_on(process: u32) {
    send(process, libc::SIGCONT);
}

/// Sends a signal to a process that the test started, or that one of those started.
pub(crate) fn send(process: u32, signal: libc::c_int) {
    let signal = Signal::from_named_raw(signal).expect("no real-time signal");
    kill_process(number(process), signal).expect("a process of the test");
}

/// Sets the affinity of a thread to exactly these CPUs, like `taskset`.
pub(crate) fn allow_cpus(thread: u32, cpus: &[usize]) {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu);
    }
    sched_setaffinity(Some(number(thread)), &set).expect("a thread of the test");
}

fn number(process: u32) -> Pid {
    i32::try_from(process).ok().and_then(Pid::from_raw).expect("a process or thread")
}
