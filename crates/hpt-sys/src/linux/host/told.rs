//! The content of a file on the machine, or the reason why it is not available. `Host` opens the file.

use std::io;

/// The result of reading a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known<T> {
    /// The content of the file.
    Is(T),
    /// The file does not exist on the machine.
    Absent,
    /// Reading the file requires additional permissions.
    NotAllowed,
    /// The file cannot be read, or its content cannot be interpreted.
    Garbled,
}

impl<T> Known<T> {
    pub const fn is(&self) -> Option<&T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Absent | Self::NotAllowed | Self::Garbled => None,
        }
    }

    /// Converts the content. Returns [`Garbled`](Self::Garbled) if it cannot be converted.
    pub fn parsed<U>(self, parse: impl FnOnce(T) -> Option<U>) -> Known<U> {
        match self {
            Self::Is(value) => parse(value).map_or(Known::Garbled, Known::Is),
            Self::Absent => Known::Absent,
            Self::NotAllowed => Known::NotAllowed,
            Self::Garbled => Known::Garbled,
        }
    }
}

impl Known<Vec<u8>> {
    pub(super) fn of(read: io::Result<Vec<u8>>) -> Self {
        match read {
            Ok(content) => Self::Is(content),
            Err(cause) => match cause.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Absent,
                io::ErrorKind::PermissionDenied => Self::NotAllowed,
                _ => Self::Garbled,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::Known;

    #[test]
    fn the_reasons_for_an_unreadable_file_are_distinguished() {
        let of = |kind: ErrorKind| Known::of(Err(Error::from(kind)));
        assert_eq!(of(ErrorKind::NotFound), Known::Absent);
        assert_eq!(of(ErrorKind::PermissionDenied), Known::NotAllowed);
        assert_eq!(of(ErrorKind::InvalidInput), Known::Garbled);
        let number = |text: &str| Known::Is(text.to_owned()).parsed(|text| text.parse::<u8>().ok());
        assert_eq!((number("7"), number("many")), (Known::Is(7), Known::Garbled));
        assert_eq!(Known::<u8>::NotAllowed.parsed(Some), Known::NotAllowed);
    }
}
