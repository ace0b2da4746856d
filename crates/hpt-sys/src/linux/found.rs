//! Finds a file without opening it (O_PATH).

use std::{
    ffi::CString,
    fs::File,
    io,
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

/// Returns a file that can be examined, but not read. Links are followed.
///
/// The standard library cannot do this: it removes the access mode from custom flags, and O_PATH belongs to the access
/// mode of musl, so that the file would be opened.
pub(super) fn find(path: &Path) -> io::Result<File> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    loop {
        // SAFETY: the path ends with a zero byte. open(2).
        let descriptor = unsafe { libc::open(path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
        if descriptor >= 0 {
            // SAFETY: the descriptor is new, so nothing else owns it. open(2).
            return Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }.into());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
