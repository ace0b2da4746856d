//! The [`TimeSource`] trait, which every source implements.

use std::{fmt::Debug, sync::Arc};

use super::SourceInfo;

/// A counter that can be read. Its rate may be constant or may vary.
///
/// Implement this trait for your own counter to use it wherever this crate takes a source.
///
/// # Contract
///
/// An implementation MUST return readings below 2^[`width`](crate::Width). A read MUST NOT fail, block or allocate. If
/// the machine can reorder the plain read, [`ticks_start`](Self::ticks_start) and [`ticks_end`](Self::ticks_end) MUST
/// be ordered as documented.
///
/// # Examples
///
/// A counter of microseconds:
///
/// ```
/// use std::time::Instant;
/// use hpt_core::{
///     FixedRateClock, Frequency, SourceId, SourceInfo, TimeSource,
///     source::{Quantity, RateKind, StatedBy},
/// };
///
/// #[derive(Debug)]
/// struct Micros {
///     start: Instant,
///     info: SourceInfo,
/// }
///
/// impl TimeSource for Micros {
///     fn ticks(&self) -> u64 {
///         self.start.elapsed().as_micros() as u64
///     }
///
///     fn info(&self) -> &SourceInfo {
///         &self.info
///     }
/// }
///
/// let megahertz = Frequency::from_hertz(1_000_000).expect("not zero");
/// let info = SourceInfo::new(SourceId::new("micros"))
///     .with_quantity(Quantity::Time)
///     .with_rate(RateKind::Constant)
///     .with_nominal(megahertz, StatedBy::Program);
/// let clock = FixedRateClock::new(Micros { start: Instant::now(), info }, megahertz)?;
/// println!("{} ns", clock.now().as_nanos());
/// # Ok::<(), hpt_core::clock::ClockError>(())
/// ```
pub trait TimeSource: Debug {
    /// Returns the current reading in ticks, at the lowest cost.
    ///
    /// # Ordering
    ///
    /// The read is not ordered: the processor may execute the read earlier or later than its place in the program.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, PosixClock, PosixId, TimeSource};
    ///
    /// let clock = PosixClock::open(&Host::live(), PosixId::Monotonic)?;
    /// let start = clock.ticks();
    /// assert!(clock.ticks() >= start);
    /// # Ok::<(), hpt_core::SourceError>(())
    /// ```
    fn ticks(&self) -> u64;

    /// Returns a reading for the start of a measured piece of work.
    ///
    /// # Ordering
    ///
    /// The read happens after all preceding instructions have completed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::hint::black_box;
    /// use hpt_core::{Host, TimeSource, source};
    ///
    /// let counter = source::choose(&Host::live())?.source;
    /// let start = counter.ticks_start();
    /// let sum: u64 = (0..1000).map(black_box).sum();
    /// let end = counter.ticks_end();
    /// println!("{sum} took {} ticks", counter.info().width.difference(start, end));
    /// # Ok::<(), hpt_core::SourceError>(())
    /// ```
    fn ticks_start(&self) -> u64 {
        self.ticks()
    }

    /// Returns a reading for the end of a measured piece of work.
    ///
    /// # Ordering
    ///
    /// The read happens after the work has completed, and before any following instruction begins.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, PosixClock, PosixId, TimeSource};
    ///
    /// let clock = PosixClock::open(&Host::live(), PosixId::Monotonic)?;
    /// let start = clock.ticks_start();
    /// // The work.
    /// assert!(clock.ticks_end() >= start);
    /// # Ok::<(), hpt_core::SourceError>(())
    /// ```
    fn ticks_end(&self) -> u64 {
        self.ticks()
    }

    /// Returns the properties of this source.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, PosixClock, PosixId, TimeSource};
    ///
    /// let clock = PosixClock::open(&Host::live(), PosixId::Monotonic)?;
    /// assert_eq!(clock.info().id.as_str(), "monotonic");
    /// assert_eq!(clock.info().width.bits(), 64);
    /// # Ok::<(), hpt_core::SourceError>(())
    /// ```
    fn info(&self) -> &SourceInfo;

    /// Reads `reads` times back to back and returns the last reading. Benchmarks call this method so that, even with
    /// `dyn`, they time the reads and not the dynamic dispatch. Returns 0 if `reads` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{TimeSource, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand").with_step(10);
    /// // The readings are 0, 10 and 20.
    /// assert_eq!(source.ticks_repeated(3), 20);
    /// # }
    /// ```
    fn ticks_repeated(&self, reads: u32) -> u64 {
        let mut last = 0;
        for _ in 0..reads {
            last = std::hint::black_box(self.ticks());
        }
        last
    }
}

macro_rules! forward_time_source {
    ($($pointer:ty),+) => {$(
        impl<S: TimeSource + ?Sized> TimeSource for $pointer {
            #[inline(always)]
            fn ticks(&self) -> u64 {
                (**self).ticks()
            }
            #[inline(always)]
            fn ticks_start(&self) -> u64 {
                (**self).ticks_start()
            }
            #[inline(always)]
            fn ticks_end(&self) -> u64 {
                (**self).ticks_end()
            }
            #[inline(always)]
            fn info(&self) -> &SourceInfo {
                (**self).info()
            }
            #[inline(always)]
            fn ticks_repeated(&self, reads: u32) -> u64 {
                (**self).ticks_repeated(reads)
            }
        }
    )+};
}

forward_time_source!(&S, Box<S>, Arc<S>);
