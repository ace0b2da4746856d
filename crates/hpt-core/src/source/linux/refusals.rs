//! Reasons why a source of Linux is unavailable.

use std::io;

use hpt_sys::arch::CounterRefused;

use crate::source::SourceError;

impl SourceError {
    /// Returns the reason that applies if no child process could be started to try a read.
    pub(in crate::source) fn not_tried() -> Self {
        Self::Refused {
            what: "could not start a child process to try the read; try again later".to_owned(),
            cause: None,
        }
    }

    /// Returns the reason for an `error` that the system returned. `what` is the file or the system call.
    pub(in crate::source) fn refused(what: impl Into<String>, error: io::Error) -> Self {
        Self::Refused { what: what.into(), cause: Some(error.into()) }
    }

    /// Returns the reason why the processor's own counter cannot be read.
    pub(crate) fn of_counter(refused: CounterRefused) -> Self {
        match refused {
            CounterRefused::NotReadable => Self::IllegalInstruction,
            CounterRefused::NotTried => Self::not_tried(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{error::Error, io};

    use hpt_sys::OsError;

    use super::SourceError;

    #[test]
    fn a_refusal_keeps_its_cause_and_does_not_repeat_it() {
        let refused = SourceError::refused("perf_event_open", io::Error::from_raw_os_error(libc::EMFILE));
        assert_eq!(refused.to_string(), "the source cannot be read: perf_event_open");
        let cause = refused.source().and_then(|cause| cause.downcast_ref::<OsError>()).expect("a cause");
        assert_eq!(cause.raw_os_error(), Some(libc::EMFILE));
        assert_eq!(refused.clone(), refused);
        assert_ne!(refused, SourceError::refused("perf_event_open", io::Error::from_raw_os_error(libc::EIO)));
        assert!(SourceError::not_tried().source().is_none());
    }
}
