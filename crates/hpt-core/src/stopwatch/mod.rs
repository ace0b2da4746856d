//! Times a piece of work, and reports the overhead of the measurement. Subtracts the overhead only on request, and does
//! not repeat the work.

mod cycles;

use std::time::Duration;

pub use self::cycles::{CycleLap, CycleStopwatch, CyclesStarted, LapError};
use crate::{
    calibrate::{CalibrateError, calibrate},
    scale::Scale,
    source::{PosixClock, PosixId, SourceError, StatedBy, TimeSource},
    stats::{Steps, median},
};
use hpt_sys::{host::Host, process, units::Frequency};

/// The number of empty laps; their median is the overhead.
const EMPTY_LAPS: usize = 1001;
/// The calibration time for a source whose rate is unknown.
const CALIBRATION_WINDOW: Duration = Duration::from_millis(10);
/// The length of a lap, in granularity steps, below which the granularity dominates the result.
const FEWEST_GRANULES: u64 = 10;

/// A stopwatch for pieces of work. It reads the source with `ticks_start` before the work and with `ticks_end` after
/// the work.
///
/// A measured interval is the time of the work plus the read overhead. The overhead and the granularity are measured on
/// the current CPU when the stopwatch is created, and are reported with every result.
///
/// # Examples
///
/// ```
/// use hpt_core::{Host, Stopwatch, source};
///
/// let host = Host::live();
/// let source = source::choose(&host)?.source;
/// let stopwatch = Stopwatch::calibrated(&host, source)?;
/// let started = stopwatch.start();
/// let squares: Vec<u64> = (0..10_000).map(|n| n * n).collect();
/// let lap = stopwatch.stop(started);
/// println!("{} squares: {lap}", squares.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stopwatch<S> {
    source: S,
    scale: Scale,
    own_cost_ticks: u64,
    granularity_ticks: u64,
    cpu: Option<usize>,
}

/// The reason a stopwatch cannot be created.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StopwatchError {
    /// The reference clock for the calibration cannot be read.
    NoReference(SourceError),
    /// The rate of the source could not be determined.
    NotCalibrated(CalibrateError),
}

impl std::fmt::Display for StopwatchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoReference(..) => write!(f, "no reference clock is available for the calibration"),
            Self::NotCalibrated(..) => write!(f, "the source could not be calibrated"),
        }
    }
}

impl std::error::Error for StopwatchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoReference(cause) => Some(cause),
            Self::NotCalibrated(cause) => Some(cause),
        }
    }
}

/// The start of a lap of a [`Stopwatch`].
#[derive(Clone, Copy, Debug)]
#[must_use = "end the lap with Stopwatch::stop"]
pub struct Started {
    ticks: u64,
}

impl<S: TimeSource> Stopwatch<S> {
    /// Creates a stopwatch from a source with a known rate. Measures the overhead and the granularity in a fraction of
    /// a millisecond.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use std::time::Duration;
    /// use hpt_core::{Frequency, Stopwatch, testing::ManualSource};
    ///
    /// // Each read takes 7 ns.
    /// let source = ManualSource::new("by hand").with_step(7);
    /// let stopwatch = Stopwatch::new(&source, Frequency::GIGAHERTZ);
    /// let ((), lap) = stopwatch.time(|| source.advance(1_000));
    /// assert_eq!((lap.nanos(), lap.own_cost()), (1_007, Duration::from_nanos(7)));
    /// # }
    /// ```
    #[must_use]
    pub fn new(source: S, frequency: Frequency) -> Self {
        let width = source.info().width;
        let mut empty: Vec<u64> = Vec::with_capacity(EMPTY_LAPS);
        let mut steps = Steps::default();
        for _ in 0..EMPTY_LAPS {
            let start = source.ticks_start();
            let ticks = width.difference(start, source.ticks_end());
            empty.push(ticks);
            steps.record(ticks);
        }
        Self {
            scale: Scale::of(frequency),
            own_cost_ticks: median(&mut empty).unwrap_or(0),
            granularity_ticks: steps
                .smallest_ticks()
                .unwrap_or_else(|| source.info().claimed_resolution_ticks().max(1)),
            cpu: process::current_cpu(),
            source,
        }
    }

    /// Creates a stopwatch from a source. If the rate of the source does not follow from its definition, this function
    /// measures it against `CLOCK_MONOTONIC_RAW` for 10 ms.
    ///
    /// # Errors
    ///
    /// Returns [`StopwatchError`] if the rate cannot be determined.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, Stopwatch, TimeSource, source};
    ///
    /// let host = Host::live();
    /// // The rate of this clock follows from its definition, so nothing is measured.
    /// let stopwatch = Stopwatch::calibrated(&host, source::open(&host, "monotonic")?)?;
    /// assert_eq!(stopwatch.source().info().id.as_str(), "monotonic");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn calibrated(host: &Host, source: S) -> Result<Self, StopwatchError> {
        let frequency = match source.info().nominal {
            Some(nominal) if nominal.stated_by == StatedBy::Definition => nominal.frequency,
            _ => {
                let reference = PosixClock::open(host, PosixId::REFERENCE).map_err(StopwatchError::NoReference)?;
                calibrate(&source, &reference, CALIBRATION_WINDOW).map_err(StopwatchError::NotCalibrated)?.frequency
            }
        };
        Ok(Self::new(source, frequency))
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
    /// use hpt_core::{Frequency, Stopwatch, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand");
    /// let stopwatch = Stopwatch::new(&source, Frequency::GIGAHERTZ);
    /// // Laps can overlap.
    /// let (outer, inner) = (stopwatch.start(), stopwatch.start());
    /// source.advance(5);
    /// assert_eq!(stopwatch.stop(inner).nanos(), 5);
    /// source.advance(5);
    /// assert_eq!(stopwatch.stop(outer).nanos(), 10);
    /// # }
    /// ```
    #[inline(always)]
    pub fn start(&self) -> Started {
        Started { ticks: self.source.ticks_start() }
    }

    /// Ends a lap.
    ///
    /// # Ordering
    ///
    /// Ordered like [`TimeSource::ticks_end`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{Frequency, Stopwatch, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand");
    /// let stopwatch = Stopwatch::new(&source, Frequency::MEGAHERTZ);
    /// let started = stopwatch.start();
    /// source.advance(5);
    /// let lap = stopwatch.stop(started);
    /// assert_eq!((lap.ticks(), lap.nanos()), (5, 5_000));
    /// # }
    /// ```
    #[inline(always)]
    pub fn stop(&self, started: Started) -> Lap {
        let ticks = self.source.ticks_end();
        Lap {
            ticks: self.source.info().width.difference(started.ticks, ticks),
            scale: self.scale,
            own_cost_ticks: self.own_cost_ticks,
            granularity_ticks: self.granularity_ticks,
        }
    }

    /// Times one call of `work`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::hint::black_box;
    /// use hpt_core::{Host, Stopwatch, source};
    ///
    /// let host = Host::live();
    /// let stopwatch = Stopwatch::calibrated(&host, source::open(&host, "monotonic")?)?;
    /// let (sum, lap) = stopwatch.time(|| (0..1000_u64).map(black_box).sum::<u64>());
    /// assert_eq!(sum, 499_500);
    /// println!("{lap}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn time<T>(&self, work: impl FnOnce() -> T) -> (T, Lap) {
        let started = self.start();
        let result = work();
        (result, self.stop(started))
    }

    /// Returns the CPU on which the overhead was measured; `None` if the kernel does not report it.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, Stopwatch, source};
    ///
    /// let host = Host::live();
    /// let stopwatch = Stopwatch::calibrated(&host, source::open(&host, "monotonic")?)?;
    /// match stopwatch.cpu() {
    ///     Some(cpu) => println!("the overhead is that of CPU {cpu}"),
    ///     None => println!("the kernel does not report the CPU"),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn cpu(&self) -> Option<usize> {
        self.cpu
    }

    /// Returns the source.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{Frequency, Stopwatch, testing::ManualSource};
    ///
    /// let stopwatch = Stopwatch::new(ManualSource::new("by hand"), Frequency::GIGAHERTZ);
    /// let ((), lap) = stopwatch.time(|| stopwatch.source().advance(50));
    /// assert_eq!(lap.nanos(), 50);
    /// # }
    /// ```
    #[must_use]
    pub const fn source(&self) -> &S {
        &self.source
    }
}

/// The result of one lap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lap {
    ticks: u64,
    scale: Scale,
    own_cost_ticks: u64,
    granularity_ticks: u64,
}

impl Lap {
    /// Returns the ticks from start to stop, including the read overhead.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{Frequency, Stopwatch, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand").with_step(7);
    /// let ((), lap) = Stopwatch::new(&source, Frequency::MEGAHERTZ).time(|| source.advance(50));
    /// assert_eq!(lap.ticks(), 57);
    /// # }
    /// ```
    #[must_use]
    pub const fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Returns the nanoseconds from start to stop, including the read overhead.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{Frequency, Stopwatch, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand").with_step(7);
    /// let ((), lap) = Stopwatch::new(&source, Frequency::MEGAHERTZ).time(|| source.advance(50));
    /// assert_eq!(lap.nanos(), 57_000);
    /// # }
    /// ```
    #[must_use]
    pub const fn nanos(&self) -> u64 {
        self.scale.nanos(self.ticks)
    }

    /// Returns the time from start to stop, including the read overhead.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use std::time::Duration;
    /// use hpt_core::{Frequency, Stopwatch, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand").with_step(7);
    /// let ((), lap) = Stopwatch::new(&source, Frequency::MEGAHERTZ).time(|| source.advance(50));
    /// assert_eq!(lap.duration(), Duration::from_micros(57));
    /// # }
    /// ```
    #[must_use]
    pub const fn duration(&self) -> Duration {
        Duration::from_nanos(self.nanos())
    }

    /// Returns the overhead: the median of a thousand empty laps.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use std::time::Duration;
    /// use hpt_core::{Frequency, Stopwatch, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand").with_step(7);
    /// let ((), lap) = Stopwatch::new(&source, Frequency::MEGAHERTZ).time(|| source.advance(50));
    /// assert_eq!(lap.own_cost(), Duration::from_micros(7));
    /// # }
    /// ```
    #[must_use]
    pub const fn own_cost(&self) -> Duration {
        Duration::from_nanos(self.scale.nanos(self.own_cost_ticks))
    }

    /// Returns the time from start to stop minus the overhead, but at least zero.
    ///
    /// If the work is short, the processor overlaps it with the reads, so the difference can be off by a few tens of
    /// nanoseconds. To time work that takes less than a microsecond, repeat it within one lap.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use std::time::Duration;
    /// use hpt_core::{Frequency, Stopwatch, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand").with_step(7);
    /// let ((), lap) = Stopwatch::new(&source, Frequency::MEGAHERTZ).time(|| source.advance(50));
    /// assert_eq!(lap.without_own_cost(), Duration::from_micros(50));
    /// # }
    /// ```
    #[must_use]
    pub const fn without_own_cost(&self) -> Duration {
        Duration::from_nanos(self.scale.nanos(self.ticks.saturating_sub(self.own_cost_ticks)))
    }

    /// Returns the granularity: the shortest non-zero empty lap observed. The value is rounded down to nanoseconds,
    /// but is at least one. For a counter with short ticks, this is the time of a read, not the length of a tick.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use std::time::Duration;
    /// use hpt_core::{Frequency, Stopwatch, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand").with_step(7);
    /// let ((), lap) = Stopwatch::new(&source, Frequency::MEGAHERTZ).time(|| source.advance(50));
    /// // The reading never changed by less than 7 ticks.
    /// assert_eq!(lap.granularity(), Duration::from_micros(7));
    /// # }
    /// ```
    #[must_use]
    pub fn granularity(&self) -> Duration {
        Duration::from_nanos(self.scale.nanos(self.granularity_ticks).max(1))
    }

    /// Returns whether the lap is shorter than ten granularity steps. Such a lap is inaccurate; repeat the work several
    /// times within one lap.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{Frequency, Stopwatch, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand").with_step(7);
    /// let stopwatch = Stopwatch::new(&source, Frequency::GIGAHERTZ);
    /// let ((), once) = stopwatch.time(|| source.advance(20));
    /// let ((), often) = stopwatch.time(|| (0..100).for_each(|_| source.advance(20)));
    /// assert!(once.is_too_short() && !often.is_too_short());
    /// # }
    /// ```
    #[must_use]
    pub const fn is_too_short(&self) -> bool {
        self.ticks < self.granularity_ticks.saturating_mul(FEWEST_GRANULES)
    }
}

impl std::fmt::Display for Lap {
    /// Formats the lap in the form `1234 ns (overhead 18 ns, granularity 10 ns)`, with a hint if the lap is too short.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} ns (overhead {} ns, granularity {} ns)",
            self.nanos(),
            self.own_cost().as_nanos(),
            self.granularity().as_nanos()
        )?;
        if self.is_too_short() {
            f.write_str("; the lap is shorter than ten granularity steps, so repeat the work within the lap")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Stopwatch;
    use crate::testing::ManualSource;
    use hpt_sys::units::Frequency;

    #[test]
    fn a_lap_includes_the_cost_of_reading_and_reports_both() {
        // Every read advances the counter by 7 ns: an empty lap takes 7.
        let source = ManualSource::new("by hand").with_step(7);
        let stopwatch = Stopwatch::new(&source, Frequency::GIGAHERTZ);
        let ((), lap) = stopwatch.time(|| source.advance(1_000));
        assert_eq!((lap.nanos(), lap.own_cost()), (1_007, Duration::from_nanos(7)));
        assert_eq!(lap.without_own_cost(), Duration::from_nanos(1_000));
        assert!(!lap.is_too_short());
    }

    #[test]
    fn work_shorter_than_ten_granules_is_reported_as_too_short() {
        let source = ManualSource::new("by hand").with_step(1_000);
        let stopwatch = Stopwatch::new(&source, Frequency::GIGAHERTZ);
        let ((), lap) = stopwatch.time(|| source.advance(8_000));
        assert!(lap.is_too_short() && lap.to_string().contains("shorter than ten granularity steps"), "{lap}");
    }

    #[test]
    fn a_source_that_never_advanced_during_observation_has_its_stated_granularity() {
        let source = ManualSource::new("still");
        let ((), lap) = Stopwatch::new(&source, Frequency::GIGAHERTZ).time(|| ());
        assert!(lap.is_too_short() && lap.own_cost().is_zero());
    }
}
