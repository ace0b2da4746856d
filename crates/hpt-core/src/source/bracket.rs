//! One reading of a source between two readings of a reference.
//! Draws no conclusion: `self_test` and `calibrate` do.

use super::TimeSource;
use crate::scale::Scale;

/// A bracketed reading: the source showed `ticks` at some moment between `before_ns` and `after_ns` of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    /// The reference before the reading, in nanoseconds.
    pub before_ns: u64,
    /// The source's reading, in ticks.
    pub ticks: u64,
    /// The reference after the reading, in nanoseconds.
    pub after_ns: u64,
}

impl Pair {
    /// Takes one: reference, source, reference, each ordered after the one before. The source's read needs no fence behind it, because the
    /// reference's second read waits for it.
    #[inline]
    pub(crate) fn take<S, R>(source: &S, reference: &R, reference_scale: Scale) -> Self
    where
        S: TimeSource + ?Sized,
        R: TimeSource + ?Sized,
    {
        let before = reference.ticks_end();
        let ticks = source.ticks_start();
        let after = reference.ticks_end();
        Self { before_ns: reference_scale.nanoseconds(before), ticks, after_ns: reference_scale.nanoseconds(after) }
    }

    /// The width of the bracket, in nanoseconds.
    #[must_use]
    pub const fn width_ns(&self) -> u64 {
        self.after_ns.wrapping_sub(self.before_ns)
    }
}
