//! The distribution of latencies over time, in bounded memory.

use hpt_document::latency::{HeatMapColumn, HistogramBin};

use super::{bins, late_deadlines::LateDeadlines};

/// The shortest interval.
const SHORTEST_NS: u64 = 10_000_000;

/// The number of samples in each interval and each bin.
#[derive(Clone, Debug)]
pub(crate) struct HeatMap {
    /// The maximum number of intervals. In a longer run, pairs of intervals are merged.
    most: usize,
    /// The number of bits that distinguish the bins of a power of two.
    bits: u32,
    first_ns: Option<u64>,
    every_ns: u64,
    /// The number of intervals up to the last one with a sample.
    used: usize,
    /// The counts of all bins of the first interval, then those of the second, and so on.
    counts: Vec<u64>,
}

impl HeatMap {
    /// Creates a map for display: with two bins in each power of two.
    pub(crate) fn for_display() -> Self {
        Self::new(100, 1)
    }

    /// Creates a map for statistics: with 64 bins in each power of two, each at most 1.6 % wide.
    pub(crate) fn for_statistics() -> Self {
        Self::new(64, 6)
    }

    fn new(most: usize, bits: u32) -> Self {
        // Allocated in advance and written once, so that the measurement waits neither for memory nor for a page fault.
        let mut counts = vec![1; most * bins_of(bits)];
        counts.fill(std::hint::black_box(0));
        Self { most, bits, first_ns: None, every_ns: SHORTEST_NS, used: 0, counts }
    }

    /// Adds the latencies of deadlines.
    pub(crate) fn record(&mut self, mut deadlines: LateDeadlines) {
        let first_ns = *self.first_ns.get_or_insert(deadlines.at_ns);
        while deadlines.last_at_ns().saturating_sub(first_ns) / self.every_ns >= self.most as u64 {
            self.halve();
        }
        let bins = bins_of(self.bits);
        while deadlines.count > 0 {
            let place = deadlines.at_ns.saturating_sub(first_ns) / self.every_ns;
            let end_ns = first_ns.saturating_add((place + 1).saturating_mul(self.every_ns));
            let mut of_interval = deadlines.take_before(end_ns);
            let place = usize::try_from(place).unwrap_or(self.most - 1);
            self.used = self.used.max(place + 1);
            while of_interval.count > 0 {
                let bin = bin(of_interval.late_ns, self.bits);
                self.counts[place * bins + bin] += of_interval.take_as_late_as(start(bin, self.bits)).count;
            }
        }
    }

    fn halve(&mut self) {
        let bins = bins_of(self.bits);
        for place in 0..self.used {
            for bin in 0..bins {
                let count = std::mem::take(&mut self.counts[place * bins + bin]);
                self.counts[place / 2 * bins + bin] += count;
            }
        }
        self.used = self.used.div_ceil(2);
        self.every_ns = self.every_ns.saturating_mul(2);
    }

    /// Returns the length of an interval.
    pub(crate) const fn every_ns(&self) -> u64 {
        self.every_ns
    }

    /// Returns the counts of each interval, up to the last one with a sample.
    pub(crate) fn intervals(&self) -> impl Iterator<Item = &[u64]> {
        self.counts.chunks(bins_of(self.bits)).take(self.used)
    }

    /// Returns the smallest latency in a bin.
    pub(crate) fn start_ns(&self, bin: usize) -> u64 {
        start(bin, self.bits)
    }

    /// Returns the intervals with samples.
    pub(crate) fn columns(&self) -> Vec<HeatMapColumn> {
        let columns = (0_u64..).zip(self.intervals()).map(|(place, counts)| {
            let counts = counts.iter().enumerate().map(|(bin, &count)| (start(bin, self.bits), count));
            HeatMapColumn(place * self.every_ns, bins::bins(counts, self.bits))
        });
        columns.filter(|HeatMapColumn(_, bins): &HeatMapColumn| samples(bins) > 0).collect()
    }
}

fn samples(bins: &[HistogramBin]) -> u64 {
    bins.iter().fold(0, |sum, bin| sum.saturating_add(bin.2))
}

/// Returns the number of bins: below 2^bits, one for each nanosecond; above, 2^bits for each power of two.
const fn bins_of(bits: u32) -> usize {
    (65 - bits as usize) << bits
}

/// Returns the index of the bin that contains a latency.
fn bin(ns: u64, bits: u32) -> usize {
    let shift = ns.checked_ilog2().unwrap_or(0).saturating_sub(bits);
    let place = if ns >> bits == 0 { ns } else { (u64::from(shift) << bits) + (ns >> shift) };
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// Returns the smallest latency in a bin.
fn start(bin: usize, bits: u32) -> u64 {
    let shift = (bin >> bits).saturating_sub(1);
    ((bin - (shift << bits)) as u64) << shift
}

#[cfg(test)]
mod tests {
    use hpt_document::latency::{HeatMapColumn, HistogramBin};

    use super::{HeatMap, LateDeadlines, SHORTEST_NS, bin, bins_of, samples, start};

    const MOST: usize = 100;

    #[test]
    fn every_latency_is_in_the_bin_between_its_limits() {
        for bits in [1, 6] {
            assert!((0..bins_of(bits)).all(|at| bin(start(at, bits), bits) == at));
            for ns in [0, 1, 2, 3, 5, 6, 63, 64, 65, 127, 128, 129, 1_000, 48_000, u64::MAX] {
                let at = bin(ns, bits);
                assert!(start(at, bits) <= ns, "{ns}: {at}");
                assert!(at + 1 == bins_of(bits) || ns < start(at + 1, bits), "{ns}: {at}");
            }
        }
    }

    #[test]
    fn a_long_run_keeps_every_sample_and_the_position_of_the_worst() {
        let mut map = HeatMap::for_display();
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
        let mut map = HeatMap::for_display();
        assert!(map.columns().is_empty());
        map.record(LateDeadlines::one(10, 0));
        map.record(LateDeadlines::one(5, 1));
        assert_eq!(map.columns(), [HeatMapColumn(0, vec![HistogramBin(0, 1, 1), HistogramBin(1, 2, 1)])]);
    }
}
