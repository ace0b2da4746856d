//! Without the feature `testing`, no thread reads a clock that a test controls. The counterpart of `frozen`.

use std::task::Waker;

use super::Instant;

/// A deadline on a clock that a test controls, for crates that implement waiting. Without the feature `testing`, there is
/// none.
#[derive(Debug)]
pub enum FrozenDeadline {}

impl FrozenDeadline {
    /// Returns `None`: this thread reads the system's clock.
    #[inline]
    #[must_use]
    pub const fn new(_deadline: Instant, _waker: &Waker) -> Option<Self> {
        None
    }

    /// Returns `None`, as [`new`](Self::new).
    #[inline]
    #[must_use]
    pub const fn of_process(_deadline: Instant, _waker: &Waker) -> Option<Self> {
        None
    }

    /// Returns whether all threads of the process read a clock that a test controls: no.
    #[inline]
    #[must_use]
    pub const fn is_any() -> bool {
        false
    }

    /// Returns whether the clock has reached the deadline.
    #[must_use]
    pub const fn has_passed(&self) -> bool {
        match *self {}
    }
}
