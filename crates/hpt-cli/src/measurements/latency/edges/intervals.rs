//! The intervals between the edges of one channel: exact ends, and quantiles in bounded memory.

use std::collections::BTreeMap;

use super::grid::Grid;

/// The largest number of different intervals that are counted separately.
const MOST_DIFFERENT: usize = 1 << 16;

/// The distribution of intervals, in ticks. The smallest, the largest and the mean interval are exact. Quantiles are
/// exact unless there are very many different intervals; similar ones are then counted together.
#[derive(Clone, Debug, Default)]
pub(super) struct Intervals {
    /// The number of intervals, by the interval divided by 2 to the power of `shift`.
    counts: BTreeMap<u64, u64>,
    shift: u32,
    ends: Option<(u64, u64)>,
    sum: u128,
    samples: u64,
    /// The edges at the ends of the intervals.
    pub(super) grid: Grid,
}

impl Intervals {
    fn record(&mut self, ticks: u64) {
        *self.counts.entry(ticks >> self.shift).or_default() += 1;
        let (least, most) = self.ends.unwrap_or((ticks, ticks));
        self.ends = Some((least.min(ticks), most.max(ticks)));
        self.sum += u128::from(ticks);
        self.samples += 1;
        while self.counts.len() > MOST_DIFFERENT {
            self.shift += 1;
            for (ticks, count) in std::mem::take(&mut self.counts) {
                *self.counts.entry(ticks >> 1).or_default() += count;
            }
        }
    }

    pub(super) const fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns the smallest and the largest interval.
    pub(super) const fn ends(&self) -> Option<(u64, u64)> {
        self.ends
    }

    #[expect(clippy::cast_precision_loss, reason = "for printing")]
    pub(super) fn mean(&self) -> f64 {
        self.sum as f64 / self.samples.max(1) as f64
    }

    /// Returns the smallest interval that at least this part of the intervals does not exceed.
    #[expect(clippy::cast_precision_loss, reason = "a share of samples")]
    pub(super) fn quantile(&self, part: f64) -> Option<u64> {
        let (least, most) = self.ends?;
        // Ensures that seven of a hundred are enough for a quantile of 0.07, despite rounding errors.
        let mut below = 0;
        let reached = |(_, count): &(&u64, &u64)| {
            below += **count;
            below as f64 + 1e-6 >= part * self.samples as f64
        };
        let (ticks, _) = self.counts.iter().find(reached)?;
        Some((ticks << self.shift).clamp(least, most))
    }
}

/// The edges of one channel, in the order of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Edges {
    level: Option<bool>,
    /// The times of the last falling edge and of the last rising edge.
    last: [Option<u64>; 2],
    /// The intervals between all edges, between rising edges and between falling edges.
    pub(super) all: Intervals,
    pub(super) rising: Intervals,
    pub(super) falling: Intervals,
}

impl Edges {
    /// Adds a sample at the time `at`, in ticks, which must not be earlier than the previous sample.
    pub(super) fn sample(&mut self, at: u64, level: bool) {
        if self.level.replace(level).is_none_or(|before| before == level) {
            return;
        }
        if let Some(last) = self.last.iter().flatten().max() {
            self.all.record(at - last);
        }
        self.all.grid.edge(at);
        let same = if level { &mut self.rising } else { &mut self.falling };
        if let Some(last) = self.last[usize::from(level)].replace(at) {
            same.record(at - last);
        }
        same.grid.edge(at);
    }

    /// Begins again after a gap of unknown length.
    pub(super) fn gap(&mut self) {
        (self.level, self.last) = (None, [None; 2]);
        [&mut self.all, &mut self.rising, &mut self.falling].into_iter().for_each(|intervals| intervals.grid.gap());
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::any, prop_assert_eq, proptest};

    use super::{Edges, Intervals, MOST_DIFFERENT};

    fn of(intervals: impl IntoIterator<Item = u64>) -> Intervals {
        let mut all = Intervals::default();
        intervals.into_iter().for_each(|ticks| all.record(ticks));
        all
    }

    #[test]
    fn edges_of_one_direction_are_compared_with_each_other() {
        let mut edges = Edges::default();
        for (at, level) in [(0, false), (10, true), (11, true), (14, false), (20, true), (30, false)] {
            edges.sample(at, level);
        }
        assert_eq!((edges.all.samples(), edges.all.ends()), (3, Some((4, 10))));
        assert_eq!((edges.rising.ends(), edges.falling.ends()), (Some((10, 10)), Some((16, 16))));
        edges.gap();
        edges.sample(1_000, true);
        edges.sample(1_001, false);
        assert_eq!(edges.all.samples(), 3, "no interval reaches across a gap");
    }

    #[test]
    fn very_many_different_intervals_take_bounded_memory_and_keep_their_ends() {
        let different = 3 * MOST_DIFFERENT as u64;
        let all = of((0..different).map(|number| number * 7));
        assert!(all.counts.len() <= MOST_DIFFERENT);
        assert_eq!(all.ends(), Some((0, (different - 1) * 7)));
        let median = all.quantile(0.5).expect("there are some");
        assert!(median.abs_diff(different * 7 / 2) <= 7 << all.shift, "{median}");
    }

    proptest! {
        #[test]
        fn a_quantile_is_the_one_of_the_sorted_intervals(mut ticks in vec(0..1_000_u64, 1..200), part in 0..=100_u32) {
            let all = of(ticks.iter().copied());
            ticks.sort_unstable();
            let rank = (ticks.len() * part as usize).div_ceil(100).max(1);
            prop_assert_eq!(all.quantile(f64::from(part) / 100.0), Some(ticks[rank - 1]));
        }

        #[test]
        fn any_intervals_are_recorded_without_a_panic(ticks in vec(any::<u64>(), 0..50)) {
            let all = of(ticks.iter().copied());
            prop_assert_eq!(all.ends(), ticks.iter().copied().min().zip(ticks.iter().copied().max()));
        }
    }
}
