//! [`Instant`] as a source, so that its reads can be timed like those of other sources.

use hpt_core::{Instant, SourceInfo, TimeSource, source::SourceId};
use hpt_sys::cast::unsigned;

/// Reads [`Instant`] without ordering, in nanoseconds.
#[derive(Debug)]
pub struct InstantSource(SourceInfo);

impl InstantSource {
    /// Creates the source `instant`.
    #[must_use]
    pub fn new() -> Self {
        Self(SourceInfo::new(SourceId::new("instant")))
    }
}

impl Default for InstantSource {
    fn default() -> Self {
        Self::new()
    }
}

impl TimeSource for InstantSource {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        unsigned(Instant::now_unordered().as_nanos())
    }

    fn info(&self) -> &SourceInfo {
        &self.0
    }
}
