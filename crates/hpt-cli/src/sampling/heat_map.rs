//! The distribution of latencies over time, in bounded memory.

use hpt_document::latency::{HeatMapColumn, HistogramBin};

use super::{bins, late_deadlines::LateDeadlines};

/// The maximum number of intervals. In a longer run, pairs of intervals are merged.
const MOST: usize = 100;
/// The shortest interval.
const SHORTEST_NS: u64 = 10_000_000;
/// The number of bits that distinguish the bins of a power of two.
const BITS: u32 = 1;
/// The number of bins: two for each power of two.
const BINS: usize = 128;

/// The number of samples in each interval and each bin.
#[derive(Clone, Debug)]
pub(crate) struct HeatMap {
    first_ns: Option<u64>,
    every_ns: u64,
    intervals: Vec<[u64; BINS]>,
}

impl HeatMap {
    pub(crate) fn new() -> Self {
        // Allocated in advance, so that the measurement does not wait for memory.
        Self { first_ns: None, every_ns: SHORTEST_NS, intervals: Vec::with_capacity(MOST) }
    }

    /// Adds the latencies of deadlines.
    pub(crate) fn record(&mut self, mut deadlines: LateDeadlines) {
        let first_ns = *self.first_ns.get_or_insert(deadlines.at_ns);
        while deadlines.last_at_ns().saturating_sub(first_ns) / self.every_ns >= MOST as u64 {
            self.halve();
        }
        while deadlines.count > 0 {
            let place = deadlines.at_ns.saturating_sub(first_ns) / self.every_ns;
            let end_ns = first_ns.saturating_add((place + 1).saturating_mul(self.every_ns));
            let mut of_interval = deadlines.take_before(end_ns);
            let place = usize::try_from(place).unwrap_or(MOST - 1);
            if place >= self.intervals.len() {
                self.intervals.resize(place + 1, [0; BINS]);
            }
            while of_interval.count > 0 {
                let bin = bin(of_interval.late_ns);
                self.intervals[place][bin] += of_interval.take_as_late_as(start(bin)).count;
            }
        }
    }

    fn halve(&mut self) {
        let merged = |pair: &[[u64; BINS]]| std::array::from_fn(|bin| pair.iter().map(|counts| counts[bin]).sum());
        for place in 0..self.intervals.len().div_ceil(2) {
            let pair = 2 * place..self.intervals.len().min(2 * place + 2);
            self.intervals[place] = merged(&self.intervals[pair]);
        }
        self.intervals.truncate(self.intervals.len().div_ceil(2));
        self.every_ns = self.every_ns.saturating_mul(2);
    }

    /// Returns the length of an interval.
    pub(crate) const fn every_ns(&self) -> u64 {
        self.every_ns
    }

    /// Returns the intervals with samples.
    pub(crate) fn columns(&self) -> Vec<HeatMapColumn> {
        let columns = (0_u64..).zip(&self.intervals).map(|(place, counts)| {
            let counts = counts.iter().enumerate().map(|(bin, &count)| (start(bin), count));
            HeatMapColumn(place * self.every_ns, bins::bins(counts, BITS))
        });
        columns.filter(|HeatMapColumn(_, bins): &HeatMapColumn| samples(bins) > 0).collect()
    }
}

fn samples(bins: &[HistogramBin]) -> u64 {
    bins.iter().fold(0, |sum, bin| sum.saturating_add(bin.2))
}

/// Returns the index of the bin that contains a latency.
fn bin(ns: u64) -> usize {
    let power = ns.checked_ilog2().unwrap_or(0);
    let half = if power == 0 { ns & 1 } else { (ns >> (power - 1)) & 1 };
    (2 * power as usize + usize::try_from(half).unwrap_or(0)).min(BINS - 1)
}

/// Returns the smallest latency in a bin.
const fn start(bin: usize) -> u64 {
    let (power, half) = (bin / 2, bin % 2);
    if power == 0 { half as u64 } else { (1 << power) + ((half as u64) << (power - 1)) }
}

#[cfg(test)]
mod tests {
    use hpt_document::latency::{HeatMapColumn, HistogramBin};

    use super::{BINS, HeatMap, LateDeadlines, MOST, SHORTEST_NS, bin, samples, start};

    #[test]
    fn every_latency_is_in_the_bin_between_its_limits() {
        assert!((0..BINS).all(|at| bin(start(at)) == at));
        for ns in [0, 1, 2, 3, 5, 6, 1_000, 48_000, u64::MAX] {
            let at = bin(ns);
            assert!(start(at) <= ns && (at + 1 == BINS || ns < start(at + 1)), "{ns}: {at}");
        }
    }

    #[test]
    fn a_long_run_keeps_every_sample_and_the_position_of_the_worst() {
        let mut map = HeatMap::new();
        let far = SHORTEST_NS * MOST as u64 * 5;
        for sample in 0..10_000_u64 {
            let late_ns = if sample == 7_500 { 9_999 } else { 5 };
            map.record(LateDeadlines::one(1_000 + sample * (far / 10_000), late_ns));
        }
        let columns = map.columns();
        assert!(columns.len() <= MOST && columns.len() > MOST / 2, "{}", columns.len());
        assert_eq!(columns.iter().map(|column| samples(&column.1)).sum::<u64>(), 10_000);
        let worst: Vec<_> = columns.iter().filter(|column| column.1.iter().any(|bin| bin.1 > 9_999)).collect();
        assert_eq!(worst.len(), 1, "{worst:?}");
        assert!(worst[0].0 <= far / 4 * 3 && worst[0].0 + map.every_ns() > far / 4 * 3, "{worst:?}");
        assert!(worst[0].1.contains(&HistogramBin(8_192, 12_288, 1)), "{worst:?}");
    }

    #[test]
    fn an_empty_map_has_no_columns() {
        let mut map = HeatMap::new();
        assert!(map.columns().is_empty());
        map.record(LateDeadlines::one(10, 0));
        map.record(LateDeadlines::one(5, 1));
        assert_eq!(map.columns(), [HeatMapColumn(0, vec![HistogramBin(0, 1, 1), HistogramBin(1, 2, 1)])]);
    }
}
