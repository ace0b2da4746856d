//! A lock on a file that ends with the process that holds it, however that ends: flock(2).
//! Waits for nobody.

use std::{fs::File, io, os::fd::AsRawFd};

/// Locks the file for this process alone, for as long as it is open; `false` where another one holds it.
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: takes a file that is open and two flags. flock(2).
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let refused = io::Error::last_os_error();
    if refused.kind() == io::ErrorKind::WouldBlock { Ok(false) } else { Err(refused) }
}
