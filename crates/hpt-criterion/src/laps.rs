//! The value that all measurements of this crate produce: ticks, and the number of laps in which they were counted.

use hpt_core::stats::{Steps, median};

/// The number of empty laps from which the overhead is measured.
const EMPTY_LAPS: usize = 1001;
/// The value of a sample that equals the overhead exactly, in ticks. Criterion discards a benchmark if one of its
/// samples is zero.
const INSTEAD_OF_ZERO_TICKS: f64 = 1e-3;

/// The ticks of one or several laps, including the overhead of each lap. A lap is the work between one call of
/// [`start`](criterion::measurement::Measurement::start) and the next call of
/// [`end`](criterion::measurement::Measurement::end). Criterion adds up the laps of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Laps {
    ticks: i64,
    laps: u64,
    /// Whether the count of at least one lap is unknown.
    is_unknown: bool,
}

impl Laps {
    #[inline]
    pub(crate) const fn one(ticks: i64) -> Self {
        Self { ticks, laps: 1, is_unknown: false }
    }

    /// One lap whose count is unknown.
    #[inline]
    pub(crate) const fn unknown() -> Self {
        Self { ticks: 0, laps: 1, is_unknown: true }
    }

    /// Returns the sum of both.
    #[inline]
    pub(crate) const fn and(self, other: Self) -> Self {
        Self {
            ticks: self.ticks.wrapping_add(other.ticks),
            laps: self.laps + other.laps,
            is_unknown: self.is_unknown || other.is_unknown,
        }
    }

    /// Returns the ticks of all laps, including their overhead.
    ///
    /// # Examples
    ///
    /// ```
    /// use criterion::measurement::Measurement;
    /// use hpt_core::testing::ManualSource;
    /// use hpt_criterion::Time;
    ///
    /// // Each read takes 7 ticks.
    /// let source = ManualSource::new("by hand").with_step(7);
    /// let time = Time::new(&source)?;
    /// let start = time.start();
    /// source.advance(50);
    /// assert_eq!(time.end(start).ticks(), 57);
    /// # Ok::<(), hpt_criterion::TimeError>(())
    /// ```
    #[must_use]
    pub const fn ticks(&self) -> i64 {
        self.ticks
    }

    /// Returns the number of laps.
    ///
    /// # Examples
    ///
    /// ```
    /// use criterion::measurement::Measurement;
    /// use hpt_core::testing::ManualSource;
    /// use hpt_criterion::Time;
    ///
    /// let time = Time::new(ManualSource::new("by hand"))?;
    /// let lap = time.end(time.start());
    /// assert_eq!((time.zero().laps(), time.add(&lap, &lap).laps()), (0, 2));
    /// # Ok::<(), hpt_criterion::TimeError>(())
    /// ```
    #[must_use]
    pub const fn laps(&self) -> u64 {
        self.laps
    }

    /// Returns whether the count of at least one lap is unknown.
    pub(crate) const fn is_unknown(self) -> bool {
        self.is_unknown
    }

    /// Returns the ticks without an overhead of `own_cost` ticks per lap, as a number that is never exactly zero.
    #[expect(clippy::cast_precision_loss, reason = "for statistics")]
    pub(crate) fn without(self, own_cost: u64) -> f64 {
        let net = i128::from(self.ticks) - i128::from(own_cost) * i128::from(self.laps);
        if net == 0 { INSTEAD_OF_ZERO_TICKS } else { net as f64 }
    }
}

/// The counts of empty laps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overhead {
    /// The median of the empty laps, in ticks.
    pub(crate) own_cost: u64,
    /// The shortest empty lap that is not zero, in ticks; `None` if all are zero.
    pub(crate) granularity: Option<u64>,
}

impl Overhead {
    /// Measures a thousand empty laps.
    pub(crate) fn measure(mut empty_lap: impl FnMut() -> i64) -> Self {
        let mut steps = Steps::default();
        let mut laps: Vec<u64> = (0..EMPTY_LAPS).map(|_| u64::try_from(empty_lap()).unwrap_or(0)).collect();
        laps.iter().for_each(|&ticks| steps.record(ticks));
        Self { own_cost: median(&mut laps).unwrap_or(0), granularity: steps.smallest_ticks() }
    }
}

#[cfg(test)]
mod tests {
    use super::{Laps, Overhead};

    #[test]
    fn the_overhead_is_subtracted_once_per_lap() {
        let sample = Laps::one(130).and(Laps::one(140)).and(Laps::default());
        assert_eq!((sample.ticks(), sample.laps()), (270, 2));
        assert_eq!((sample.without(30), sample.without(0), sample.without(150)), (210.0, 270.0, -30.0));
    }

    #[test]
    fn a_sample_with_an_unknown_lap_is_unknown() {
        assert!(Laps::one(130).and(Laps::unknown()).is_unknown() && Laps::unknown().and(Laps::one(130)).is_unknown());
        assert!(!Laps::one(130).and(Laps::default()).is_unknown());
    }

    #[test]
    fn a_sample_is_never_zero() {
        let zero = Laps::one(30).without(30);
        assert!(zero > 0.0 && zero < 0.01, "{zero}");
    }

    #[test]
    fn the_overhead_is_the_median_and_the_granularity_the_shortest_step() {
        let mut laps = [0, 20, 40, 40, 40].into_iter().cycle();
        let overhead = Overhead::measure(|| laps.next().expect("endless"));
        assert_eq!(overhead, Overhead { own_cost: 40, granularity: Some(20) });
        assert_eq!(Overhead::measure(|| 0), Overhead { own_cost: 0, granularity: None });
    }
}
