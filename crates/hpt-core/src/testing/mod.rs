//! A clock and a source that a test controls, for the tests of this crate and of programs that use it.
//!
//! | The code under test | use |
//! | --- | --- |
//! | calls [`Instant::now`], or uses a [`Sleeper`](crate::Sleeper) or a [`Pacer`](crate::Pacer) | [`FrozenClock`], which replaces the time that a thread reads |
//! | also starts threads, or tasks with hpt-async | [`FrozenProcess`], which replaces the time that all of them read |
//! | is generic over [`Clock`] | [`FrozenClock`] or [`ManualSource`] as the clock |
//! | reads a [`TimeSource`] | [`ManualSource`] |
//!
//! Requires the feature `testing`. Enable it only in `[dev-dependencies]`.

#[cfg(feature = "testing")]
mod frozen_clock;
#[cfg(all(feature = "testing", target_os = "linux"))]
mod frozen_process;

use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(feature = "testing")]
pub use self::frozen_clock::{Entered, FrozenClock};
#[cfg(all(feature = "testing", target_os = "linux"))]
pub use self::frozen_process::FrozenProcess;
use crate::{
    clock::{Clock, Instant},
    scale::Scale,
    source::{RateKind, SourceId, SourceInfo, StatedBy, TimeSource},
};
use hpt_sys::units::Frequency;

/// A source whose readings the test sets.
///
/// # Examples
///
/// ```
/// use hpt_core::{TimeSource, testing::ManualSource};
///
/// let source = ManualSource::new("by hand");
/// source.advance(1_500);
/// assert_eq!(source.ticks(), 1_500);
/// ```
#[derive(Debug)]
pub struct ManualSource {
    ticks: AtomicU64,
    step_per_read: u64,
    info: SourceInfo,
}

impl ManualSource {
    /// Creates a 64-bit constant-rate source that ticks once per nanosecond and starts at zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Frequency, TimeSource, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand");
    /// assert_eq!((source.ticks(), source.ticks()), (0, 0));
    /// assert_eq!(source.info().nominal.map(|nominal| nominal.frequency), Some(Frequency::GIGAHERTZ));
    /// ```
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self::with_info(
            SourceInfo::new(SourceId::new(name))
                .with_rate(RateKind::Constant)
                .with_nominal(Frequency::GIGAHERTZ, StatedBy::Program),
        )
    }

    /// Creates a source that has the properties `info` and starts at zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{SourceId, SourceInfo, TimeSource, Width, testing::ManualSource};
    ///
    /// let info = SourceInfo::new(SourceId::new("narrow")).with_width(Width::BITS_32);
    /// let source = ManualSource::with_info(info);
    /// source.advance(0x1_0000_0005);
    /// assert_eq!(source.ticks(), 5);
    /// ```
    #[must_use]
    pub const fn with_info(info: SourceInfo) -> Self {
        Self { ticks: AtomicU64::new(0), step_per_read: 0, info }
    }

    /// Makes the source advance by `ticks` after every read, so that code that waits for the source makes progress.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{TimeSource, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand").with_step(10);
    /// assert_eq!([source.ticks(), source.ticks(), source.ticks()], [0, 10, 20]);
    /// ```
    #[must_use]
    pub const fn with_step(mut self, ticks: u64) -> Self {
        self.step_per_read = ticks;
        self
    }

    /// Advances the reading by `ticks`. The reading wraps at the counter's width.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{TimeSource, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand");
    /// source.advance(3);
    /// source.advance(4);
    /// assert_eq!(source.ticks(), 7);
    /// ```
    pub fn advance(&self, ticks: u64) {
        self.ticks.fetch_add(ticks, Ordering::Relaxed);
    }

    /// Sets the reading to `ticks`, which may be lower than the current reading.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{TimeSource, testing::ManualSource};
    ///
    /// let source = ManualSource::new("by hand");
    /// source.advance(100);
    /// // A counter that was reset.
    /// source.set(0);
    /// assert_eq!(source.ticks(), 0);
    /// ```
    pub fn set(&self, ticks: u64) {
        self.ticks.store(ticks, Ordering::Relaxed);
    }
}

impl TimeSource for ManualSource {
    fn ticks(&self) -> u64 {
        self.ticks.fetch_add(self.step_per_read, Ordering::Relaxed) & self.info.width.mask()
    }

    fn info(&self) -> &SourceInfo {
        &self.info
    }
}

impl Clock for ManualSource {
    /// Returns the reading in nanoseconds, according to the nominal frequency of the source. Without a nominal
    /// frequency, one tick counts as one nanosecond.
    fn now(&self) -> Instant {
        let scale = self.info().nominal_scale().unwrap_or(Scale::of(Frequency::GIGAHERTZ));
        Instant::from_kernel_nanos(scale.nanos(self.ticks()))
    }

    /// Advances the source to `deadline`, or to the first tick after it.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    #[expect(clippy::cast_precision_loss, reason = "a test that waits for weeks in one step may do so a tick too long")]
    fn sleep_until(&self, deadline: Instant) {
        let scale = self.info().nominal_scale().unwrap_or(Scale::of(Frequency::GIGAHERTZ));
        let left_ns = deadline.nanos_since(self.now());
        self.advance((left_ns as f64 / scale.tick_ns_f64()).ceil() as u64);
    }
}
