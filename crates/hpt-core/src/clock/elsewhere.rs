//! The system's clock on targets where this crate supports no counter: every reading is a reading of the operating
//! system's monotonic clock. The counterpart of `system.rs`.

use std::time::Duration;

use hpt_sys::clock::{Clock, ClockId, Route};

use super::report::{ClockSource, Status, UseSourceError};
use crate::source::{Opened, PosixId};

/// Returns the time of the operating system's monotonic clock in nanoseconds since its first reading in this process.
#[inline]
pub(super) fn now_ns() -> u64 {
    kernels_clock(ClockId::Monotonic).nanos()
}

/// Returns the same as `now_ns`: the operating system orders every read.
#[inline]
pub(super) fn now_unordered_ns() -> u64 {
    now_ns()
}

/// Returns a clock of the operating system.
pub(crate) fn kernels_clock(clock: ClockId) -> Clock {
    Clock::unasked(clock, Route::Library)
}

/// Returns the source in use: `monotonic`, the clock of the operating system.
///
/// # Examples
///
/// ```
/// use hpt_core::clock;
///
/// assert_eq!(clock::source().id.as_str(), "monotonic");
/// ```
#[must_use]
pub fn source() -> ClockSource {
    ClockSource {
        id: PosixId::Monotonic.source_id(),
        reason: "on this target, hpt-core supports no counter that could replace the operating system's clock",
    }
}

/// Returns the current quality of the system's clock. Instants are readings of the operating system's clock, so that
/// their distance from it is zero.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use hpt_core::clock;
///
/// assert_eq!(clock::status().bound, Duration::ZERO);
/// ```
#[must_use]
pub fn status() -> Status {
    let ClockSource { id: source, reason } = source();
    Status {
        source,
        reason,
        last_bracket: None,
        bound: Duration::ZERO,
        frequency_error_ppm: None,
        anchorings: 0,
        rate_changes: 0,
        jumps: 0,
        disruptions: None,
        refused_brackets: 0,
        restarts: 0,
    }
}

/// Returns `None`, because no disruption marker is known on this target.
///
/// # Examples
///
/// ```
/// assert_eq!(hpt_core::clock::disruption_marker(), None);
/// ```
#[must_use]
pub const fn disruption_marker() -> Option<u64> {
    None
}

/// Takes the first reading, which is the epoch of [`Instant`](super::Instant) on this target.
///
/// # Examples
///
/// ```
/// use hpt_core::{Instant, clock};
///
/// clock::prime();
/// assert!(Instant::now() >= Instant::EPOCH);
/// ```
pub fn prime() {
    now_ns();
}

/// Makes `opened` the time source of all threads. On this target, only the source `monotonic` is accepted, which is
/// already in use.
///
/// # Errors
///
/// Returns [`UseSourceError::OnlyClock`] for every other source.
///
/// # Examples
///
/// ```standalone_crate
/// use hpt_core::{Host, clock, source};
///
/// clock::use_source(source::open(&Host::live(), "monotonic")?)?;
/// assert!(clock::use_source(source::open(&Host::live(), "realtime")?).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[expect(clippy::needless_pass_by_value, reason = "on Linux, the clock keeps the source")]
pub fn use_source(opened: Opened) -> Result<(), UseSourceError> {
    if opened.as_dyn().info().id == PosixId::Monotonic.source_id() { Ok(()) } else { Err(UseSourceError::OnlyClock) }
}
