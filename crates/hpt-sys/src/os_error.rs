//! An operating system error that can be cloned and compared.

use std::{error::Error, fmt, io, sync::Arc};

/// An error that the operating system returned. Unlike [`io::Error`], it can be cloned, and compared by its error
/// number and kind.
#[derive(Clone, Debug)]
pub struct OsError(Arc<io::Error>);

impl OsError {
    /// Returns the error number (errno); `None` if the error does not have one.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        self.0.raw_os_error()
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.0.kind()
    }
}

impl From<io::Error> for OsError {
    fn from(error: io::Error) -> Self {
        Self(Arc::new(error))
    }
}

impl PartialEq for OsError {
    fn eq(&self, other: &Self) -> bool {
        (self.raw_os_error(), self.kind()) == (other.raw_os_error(), other.kind())
    }
}

impl Eq for OsError {}

impl fmt::Display for OsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for OsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::OsError;

    #[test]
    fn errors_are_compared_by_number_and_kind() {
        let error = |errno| OsError::from(io::Error::from_raw_os_error(errno));
        assert_eq!(error(libc::EIO), error(libc::EIO));
        // Both are of the kind PermissionDenied.
        assert_ne!(error(libc::EPERM), error(libc::EACCES));
        assert_ne!(error(libc::EIO), OsError::from(io::Error::other("a text")));
    }

    #[test]
    fn number_kind_and_text_are_those_of_the_system() {
        let errno = io::Error::from_raw_os_error(libc::EACCES);
        let text = errno.to_string();
        let error = OsError::from(errno);
        assert_eq!(
            (error.raw_os_error(), error.kind()),
            (Some(libc::EACCES), io::Error::from_raw_os_error(libc::EACCES).kind())
        );
        assert_eq!(error.to_string(), text);
    }
}
