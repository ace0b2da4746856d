//! The test of a source before it is returned. Opens no source except the reference.

use super::{PosixClock, PosixId, TimeSource, Unavailable, self_test};
use crate::host::Host;

/// Returns `source` after a self-test against a clock of the kernel, for sources whose registers might belong to
/// something else. A wrong page is detected because it does not advance, or advances at the wrong rate.
pub(super) fn tested<S: TimeSource>(source: S) -> Result<S, Unavailable> {
    let reference = PosixClock::open(&Host::live(), PosixId::MonotonicRaw)?;
    self_test(&source, &reference).map_err(Unavailable::SelfTest)?;
    Ok(source)
}
