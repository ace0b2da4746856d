//! Sources that a test drives by hand. Public, for the tests of programs that use this crate.
//! Nothing outside tests may name it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{
    clock::{Instant, Now},
    scale::Scale,
    source::{Nominal, SourceId, SourceInfo, StatedBy, TimeSource},
    units::Frequency,
};

/// A source whose readings the test decides.
///
/// # Examples
///
/// ```
/// use hpt_core::{TimeSource, testing::ManualSource};
///
/// let source = ManualSource::nanoseconds("by hand");
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
    /// A steady source of 64 bits that ticks once a nanosecond and stands at zero.
    #[must_use]
    pub fn nanoseconds(name: &'static str) -> Self {
        let mut info = SourceInfo::new(SourceId::new(name));
        info.steady = true;
        info.nominal = Some(Nominal { frequency: Frequency::GIGAHERTZ, stated_by: StatedBy::Program });
        Self::with_info(info)
    }

    /// A source of any kind that stands at zero.
    #[must_use]
    pub const fn with_info(info: SourceInfo) -> Self {
        Self { ticks: AtomicU64::new(0), step_per_read: 0, info }
    }

    /// Moves by `ticks` after every read, so that code that waits for it goes on.
    #[must_use]
    pub const fn stepping_by(mut self, ticks: u64) -> Self {
        self.step_per_read = ticks;
        self
    }

    /// Moves forward by `ticks`; beyond the counter's width it wraps.
    pub fn advance(&self, ticks: u64) {
        self.ticks.fetch_add(ticks, Ordering::Relaxed);
    }

    /// Stands at `ticks` from now on, also before where it was.
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

impl Now for ManualSource {
    /// The reading, by the rate that the source states; else its ticks are nanoseconds.
    fn now(&self) -> Instant {
        let scale = self.info().nominal_scale().unwrap_or(Scale::of(Frequency::GIGAHERTZ));
        Instant::from_nanoseconds(scale.nanoseconds(self.ticks()))
    }
}

/// The words of the emulator that runs these tests, or none, and the path of this program: for a test that starts a process of its own.
#[cfg(test)]
pub(crate) fn own_program() -> (Vec<String>, std::path::PathBuf) {
    let runner = std::env::var("HPT_TEST_RUNNER").unwrap_or_default();
    let program = std::env::current_exe().expect("Linux names this program");
    (runner.split_whitespace().map(str::to_owned).collect(), program)
}
