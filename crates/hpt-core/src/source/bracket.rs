//! One reading of a source between two readings of a reference. The conclusions from such readings are drawn in
//! `self_test` and `calibrate`.

use hpt_sys::units::{Frequency, Width};

use super::TimeSource;
use crate::scale::Scale;

/// A bracketed reading: the source returned `ticks` when the reference was between `before_ns` and `after_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    /// The reading of the reference before the source was read, in nanoseconds.
    pub before_ns: u64,
    /// The source's reading, in ticks.
    pub ticks: u64,
    /// The reading of the reference after the source was read, in nanoseconds.
    pub after_ns: u64,
}

impl Pair {
    /// Returns the width of the bracket, in nanoseconds.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::source::Pair;
    ///
    /// let pair = Pair { before_ns: 1_000, ticks: 42, after_ns: 1_080 };
    /// assert_eq!(pair.width_ns(), 80);
    /// ```
    #[must_use]
    pub const fn width_ns(&self) -> u64 {
        self.after_ns.wrapping_sub(self.before_ns)
    }
}

/// A reference clock whose readings are extended to 64 bits and converted to nanoseconds. It must be read at least
/// twice per wrap of its source.
#[derive(Debug)]
pub struct Reference<'a, R: ?Sized> {
    source: &'a R,
    scale: Scale,
    width: Width,
    last_raw: u64,
    widened: u64,
    unchanged: u32,
}

impl<'a, R: TimeSource + ?Sized> Reference<'a, R> {
    /// Creates a reference that starts at the current reading of `source`. If `source` has no nominal frequency, its
    /// ticks are taken to be nanoseconds.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{SourceId, SourceInfo, Width, source::Reference, testing::ManualSource};
    ///
    /// let narrow = ManualSource::with_info(SourceInfo::new(SourceId::new("narrow")).with_width(Width::BITS_32));
    /// narrow.set(0xffff_fff0);
    /// let mut reference = Reference::new(&narrow);
    /// let before_ns = reference.now_ns();
    /// // The counter wraps.
    /// narrow.set(0x10);
    /// assert_eq!(reference.now_ns() - before_ns, 0x20);
    /// # }
    /// ```
    pub fn new(source: &'a R) -> Self {
        let info = source.info();
        let scale = info.nominal_scale().unwrap_or(Scale::of(Frequency::GIGAHERTZ));
        let now = source.ticks_end();
        Self { source, scale, width: info.width, last_raw: now, widened: now, unchanged: 0 }
    }

    /// Reads the reference, `source`, and the reference again; each read is ordered after the previous one. The read of
    /// the source needs no fence after it, because the second read of the reference waits for it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{source::Reference, testing::ManualSource};
    ///
    /// let clock = ManualSource::new("clock").with_step(30);
    /// let source = ManualSource::new("source");
    /// source.set(42);
    /// let pair = Reference::new(&clock).pair(&source);
    /// assert_eq!((pair.before_ns, pair.ticks, pair.after_ns), (30, 42, 60));
    /// # }
    /// ```
    #[inline]
    pub fn pair<S: TimeSource + ?Sized>(&mut self, source: &S) -> Pair {
        let before = self.source.ticks_end();
        let ticks = source.ticks_start();
        let after = self.source.ticks_end();
        self.unchanged = if after == self.last_raw { self.unchanged.saturating_add(1) } else { 0 };
        Pair { before_ns: self.nanos(before), ticks, after_ns: self.nanos(after) }
    }

    /// Returns the current reading of the reference, in nanoseconds.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{source::Reference, testing::ManualSource};
    ///
    /// let clock = ManualSource::new("clock");
    /// let mut reference = Reference::new(&clock);
    /// clock.advance(7);
    /// assert_eq!(reference.now_ns(), 7);
    /// # }
    /// ```
    pub fn now_ns(&mut self) -> u64 {
        let now = self.source.ticks_end();
        self.nanos(now)
    }

    /// Returns whether the reference has not advanced for at least `pairs` consecutive pairs.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{source::Reference, testing::ManualSource};
    ///
    /// let (still, source) = (ManualSource::new("still"), ManualSource::new("source"));
    /// let mut reference = Reference::new(&still);
    /// for _ in 0..3 {
    ///     reference.pair(&source);
    /// }
    /// assert!(reference.stood_still_for(3) && !reference.stood_still_for(4));
    /// # }
    /// ```
    #[must_use]
    pub const fn stood_still_for(&self, pairs: u32) -> bool {
        self.unchanged >= pairs
    }

    fn nanos(&mut self, raw: u64) -> u64 {
        // The difference is signed, so that a backward step of the clock is not mistaken for a forward step of almost a
        // full wrap.
        self.widened = self.widened.wrapping_add_signed(self.width.signed_difference(self.last_raw, raw));
        self.last_raw = raw;
        self.scale.nanos(self.widened)
    }
}

#[cfg(test)]
mod tests {
    use super::Reference;
    use crate::{
        source::{SourceId, SourceInfo},
        testing::ManualSource,
    };
    use hpt_sys::units::Width;

    #[test]
    fn a_narrow_reference_is_followed_across_its_wrap() {
        let mut info = SourceInfo::new(SourceId::new("narrow"));
        info.width = Width::BITS_32;
        let narrow = ManualSource::with_info(info);
        narrow.set(0xffff_fff0);
        let mut reference = Reference::new(&narrow);
        let source = ManualSource::new("source");
        let before = reference.pair(&source).after_ns;
        narrow.set(0x10);
        assert_eq!(reference.pair(&source).before_ns - before, 0x20);
    }
}
