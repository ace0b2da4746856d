//! A clock with a scale that is fixed at creation. The clock does not follow another clock, so the error of its
//! calibration makes it drift.

use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

use hpt_sys::units::{Frequency, Spaced, Width};

use crate::{
    scale::Scale,
    source::{Pair, Reference, SourceId, TimeSource, wraps_soon},
};

/// A clock that consists of a source, a fixed scale, and an anchor. Each reading costs one read of the source and one
/// multiplication.
///
/// A [`Reading`] is a position on the counter's own timeline. The anchor relates a reading to an epoch. Only
/// [`since_epoch`](Self::since_epoch) applies the anchor, because differences between readings do not need it.
///
/// # Error
///
/// The difference between two readings is within 2 ns of the number of ticks between them, converted at the scale's
/// rate (see [`Scale`]). The calibration reports a bound on the error of the rate itself, in ppm.
///
/// # Examples
///
/// ```
/// use hpt_core::{FixedRateClock, Host, PosixClock, PosixId, calibrate, source};
/// use std::time::Duration;
///
/// let host = Host::live();
/// let counter = source::choose(&host)?.source;
/// let reference = PosixClock::open(&host, PosixId::Monotonic)?;
/// let calibration = calibrate::calibrate(&counter, &reference, Duration::from_millis(10))?;
/// let clock = FixedRateClock::new(counter, calibration.frequency)?;
/// let start = clock.now();
/// println!("reading the clock again took {:?}", clock.now() - start);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct FixedRateClock<S> {
    scale: Scale,
    /// The nanoseconds to add to a reading, modulo 2^64, to get the time since the epoch.
    anchor_ns: u64,
    source: S,
}

/// The reason why a source cannot be used as a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockError {
    /// The source's counter wraps too soon.
    TooNarrow {
        /// The source.
        source_id: SourceId,
        /// The width of the source's counter.
        width: Width,
        /// The time after which the counter wraps.
        wraps_after: Duration,
    },
}

impl std::fmt::Display for ClockError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooNarrow { source_id, width, wraps_after } => write!(
                f,
                "{source_id} has {width} bits and wraps every {}: widen it to use it as a clock",
                Spaced(*wraps_after)
            ),
        }
    }
}

impl std::error::Error for ClockError {}

impl<S: TimeSource> FixedRateClock<S> {
    /// Creates a clock from a source that ticks at `frequency`. The epoch of the clock is now.
    ///
    /// # Errors
    ///
    /// Returns [`ClockError::TooNarrow`] if the source wraps within ten years.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use std::time::Duration;
    /// use hpt_core::{FixedRateClock, Frequency, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand");
    /// let clock = FixedRateClock::new(&source, Frequency::MEGAHERTZ)?;
    /// source.advance(5);
    /// assert_eq!(clock.since_epoch(clock.now()), Duration::from_micros(5));
    /// # }
    /// # Ok::<(), hpt_core::clock::ClockError>(())
    /// ```
    pub fn new(source: S, frequency: Frequency) -> Result<Self, ClockError> {
        let mut clock = Self::unanchored(source, frequency)?;
        clock.anchor_ns = clock.scale.nanos(clock.source.ticks()).wrapping_neg();
        Ok(clock)
    }

    /// Creates a clock from a source that ticks at `frequency`, with the epoch of `reference`. The clock is aligned to
    /// the middle of the narrowest of a few brackets, and does not follow the reference afterwards.
    ///
    /// If the reference has no nominal frequency, its ticks count as nanoseconds.
    ///
    /// # Errors
    ///
    /// Returns [`ClockError::TooNarrow`] if the source wraps within ten years.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use std::time::Duration;
    /// use hpt_core::{FixedRateClock, Frequency, testing::ManualSource};
    ///
    /// let (source, reference) = (ManualSource::new("source"), ManualSource::new("reference"));
    /// reference.set(1_000);
    /// let clock = FixedRateClock::with_anchor(&source, Frequency::GIGAHERTZ, &reference)?;
    /// source.advance(500);
    /// assert_eq!(clock.since_epoch(clock.now()), Duration::from_nanos(1_500));
    /// # }
    /// # Ok::<(), hpt_core::clock::ClockError>(())
    /// ```
    pub fn with_anchor<R>(source: S, frequency: Frequency, reference: &R) -> Result<Self, ClockError>
    where
        R: TimeSource + ?Sized,
    {
        const BRACKETS: usize = 16;
        let mut clock = Self::unanchored(source, frequency)?;
        let mut reference = Reference::new(reference);
        let pairs = (0..BRACKETS).map(|_| reference.pair(&clock.source));
        let narrowest = pairs.min_by_key(Pair::width_ns).expect("sixteen brackets");
        let middle_ns = narrowest.before_ns.wrapping_add(narrowest.width_ns() / 2);
        clock.anchor_ns = middle_ns.wrapping_sub(clock.scale.nanos(narrowest.ticks));
        Ok(clock)
    }

    fn unanchored(source: S, frequency: Frequency) -> Result<Self, ClockError> {
        let info = source.info();
        if let Some(wraps_after) = wraps_soon(info.width, frequency) {
            return Err(ClockError::TooNarrow { source_id: info.id.clone(), width: info.width, wraps_after });
        }
        Ok(Self { scale: Scale::of(frequency), anchor_ns: 0, source })
    }

    /// Returns the current time at the lowest cost.
    ///
    /// # Ordering
    ///
    /// As with [`TimeSource::ticks`], the reading is not ordered.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use std::time::Duration;
    /// use hpt_core::{FixedRateClock, Frequency, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand");
    /// let clock = FixedRateClock::new(&source, Frequency::MEGAHERTZ)?;
    /// let start = clock.now();
    /// source.advance(5);
    /// assert_eq!(clock.now() - start, Duration::from_micros(5));
    /// # }
    /// # Ok::<(), hpt_core::clock::ClockError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn now(&self) -> Reading {
        self.reading(self.source.ticks())
    }

    /// Returns the current time, for use immediately before the work to be timed.
    ///
    /// # Ordering
    ///
    /// As with [`TimeSource::ticks_start`], the source is read only after all preceding instructions have completed.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use std::time::Duration;
    /// use hpt_core::{FixedRateClock, Frequency, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand");
    /// let clock = FixedRateClock::new(&source, Frequency::GIGAHERTZ)?;
    /// let start = clock.now_start();
    /// source.advance(300); // stands for the work
    /// assert_eq!(clock.now_end() - start, Duration::from_nanos(300));
    /// # }
    /// # Ok::<(), hpt_core::clock::ClockError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn now_start(&self) -> Reading {
        self.reading(self.source.ticks_start())
    }

    /// Returns the current time, for use immediately after the work to be timed.
    ///
    /// # Ordering
    ///
    /// As with [`TimeSource::ticks_end`], the source is read after the work has completed and before any following
    /// instruction begins.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::hint::black_box;
    /// use hpt_core::{FixedRateClock, Frequency, Host, PosixClock, PosixId};
    ///
    /// let kernel = PosixClock::open(&Host::live(), PosixId::Monotonic)?;
    /// let clock = FixedRateClock::new(kernel, Frequency::GIGAHERTZ)?;
    /// let start = clock.now_start();
    /// let sum: u64 = (0..1000).map(black_box).sum();
    /// let end = clock.now_end();
    /// println!("{sum} took {:?}", end - start);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn now_end(&self) -> Reading {
        self.reading(self.source.ticks_end())
    }

    /// Returns the reading that corresponds to `ticks` of the source.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{FixedRateClock, Frequency, Reading, testing::ManualSource};
    ///
    /// let clock = FixedRateClock::new(ManualSource::new("by hand"), Frequency::MEGAHERTZ)?;
    /// // Ticks that were stored in a trace.
    /// assert_eq!(clock.reading(42), Reading::from_nanos(42_000));
    /// # }
    /// # Ok::<(), hpt_core::clock::ClockError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn reading(&self, ticks: u64) -> Reading {
        Reading { nanoseconds: self.scale.nanos(ticks) }
    }

    /// Returns the nanoseconds from the clock's epoch to `reading`, modulo 2^64.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{FixedRateClock, Frequency, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand");
    /// source.set(100);
    /// let clock = FixedRateClock::new(&source, Frequency::GIGAHERTZ)?;
    /// assert_eq!(clock.nanos_since_epoch(clock.reading(107)), 7);
    /// # }
    /// # Ok::<(), hpt_core::clock::ClockError>(())
    /// ```
    #[inline]
    #[must_use]
    pub const fn nanos_since_epoch(&self, reading: Reading) -> u64 {
        reading.nanoseconds.wrapping_add(self.anchor_ns)
    }

    /// Returns the time from the clock's epoch to `reading`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use std::time::Duration;
    /// use hpt_core::{FixedRateClock, Frequency, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand");
    /// source.set(100);
    /// let clock = FixedRateClock::new(&source, Frequency::GIGAHERTZ)?;
    /// // The epoch is the creation of the clock, not the zero of the counter.
    /// assert_eq!(clock.since_epoch(clock.reading(107)), Duration::from_nanos(7));
    /// # }
    /// # Ok::<(), hpt_core::clock::ClockError>(())
    /// ```
    #[inline]
    #[must_use]
    pub const fn since_epoch(&self, reading: Reading) -> Duration {
        Duration::from_nanos(self.nanos_since_epoch(reading))
    }

    /// Returns the scale of the clock.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{FixedRateClock, Frequency, Scale, testing::ManualSource};
    ///
    /// let clock = FixedRateClock::new(ManualSource::new("by hand"), Frequency::MEGAHERTZ)?;
    /// assert_eq!(clock.scale(), Scale::of(Frequency::MEGAHERTZ));
    /// # }
    /// # Ok::<(), hpt_core::clock::ClockError>(())
    /// ```
    #[must_use]
    pub const fn scale(&self) -> Scale {
        self.scale
    }

    /// Returns the source of the clock.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{FixedRateClock, Frequency, TimeSource, testing::ManualSource};
    ///
    /// let clock = FixedRateClock::new(ManualSource::new("by hand"), Frequency::GIGAHERTZ)?;
    /// clock.source().advance(5);
    /// assert_eq!(clock.source().ticks(), 5);
    /// # }
    /// # Ok::<(), hpt_core::clock::ClockError>(())
    /// ```
    #[must_use]
    pub const fn source(&self) -> &S {
        &self.source
    }
}

/// A reading of a [`FixedRateClock`]: nanoseconds since its counter was zero, modulo 2^64. Readings of different clocks
/// cannot be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Reading {
    nanoseconds: u64,
}

impl Reading {
    /// Returns the reading at this number of nanoseconds on the counter's timeline.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Reading;
    ///
    /// // Two readings from a log.
    /// let [start, end] = [1_000, 4_500].map(Reading::from_nanos);
    /// assert_eq!(end - start, Duration::from_nanos(3_500));
    /// ```
    #[must_use]
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self { nanoseconds }
    }

    /// Returns the nanoseconds since the counter was zero. [`FixedRateClock::since_epoch`] counts from the clock's
    /// epoch.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Reading;
    ///
    /// assert_eq!((Reading::from_nanos(1_000) + Duration::from_micros(2)).as_nanos(), 3_000);
    /// ```
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.nanoseconds
    }

    /// Returns the time since `earlier`; zero if `earlier` is later.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Reading;
    ///
    /// let (earlier, later) = (Reading::from_nanos(1_000), Reading::from_nanos(5_000));
    /// assert_eq!(later.duration_since(earlier), Duration::from_micros(4));
    /// assert_eq!(earlier.duration_since(later), Duration::ZERO);
    /// ```
    #[must_use]
    #[inline]
    pub const fn duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanoseconds.saturating_sub(earlier.nanoseconds))
    }

    /// Returns the time since `earlier`; `None` if `earlier` is later.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Reading;
    ///
    /// let (earlier, later) = (Reading::from_nanos(1_000), Reading::from_nanos(5_000));
    /// assert_eq!(later.checked_duration_since(earlier), Some(Duration::from_micros(4)));
    /// assert_eq!(earlier.checked_duration_since(later), None);
    /// ```
    #[must_use]
    pub fn checked_duration_since(self, earlier: Self) -> Option<Duration> {
        self.nanoseconds.checked_sub(earlier.nanoseconds).map(Duration::from_nanos)
    }

    /// Returns the reading that is `duration` later; `None` if that is beyond 584 years.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Reading;
    ///
    /// let reading = Reading::from_nanos(1_000);
    /// assert_eq!(reading.checked_add(Duration::from_nanos(5)), Some(Reading::from_nanos(1_005)));
    /// assert_eq!(reading.checked_add(Duration::MAX), None);
    /// ```
    #[must_use]
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        let nanoseconds = u64::try_from(duration.as_nanos()).ok()?;
        self.nanoseconds.checked_add(nanoseconds).map(Self::from_nanos)
    }

    /// Returns the reading that is `duration` earlier; `None` if that is before the counter was zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Reading;
    ///
    /// let reading = Reading::from_nanos(1_000);
    /// assert_eq!(reading.checked_sub(Duration::from_nanos(5)), Some(Reading::from_nanos(995)));
    /// assert_eq!(reading.checked_sub(Duration::from_secs(1)), None);
    /// ```
    #[must_use]
    pub fn checked_sub(self, duration: Duration) -> Option<Self> {
        let nanoseconds = u64::try_from(duration.as_nanos()).ok()?;
        self.nanoseconds.checked_sub(nanoseconds).map(Self::from_nanos)
    }
}

impl Sub for Reading {
    type Output = Duration;

    /// Returns the time since `earlier`; zero if `earlier` is later.
    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

impl Add<Duration> for Reading {
    type Output = Self;

    /// Returns the reading that is `duration` later, saturating at the largest reading.
    fn add(self, duration: Duration) -> Self {
        self.checked_add(duration).unwrap_or(Self { nanoseconds: u64::MAX })
    }
}

impl fmt::Display for Reading {
    /// Formats the reading as seconds on the counter's timeline, with nine decimals: `12.000345678 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.nanoseconds / 1_000_000_000, self.nanoseconds % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{ClockError, FixedRateClock, Reading};
    use crate::{
        source::{SourceId, SourceInfo},
        testing::ManualSource,
    };
    use hpt_sys::units::{Frequency, Width};

    #[test]
    fn a_clock_starts_at_zero_for_any_counter_value() {
        let source = ManualSource::new("by hand");
        source.set(u64::MAX - 10);
        let clock = FixedRateClock::new(&source, Frequency::GIGAHERTZ).expect("64 bits");
        assert_eq!(clock.since_epoch(clock.now()), Duration::ZERO);
        // This interval crosses the wrap at 2^64 nanoseconds.
        source.advance(1_500);
        assert_eq!(clock.since_epoch(clock.now()), Duration::from_nanos(1_500));
        assert_eq!(clock.now().to_string(), "0.000001489 s");
    }

    #[test]
    fn an_anchored_clock_agrees_with_its_reference() {
        let (source, reference) = (ManualSource::new("source"), ManualSource::new("reference"));
        source.set(5_000_000);
        reference.set(77);
        let clock = FixedRateClock::with_anchor(&source, Frequency::GIGAHERTZ, &reference).expect("64 bits");
        assert_eq!(clock.nanos_since_epoch(clock.now()), 77);
        source.advance(3);
        assert_eq!(clock.nanos_since_epoch(clock.now()), 80);
    }

    #[test]
    fn a_counter_that_wraps_soon_cannot_be_a_clock() {
        let mut info = SourceInfo::new(SourceId::new("narrow"));
        info.width = Width::BITS_32;
        let refused = FixedRateClock::new(ManualSource::with_info(info), Frequency::MEGAHERTZ)
            .map(|_| ())
            .expect_err("71 minutes");
        let ClockError::TooNarrow { wraps_after, .. } = refused;
        assert_eq!(wraps_after.as_secs(), 4_294);
    }

    #[test]
    fn subtracting_a_later_reading_yields_zero() {
        let (early, late) = (Reading::from_nanos(1), Reading::from_nanos(4));
        assert_eq!((late - early, early - late), (Duration::from_nanos(3), Duration::ZERO));
        assert_eq!((early.checked_duration_since(late), early.checked_sub(Duration::from_nanos(2))), (None, None));
        assert_eq!(late + Duration::MAX, Reading::from_nanos(u64::MAX));
    }

    proptest! {
        #[test]
        fn a_difference_is_within_two_nanoseconds_of_exact_arithmetic(
            hertz in 1_000_000_u64..5_000_000_000,
            start in 0_u64..1 << 55,
            ticks in 0_u64..1 << 40,
        ) {
            let frequency = Frequency::from_hertz(hertz).expect("not zero");
            let source = ManualSource::new("by hand");
            source.set(start);
            let clock = FixedRateClock::new(&source, frequency).expect("64 bits");
            let before = clock.now();
            source.advance(ticks);
            let exact = u128::from(ticks) * 1_000_000_000 / u128::from(hertz);
            let shown = clock.now().duration_since(before).as_nanos();
            prop_assert!(shown.abs_diff(exact) <= 2, "{shown} {exact}");
        }

        #[test]
        fn adding_and_subtracting_a_duration_round_trips(start in any::<u32>(), nanoseconds in any::<u32>()) {
            let (start, duration) = (Reading::from_nanos(start.into()), Duration::from_nanos(nanoseconds.into()));
            prop_assert_eq!((start + duration) - start, duration);
            prop_assert_eq!((start + duration).checked_sub(duration), Some(start));
        }
    }
}
