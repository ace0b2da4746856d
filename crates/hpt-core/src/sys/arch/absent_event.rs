//! The counterpart of the `event_*.rs` files on machines whose counters hpt does not read. Never panics and never
//! returns an invented number.

/// Nothing is requested from the event.
pub(in crate::sys) const USER_ACCESS: u64 = 0;

/// Returns `None`: no counter is read here.
pub(in crate::sys) fn counter(_index: u32) -> Option<u64> {
    None
}

/// Returns at once: there is nothing to wait for.
pub(in crate::sys) fn wait() {}
