//! A source of time: what everything that reads one asks of it.
//! Knows none of them.

use std::{fmt::Debug, sync::Arc};

use super::SourceInfo;

/// Something that counts at a steady or unsteady rate and can be read.
///
/// Implement it for a counter of your own: everything in this crate that takes a source takes yours.
///
/// # Contract
///
/// An implementation MUST return readings below 2^[`width`](crate::Width), MUST NOT fail, block or allocate in a
/// read, and MUST make [`ticks_start`](Self::ticks_start) and [`ticks_end`](Self::ticks_end) ordered as they say where the
/// machine can reorder the plain read.
///
/// # Examples
///
/// ```
/// use hpt_core::{Host, TimeSource, source};
///
/// let opened = source::open(&Host::live(), "monotonic")?;
/// let clock = opened.as_dyn();
/// let (first, second) = (clock.ticks(), clock.ticks());
/// assert!(first <= second);
/// # Ok::<(), hpt_core::Unavailable>(())
/// ```
pub trait TimeSource: Debug {
    /// The reading, in ticks, at the lowest cost.
    ///
    /// # Ordering
    ///
    /// None: the processor may take it earlier or later than it stands in the program.
    fn ticks(&self) -> u64;

    /// The reading before a piece of work.
    ///
    /// # Ordering
    ///
    /// Not before anything that stands earlier in the program has completed.
    fn ticks_start(&self) -> u64 {
        self.ticks()
    }

    /// The reading after a piece of work.
    ///
    /// # Ordering
    ///
    /// Not before the work has completed, and before anything that stands later begins.
    fn ticks_end(&self) -> u64 {
        self.ticks()
    }

    /// What this source is.
    fn info(&self) -> &SourceInfo;

    /// Reads `reads` times back to back and returns the last reading: what a benchmark calls, so that through `dyn` too it
    /// times the read and not the dispatch. Zero reads return 0.
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
