//! Timestamps for the lines of `tracing_subscriber::fmt`. They have a fixed width, so that the columns of a log align.

use std::{fmt, time::SystemTime};

use hpt_core::Instant;
use jiff::{Timestamp, tz::TimeZone};
use tracing_subscriber::fmt::{format::Writer, time::FormatTime};

/// The number of decimal places of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Digits {
    /// Three.
    Milli,
    /// Six.
    #[default]
    Micro,
    /// Nine.
    Nano,
}

impl Digits {
    const fn places(self) -> usize {
        match self {
            Self::Milli => 3,
            Self::Micro => 6,
            Self::Nano => 9,
        }
    }

    /// Returns the decimal places of a second, rounded down.
    const fn of(self, nanoseconds: u32) -> u32 {
        match self {
            Self::Milli => nanoseconds / 1_000_000,
            Self::Micro => nanoseconds / 1_000,
            Self::Nano => nanoseconds,
        }
    }
}

/// Prints the seconds since a point in time, for example `      12.345678s`. The width is fixed for three years.
///
/// # Examples
///
/// ```
/// use hpt_tracing::time::{Digits, Uptime};
///
/// let subscriber = tracing_subscriber::fmt().with_timer(Uptime::new().with_digits(Digits::Nano)).finish();
/// tracing::subscriber::with_default(subscriber, || tracing::info!("started"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uptime {
    start: Instant,
    digits: Digits,
}

impl Default for Uptime {
    fn default() -> Self {
        Self::new()
    }
}

impl Uptime {
    /// Counts from now.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// use hpt_tracing::time::Uptime;
    ///
    /// tracing_subscriber::fmt().with_timer(Uptime::new()).init();
    /// // Prints "       0.000123s  INFO ...", for example.
    /// tracing::info!("started");
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::since(Instant::now())
    }

    /// Counts from `start`. Earlier times are printed as zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::testing::FrozenClock;
    /// use hpt_tracing::time::Uptime;
    /// use tracing_subscriber::fmt::{format::Writer, time::FormatTime};
    ///
    /// let clock = FrozenClock::new();
    /// let _entered = clock.enter();
    /// let uptime = Uptime::since(hpt_core::Instant::now());
    /// clock.advance(Duration::from_nanos(12_345_678_901));
    /// let mut printed = String::new();
    /// uptime.format_time(&mut Writer::new(&mut printed))?;
    /// assert_eq!(printed, "      12.345678s");
    /// # Ok::<(), std::fmt::Error>(())
    /// ```
    #[must_use]
    pub fn since(start: Instant) -> Self {
        Self { start, digits: Digits::default() }
    }

    /// Counts from the start of the system, without the time that it was suspended. The result is the time of
    /// `CLOCK_MONOTONIC`, which other programs and the kernel's traces also use (`echo mono > trace_clock`).
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Instant;
    /// use hpt_tracing::time::Uptime;
    ///
    /// assert_eq!(Uptime::since_boot(), Uptime::since(Instant::EPOCH));
    /// ```
    #[must_use]
    pub fn since_boot() -> Self {
        Self::since(Instant::from_nanos(0))
    }

    /// Prints this number of decimal places.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Instant, testing::FrozenClock};
    /// use hpt_tracing::time::{Digits, Uptime};
    /// use tracing_subscriber::fmt::{format::Writer, time::FormatTime};
    ///
    /// let clock = FrozenClock::starting_at(Instant::from_nanos(1_234_567_890));
    /// let _entered = clock.enter();
    /// let mut printed = String::new();
    /// Uptime::since_boot().with_digits(Digits::Milli).format_time(&mut Writer::new(&mut printed))?;
    /// assert_eq!(printed, "       1.234s");
    /// # Ok::<(), std::fmt::Error>(())
    /// ```
    #[must_use]
    pub fn with_digits(self, digits: Digits) -> Self {
        Self { digits, ..self }
    }

    fn write(self, now: Instant, to: &mut impl fmt::Write) -> fmt::Result {
        let passed = now.duration_since(self.start);
        let (places, fraction) = (self.digits.places(), self.digits.of(passed.subsec_nanos()));
        write!(to, "{:8}.{fraction:0places$}s", passed.as_secs())
    }
}

impl FormatTime for Uptime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        self.write(Instant::now(), writer)
    }
}

/// Prints the date and the time of day as in RFC 3339, for example `2026-11-25T23:08:48.123456Z`.
///
/// The number of decimal places is fixed, and so is the width.
///
/// # Examples
///
/// ```
/// use hpt_tracing::time::WallClock;
///
/// let subscriber = tracing_subscriber::fmt().with_timer(WallClock::local()).finish();
/// tracing::subscriber::with_default(subscriber, || tracing::info!("started"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct WallClock {
    /// `None` for UTC.
    zone: Option<TimeZone>,
    digits: Digits,
}

impl Default for WallClock {
    fn default() -> Self {
        Self::utc()
    }
}

impl WallClock {
    /// Prints UTC, which ends in `Z`.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_tracing::time::WallClock;
    /// use tracing_subscriber::fmt::{format::Writer, time::FormatTime};
    ///
    /// let mut printed = String::new();
    /// WallClock::utc().format_time(&mut Writer::new(&mut printed))?;
    /// assert!(printed.ends_with('Z') && printed.len() == "2026-11-25T23:08:48.123456Z".len());
    /// # Ok::<(), std::fmt::Error>(())
    /// ```
    #[must_use]
    pub fn utc() -> Self {
        Self { zone: None, digits: Digits::default() }
    }

    /// Prints the time in the time zone of the system at the time of this call, with its offset from UTC, for example
    /// `+01:00`. Can be used in programs with threads.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// use hpt_tracing::time::WallClock;
    ///
    /// tracing_subscriber::fmt().with_timer(WallClock::local()).init();
    /// // Prints "2026-11-25T23:08:48.123456+01:00  INFO ...", for example.
    /// tracing::info!("started");
    /// ```
    #[must_use]
    pub fn local() -> Self {
        Self { zone: Some(TimeZone::system()), digits: Digits::default() }
    }

    /// Prints this number of decimal places.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_tracing::time::{Digits, WallClock};
    /// use tracing_subscriber::fmt::{format::Writer, time::FormatTime};
    ///
    /// let mut printed = String::new();
    /// WallClock::utc().with_digits(Digits::Milli).format_time(&mut Writer::new(&mut printed))?;
    /// assert_eq!(printed.len(), "2026-11-25T23:08:48.123Z".len());
    /// # Ok::<(), std::fmt::Error>(())
    /// ```
    #[must_use]
    pub fn with_digits(self, digits: Digits) -> Self {
        Self { digits, ..self }
    }

    fn write(&self, now: SystemTime, to: &mut impl fmt::Write) -> fmt::Result {
        let (now, places) = (Timestamp::try_from(now).map_err(|_| fmt::Error)?, self.digits.places());
        match &self.zone {
            None => write!(to, "{now:.places$}"),
            Some(zone) => write!(to, "{:.places$}", now.display_with_offset(zone.to_offset(now))),
        }
    }
}

impl FormatTime for WallClock {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        self.write(SystemTime::now(), writer)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use hpt_core::Instant;
    use jiff::tz;

    use super::{Digits, Uptime, WallClock};

    fn uptime(ns: i64, digits: Digits) -> String {
        let mut written = String::new();
        Uptime::since(Instant::from_nanos(1_000))
            .with_digits(digits)
            .write(Instant::from_nanos(1_000 + ns), &mut written)
            .expect("a string");
        written
    }

    #[test]
    fn uptimes_have_one_width() {
        assert_eq!(uptime(12_345_678_901, Digits::Micro), "      12.345678s");
        assert_eq!(uptime(12_345_678_901, Digits::Milli), "      12.345s");
        assert_eq!(uptime(1, Digits::Nano), "       0.000000001s");
        assert_eq!(uptime(99_999_999_999_999_999, Digits::Micro), "99999999.999999s");
    }

    #[test]
    fn a_time_before_the_start_is_zero() {
        assert_eq!(uptime(-5, Digits::Milli), "       0.000s");
    }

    fn wall(clock: &WallClock, seconds: u64, ns: u32) -> String {
        let mut written = String::new();
        clock.write(SystemTime::UNIX_EPOCH + Duration::new(seconds, ns), &mut written).expect("a string");
        written
    }

    #[test]
    fn wall_clock_times_have_one_width() {
        let utc = WallClock::utc();
        assert_eq!(wall(&utc, 951_782_400, 0), "2000-02-29T00:00:00.000000Z");
        assert_eq!(wall(&utc, 951_782_400, 999_999_999), "2000-02-29T00:00:00.999999Z");
        assert_eq!(wall(&utc.with_digits(Digits::Nano), 0, 1), "1970-01-01T00:00:00.000000001Z");
    }

    #[test]
    fn a_time_zone_is_printed_as_its_offset() {
        let clock = WallClock { zone: Some(tz::TimeZone::fixed(tz::offset(-5))), digits: Digits::Milli };
        assert_eq!(wall(&clock, 951_782_400, 0), "2000-02-28T19:00:00.000-05:00");
    }

    #[test]
    fn a_time_that_cannot_be_printed_is_an_error() {
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
        assert!(WallClock::utc().write(far, &mut String::new()).is_err());
    }
}
