//! What a file of the machine said, or why it said nothing.
//! Opens none: `Host` does.

use std::io;

/// What was read from a file, or why nothing was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told<T> {
    /// What it says.
    Is(T),
    /// The machine has no such file.
    Absent,
    /// It takes more rights to read it.
    NotAllowed,
    /// It cannot be read, or says something that is not understood.
    Garbled,
}

impl<T> Told<T> {
    pub(crate) const fn is(&self) -> Option<&T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Absent | Self::NotAllowed | Self::Garbled => None,
        }
    }

    /// What is made of it; [`Garbled`](Self::Garbled) where nothing can be made of it.
    pub(crate) fn parsed<U>(self, parse: impl FnOnce(T) -> Option<U>) -> Told<U> {
        match self {
            Self::Is(value) => parse(value).map_or(Told::Garbled, Told::Is),
            Self::Absent => Told::Absent,
            Self::NotAllowed => Told::NotAllowed,
            Self::Garbled => Told::Garbled,
        }
    }
}

impl Told<Vec<u8>> {
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

    use super::Told;

    #[test]
    fn why_a_file_says_nothing_is_kept_apart() {
        let of = |kind: ErrorKind| Told::of(Err(Error::from(kind)));
        assert_eq!(of(ErrorKind::NotFound), Told::Absent);
        assert_eq!(of(ErrorKind::PermissionDenied), Told::NotAllowed);
        assert_eq!(of(ErrorKind::InvalidInput), Told::Garbled);
        let number = |text: &str| Told::Is(text.to_owned()).parsed(|text| text.parse::<u8>().ok());
        assert_eq!((number("7"), number("many")), (Told::Is(7), Told::Garbled));
        assert_eq!(Told::<u8>::NotAllowed.parsed(Some), Told::NotAllowed);
    }
}
