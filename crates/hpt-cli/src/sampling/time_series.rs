//! Latency over time: the maximum of each interval of a run, and the distribution in each interval, in bounded memory.

use hpt_document::wake_latency::TimeSeriesInterval;

use super::{heat_map::HeatMap, late_deadlines::LateDeadlines};
use crate::statistics::quantile::{self, Bins};

/// The maximum number of intervals. In a longer run, pairs of intervals are merged.
const MOST: usize = 400;
/// The shortest interval.
const SHORTEST_NS: u64 = 10_000_000;

/// Latencies over time, in intervals of equal length.
#[derive(Clone, Debug)]
pub(crate) struct TimeSeries {
    first_ns: Option<u64>,
    every_ns: u64,
    stretches: Vec<Stretch>,
    heat_map: HeatMap,
    blocks: HeatMap,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    samples: u64,
    sum_ns: u64,
    max_ns: u64,
}

impl TimeSeries {
    pub(crate) fn new() -> Self {
        // Allocated in advance and written once, so that the measurement waits neither for memory nor for a page fault.
        let mut stretches = Vec::with_capacity(MOST);
        stretches.resize(MOST, std::hint::black_box(Stretch::default()));
        stretches.clear();
        Self {
            first_ns: None,
            every_ns: SHORTEST_NS,
            stretches,
            heat_map: HeatMap::for_display(),
            blocks: HeatMap::for_statistics(),
        }
    }

    /// Adds the latencies of deadlines.
    pub(crate) fn record(&mut self, mut deadlines: LateDeadlines) {
        self.heat_map.record(deadlines);
        self.blocks.record(deadlines);
        let first_ns = *self.first_ns.get_or_insert(deadlines.at_ns);
        while deadlines.last_at_ns().saturating_sub(first_ns) / self.every_ns >= MOST as u64 {
            self.halve();
        }
        while deadlines.count > 0 {
            let place = deadlines.at_ns.saturating_sub(first_ns) / self.every_ns;
            let end_ns = first_ns.saturating_add((place + 1).saturating_mul(self.every_ns));
            let place = usize::try_from(place).unwrap_or(MOST - 1);
            if place >= self.stretches.len() {
                self.stretches.resize(place + 1, Stretch::default());
            }
            let (stretch, of_stretch) = (&mut self.stretches[place], deadlines.take_before(end_ns));
            stretch.samples += of_stretch.count;
            stretch.sum_ns = stretch.sum_ns.saturating_add(of_stretch.sum_ns());
            stretch.max_ns = stretch.max_ns.max(of_stretch.late_ns);
        }
    }

    fn halve(&mut self) {
        for place in 0..self.stretches.len().div_ceil(2) {
            let (one, other) =
                (self.stretches[2 * place], self.stretches.get(2 * place + 1).copied().unwrap_or_default());
            self.stretches[place] = Stretch {
                samples: one.samples + other.samples,
                sum_ns: one.sum_ns.saturating_add(other.sum_ns),
                max_ns: one.max_ns.max(other.max_ns),
            };
        }
        self.stretches.truncate(self.stretches.len().div_ceil(2));
        self.every_ns = self.every_ns.saturating_mul(2);
    }

    /// Returns the distribution over time.
    pub(crate) const fn heat_map(&self) -> &HeatMap {
        &self.heat_map
    }

    /// Returns the interval of a quantile that fails to contain it with the probability `error`, in nanoseconds: from the
    /// first number to below the second. Returns `None` if there are too few independent bursts.
    pub(crate) fn interval_of(&self, part: f64, error: f64) -> Option<(u64, u64)> {
        let mut blocks = self.blocks.intervals();
        // The last block is shorter than the others.
        blocks.pop();
        let Bins { low, end } = quantile::interval(&blocks, part, error)?;
        Some((self.blocks.start_ns(low), self.blocks.start_ns(end)))
    }

    /// Returns the length of an interval.
    pub(crate) const fn every_ns(&self) -> u64 {
        self.every_ns
    }

    /// Returns the intervals with samples: the start relative to the first deadline, the number of samples, the mean
    /// and the maximum.
    #[expect(clippy::cast_precision_loss, reason = "a mean for display")]
    pub(crate) fn rows(&self) -> Vec<TimeSeriesInterval> {
        let stretches = (0_u64..).zip(&self.stretches).filter(|(_, stretch)| stretch.samples > 0);
        stretches
            .map(|(place, stretch)| {
                let mean_ns = crate::output::rounded(stretch.sum_ns as f64 / stretch.samples as f64);
                TimeSeriesInterval(place * self.every_ns, stretch.samples, mean_ns, stretch.max_ns)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpt_core::Instant;
    use hpt_document::wake_latency::TimeSeriesInterval;
    use hpt_instrument::measure::Wake;

    use super::{LateDeadlines, MOST, SHORTEST_NS, TimeSeries};

    #[test]
    fn a_long_run_counts_every_sample_and_keeps_the_position_of_the_worst() {
        let mut time_series = TimeSeries::new();
        let far = SHORTEST_NS * MOST as u64 * 5;
        for sample in 0..10_000_u64 {
            let late_ns = if sample == 7_500 { 9_999 } else { 5 };
            time_series.record(LateDeadlines::one(1_000 + sample * (far / 10_000), late_ns));
        }
        let rows = time_series.rows();
        assert!(rows.len() <= MOST && rows.len() > MOST / 2, "{}", rows.len());
        assert_eq!(rows.iter().map(|row| row.1).sum::<u64>(), 10_000);
        let worst = rows.iter().max_by_key(|row| row.3).expect("there are some");
        assert!(
            worst.3 == 9_999 && worst.0 <= far / 4 * 3 && worst.0 + time_series.every_ns() > far / 4 * 3,
            "{worst:?}"
        );
        assert_eq!(time_series.every_ns(), SHORTEST_NS * 8);
    }

    #[test]
    fn an_empty_time_series_has_no_rows_and_an_early_sample_counts_in_the_first() {
        let mut time_series = TimeSeries::new();
        assert!(time_series.rows().is_empty());
        time_series.record(LateDeadlines::one(10, 1));
        time_series.record(LateDeadlines::one(5, 3));
        assert_eq!(time_series.rows(), [TimeSeriesInterval(0, 2, 2.0, 3)]);
        time_series.record(LateDeadlines::one(u64::MAX, 7));
        assert_eq!(time_series.rows().iter().map(|row| row.1).sum::<u64>(), 3);
    }

    #[test]
    fn missed_deadlines_are_in_the_intervals_in_which_they_were_due() {
        // A thread with a period of 0.3 ms was stopped for ten seconds: it missed 33,333 deadlines.
        let mut wake = Wake::new(Instant::EPOCH + Duration::from_millis(7), 10_000_000_000);
        (wake.period_ns, wake.missed) = (300_000, 33_333);
        let (mut together, mut singly) = (TimeSeries::new(), TimeSeries::new());
        together.record(LateDeadlines::of(&wake));
        for place in 0..=wake.missed {
            let past_ns = place * wake.period_ns;
            singly.record(LateDeadlines::one(7_000_000 + past_ns, wake.latency_ns - past_ns));
        }
        assert_eq!(together.rows(), singly.rows());
        assert_eq!(together.heat_map().columns(), singly.heat_map().columns());
        assert_eq!(together.rows().iter().map(|row| row.1).sum::<u64>(), 33_334);
    }
}
