//! Tests a source before it is returned to the caller.

use hpt_sys::host::Host;

use crate::source::{PosixClock, PosixId, SourceError, TimeSource, self_test};

/// Tests `source` against a kernel clock and returns it. Intended for sources whose registers might belong to
/// another device. The self-test detects such registers, because they do not advance, or advance at the wrong rate.
pub(super) fn tested<S: TimeSource>(source: S) -> Result<S, SourceError> {
    let reference = PosixClock::open(&Host::live(), PosixId::REFERENCE)?;
    self_test(&source, &reference).map_err(SourceError::SelfTest)?;
    Ok(source)
}
