//! The distribution of latencies over time, in bounded memory.

use hpt_document::latency::{HeatMapColumn, HistogramBin};

use super::{bins, late_deadlines::LateDeadlines};

/// The shortest interval.
const SHORTEST_NS: u64 = 10_000_000;

/// The number of samples in each interval and each bin.
///
/// In a longer run, intervals become twice as long, and pairs of the earlier ones are merged. A pair is merged only when
/// its memory is needed, so that no sample waits for the merging of all pairs.
#[derive(Clone, Debug)]
pub(crate) struct HeatMap {
    /// The maximum number of intervals.
    most: usize,
    /// The number of bits that distinguish the bins of a power of two.
    bits: u32,
    first_ns: Option<u64>,
    every_ns: u64,
    /// The place in `counts` of each interval, up to the last one with a sample. After the merged pairs come those of
    /// half the length, two for each of the `pending` pairs.
    rows: Vec<usize>,
    merged: usize,
    pending: usize,
    /// The places without an interval.
    free: Vec<usize>,
    /// The bins with samples: the first one, and the end.
    used: (usize, usize),
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
        Self {
            most,
            bits,
            first_ns: None,
            every_ns: SHORTEST_NS,
            rows: Vec::with_capacity(most),
            merged: 0,
            pending: 0,
            free: (0..most).rev().collect(),
            used: (bins_of(bits), 0),
            counts,
        }
    }

    /// Adds the latencies of deadlines.
    pub(crate) fn record(&mut self, mut deadlines: LateDeadlines) {
        let first_ns = *self.first_ns.get_or_insert(deadlines.at_ns);
        while deadlines.last_at_ns().saturating_sub(first_ns) / self.every_ns >= self.most as u64 {
            self.lengthen();
        }
        while deadlines.count > 0 {
            let since_ns = deadlines.at_ns.saturating_sub(first_ns);
            let (row, length_ns) = self.row_at(since_ns);
            let end_ns = first_ns.saturating_add((since_ns / length_ns + 1).saturating_mul(length_ns));
            let mut of_interval = deadlines.take_before(end_ns);
            while of_interval.count > 0 {
                let bin = bin(of_interval.late_ns, self.bits);
                self.used = (self.used.0.min(bin), self.used.1.max(bin + 1));
                self.counts[row * bins_of(self.bits) + bin] += of_interval.take_as_late_as(start(bin, self.bits)).count;
            }
        }
    }

    /// Returns the place of the interval at this time, and its length. Adds the interval if there is none yet.
    fn row_at(&mut self, since_ns: u64) -> (usize, u64) {
        let place = usize::try_from(since_ns / self.every_ns).unwrap_or(self.most - 1).min(self.most - 1);
        if (self.merged..self.merged + self.pending).contains(&place) {
            let half_ns = self.every_ns / 2;
            let second = usize::from(since_ns % self.every_ns >= half_ns);
            return (self.rows[2 * place - self.merged + second], half_ns);
        }
        while place + self.pending.min(place) >= self.rows.len() {
            self.add_row();
        }
        let behind = if place < self.merged { 0 } else { self.pending };
        (self.rows[place + behind], self.every_ns)
    }

    fn add_row(&mut self) {
        if self.free.is_empty() {
            self.merge_pair();
        }
        self.rows.extend(self.free.pop());
    }

    /// Merges the first pair that is not merged yet.
    fn merge_pair(&mut self) {
        let (Some(&one), Some(&other)) = (self.rows.get(self.merged), self.rows.get(self.merged + 1)) else { return };
        let bins = bins_of(self.bits);
        for bin in self.used.0..self.used.1 {
            let count = std::mem::take(&mut self.counts[other * bins + bin]);
            self.counts[one * bins + bin] += count;
        }
        self.rows.remove(self.merged + 1);
        self.free.push(other);
        self.merged += 1;
        self.pending -= 1;
    }

    /// Doubles the length of intervals.
    fn lengthen(&mut self) {
        self.merge();
        if self.rows.len() % 2 == 1 {
            self.add_row();
        }
        (self.merged, self.pending) = (0, self.rows.len() / 2);
        self.every_ns = self.every_ns.saturating_mul(2);
    }

    /// Merges all pairs.
    fn merge(&mut self) {
        while self.pending > 0 {
            self.merge_pair();
        }
        self.merged = 0;
    }

    /// Returns the length of an interval.
    pub(crate) const fn every_ns(&self) -> u64 {
        self.every_ns
    }

    /// Returns the counts of each interval, up to the last one with a sample. This takes time in proportion to the
    /// memory of the map.
    pub(crate) fn intervals(&self) -> Vec<Vec<u64>> {
        let mut merged = self.clone();
        merged.merge();
        let bins = bins_of(self.bits);
        merged.rows.iter().map(|row| merged.counts[row * bins..][..bins].to_vec()).collect()
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
    fn no_sample_waits_for_more_than_one_pair_to_be_merged() {
        let mut map = HeatMap::for_statistics();
        let mut merged_at_once = 0;
        for sample in 0..100_000_u64 {
            let before = map.pending;
            let length_ns = map.every_ns;
            map.record(LateDeadlines::one(sample * 1_000_000, 5_000));
            if map.every_ns == length_ns {
                merged_at_once = merged_at_once.max(before.saturating_sub(map.pending));
            } else {
                assert_eq!(before, 0, "all pairs are merged before the next ones become pairs");
            }
        }
        assert_eq!(merged_at_once, 1);
        assert_eq!(map.intervals().iter().flatten().sum::<u64>(), 100_000);
    }

    #[test]
    fn samples_in_any_order_are_in_the_interval_of_their_time() {
        let (mut in_order, mut in_jumps) = (HeatMap::for_display(), HeatMap::for_display());
        let times = |step: u64| (0..5_000_u64).map(move |place| place * step % 5_000 * 1_000_000);
        times(1).for_each(|at_ns| in_order.record(LateDeadlines::one(at_ns, at_ns % 977)));
        // Starts with the first one, which begins the run.
        times(1_009).for_each(|at_ns| in_jumps.record(LateDeadlines::one(at_ns, at_ns % 977)));
        assert_eq!(in_order.columns(), in_jumps.columns());
        assert_eq!(in_order.columns().iter().map(|column| samples(&column.1)).sum::<u64>(), 5_000);
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
