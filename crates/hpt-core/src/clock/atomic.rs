//! An instant that threads share.

use std::sync::atomic::{AtomicI64, Ordering};

use super::instant::Instant;

/// An [`Instant`] that threads can share, like the atomic integers in the standard library. Like `AtomicI64`, it does
/// not exist on targets without 64-bit atomics.
///
/// # Examples
///
/// Threads record when work last arrived:
///
/// ```
/// use std::sync::atomic::Ordering;
/// use hpt_core::{Instant, clock::AtomicInstant};
///
/// static LAST: AtomicInstant = AtomicInstant::new(Instant::EPOCH);
///
/// let now = Instant::now();
/// let before = LAST.fetch_max(now, Ordering::AcqRel);
/// assert!(before <= now && LAST.load(Ordering::Acquire) >= now);
/// ```
#[derive(Debug)]
#[repr(transparent)]
pub struct AtomicInstant(AtomicI64);

impl AtomicInstant {
    /// Creates an atomic instant with this value.
    #[must_use]
    pub const fn new(instant: Instant) -> Self {
        Self(AtomicI64::new(instant.as_nanos()))
    }

    /// Returns the value.
    ///
    /// # Panics
    ///
    /// Panics if `order` is `Release` or `AcqRel`.
    #[inline]
    #[must_use]
    pub fn load(&self, order: Ordering) -> Instant {
        Instant::from_nanos(self.0.load(order))
    }

    /// Replaces the value.
    ///
    /// # Panics
    ///
    /// Panics if `order` is `Acquire` or `AcqRel`.
    #[inline]
    pub fn store(&self, instant: Instant, order: Ordering) {
        self.0.store(instant.as_nanos(), order);
    }

    /// Replaces the value. Returns the previous value.
    #[inline]
    pub fn swap(&self, instant: Instant, order: Ordering) -> Instant {
        Instant::from_nanos(self.0.swap(instant.as_nanos(), order))
    }

    /// Replaces the value with `instant` if `instant` is later. Returns the previous value.
    #[inline]
    pub fn fetch_max(&self, instant: Instant, order: Ordering) -> Instant {
        Instant::from_nanos(self.0.fetch_max(instant.as_nanos(), order))
    }

    /// Replaces the value with `instant` if `instant` is earlier. Returns the previous value.
    #[inline]
    pub fn fetch_min(&self, instant: Instant, order: Ordering) -> Instant {
        Instant::from_nanos(self.0.fetch_min(instant.as_nanos(), order))
    }

    /// Replaces the value with `new` if it equals `current`.
    ///
    /// # Errors
    ///
    /// Returns the value if it does not equal `current`.
    ///
    /// # Panics
    ///
    /// Panics if `failure` is `Release` or `AcqRel`.
    #[inline]
    pub fn compare_exchange(
        &self,
        current: Instant,
        new: Instant,
        success: Ordering,
        failure: Ordering,
    ) -> Result<Instant, Instant> {
        self.0
            .compare_exchange(current.as_nanos(), new.as_nanos(), success, failure)
            .map(Instant::from_nanos)
            .map_err(Instant::from_nanos)
    }

    /// Returns the value, and consumes the atomic.
    #[must_use]
    pub const fn into_inner(self) -> Instant {
        Instant::from_nanos(self.0.into_inner())
    }
}

impl From<Instant> for AtomicInstant {
    fn from(instant: Instant) -> Self {
        Self::new(instant)
    }
}
