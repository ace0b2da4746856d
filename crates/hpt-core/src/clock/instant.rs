//! A point in the system's monotonic time, in nanoseconds. Does not read the clock itself; `system` does.

use std::{
    fmt,
    ops::{Add, AddAssign, Sub, SubAssign},
    time::{Duration, SystemTime},
};

use super::system;
use crate::sys::clock::ClockId;

/// A point in time on `CLOCK_MONOTONIC`. Reading the current time costs about as much as reading a hardware counter.
///
/// Works like [`std::time::Instant`], with additional guarantees. From the first reading on, its epoch and rate are
/// those of the kernel's `CLOCK_MONOTONIC`, within the bound that [`status`](super::status) reports. Instants can
/// therefore be compared between threads, cores, and processes of the same boot and time namespace, and can be passed
/// to the kernel as absolute deadlines. A comparison between two processes is accurate to within the bounds of both.
///
/// A value is a 64-bit number of nanoseconds, enough for 584 years after boot.
///
/// # Examples
///
/// ```
/// use hpt_core::Instant;
///
/// let start = Instant::now();
/// let sum: u64 = (0..1000).sum();
/// println!("{sum} took {:?}", start.elapsed());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Instant {
    nanoseconds: u64,
}

impl Instant {
    /// Returns the current time.
    ///
    /// # Ordering
    ///
    /// The reading is ordered after all preceding instructions. It is monotonic across threads: never lower than any
    /// reading that happened before it, even if another thread took that reading and passed it on.
    ///
    /// This holds as long as the counter itself runs forward. The project's docs/bounds.md describes what happens if a
    /// counter is set back or stops. There are two exceptions. While a daemon changes the kernel's tick (`ADJ_TICK`), a
    /// reading can be as much as 2.2 µs below a reading received from another thread. If `CLOCK_MONOTONIC` goes back by
    /// more than 100 ms, for example after setns(2) into a time namespace, instants follow it within a millisecond, and
    /// [`status`](super::status) counts the event.
    ///
    /// # Cost
    ///
    /// A reading costs one ordered read of the counter and one multiplication. About once per millisecond, a reading
    /// also costs two reads of the kernel's clock. This function never waits, allocates, or panics, so it can be called
    /// in a signal handler and in a forked child. The first reading in a process opens two files. If a sandbox forbids
    /// this, call [`prime`](super::prime) before entering the sandbox.
    #[inline(always)]
    #[must_use]
    pub fn now() -> Self {
        Self { nanoseconds: system::now_ns() }
    }

    /// Returns the current time without ordering, for a thread that times its own work.
    ///
    /// # Ordering
    ///
    /// The reading is not ordered: the processor may take it up to a few hundred instructions earlier than its place in
    /// the program. Compared with readings of other threads, the reading can be off by that much in either direction.
    #[inline(always)]
    #[must_use]
    pub fn now_unordered() -> Self {
        Self { nanoseconds: system::now_unordered_ns() }
    }

    /// Returns the instant that is `nanoseconds` after the epoch of `CLOCK_MONOTONIC`.
    #[must_use]
    pub const fn from_nanoseconds(nanoseconds: u64) -> Self {
        Self { nanoseconds }
    }

    /// Returns the nanoseconds since the epoch of `CLOCK_MONOTONIC`: the time of boot, shifted by the time namespace.
    #[must_use]
    pub const fn as_nanoseconds(self) -> u64 {
        self.nanoseconds
    }

    /// Returns the time in the format of `CLOCK_MONOTONIC`: whole seconds, and nanoseconds below one billion.
    /// `clock_nanosleep` accepts this with `TIMER_ABSTIME`.
    #[must_use]
    pub const fn to_timespec(self) -> (i64, u32) {
        ((self.nanoseconds / 1_000_000_000).cast_signed(), (self.nanoseconds % 1_000_000_000) as u32)
    }

    /// Returns the instant for seconds and nanoseconds of `CLOCK_MONOTONIC`; `None` if the seconds are negative, if the
    /// nanoseconds are one billion or more, or if the time is beyond 584 years.
    #[must_use]
    pub const fn from_timespec(seconds: i64, nanoseconds: u32) -> Option<Self> {
        if seconds < 0 || nanoseconds >= 1_000_000_000 {
            return None;
        }
        match seconds.cast_unsigned().checked_mul(1_000_000_000) {
            Some(whole) => match whole.checked_add(nanoseconds as u64) {
                Some(nanoseconds) => Some(Self { nanoseconds }),
                None => None,
            },
            None => None,
        }
    }

    /// Returns the wall-clock time of this instant, which is as accurate as the wall clock currently is. Use the result
    /// for printing and logging, not for measuring.
    ///
    /// Reads both clocks of the kernel. Does not compensate for a step of the wall clock between this instant and now.
    #[must_use]
    pub fn to_system_time(self) -> SystemTime {
        let monotonic = system::kernels_clock(ClockId::Monotonic);
        let before = monotonic.nanoseconds();
        let wall = Duration::from_nanos(system::kernels_clock(ClockId::Realtime).nanoseconds());
        let now = before + monotonic.nanoseconds().saturating_sub(before) / 2;
        let apart = Duration::from_nanos(now.abs_diff(self.nanoseconds));
        let since_epoch = if now >= self.nanoseconds { wall.saturating_sub(apart) } else { wall.saturating_add(apart) };
        SystemTime::UNIX_EPOCH + since_epoch
    }

    /// Returns the time from `earlier` to this instant; zero if `earlier` is later.
    #[inline(always)]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "below a billion")]
    pub const fn duration_since(self, earlier: Self) -> Duration {
        let nanoseconds = self.nanoseconds_since(earlier);
        // Most durations are below one second; testing for this first avoids waiting for a division.
        if nanoseconds < 1_000_000_000 {
            Duration::new(0, nanoseconds as u32)
        } else {
            Duration::from_nanos(nanoseconds)
        }
    }

    /// Returns the time from `earlier` to this instant; `None` if `earlier` is later.
    #[must_use]
    pub const fn checked_duration_since(self, earlier: Self) -> Option<Duration> {
        match self.nanoseconds.checked_sub(earlier.nanoseconds) {
            Some(nanoseconds) => Some(Duration::from_nanos(nanoseconds)),
            None => None,
        }
    }

    /// Returns the time from `earlier` to this instant; zero if `earlier` is later. Equivalent to
    /// [`duration_since`](Self::duration_since).
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }

    /// Returns the nanoseconds from `earlier` to this instant; zero if `earlier` is later. This is cheaper than a
    /// [`Duration`], which requires a division into seconds and nanoseconds.
    #[inline(always)]
    #[must_use]
    pub const fn nanoseconds_since(self, earlier: Self) -> u64 {
        match self.nanoseconds.checked_sub(earlier.nanoseconds) {
            Some(nanoseconds) => nanoseconds,
            None => nothing(),
        }
    }

    /// Returns the time from this instant to now.
    #[inline(always)]
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Self::now().duration_since(self)
    }

    /// Returns the nanoseconds from this instant to now.
    #[inline(always)]
    #[must_use]
    pub fn elapsed_nanoseconds(self) -> u64 {
        Self::now().nanoseconds_since(self)
    }

    /// Returns the nanoseconds from this instant to now, read with [`now_unordered`](Self::now_unordered).
    #[inline(always)]
    #[must_use]
    pub fn elapsed_nanoseconds_unordered(self) -> u64 {
        Self::now_unordered().nanoseconds_since(self)
    }

    /// Returns the instant that is `duration` later; `None` if that is beyond 584 years.
    #[must_use]
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        let nanoseconds = u64::try_from(duration.as_nanos()).ok()?;
        self.nanoseconds.checked_add(nanoseconds).map(|nanoseconds| Self { nanoseconds })
    }

    /// Returns the instant that is `duration` earlier; `None` if that is before the epoch.
    #[must_use]
    pub fn checked_sub(self, duration: Duration) -> Option<Self> {
        let nanoseconds = u64::try_from(duration.as_nanos()).ok()?;
        self.nanoseconds.checked_sub(nanoseconds).map(|nanoseconds| Self { nanoseconds })
    }

    /// Returns the instant that is `duration` later, saturating at 584 years.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        self.checked_add(duration).unwrap_or(Self { nanoseconds: u64::MAX })
    }

    /// Returns the instant that is `duration` earlier, saturating at the epoch.
    #[must_use]
    pub fn saturating_sub(self, duration: Duration) -> Self {
        self.checked_sub(duration).unwrap_or(Self { nanoseconds: 0 })
    }
}

/// Returns zero, the result if the other instant is later. This is a cold function so that the compiler emits a branch:
/// a conditional move would make every interval wait for the comparison.
#[cold]
const fn nothing() -> u64 {
    0
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// # Panics
    ///
    /// Panics if the result is beyond 584 years, as [`std::time::Instant`] does on overflow.
    fn add(self, duration: Duration) -> Self {
        self.checked_add(duration).expect("overflow when adding a duration to an instant")
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// # Panics
    ///
    /// Panics if the result is before the epoch, as [`std::time::Instant`] does on overflow.
    fn sub(self, duration: Duration) -> Self {
        self.checked_sub(duration).expect("overflow when subtracting a duration from an instant")
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub<Self> for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

impl fmt::Display for Instant {
    /// Formats the instant as seconds since the epoch of `CLOCK_MONOTONIC`, with nine decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanoseconds) = self.to_timespec();
        write!(f, "{seconds}.{nanoseconds:09}")
    }
}

/// A provider of the current time: [`SystemClock`](super::SystemClock) in a program,
/// [`ManualSource`](crate::testing::ManualSource) in its tests.
///
/// # Examples
///
/// ```
/// use hpt_core::{Instant, clock::{Now, SystemClock}, testing::ManualSource};
///
/// fn is_due(clock: &impl Now, deadline: Instant) -> bool {
///     clock.now() >= deadline
/// }
///
/// let clock = ManualSource::nanoseconds("by hand");
/// assert!(!is_due(&clock, Instant::from_nanoseconds(5)));
/// clock.advance(5);
/// assert!(is_due(&clock, Instant::from_nanoseconds(5)));
/// assert!(is_due(&SystemClock, Instant::from_nanoseconds(5)));
/// ```
pub trait Now {
    /// Returns the current time.
    fn now(&self) -> Instant;
}

impl<C: Now + ?Sized> Now for &C {
    fn now(&self) -> Instant {
        (**self).now()
    }
}

/// The system's clock as a value, for code that is generic over clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Now for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }
}
