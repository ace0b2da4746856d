//! Counts the cycles that a piece of work takes, and reports the overhead of the measurement. Does not convert cycles
//! to time, because the length of a core cycle is not constant.

use std::time::Duration;

use hpt_sys::{host::Host, units::Spaced};

use super::EMPTY_LAPS;
use crate::{
    source::{PosixClock, PosixId, SourceInfo, TimeSource},
    stats::median,
};

/// A stopwatch that measures pieces of work in ticks of its source. For [`PerfCycles`](crate::PerfCycles) and
/// [`ArmCycles`](crate::ArmCycles), a tick is a core cycle.
///
/// The overhead of an empty lap is measured when the stopwatch is created, and reported with every lap. A lap during
/// which a narrow counter may have wrapped more than once is refused, because the number of cycles is then unknown. To
/// check the duration of the lap, the system's clock is read before and after it.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "testing")] {
/// use hpt_core::{CycleStopwatch, testing::ManualSource};
///
/// let source = ManualSource::new("by hand").with_step(40);
/// let stopwatch = CycleStopwatch::new(&source);
/// let ((), lap) = stopwatch.time(|| source.advance(1_000));
/// let lap = lap?;
/// assert_eq!((lap.cycles(), lap.own_cost(), lap.without_own_cost()), (1_040, 40, 1_000));
/// # }
/// # Ok::<(), hpt_core::stopwatch::LapError>(())
/// ```
#[derive(Clone, Debug)]
pub struct CycleStopwatch<S> {
    source: S,
    own_cost: u64,
    /// The limit on the duration of a lap; `None` if no lap can be too long.
    limit: Option<Limit>,
}

/// The longest supported lap, and the clock that checks it, for a counter that may wrap more than once within a few
/// years.
#[derive(Clone, Debug)]
struct Limit {
    /// The system's clock. If a sandbox refuses access to the clock, the duration of a lap cannot be determined, and
    /// every lap is refused.
    clock: Option<PosixClock>,
    longest: Duration,
}

impl Limit {
    fn of(info: &SourceInfo) -> Option<Self> {
        let longest = info.longest_difference()?;
        Some(Self { clock: PosixClock::open(&Host::live(), PosixId::Monotonic).ok(), longest })
    }

    fn now_ns(&self) -> u64 {
        self.clock.as_ref().map_or(0, TimeSource::ticks)
    }

    fn took_since(&self, begun_ns: u64) -> Duration {
        // If a sandbox blocks the clock after it was opened, its readings are zero.
        match self.now_ns() {
            0 => Duration::MAX,
            now_ns => Duration::from_nanos(now_ns.wrapping_sub(begun_ns)),
        }
    }
}

/// The start of a lap of a [`CycleStopwatch`].
#[derive(Clone, Copy, Debug)]
#[must_use = "end the lap with CycleStopwatch::stop"]
pub struct CyclesStarted {
    clock_ns: u64,
    ticks: u64,
}

/// The reason the number of cycles in a lap is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LapError {
    /// The counter may have wrapped more than once.
    TooLong {
        /// The duration of the lap, measured with the system's clock; [`Duration::MAX`] if that clock is not available.
        took: Duration,
        /// The longest supported lap.
        longest: Duration,
        /// The width of the counter.
        bits: u8,
    },
    /// The reading was lower at the end than at the start, although the counter never wraps in practice. The counter
    /// was reset, or access to it was revoked.
    WentBack {
        /// The reading at the start, in ticks.
        from: u64,
        /// The reading at the end, in ticks.
        to: u64,
    },
}

impl std::fmt::Display for LapError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLong { took, longest, bits } => write!(
                f,
                "the lap took {}, so the {bits}-bit counter may have wrapped more than once; the longest supported lap is {}",
                Spaced(*took),
                Spaced(*longest)
            ),
            Self::WentBack { from, to } => {
                write!(f, "the counter ran backwards, from {from} to {to}: it was reset, or access to it was revoked")
            }
        }
    }
}

impl std::error::Error for LapError {}

impl<S: TimeSource> CycleStopwatch<S> {
    /// Creates a stopwatch and measures its overhead. The measurement takes a fraction of a millisecond.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::hint::black_box;
    /// use hpt_core::{CycleStopwatch, Host, source};
    ///
    /// match source::open(&Host::live(), "perf-cycles") {
    ///     Ok(cycles) => {
    ///         let (sum, lap) = CycleStopwatch::new(cycles).time(|| (0..1000_u64).map(black_box).sum::<u64>());
    ///         println!("{sum}: {}", lap?);
    ///     }
    ///     Err(reason) => println!("no cycles: {reason}"),
    /// }
    /// # Ok::<(), hpt_core::stopwatch::LapError>(())
    /// ```
    #[must_use]
    pub fn new(source: S) -> Self {
        let limit = Limit::of(source.info());
        let mut stopwatch = Self { source, own_cost: 0, limit };
        let mut empty: Vec<u64> = (0..EMPTY_LAPS).map(|_| stopwatch.ticks_of(|| ()).1).collect();
        stopwatch.own_cost = median(&mut empty).unwrap_or(0);
        stopwatch
    }

    fn ticks_of<T>(&self, work: impl FnOnce() -> T) -> (T, u64) {
        let start = self.source.ticks_start();
        let result = work();
        (result, self.source.info().width.difference(start, self.source.ticks_end()))
    }

    /// Starts a lap.
    ///
    /// # Ordering
    ///
    /// Ordered like [`TimeSource::ticks_start`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{CycleStopwatch, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand");
    /// let stopwatch = CycleStopwatch::new(&source);
    /// let started = stopwatch.start();
    /// source.advance(1_000);
    /// assert_eq!(stopwatch.stop(started)?.cycles(), 1_000);
    /// # }
    /// # Ok::<(), hpt_core::stopwatch::LapError>(())
    /// ```
    #[inline(always)]
    pub fn start(&self) -> CyclesStarted {
        let clock_ns = self.limit.as_ref().map_or(0, Limit::now_ns);
        CyclesStarted { clock_ns, ticks: self.source.ticks_start() }
    }

    /// Ends a lap.
    ///
    /// # Errors
    ///
    /// Returns [`LapError`] if the counter may have wrapped more than once during the lap, or if it ran backwards.
    ///
    /// # Ordering
    ///
    /// Ordered like [`TimeSource::ticks_end`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{CycleStopwatch, stopwatch::LapError, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand");
    /// source.set(1_000);
    /// let stopwatch = CycleStopwatch::new(&source);
    /// let started = stopwatch.start();
    /// // Another program resets the counter.
    /// source.set(0);
    /// assert_eq!(stopwatch.stop(started), Err(LapError::WentBack { from: 1_000, to: 0 }));
    /// # }
    /// ```
    #[inline(always)]
    pub fn stop(&self, started: CyclesStarted) -> Result<CycleLap, LapError> {
        let ticks = self.source.ticks_end();
        let width = self.source.info().width;
        match &self.limit {
            Some(limit) => within(limit.took_since(started.clock_ns), limit.longest, width.bits())?,
            None if width.signed_difference(started.ticks, ticks) < 0 => {
                return Err(LapError::WentBack { from: started.ticks, to: ticks });
            }
            None => {}
        }
        Ok(CycleLap { cycles: width.difference(started.ticks, ticks), own_cost: self.own_cost })
    }

    /// Counts the cycles of one call of `work`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{CycleStopwatch, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand").with_step(40);
    /// let (text, lap) = CycleStopwatch::new(&source).time(|| {
    ///     source.advance(1_000);
    ///     "done"
    /// });
    /// assert_eq!((text, lap?.without_own_cost()), ("done", 1_000));
    /// # }
    /// # Ok::<(), hpt_core::stopwatch::LapError>(())
    /// ```
    #[inline]
    pub fn time<T>(&self, work: impl FnOnce() -> T) -> (T, Result<CycleLap, LapError>) {
        let started = self.start();
        let result = work();
        (result, self.stop(started))
    }

    /// Returns the source.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{CycleStopwatch, TimeSource, testing::ManualSource};
    ///
    /// let stopwatch = CycleStopwatch::new(ManualSource::new("by hand"));
    /// assert_eq!(stopwatch.source().info().id.as_str(), "by hand");
    /// # }
    /// ```
    #[must_use]
    pub const fn source(&self) -> &S {
        &self.source
    }
}

const fn within(took: Duration, longest: Duration, bits: u8) -> Result<(), LapError> {
    if took.as_nanos() <= longest.as_nanos() { Ok(()) } else { Err(LapError::TooLong { took, longest, bits }) }
}

/// The result of one lap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CycleLap {
    cycles: u64,
    own_cost: u64,
}

impl CycleLap {
    /// Returns the cycles from start to stop, including the read overhead.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{CycleStopwatch, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand").with_step(40);
    /// let ((), lap) = CycleStopwatch::new(&source).time(|| source.advance(1_000));
    /// assert_eq!(lap?.cycles(), 1_040);
    /// # }
    /// # Ok::<(), hpt_core::stopwatch::LapError>(())
    /// ```
    #[must_use]
    pub const fn cycles(&self) -> u64 {
        self.cycles
    }

    /// Returns the overhead in cycles: the median of a thousand empty laps.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{CycleStopwatch, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand").with_step(40);
    /// let ((), lap) = CycleStopwatch::new(&source).time(|| source.advance(1_000));
    /// assert_eq!(lap?.own_cost(), 40);
    /// # }
    /// # Ok::<(), hpt_core::stopwatch::LapError>(())
    /// ```
    #[must_use]
    pub const fn own_cost(&self) -> u64 {
        self.own_cost
    }

    /// Returns the cycles from start to stop minus the overhead, but at least zero.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{CycleStopwatch, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand").with_step(40);
    /// let ((), lap) = CycleStopwatch::new(&source).time(|| source.advance(1_000));
    /// assert_eq!(lap?.without_own_cost(), 1_000);
    /// # }
    /// # Ok::<(), hpt_core::stopwatch::LapError>(())
    /// ```
    #[must_use]
    pub const fn without_own_cost(&self) -> u64 {
        self.cycles.saturating_sub(self.own_cost)
    }
}

impl std::fmt::Display for CycleLap {
    /// Formats the lap in the form `1234 cycles (overhead 40 cycles)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} cycles (overhead {} cycles)", self.cycles, self.own_cost)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{CycleStopwatch, LapError, within};
    use crate::{
        source::{SourceId, SourceInfo},
        testing::ManualSource,
    };
    use hpt_sys::units::Width;

    fn narrow() -> ManualSource {
        let mut info = SourceInfo::new(SourceId::new("narrow"));
        info.width = Width::BITS_32;
        ManualSource::with_info(info).with_step(9)
    }

    #[test]
    fn a_lap_across_one_wrap_is_counted_and_reports_its_own_cost() {
        let source = narrow();
        let mut stopwatch = CycleStopwatch::new(&source);
        // Otherwise, a lap is refused if the thread is stopped in it for as long as a wrap takes.
        stopwatch.limit.as_mut().expect("32 bits").longest = Duration::MAX;
        source.set(u64::from(u32::MAX) - 100);
        let lap = stopwatch.time(|| source.advance(500)).1.expect("no lap is too long");
        assert_eq!((lap.cycles(), lap.own_cost(), lap.without_own_cost()), (509, 9, 500));
        assert_eq!(lap.to_string(), "509 cycles (overhead 9 cycles)");
    }

    #[test]
    fn a_lap_of_unknown_length_is_refused() {
        let source = narrow();
        let stopwatch = CycleStopwatch::new(&source);
        let longest = source_limit(&stopwatch);
        let ((), lap) = stopwatch.time(|| std::thread::sleep(longest + Duration::from_millis(5)));
        let refused = lap.expect_err("longer than a wrap of the fastest core");
        assert!(matches!(refused, LapError::TooLong { took, longest, bits: 32 } if took > longest), "{refused}");
    }

    fn source_limit(stopwatch: &CycleStopwatch<&ManualSource>) -> Duration {
        stopwatch.limit.as_ref().expect("32 bits").longest
    }

    #[test]
    fn the_limit_is_inclusive() {
        let second = Duration::from_secs(1);
        assert_eq!(within(second, second, 32), Ok(()));
        assert!(within(second + Duration::from_nanos(1), second, 32).is_err());
    }

    #[test]
    fn without_a_clock_no_lap_of_a_narrow_counter_is_trusted() {
        let source = narrow();
        let mut stopwatch = CycleStopwatch::new(&source);
        stopwatch.limit.as_mut().expect("32 bits").clock = None;
        assert!(stopwatch.time(|| ()).1.is_err());
    }

    #[test]
    fn a_revoked_wide_counter_yields_no_count() {
        let source = ManualSource::new("wide");
        source.set(1_000_000_000);
        let stopwatch = CycleStopwatch::new(&source);
        let ((), lap) = stopwatch.time(|| source.set(0));
        assert_eq!(lap, Err(LapError::WentBack { from: 1_000_000_000, to: 0 }));
    }

    #[test]
    fn a_wide_counter_has_no_limit() {
        assert!(CycleStopwatch::new(ManualSource::new("wide")).limit.is_none());
    }
}
