//! Signals that stop, continue or interrupt another process.
//! Does not wait for their effect.
#![expect(unsafe_code, reason = "kill, which the C library declares")]

use std::io;

/// Stops a process with a signal to one of its threads, which runs until the signal reaches it. A
/// signal to the process would go to its first thread, and would take effect only when that thread
/// runs.
///
/// # Errors
///
/// Fails if there is no such process or thread, or if it belongs to another user.
pub fn stop(process: u32, thread: u32) -> io::Result<()> {
    let number = |number: u32| {
        let number = libc::pid_t::try_from(number).ok().filter(|&number| number > 1);
        number.ok_or(io::Error::from(io::ErrorKind::InvalidInput))
    };
    let (process, thread) = (number(process)?, number(thread)?);
    // SAFETY: tgkill takes three numbers. tgkill(2).
    let answer = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGSTOP) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Continues a stopped process.
///
/// # Errors
///
/// Fails if there is no such process, or if it belongs to another user.
pub fn go_on(process: u32) -> io::Result<()> {
    send(process, libc::SIGCONT)
}

/// Interrupts a process, as Ctrl-C does.
///
/// # Errors
///
/// Fails if there is no such process, or if it belongs to another user.
pub fn interrupt(process: u32) -> io::Result<()> {
    send(process, libc::SIGINT)
}

fn send(process: u32, signal: libc::c_int) -> io::Result<()> {
    // Zero and negative numbers refer to process groups.
    let process = libc::pid_t::try_from(process).ok().filter(|&process| process > 1);
    let process = process.ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: kill takes two numbers. kill(2).
    let answer = unsafe { libc::kill(process, signal) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
