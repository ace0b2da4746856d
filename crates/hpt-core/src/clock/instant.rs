//! A moment of the system's monotonic time, in nanoseconds.
//! Reads nothing itself: `system` does.

use std::{
    fmt,
    ops::{Add, AddAssign, Sub, SubAssign},
    time::{Duration, SystemTime},
};

use super::system;
use crate::sys::clock::ClockId;

/// A moment of `CLOCK_MONOTONIC`, read at the speed of the hardware's counter.
///
/// Like [`std::time::Instant`], and more: its epoch and its rate are those of the kernel's `CLOCK_MONOTONIC` within the bound that
/// [`status`](super::status) states, from the first reading on. So instants compare between threads, cores and the processes of one boot and
/// time namespace, and one can be handed to the kernel as an absolute deadline. Between two processes they compare
/// within the bounds of both.
///
/// A value has 64 bits of nanoseconds, which is enough for 584 years since the machine was started.
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
    /// Now.
    ///
    /// # Ordering
    ///
    /// Not before anything that stands earlier in the program has completed. Never below a reading that was taken earlier, in whichever thread, and be it
    /// handed over.
    ///
    /// That holds as long as the counter itself runs forwards: what happens where one is set back or stops is in the project's docs/safety.md.
    /// While a daemon changes the kernel's tick (`ADJ_TICK`), a reading may be up to 2.2 µs below one that another thread handed over.
    /// One exception: a `CLOCK_MONOTONIC` that went back by more than 100 ms, as by setns(2) into a time namespace, is followed within a millisecond, and counted
    /// in [`status`](super::status).
    ///
    /// # Cost
    ///
    /// An ordered read of the counter and a multiplication; about once in a millisecond, two reads of the kernel's clock as well. Never waits, allocates or
    /// panics: it may stand in a signal handler and in a forked child. The first reading of a process opens two files; in a sandbox that forbids that, call
    /// [`prime`](super::prime) before it is shut.
    #[inline(always)]
    #[must_use]
    pub fn now() -> Self {
        Self { nanoseconds: system::now_ns() }
    }

    /// Now, for a thread that times its own work.
    ///
    /// # Ordering
    ///
    /// None: the processor may take the reading earlier than it stands in the program, by some hundred instructions. Readings that
    /// another thread took may be later, or earlier, by as much.
    #[inline(always)]
    #[must_use]
    pub fn now_unordered() -> Self {
        Self { nanoseconds: system::now_unordered_ns() }
    }

    /// The moment `nanoseconds` after the epoch of `CLOCK_MONOTONIC`.
    #[must_use]
    pub const fn from_nanoseconds(nanoseconds: u64) -> Self {
        Self { nanoseconds }
    }

    /// Nanoseconds since the epoch of `CLOCK_MONOTONIC`: the start of the machine, shifted by the time namespace.
    #[must_use]
    pub const fn as_nanoseconds(self) -> u64 {
        self.nanoseconds
    }

    /// The moment as `CLOCK_MONOTONIC` writes it: whole seconds, and nanoseconds below a billion. What `clock_nanosleep` takes with `TIMER_ABSTIME`.
    #[must_use]
    pub const fn to_timespec(self) -> (i64, u32) {
        ((self.nanoseconds / 1_000_000_000).cast_signed(), (self.nanoseconds % 1_000_000_000) as u32)
    }

    /// The moment that `CLOCK_MONOTONIC` writes so; `None` for negative seconds, a billion nanoseconds or more, and after 584 years.
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

    /// The wall-clock time of this moment, as far as the wall clock can be trusted now: for printing and logging, not for measuring.
    ///
    /// Asks both of the kernel's clocks. A step of the wall clock between the moment and now is not undone.
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

    /// The time from `earlier` to this moment; zero if that is later.
    #[inline(always)]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "below a billion")]
    pub const fn duration_since(self, earlier: Self) -> Duration {
        let nanoseconds = self.nanoseconds_since(earlier);
        // Most are below a second: who guesses so need not wait for a division.
        if nanoseconds < 1_000_000_000 {
            Duration::new(0, nanoseconds as u32)
        } else {
            Duration::from_nanos(nanoseconds)
        }
    }

    /// The time from `earlier` to this moment; `None` if that is later.
    #[must_use]
    pub const fn checked_duration_since(self, earlier: Self) -> Option<Duration> {
        match self.nanoseconds.checked_sub(earlier.nanoseconds) {
            Some(nanoseconds) => Some(Duration::from_nanos(nanoseconds)),
            None => None,
        }
    }

    /// As [`duration_since`](Self::duration_since): zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }

    /// Nanoseconds from `earlier` to this moment; zero if that is later. Cheaper than a [`Duration`], which is divided into seconds.
    #[inline(always)]
    #[must_use]
    pub const fn nanoseconds_since(self, earlier: Self) -> u64 {
        match self.nanoseconds.checked_sub(earlier.nanoseconds) {
            Some(nanoseconds) => nanoseconds,
            None => nothing(),
        }
    }

    /// The time from this moment to now.
    #[inline(always)]
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Self::now().duration_since(self)
    }

    /// Nanoseconds from this moment to now.
    #[inline(always)]
    #[must_use]
    pub fn elapsed_nanoseconds(self) -> u64 {
        Self::now().nanoseconds_since(self)
    }

    /// As [`elapsed_nanoseconds`](Self::elapsed_nanoseconds), by [`now_unordered`](Self::now_unordered).
    #[inline(always)]
    #[must_use]
    pub fn elapsed_nanoseconds_unordered(self) -> u64 {
        Self::now_unordered().nanoseconds_since(self)
    }

    /// The moment `duration` later; `None` beyond 584 years.
    #[must_use]
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        let nanoseconds = u64::try_from(duration.as_nanos()).ok()?;
        self.nanoseconds.checked_add(nanoseconds).map(|nanoseconds| Self { nanoseconds })
    }

    /// The moment `duration` earlier; `None` before the epoch.
    #[must_use]
    pub fn checked_sub(self, duration: Duration) -> Option<Self> {
        let nanoseconds = u64::try_from(duration.as_nanos()).ok()?;
        self.nanoseconds.checked_sub(nanoseconds).map(|nanoseconds| Self { nanoseconds })
    }

    /// The moment `duration` later; the last one beyond 584 years.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        self.checked_add(duration).unwrap_or(Self { nanoseconds: u64::MAX })
    }

    /// The moment `duration` earlier; the epoch if that would be before it.
    #[must_use]
    pub fn saturating_sub(self, duration: Duration) -> Self {
        self.checked_sub(duration).unwrap_or(Self { nanoseconds: 0 })
    }
}

/// The time from a later moment: a jump past it, where a choice between the two would make every interval wait for the comparison.
#[cold]
const fn nothing() -> u64 {
    0
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// # Panics
    ///
    /// Beyond 584 years, as [`std::time::Instant`] does.
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
    /// Before the epoch, as [`std::time::Instant`] does.
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
    /// Seconds since the epoch of `CLOCK_MONOTONIC`, as the kernel's log writes them, with nine places.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanoseconds) = self.to_timespec();
        write!(f, "{seconds}.{nanoseconds:09}")
    }
}

/// Something that tells the time: [`SystemClock`](super::SystemClock) in a program, [`ManualSource`](crate::testing::ManualSource) in its tests.
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
    /// Now.
    fn now(&self) -> Instant;
}

impl<C: Now + ?Sized> Now for &C {
    fn now(&self) -> Instant {
        (**self).now()
    }
}

/// The system's clock as a value, for code that takes any clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Now for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }
}
