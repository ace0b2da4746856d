//! Access to the files of a system snapshot. A read gives the same result as on the original system, except that links
//! are not followed.

use std::{io, ops::Bound};

use super::{
    Capture,
    entry::{Entry, LARGEST_ERRNO, ReadRefused},
};
use crate::host::RecordedFiles;

impl ReadRefused {
    pub(in crate::linux::host::tuning) fn of(cause: &io::Error) -> Self {
        let errno = cause.raw_os_error().and_then(|errno| u16::try_from(errno).ok());
        match (cause.kind(), errno) {
            (io::ErrorKind::PermissionDenied, _) => Self::PermissionDenied,
            (_, Some(errno)) if (1..=LARGEST_ERRNO).contains(&errno) => Self::Errno(errno),
            (io::ErrorKind::FileTooLarge, _) => Self::TooLarge,
            (io::ErrorKind::InvalidInput, _) => Self::NotRegular,
            _ => Self::Errno(libc::EIO.unsigned_abs().try_into().unwrap_or(LARGEST_ERRNO)),
        }
    }

    fn error(self) -> io::Error {
        match self {
            Self::PermissionDenied => io::ErrorKind::PermissionDenied.into(),
            Self::NotRegular => io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"),
            Self::TooLarge => io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 64 MiB"),
            Self::Errno(errno) => io::Error::from_raw_os_error(errno.into()),
        }
    }
}

impl Capture {
    /// Returns the error that the kernel reports for a path that does not exist.
    fn nothing_at(&self, path: &str) -> io::Error {
        let folders = path.match_indices('/').map(|(end, _)| &path[..end]);
        let errno = folders.into_iter().find_map(|folder| match self.entries.get(folder)? {
            Entry::Link(_) => Some(libc::ELOOP),
            Entry::File(_) | Entry::Unreadable(_) | Entry::Absent => Some(libc::ENOTDIR),
        });
        io::Error::from_raw_os_error(errno.unwrap_or(libc::ENOENT))
    }
}

impl RecordedFiles for Capture {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let path = path.trim_start_matches('/');
        match self.get(path) {
            Some(Entry::File(content)) => Ok(content.clone()),
            Some(Entry::Unreadable(why)) => Err(why.error()),
            Some(Entry::Link(_)) => Err(ReadRefused::NotRegular.error()),
            Some(Entry::Absent) => Err(io::ErrorKind::NotFound.into()),
            None if self.first_below(path).is_some() => Err(ReadRefused::NotRegular.error()),
            None => Err(self.nothing_at(path)),
        }
    }

    fn is_there(&self, path: &str) -> bool {
        let path = path.trim_start_matches('/');
        match self.entries.get(path) {
            Some(Entry::File(_) | Entry::Unreadable(_)) => true,
            Some(Entry::Link(_) | Entry::Absent) => false,
            None => self.first_below(path).is_some(),
        }
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let folder = folder.trim_start_matches('/');
        let begin = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let mut names = Vec::new();
        let mut from = Bound::Included(begin.clone());
        while let Some((path, _)) = self.entries.range((from, Bound::Unbounded)).next() {
            let Some(rest) = path.strip_prefix(&begin) else { break };
            match rest.split_once('/') {
                Some((name, _)) => {
                    // Skips the other paths in that directory: `0` is the character after `/`.
                    from = Bound::Included(format!("{begin}{name}0"));
                    names.push(name.to_owned());
                }
                None => {
                    from = Bound::Excluded(path.clone());
                    names.push(rest.to_owned());
                }
            }
        }
        names
    }
}
