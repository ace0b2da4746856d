//! Starts a child process, sends signals to it (kill(2)), and reports its state (waitpid(2)). Forwards no signals by
//! itself; the code that waits decides what to do.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::{net::UnixStream, process::CommandExt},
    process::{Child, Command},
    ptr,
    time::Duration,
};

use rustix::{
    io::Errno,
    process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, WaitOptions, waitid, waitpid},
    termios::tcgetpgrp,
};

use super::{
    process::{Scheduling, duration},
    signals::SignalSet,
};

/// The reason why no program was started.
#[derive(Debug)]
pub enum NotStarted {
    /// The kernel refused the scheduling parameters.
    Scheduling(io::Error),
    /// No process can be created, or the program cannot be executed.
    Program(io::Error),
    /// A sandbox does not let this process receive anything from a child.
    Receiving(io::Error),
}

/// Starts a program with these scheduling parameters from its first instruction on. The program starts with no
/// blocked signals, and ignores the given signal in addition to the signals that this process ignores.
pub fn start(
    command: &mut Command,
    scheduling: Option<Scheduling>,
    ignored: Option<libc::c_int>,
) -> Result<Child, NotStarted> {
    /// An offset that marks an error number from the child as an error of the scheduling call. The kernel's error
    /// numbers are below 4096. errno(3).
    const OF_SCHEDULING: i32 = 1 << 16;
    let none = SignalSet::of([]);
    let prepare = move || {
        none.apply()?;
        if let Some(signal) = ignored {
            ignore(signal);
        }
        let Some(scheduling) = scheduling else { return Ok(()) };
        scheduling
            .apply()
            .map_err(|error| io::Error::from_raw_os_error(OF_SCHEDULING + error.raw_os_error().unwrap_or(0)))
    };
    check_receiving().map_err(NotStarted::Receiving)?;
    // SAFETY: the child makes system calls with numbers and with structures on its own stack: the child neither
    // allocates nor locks, and an error is a number. fork(2).
    unsafe { command.pre_exec(prepare) };
    command.spawn().map_err(|error| match error.raw_os_error() {
        Some(number) if number >= OF_SCHEDULING => {
            NotStarted::Scheduling(io::Error::from_raw_os_error(number - OF_SCHEDULING))
        }
        _ => NotStarted::Program(error),
    })
}

/// Receives nothing from a socket. The standard library panics if it cannot receive the child's error, and leaves the
/// child running. Linux lets a sandbox refuse this call alone. recv(2).
fn check_receiving() -> io::Result<()> {
    let (mut receiver, _sender) = UnixStream::pair()?;
    receiver.set_nonblocking(true)?;
    match receiver.read(&mut [0]) {
        Err(error) if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Err(error),
        _ => Ok(()),
    }
}

/// The state of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildIs {
    Exited(libc::c_int),
    Killed(libc::c_int),
    Stopped(libc::c_int),
    GoingOn,
    /// The child's state has not changed.
    AsBefore,
}

/// Returns whether the process ignores the signal.
pub fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: sigaction consists of integers and pointers, for which zero is a valid value.
    let mut action = unsafe { std::mem::zeroed::<libc::sigaction>() };
    // SAFETY: without a new action the call only fills the structure, which is live. sigaction(2).
    let answer = unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) };
    answer == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Makes the kernel discard the signal.
pub fn ignore(signal: libc::c_int) {
    // SAFETY: no handler is installed, and the call touches no memory of the program. The call is async-signal-safe.
    // signal(2).
    let _ = unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Returns whether this process leads the session to which the child also belongs. The kernel reports a hang-up of the
/// terminal to the session leader only.
pub fn leads_the_session_of(child: libc::pid_t) -> bool {
    // rustix is not used: the ID of a session that was started outside the process's PID namespace is 0, which rustix
    // does not allow.
    // SAFETY: the call takes a number, and returns -1 for a process that does not exist. getsid(2).
    let session = unsafe { libc::getsid(child) };
    u32::try_from(session) == Ok(std::process::id())
}

/// Returns whether the terminal of this process, if there is one, currently belongs to the process group of this
/// process or of the child. A shell has a process group of its own.
#[allow(clippy::disallowed_methods, reason = "a device of the kernel")]
pub fn has_the_terminal_with(child: libc::pid_t) -> bool {
    let Ok(terminal) = File::open("/dev/tty") else {
        return false;
    };
    // rustix is not used: like a session ID, the ID of a process group outside the PID namespace is 0.
    // SAFETY: the call takes no argument and always succeeds. getpgrp(2).
    let own = unsafe { libc::getpgrp() };
    // SAFETY: the call takes a number, and returns -1 for a process that does not exist. getpgid(2).
    let of_the_child = unsafe { libc::getpgid(child) };
    tcgetpgrp(terminal).is_ok_and(|foreground| [own, of_the_child].contains(&foreground.as_raw_pid()))
}

/// Sends a signal to a child that has not been waited for yet, so its process ID cannot belong to another process.
pub fn send(child: libc::pid_t, signal: libc::c_int) {
    // SAFETY: the call takes two numbers; it is not an error if the child has already ended. kill(2).
    let _ = unsafe { libc::kill(child, signal) };
}

/// Applies the default action of a blocked signal to this process. Intended for signals that stop the process.
pub fn stop_by(signal: libc::c_int) {
    let only = SignalSet::of([signal]);
    // SAFETY: the call takes a number. raise(3).
    let _ = unsafe { libc::raise(signal) };
    // The process stops here, unless it is in an orphaned process group. signal(7).
    if let Ok(before) = only.change(libc::SIG_UNBLOCK) {
        let _ = before.apply();
    }
}

/// Reaps all ended child processes except `child`. The first process of a container must do this, because it becomes
/// the parent of all orphaned processes.
pub fn reap_others(child: libc::pid_t) {
    loop {
        // SAFETY: siginfo_t consists of integers and of pointers that are not followed, for which zero is a valid
        // value.
        let mut ended = unsafe { std::mem::zeroed::<libc::siginfo_t>() };
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: `ended` is live and filled by the call. waitid(2).
        let answer = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut ended, flags) };
        if answer != 0 {
            return;
        }
        // SAFETY: waitid filled in the fields for a child that ended, or left them zero. sigaction(2), waitid(2).
        let process = unsafe { ended.si_pid() };
        if process == 0 || process == child {
            return;
        }
        if !matches!(waitpid(Pid::from_raw(process), WaitOptions::NOHANG), Ok(Some(_))) {
            return;
        }
    }
}

/// Returns whether the child has ended, from its file in /proc. Used if the kernel refuses to report the child's state.
/// Returns `None` if /proc does not show the processes.
pub fn is_over(child: libc::pid_t) -> Option<bool> {
    std::fs::metadata("/proc/self/stat").ok()?;
    // The state and the parent follow the name, which is in parentheses. proc_pid_stat(5).
    let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    let mut fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split_whitespace();
    let (state, parent) = (fields.next(), fields.next().and_then(|parent| parent.parse().ok()));
    // If another part of this process has reaped the child, its number can belong to a process with another parent.
    Some(parent != Some(std::process::id()) || matches!(state, Some("Z" | "X")))
}

/// Returns the change in the child's state since the preceding call, without waiting. A child that has ended keeps its
/// files in /proc until [`reap`] is called.
pub fn look_after(child: libc::pid_t) -> io::Result<ChildIs> {
    let process = Pid::from_raw(child).ok_or(io::ErrorKind::InvalidInput)?;
    if let Some(status) = without_waiting(process, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)? {
        let exited = status.exit_status().map(ChildIs::Exited);
        let killed = || status.terminating_signal().map(ChildIs::Killed);
        return exited.or_else(killed).ok_or_else(|| io::ErrorKind::InvalidData.into());
    }
    stopped_or_continued(process)
}

/// Returns whether the child was stopped or continued since the preceding call.
fn stopped_or_continued(process: Pid) -> io::Result<ChildIs> {
    match without_waiting(process, WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED) {
        Ok(None) => Ok(ChildIs::AsBefore),
        Ok(Some(status)) => Ok(status.stopping_signal().map_or(ChildIs::GoingOn, ChildIs::Stopped)),
        // The child has just ended: without WEXITED, the kernel does not count it as a child any more. The next call
        // reports its end. wait_consider_task in the kernel's kernel/exit.c.
        Err(Errno::CHILD) => Ok(ChildIs::GoingOn),
        Err(error) => Err(error.into()),
    }
}

fn without_waiting(process: Pid, options: WaitIdOptions) -> Result<Option<WaitIdStatus>, Errno> {
    loop {
        match waitid(WaitId::Pid(process), options | WaitIdOptions::NOHANG) {
            Err(Errno::INTR) => {}
            told => return told,
        }
    }
}

/// Releases a child that has ended. Returns the CPU time, in user mode and in the kernel, of the child and of those of
/// its descendants that have ended and were waited for.
pub fn reap(child: libc::pid_t) -> io::Result<(Duration, Duration)> {
    // SAFETY: rusage consists of integers, for which zero is a valid value.
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    loop {
        // SAFETY: the status is not requested; `usage` is live and filled by the call. wait4(2).
        let answer = unsafe { libc::wait4(child, ptr::null_mut(), 0, &raw mut usage) };
        if answer == child {
            return Ok((duration(usage.ru_utime), duration(usage.ru_stime)));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{Pid, WaitIdOptions};

    use super::{ChildIs, is_ignored, look_after, stopped_or_continued, without_waiting};

    #[test]
    fn a_child_that_ends_between_the_two_questions_is_not_an_error() {
        let mut child = Command::new("true").spawn().expect("true starts");
        let number = libc::pid_t::try_from(child.id()).expect("a process number");
        let process = Pid::from_raw(number).expect("a process number");
        // Wait until it has ended, without releasing it.
        while without_waiting(process, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).expect("a child").is_none() {
            std::thread::yield_now();
        }
        assert!(matches!(stopped_or_continued(process), Ok(ChildIs::GoingOn)));
        assert!(matches!(look_after(number), Ok(ChildIs::Exited(0))));
        assert!(child.wait().expect("it has ended").success());
    }

    #[test]
    fn a_rust_program_ignores_sigpipe_from_the_start() {
        assert!(is_ignored(libc::SIGPIPE) && !is_ignored(libc::SIGUSR1));
    }
}
