//! A file lock that is released when the process that holds it ends, for whatever reason (flock(2)). Never waits for
//! another process to release the lock.

use std::{
    fs::File,
    io,
    ops::{Deref, DerefMut},
    process,
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

/// An open file that this process has locked exclusively. Dropping it unlocks the file.
///
/// Closing the file is not enough to unlock it, because the lock belongs to the open file description, and a child
/// between `fork` and `exec` holds a copy of it. The next process would find the file still locked.
#[derive(Debug)]
pub struct FileLock {
    file: File,
    holder: u32,
}

/// Locks `file`, or returns `None` if another open file description has the lock.
pub fn try_lock(file: File) -> io::Result<Option<FileLock>> {
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(FileLock { file, holder: process::id() })),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(refused) => Err(refused.into()),
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // A forked child that drops its copy must not unlock the file of its parent.
        if self.holder != process::id() {
            return;
        }
        // If this fails, the close that follows releases the lock.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl Deref for FileLock {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl DerefMut for FileLock {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_lock_is_free_even_if_a_copy_of_the_open_file_exists() {
        let path = tempfile::NamedTempFile::new().expect("a temporary file");
        let open = || path.reopen().expect("an existing file");
        let held = try_lock(open()).expect("a file can be locked").expect("an unlocked file");
        // The handle of a forked child.
        let copy = held.try_clone().expect("a file has two handles");
        assert!(try_lock(open()).expect("a file can be locked").is_none(), "the file is locked");
        drop(held);
        assert!(try_lock(open()).expect("a file can be locked").is_some(), "the file is unlocked");
        drop(copy);
    }
}
