//! The time that a test sets for a thread in place of the system's time, in nanoseconds. Present only with the feature
//! `testing`.

use std::{
    cell::Cell,
    sync::atomic::{AtomicI64, Ordering},
};

thread_local! {
    // The type needs no destructor, so a read also works in a signal handler and while the thread is exiting.
    static ENTERED: Cell<Option<&'static AtomicI64>> = const { Cell::new(None) };
}

/// Makes this thread read `nanos`, or the system's clock for `None`. Returns what the thread read before.
pub(crate) fn enter(nanos: Option<&'static AtomicI64>) -> Option<&'static AtomicI64> {
    ENTERED.replace(nanos)
}

/// Returns the time that is set for this thread, if any.
#[inline]
pub(crate) fn now_ns() -> Option<i64> {
    ENTERED.get().map(|nanos| nanos.load(Ordering::Acquire))
}

/// Advances the time that is set for this thread to `deadline_ns`, unless that deadline has passed. Returns the
/// resulting time; `None` if no time is set for this thread.
pub(crate) fn sleep_until(deadline_ns: i64) -> Option<i64> {
    let nanos = ENTERED.get()?;
    Some(nanos.fetch_max(deadline_ns, Ordering::AcqRel).max(deadline_ns))
}
