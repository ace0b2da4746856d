//! Bins of a histogram, as documents contain them: 16 bins in each power of two.

use hpt_core::stats::Histogram;
use hpt_document::latency::HistogramBin;

/// The number of bits that distinguish the bins of a power of two.
const BITS: u32 = 4;

/// Returns the bins with samples. The classes of a histogram are narrower than the bins and never cross their limits.
pub(crate) fn bins_of(counts: &Histogram) -> Vec<HistogramBin> {
    bins(counts.classes().map(|class| (class.largest_ticks, class.samples)), BITS)
}

/// Returns the bins of durations in ascending order.
pub(crate) fn bins_of_sorted(sorted_ns: &[u64]) -> Vec<HistogramBin> {
    bins(sorted_ns.iter().map(|&ns| (ns, 1)), BITS)
}

/// Returns the bins with samples. `counts` contains durations in ascending order, each with its number of samples, and
/// `bits` determines the number of bins in each power of two.
pub(super) fn bins(counts: impl Iterator<Item = (u64, u64)>, bits: u32) -> Vec<HistogramBin> {
    let mut bins: Vec<HistogramBin> = Vec::new();
    for (ns, count) in counts.filter(|&(_, count)| count > 0) {
        let (start, end) = limits(ns, bits);
        match bins.last_mut() {
            Some(last) if last.0 == start => last.2 = last.2.saturating_add(count),
            _ => bins.push(HistogramBin(start, end, count)),
        }
    }
    bins
}

/// Returns the limits of the bin that contains a duration.
fn limits(ns: u64, bits: u32) -> (u64, u64) {
    let shift = ns.checked_ilog2().unwrap_or(0).saturating_sub(bits);
    let start = (ns >> shift) << shift;
    (start, start.saturating_add(1 << shift))
}

#[cfg(test)]
mod tests {
    use hpt_core::stats::Histogram;
    use hpt_document::latency::HistogramBin;

    use super::{BITS, bins_of, bins_of_sorted, limits};

    #[test]
    fn every_duration_is_in_the_bin_between_its_limits() {
        for ns in [0, 1, 15, 16, 17, 31, 32, 33, 1_000, 9_999, 1 << 40, u64::MAX - 1, u64::MAX] {
            let (start, end) = limits(ns, BITS);
            assert!(start <= ns && (ns < end || end == u64::MAX), "{ns}: {start} to {end}");
            assert!(end - start <= 1 + ns / 16, "{ns}: {start} to {end}");
            assert_eq!(limits(start, BITS), (start, end), "{ns}");
        }
    }

    #[test]
    fn a_histogram_of_nanoseconds_keeps_every_sample_and_the_shortest_times_exactly() {
        let mut counts = Histogram::new();
        [3, 7, 7, 15, 1_000, 1_001, 5_000_000].into_iter().for_each(|ns| counts.record(ns));
        let bins = bins_of(&counts);
        assert_eq!(
            bins[..4],
            [HistogramBin(3, 4, 1), HistogramBin(7, 8, 2), HistogramBin(15, 16, 1), HistogramBin(992, 1_024, 2)]
        );
        assert_eq!(bins.iter().map(|bin| bin.2).sum::<u64>(), 7);
        assert_eq!(bins_of_sorted(&[3, 7, 7, 15, 1_000, 1_001, 5_000_000]), bins);
        assert_eq!(bins_of(&Histogram::new()), []);
    }
}
