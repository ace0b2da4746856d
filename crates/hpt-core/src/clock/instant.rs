//! A point in the system's monotonic time, in nanoseconds. Does not read the clock itself; `system` does.

use std::{
    fmt,
    ops::{Add, AddAssign, Sub, SubAssign},
    rc::Rc,
    sync::Arc,
    time::{Duration, SystemTime},
};

use hpt_sys::{
    cast::{signed, unsigned},
    clock::ClockId,
};

#[cfg(feature = "testing")]
use super::frozen;
use super::system;

/// A point in time on `CLOCK_MONOTONIC`. Reading the current time costs about as much as reading a hardware counter.
///
/// Has every method and trait of [`std::time::Instant`], with the same meaning, so that `use hpt_core::Instant` can
/// replace `use std::time::Instant`. It gives additional guarantees. From the first reading on, its epoch and rate are
/// those of the kernel's `CLOCK_MONOTONIC`, within the bound that [`status`](super::status) reports. Instants can
/// therefore be compared between threads, cores, and processes of the same boot and time namespace, and can be passed
/// to the kernel as absolute deadlines. A comparison between two processes is accurate to within the bounds of both.
///
/// On targets other than Linux, an instant is a reading of [`std::time::Instant`], and the epoch is the first reading in
/// the process. It can be compared within the process only.
///
/// A value is a signed 64-bit number of nanoseconds: 8 bytes, for 292 years before and after the epoch, which is about
/// the time of boot. Arithmetic beyond that returns `None`, saturates or panics, as each method states. Instants before
/// boot are valid: `now - timeout` does not panic on a machine that has just started. The type has the layout of `i64`, so
/// that processes can exchange instants in shared memory. With the feature `serde`, an instant is this number. It has no
/// meaning on another machine or after a reboot: store [`to_system_time`](Self::to_system_time) instead.
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
#[repr(transparent)]
#[doc(alias("CLOCK_MONOTONIC", "clock_gettime", "ktime_get", "rdtsc", "cntvct_el0", "QueryPerformanceCounter"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Instant {
    nanos: i64,
}

/// An instant that was converted to another type, and the uncertainty of the conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Converted<T> {
    /// The converted instant.
    pub instant: T,
    /// The largest possible error, in either direction.
    pub uncertainty: Duration,
}

impl Instant {
    /// The earliest instant, 292 years before the epoch.
    pub const MIN: Self = Self { nanos: i64::MIN };
    /// The latest instant, 292 years after the epoch.
    pub const MAX: Self = Self { nanos: i64::MAX };
    /// The epoch of `CLOCK_MONOTONIC`: the time of boot, shifted by the time namespace. On targets other than Linux, the
    /// first reading in this process.
    pub const EPOCH: Self = Self { nanos: 0 };

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
    ///
    /// On targets other than Linux, and under Miri, a reading costs what [`std::time::Instant::now`] costs, and panics where that does
    /// (wasm32-unknown-unknown); the first reading may wait for that of another thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::thread;
    /// use hpt_core::Instant;
    ///
    /// let before = Instant::now();
    /// let elsewhere = thread::spawn(Instant::now).join().expect("it only reads the clock");
    /// assert!(before <= elsewhere && elsewhere <= Instant::now());
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn now() -> Self {
        #[cfg(feature = "testing")]
        if let Some(nanos) = frozen::now_ns() {
            return Self { nanos };
        }
        Self { nanos: signed(system::now_ns()) }
    }

    /// Returns the current time without ordering, for a thread that times its own work.
    ///
    /// # Ordering
    ///
    /// The reading is not ordered: the processor may take it up to a few hundred instructions earlier than its place in
    /// the program. Compared with readings on other threads, the reading can be off by that much in either direction.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::hint::black_box;
    /// use hpt_core::Instant;
    ///
    /// let start = Instant::now_unordered();
    /// let sum: u64 = (0..1000).map(black_box).sum();
    /// println!("{sum} took about {:?}", Instant::now_unordered() - start);
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn now_unordered() -> Self {
        #[cfg(feature = "testing")]
        if let Some(nanos) = frozen::now_ns() {
            return Self { nanos };
        }
        Self { nanos: signed(system::now_unordered_ns()) }
    }

    /// Returns the instant that is `nanos` nanoseconds after the epoch of `CLOCK_MONOTONIC`, or before it if negative.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Instant;
    ///
    /// assert_eq!(Instant::from_nanos(1_500_000_000).to_string(), "1.500000000");
    /// assert!(Instant::from_nanos(-1) < Instant::EPOCH);
    /// ```
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self { nanos }
    }

    /// Returns the nanoseconds since the epoch of `CLOCK_MONOTONIC`, negative before it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Instant;
    ///
    /// assert_eq!((Instant::EPOCH + Duration::from_micros(3)).as_nanos(), 3_000);
    /// assert_eq!((Instant::EPOCH - Duration::from_micros(3)).as_nanos(), -3_000);
    /// ```
    #[must_use]
    pub const fn as_nanos(&self) -> i64 {
        self.nanos
    }

    /// Returns the time in the format of `CLOCK_MONOTONIC`: whole seconds, which are negative before the epoch, and
    /// nanoseconds below one billion. `clock_nanosleep` accepts this with `TIMER_ABSTIME`.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Instant;
    ///
    /// assert_eq!(Instant::from_nanos(2_000_000_005).to_timespec(), (2, 5));
    /// // The nanoseconds are never negative.
    /// assert_eq!(Instant::from_nanos(-1).to_timespec(), (-1, 999_999_999));
    /// ```
    #[doc(alias("timespec", "clock_nanosleep"))]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "from zero to below a billion")]
    pub const fn to_timespec(&self) -> (i64, u32) {
        (self.nanos.div_euclid(1_000_000_000), self.nanos.rem_euclid(1_000_000_000) as u32)
    }

    /// Returns the instant for seconds and nanoseconds on `CLOCK_MONOTONIC`; `None` if the nanoseconds are one billion
    /// or more, or if the time is beyond 292 years.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Instant;
    ///
    /// assert_eq!(Instant::from_timespec(2, 5), Some(Instant::from_nanos(2_000_000_005)));
    /// assert_eq!(Instant::from_timespec(0, 1_000_000_000), None);
    /// ```
    #[must_use]
    pub const fn from_timespec(seconds: i64, nanoseconds: u32) -> Option<Self> {
        if nanoseconds >= 1_000_000_000 {
            return None;
        }
        // Negative seconds are rounded up and the nanoseconds subtracted, so that only the result can overflow.
        let (whole, rest) = match (seconds, nanoseconds) {
            (..0, 1..) => (seconds + 1, nanoseconds as i64 - 1_000_000_000),
            _ => (seconds, nanoseconds as i64),
        };
        match whole.checked_mul(1_000_000_000) {
            Some(whole) => match whole.checked_add(rest) {
                Some(nanos) => Some(Self { nanos }),
                None => None,
            },
            None => None,
        }
    }

    /// Returns this instant as an instant of the standard library, and the uncertainty of the conversion; `None` if the
    /// standard library cannot represent it.
    ///
    /// The uncertainty covers the bound that [`status`](super::status) reports and the time between the readings of the
    /// two clocks. Reads both clocks a few times.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Instant;
    ///
    /// let start = Instant::now();
    /// if let Some(std) = start.to_std() {
    ///     assert!(std.instant <= std::time::Instant::now() + std.uncertainty);
    /// }
    /// ```
    #[must_use]
    pub fn to_std(&self) -> Option<Converted<std::time::Instant>> {
        let Both { ours, std, uncertainty } = Both::now();
        let instant = if *self >= ours {
            std.checked_add(self.duration_since(ours))
        } else {
            std.checked_sub(ours.duration_since(*self))
        };
        instant.map(|instant| Converted { instant, uncertainty })
    }

    /// Returns this instant for a call that takes a deadline of the standard library, such as
    /// `parking_lot::Condvar::wait_until` or `tokio::time::Instant::from_std`. A deadline that has passed becomes now, and
    /// one that the standard library cannot represent is in a year.
    ///
    /// Costs one reading of each clock, and is later by the time between them. Such a wait follows the operating system's
    /// clock: it can end before this instant by the bound that [`status`](super::status) reports, about a microsecond, and
    /// in a test, it does not follow a frozen clock.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Instant;
    ///
    /// let deadline = Instant::now() + Duration::from_millis(5);
    /// assert!(deadline.to_std_deadline() > std::time::Instant::now());
    /// ```
    #[must_use]
    pub fn to_std_deadline(&self) -> std::time::Instant {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        let left = self.remaining();
        let now = std::time::Instant::now();
        now.checked_add(left).unwrap_or_else(|| now + YEAR)
    }

    /// Returns an instant of the standard library as an instant of this type, and the uncertainty of the conversion;
    /// `None` beyond 292 years. See [`to_std`](Self::to_std).
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Instant;
    ///
    /// let start = std::time::Instant::now();
    /// if let Some(ours) = Instant::from_std(start) {
    ///     assert!(ours.instant <= Instant::now() + ours.uncertainty);
    /// }
    /// ```
    #[must_use]
    pub fn from_std(instant: std::time::Instant) -> Option<Converted<Self>> {
        let Both { ours, std, uncertainty } = Both::now();
        let instant = match instant.checked_duration_since(std) {
            Some(later) => ours.checked_add(later),
            None => ours.checked_sub(std.duration_since(instant)),
        };
        instant.map(|instant| Converted { instant, uncertainty })
    }

    /// Returns the wall-clock time of this instant, which is as accurate as the wall clock currently is. Use the result
    /// for printing and logging, not for measuring.
    ///
    /// Reads both clocks of the kernel. Does not compensate for a step of the wall clock between this instant and now.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use hpt_core::Instant;
    ///
    /// let deadline = Instant::now() + Duration::from_secs(60);
    /// let wall: SystemTime = deadline.to_system_time();
    /// println!("due at {wall:?}");
    /// assert!(wall > SystemTime::UNIX_EPOCH);
    /// ```
    #[must_use]
    pub fn to_system_time(&self) -> SystemTime {
        let monotonic = system::kernels_clock(ClockId::Monotonic);
        let before = monotonic.nanos();
        let wall = Duration::from_nanos(system::kernels_clock(ClockId::Realtime).nanos());
        let now = signed(before + monotonic.nanos().saturating_sub(before) / 2);
        let apart = Duration::from_nanos(now.abs_diff(self.nanos));
        let wall = SystemTime::UNIX_EPOCH + wall;
        // The kernel's time has 64 bits of seconds; nanoseconds cannot overflow it.
        if now >= self.nanos { wall - apart } else { wall + apart }
    }

    /// Returns the time from `earlier` to this instant; zero if `earlier` is later.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Instant;
    ///
    /// let (earlier, later) = (Instant::from_nanos(1_000), Instant::from_nanos(5_000));
    /// assert_eq!(later.duration_since(earlier), Duration::from_micros(4));
    /// assert_eq!(earlier.duration_since(later), Duration::ZERO);
    /// ```
    #[inline(always)]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "below a billion")]
    pub const fn duration_since(&self, earlier: Self) -> Duration {
        let nanos = self.nanos_since(earlier);
        // Most durations are below one second; testing for this first avoids waiting for a division.
        if nanos < 1_000_000_000 { Duration::new(0, nanos as u32) } else { Duration::from_nanos(nanos) }
    }

    /// Returns the time from `earlier` to this instant; `None` if `earlier` is later.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Instant;
    ///
    /// let (earlier, later) = (Instant::from_nanos(1_000), Instant::from_nanos(5_000));
    /// assert_eq!(later.checked_duration_since(earlier), Some(Duration::from_micros(4)));
    /// assert_eq!(earlier.checked_duration_since(later), None);
    /// ```
    #[must_use]
    pub const fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
        if self.nanos >= earlier.nanos { Some(Duration::from_nanos(self.nanos.abs_diff(earlier.nanos))) } else { None }
    }

    /// Returns the time from `earlier` to this instant; zero if `earlier` is later. Equivalent to
    /// [`duration_since`](Self::duration_since).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Instant;
    ///
    /// let (earlier, later) = (Instant::from_nanos(1_000), Instant::from_nanos(5_000));
    /// assert_eq!(later.saturating_duration_since(earlier), Duration::from_micros(4));
    /// assert_eq!(earlier.saturating_duration_since(later), Duration::ZERO);
    /// ```
    #[must_use]
    pub const fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }

    /// Returns the nanoseconds from `earlier` to this instant; zero if `earlier` is later. This is cheaper than a
    /// [`Duration`], which requires a division into seconds and nanoseconds.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Instant;
    ///
    /// let (earlier, later) = (Instant::from_nanos(1_000), Instant::from_nanos(5_000));
    /// assert_eq!((later.nanos_since(earlier), earlier.nanos_since(later)), (4_000, 0));
    /// ```
    #[inline(always)]
    #[must_use]
    pub const fn nanos_since(&self, earlier: Self) -> u64 {
        // The difference of two signed numbers fits into an unsigned one.
        if self.nanos >= earlier.nanos { unsigned(self.nanos.wrapping_sub(earlier.nanos)) } else { nothing() }
    }

    /// Returns the nanoseconds from `earlier` to this instant, which are negative if `earlier` is later. A difference that
    /// does not fit, of more than 292 years, is the largest or the smallest number.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Instant;
    ///
    /// let (deadline, end) = (Instant::from_nanos(5_000), Instant::from_nanos(4_200));
    /// assert_eq!(end.signed_nanos_since(deadline), -800);
    /// assert_eq!(Instant::MAX.signed_nanos_since(Instant::MIN), i64::MAX);
    /// ```
    #[inline(always)]
    #[must_use]
    pub const fn signed_nanos_since(&self, earlier: Self) -> i64 {
        self.nanos.saturating_sub(earlier.nanos)
    }

    /// Returns the time from this instant to now.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::{Instant, sleep};
    ///
    /// let start = Instant::now();
    /// sleep::for_(Duration::from_millis(1));
    /// assert!(start.elapsed() >= Duration::from_millis(1));
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    /// Returns the nanoseconds from this instant to now.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::{Instant, sleep};
    ///
    /// let start = Instant::now();
    /// sleep::for_(Duration::from_micros(100));
    /// assert!(start.elapsed_nanos() >= 100_000);
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn elapsed_nanos(&self) -> u64 {
        Self::now().nanos_since(*self)
    }

    /// Returns the nanoseconds from this instant to now, read with [`now_unordered`](Self::now_unordered).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::hint::black_box;
    /// use hpt_core::Instant;
    ///
    /// let start = Instant::now_unordered();
    /// let sum: u64 = (0..1000).map(black_box).sum();
    /// println!("{sum} took about {} ns", start.elapsed_nanos_unordered());
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn elapsed_nanos_unordered(&self) -> u64 {
        Self::now_unordered().nanos_since(*self)
    }

    /// Returns the time from now until this instant; zero if it has passed. Pass it to waits that take a duration.
    ///
    /// Such a wait follows the system's clock. In a test with a frozen clock, it ends after that much real time, and the
    /// clock has not advanced.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{sync::mpsc, time::Duration};
    /// use hpt_core::Instant;
    ///
    /// let (_sender, receiver) = mpsc::channel::<()>();
    /// let deadline = Instant::now() + Duration::from_millis(1);
    /// assert!(receiver.recv_timeout(deadline.remaining()).is_err());
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.duration_since(Self::now())
    }

    /// Returns whether this instant is now or in the past.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Instant;
    ///
    /// assert!(Instant::now().has_passed());
    /// assert!(!(Instant::now() + Duration::from_secs(60)).has_passed());
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn has_passed(&self) -> bool {
        Self::now() >= *self
    }

    /// Returns the instant that is `duration` later; `None` if that is beyond 292 years after the epoch.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Instant;
    ///
    /// let second = Duration::from_secs(1);
    /// assert_eq!(Instant::EPOCH.checked_add(second), Some(Instant::from_nanos(1_000_000_000)));
    /// assert_eq!(Instant::MAX.checked_add(second), None);
    /// ```
    #[must_use]
    pub const fn checked_add(&self, duration: Duration) -> Option<Self> {
        match nanos(duration) {
            Some(nanos) => match self.nanos.checked_add_unsigned(nanos) {
                Some(nanos) => Some(Self { nanos }),
                None => None,
            },
            None => None,
        }
    }

    /// Returns the instant that is `duration` earlier; `None` if that is beyond 292 years before the epoch.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Instant;
    ///
    /// let second = Duration::from_secs(1);
    /// assert_eq!(Instant::EPOCH.checked_sub(second), Some(Instant::from_nanos(-1_000_000_000)));
    /// assert_eq!(Instant::MIN.checked_sub(second), None);
    /// ```
    #[must_use]
    pub const fn checked_sub(&self, duration: Duration) -> Option<Self> {
        match nanos(duration) {
            Some(nanos) => match self.nanos.checked_sub_unsigned(nanos) {
                Some(nanos) => Some(Self { nanos }),
                None => None,
            },
            None => None,
        }
    }

    /// Returns the instant that is `duration` later, at most [`MAX`](Self::MAX).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Instant;
    ///
    /// // A timeout that never ends, as a deadline.
    /// assert_eq!(Instant::now().saturating_add(Duration::MAX), Instant::MAX);
    /// ```
    #[must_use]
    pub const fn saturating_add(&self, duration: Duration) -> Self {
        match self.checked_add(duration) {
            Some(later) => later,
            None => Self::MAX,
        }
    }

    /// Returns the instant that is `duration` earlier, at least [`MIN`](Self::MIN).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Instant;
    ///
    /// assert_eq!(Instant::EPOCH.saturating_sub(Duration::from_nanos(7)), Instant::from_nanos(-7));
    /// assert_eq!(Instant::EPOCH.saturating_sub(Duration::MAX), Instant::MIN);
    /// ```
    #[must_use]
    pub const fn saturating_sub(&self, duration: Duration) -> Self {
        match self.checked_sub(duration) {
            Some(earlier) => earlier,
            None => Self::MIN,
        }
    }

    /// Returns the nanoseconds since the epoch, zero before it: the kernel accepts no earlier deadline.
    pub(crate) const fn kernel_nanos(&self) -> u64 {
        if self.nanos < 0 { 0 } else { unsigned(self.nanos) }
    }

    /// Returns the instant for a reading of the kernel's clock, which stays below 292 years.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) const fn from_kernel_nanos(nanos: u64) -> Self {
        Self { nanos: signed(nanos) }
    }
}

/// Returns the duration in nanoseconds; `None` above 584 years.
#[expect(clippy::cast_possible_truncation, reason = "compared before")]
const fn nanos(duration: Duration) -> Option<u64> {
    let nanos = duration.as_nanos();
    if nanos <= u64::MAX as u128 { Some(nanos as u64) } else { None }
}

/// The present moment on both types of instant.
struct Both {
    ours: Instant,
    std: std::time::Instant,
    uncertainty: Duration,
}

impl Both {
    fn now() -> Self {
        let read = || {
            let (before, std, after) = (Instant::now(), std::time::Instant::now(), Instant::now());
            (after.duration_since(before), before, std)
        };
        // A reading that was interrupted is wide.
        let narrowest = (0..4).map(|_| read()).min_by_key(|&(width, ..)| width);
        let (width, before, std) = narrowest.unwrap_or_else(read);
        Self { ours: before + width / 2, std, uncertainty: width / 2 + super::status().bound }
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
    /// Panics if the result is beyond 292 years after the epoch, as [`std::time::Instant`] does on overflow.
    #[track_caller]
    fn add(self, duration: Duration) -> Self {
        self.checked_add(duration).expect("overflow when adding duration to instant")
    }
}

impl AddAssign<Duration> for Instant {
    #[track_caller]
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// # Panics
    ///
    /// Panics if the result is beyond 292 years before the epoch, as [`std::time::Instant`] does on overflow.
    #[track_caller]
    fn sub(self, duration: Duration) -> Self {
        self.checked_sub(duration).expect("overflow when subtracting duration from instant")
    }
}

impl SubAssign<Duration> for Instant {
    #[track_caller]
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
        let sign = if self.nanos < 0 { "-" } else { "" };
        let nanos = self.nanos.unsigned_abs();
        write!(f, "{sign}{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
    }
}

/// A provider of the current time, on which code can wait: [`SystemClock`](super::SystemClock) in a program,
/// [`ManualSource`](crate::testing::ManualSource) or [`FrozenClock`](crate::testing::FrozenClock) in its tests.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "testing")] {
/// use hpt_core::{Instant, clock::{Clock, SystemClock}, testing::ManualSource};
///
/// fn is_due(clock: &impl Clock, deadline: Instant) -> bool {
///     clock.now() >= deadline
/// }
///
/// let clock = ManualSource::new("by hand");
/// assert!(!is_due(&clock, Instant::from_nanos(5)));
/// clock.advance(5);
/// assert!(is_due(&clock, Instant::from_nanos(5)));
/// assert!(is_due(&SystemClock, Instant::from_nanos(5)));
/// # }
/// ```
pub trait Clock {
    /// Returns the current time.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use std::time::Duration;
    /// use hpt_core::{Clock, Instant, testing::FrozenClock};
    ///
    /// /// The code under test.
    /// fn age(clock: &impl Clock, created: Instant) -> Duration {
    ///     clock.now() - created
    /// }
    ///
    /// let clock = FrozenClock::new();
    /// let created = clock.now();
    /// clock.advance(Duration::from_secs(7));
    /// assert_eq!(age(&clock, created), Duration::from_secs(7));
    /// # }
    /// ```
    fn now(&self) -> Instant;

    /// Waits until the clock has reached `deadline`. Never returns early. A clock that a test controls advances instead.
    ///
    /// By default, sleeps for as long as the deadline is away, and looks again.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use std::time::Duration;
    /// use hpt_core::{Clock, Instant, testing::FrozenClock};
    ///
    /// /// Tries until it works, a second apart.
    /// fn retry(clock: &dyn Clock, mut attempt: impl FnMut() -> bool) -> Instant {
    ///     while !attempt() {
    ///         clock.sleep_until(clock.now() + Duration::from_secs(1));
    ///     }
    ///     clock.now()
    /// }
    ///
    /// let (clock, mut attempts) = (FrozenClock::new(), 0);
    /// let start = clock.now();
    /// let end = retry(&clock, || { attempts += 1; attempts == 4 });
    /// assert_eq!(end - start, Duration::from_secs(3));
    /// # }
    /// ```
    fn sleep_until(&self, deadline: Instant) {
        loop {
            let left = deadline.duration_since(self.now());
            if left.is_zero() {
                return;
            }
            crate::sleep::for_(left);
        }
    }
}

macro_rules! clock_by_reference {
    ($($reference:ty),*) => {$(
        impl<C: Clock + ?Sized> Clock for $reference {
            fn now(&self) -> Instant {
                (**self).now()
            }

            fn sleep_until(&self, deadline: Instant) {
                (**self).sleep_until(deadline);
            }
        }
    )*};
}

clock_by_reference!(&C, Box<C>, Rc<C>, Arc<C>);

/// The system's clock as a value, for code that is generic over clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Waits with [`sleep::until`](crate::sleep::until).
    fn sleep_until(&self, deadline: Instant) {
        crate::sleep::until(deadline);
    }
}
