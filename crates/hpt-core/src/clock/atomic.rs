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
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Instant, clock::AtomicInstant};
    ///
    /// static LAST_SEEN: AtomicInstant = AtomicInstant::new(Instant::MIN);
    /// # assert_eq!(LAST_SEEN.load(std::sync::atomic::Ordering::Relaxed), Instant::MIN);
    /// ```
    #[must_use]
    pub const fn new(instant: Instant) -> Self {
        Self(AtomicI64::new(instant.as_nanos()))
    }

    /// Returns the value.
    ///
    /// # Panics
    ///
    /// Panics if `order` is `Release` or `AcqRel`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::atomic::Ordering;
    /// use hpt_core::{Instant, clock::AtomicInstant};
    ///
    /// let last = AtomicInstant::new(Instant::from_nanos(5));
    /// assert_eq!(last.load(Ordering::Acquire), Instant::from_nanos(5));
    /// ```
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
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::atomic::Ordering;
    /// use hpt_core::{Instant, clock::AtomicInstant};
    ///
    /// let last = AtomicInstant::new(Instant::EPOCH);
    /// last.store(Instant::from_nanos(5), Ordering::Release);
    /// assert_eq!(last.load(Ordering::Acquire), Instant::from_nanos(5));
    /// ```
    #[inline]
    pub fn store(&self, instant: Instant, order: Ordering) {
        self.0.store(instant.as_nanos(), order);
    }

    /// Replaces the value. Returns the previous value.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{sync::atomic::Ordering, time::Duration};
    /// use hpt_core::{Instant, clock::AtomicInstant};
    ///
    /// let last = AtomicInstant::new(Instant::from_nanos(1_000));
    /// let now = Instant::from_nanos(4_000);
    /// // The time since the previous event.
    /// assert_eq!(now - last.swap(now, Ordering::AcqRel), Duration::from_micros(3));
    /// ```
    #[inline]
    pub fn swap(&self, instant: Instant, order: Ordering) -> Instant {
        Instant::from_nanos(self.0.swap(instant.as_nanos(), order))
    }

    /// Replaces the value with `instant` if `instant` is later. Returns the previous value.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::atomic::Ordering;
    /// use hpt_core::{Instant, clock::AtomicInstant};
    ///
    /// let latest = AtomicInstant::new(Instant::from_nanos(5));
    /// assert_eq!(latest.fetch_max(Instant::from_nanos(3), Ordering::AcqRel), Instant::from_nanos(5));
    /// assert_eq!(latest.into_inner(), Instant::from_nanos(5));
    /// ```
    #[inline]
    pub fn fetch_max(&self, instant: Instant, order: Ordering) -> Instant {
        Instant::from_nanos(self.0.fetch_max(instant.as_nanos(), order))
    }

    /// Replaces the value with `instant` if `instant` is earlier. Returns the previous value.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::atomic::Ordering;
    /// use hpt_core::{Instant, clock::AtomicInstant};
    ///
    /// // The earliest deadline that any thread has reported.
    /// let earliest = AtomicInstant::new(Instant::MAX);
    /// earliest.fetch_min(Instant::from_nanos(5), Ordering::AcqRel);
    /// earliest.fetch_min(Instant::from_nanos(8), Ordering::AcqRel);
    /// assert_eq!(earliest.into_inner(), Instant::from_nanos(5));
    /// ```
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
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::atomic::Ordering;
    /// use hpt_core::{Instant, clock::AtomicInstant};
    ///
    /// let (old, new) = (Instant::from_nanos(5), Instant::from_nanos(8));
    /// let last = AtomicInstant::new(old);
    /// assert_eq!(last.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire), Ok(old));
    /// assert_eq!(last.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire), Err(new));
    /// ```
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
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Instant, clock::AtomicInstant};
    ///
    /// assert_eq!(AtomicInstant::from(Instant::EPOCH).into_inner(), Instant::EPOCH);
    /// ```
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
