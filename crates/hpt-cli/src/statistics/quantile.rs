//! Confidence intervals for quantiles of samples that come in bursts. docs/statistics.md derives the method.

use statrs::distribution::{Beta, ContinuousCDF};

use super::runs::students_t;

/// The minimum number of groups of blocks from which the variance between groups is estimated.
const FEWEST_GROUPS: usize = 16;
/// The minimum number of independent observations on either side of a time from which a variance is estimated.
const FEWEST_OBSERVATIONS: f64 = 5.0;

/// The number of samples in each bin of one block of a run. Every block has the same bins, in ascending order.
pub(crate) type Block = [u64];

/// An interval that contains a quantile, as indices of bins: from the start of the first bin to the start of the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bins {
    pub(crate) low: usize,
    pub(crate) end: usize,
}

/// Returns the interval for the quantile `part` that fails to contain it with the probability `error`. The blocks are
/// consecutive parts of a run, of equal length. Returns `None` if the blocks contain too few independent observations
/// beyond the quantile.
pub(crate) fn interval(blocks: &[impl AsRef<Block>], part: f64, error: f64) -> Option<Bins> {
    let bins = blocks.first()?.as_ref().len();
    // The number of samples of each block in the bins from `at` on.
    let mut beyond: Vec<u64> = vec![0; blocks.len()];
    let sizes: Vec<u64> = blocks.iter().map(|block| block.as_ref().iter().sum()).collect();
    let share = 1.0 - part;
    let (mut end, mut low) = (None, None);
    for at in (0..bins).rev() {
        let mut is_empty = true;
        for (beyond, block) in beyond.iter_mut().zip(blocks) {
            let count = block.as_ref()[at];
            is_empty &= count == 0;
            *beyond += count;
        }
        if is_empty && end != Some(at + 1) {
            continue;
        }
        // From the highest bin down: the last start beyond which surely less than the share lies, and the first beyond
        // which surely more lies.
        let limits = || shares(&beyond, &sizes, error);
        let is_less = |limits: Option<(f64, f64)>| limits.is_some_and(|(_, highest)| highest < share);
        let is_more = |limits: Option<(f64, f64)>| limits.is_some_and(|(lowest, _)| lowest > share);
        let limits = limits();
        if is_less(limits) {
            end = Some(at);
        } else if is_more(limits) {
            low = Some(at);
            break;
        }
    }
    Some(Bins { low: low?, end: end? })
}

/// Returns the limits of the share of samples beyond a time: the widest of those from groups of 1, 2, 4, … blocks.
/// Larger groups show bursts that are longer than a block.
fn shares(beyond: &[u64], sizes: &[u64], error: f64) -> Option<(f64, f64)> {
    let mut widest: Option<(f64, f64)> = None;
    let mut length = 1;
    while beyond.len() / length >= FEWEST_GROUPS {
        let sums = |counts: &[u64]| counts.chunks(length).map(|group| group.iter().sum()).collect::<Vec<u64>>();
        let (lowest, highest) = of_groups(&sums(beyond), &sums(sizes), error)?;
        widest = Some(widest.map_or((lowest, highest), |(low, high)| (lowest.min(low), highest.max(high))));
        length *= 2;
    }
    widest
}

/// Returns the limits of a share (Korn and Graubard 1998): those of Clopper and Pearson for the number of independent
/// observations that has the same variance as the share has between groups.
#[expect(clippy::cast_precision_loss, reason = "for statistics")]
fn of_groups(beyond: &[u64], sizes: &[u64], error: f64) -> Option<(f64, f64)> {
    let groups = sizes.len() as f64;
    let (all, late) = (sizes.iter().sum::<u64>() as f64, beyond.iter().sum::<u64>() as f64);
    if all < 2.0 {
        return None;
    }
    let share = late / all;
    let squares = beyond.iter().zip(sizes).map(|(&late, &size)| (late as f64 - share * size as f64).powi(2));
    let (sum, fourth) = squares.fold((0.0, 0.0), |(sum, fourth), square| (sum + square, fourth + square * square));
    let variance = groups / (groups - 1.0) * sum / (all * all);
    let independent = (share * (1.0 - share) / variance).min(all);
    // The variance is an estimate from few groups: from those that contribute to the sum.
    let freedom = if fourth > 0.0 { (sum * sum / fourth).clamp(1.0, groups - 1.0) } else { groups - 1.0 };
    let wider = students_t(1.0 - error / 2.0, freedom)? / students_t(1.0 - error / 2.0, all - 1.0)?;
    let independent = independent / (wider * wider);
    let (on, off) = (share * independent, (1.0 - share) * independent);
    let upper = |on: f64, off: f64| {
        let beta = (off > 0.0).then(|| Beta::new(on + 1.0, off).ok()).flatten();
        beta.map_or(1.0, |beta| beta.inverse_cdf(1.0 - error / 2.0))
    };
    if on.min(off) >= FEWEST_OBSERVATIONS {
        return Some((1.0 - upper(off, on), upper(on, off)));
    }
    // Too few bursts for a variance. The share is at most that of the groups with a late sample, and at least that of
    // the groups without any other sample.
    let count =
        |has: fn(u64, u64) -> bool| beyond.iter().zip(sizes).filter(|&(&late, &size)| has(late, size)).count() as f64;
    let (some_late, some_early) = (count(|late, _| late > 0), count(|late, size| late < size));
    Some((1.0 - upper(some_early, groups - some_early), upper(some_late, groups - some_late)))
}

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "small random numbers"
)]
pub(crate) mod tests {
    use super::{Bins, interval, of_groups};

    /// A generator of random numbers (SplitMix64), so that every run of the test is the same.
    pub(crate) struct Random(pub(crate) u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.0;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        }

        /// Returns a number above 0 and at most 1.
        pub(crate) fn part(&mut self) -> f64 {
            ((self.next() >> 11) as f64 + 1.0) / (1_u64 << 53) as f64
        }

        /// Returns a length with this mean and a geometric distribution.
        pub(crate) fn length(&mut self, mean: f64) -> usize {
            1 + (self.part().ln() / (1.0 - 1.0 / mean.max(1.000_001)).ln()) as usize
        }
    }

    const BINS: usize = 400;

    /// Returns the bin of a value: 50 for each factor of e.
    fn bin(value: f64) -> usize {
        ((value.ln() * 50.0).max(0.0) as usize).min(BINS - 1)
    }

    /// Returns samples in bins. A Markov chain switches between a quiet state and bursts of this mean length, which take
    /// this share of the time. A burst of length 1 is an independent sample.
    fn samples(random: &mut Random, count: usize, (burst, share): (f64, f64)) -> Vec<usize> {
        let quiet = burst * (1.0 - share) / share;
        let (mut all, mut is_late) = (Vec::with_capacity(count), random.part() < share);
        while all.len() < count {
            let length = random.length(if is_late { burst } else { quiet });
            for _ in 0..length.min(count - all.len()) {
                let noise = -random.part().ln();
                all.push(bin(if is_late { 5.0 + 20.0 * noise } else { 1.0 + noise }));
            }
            is_late = !is_late;
        }
        all
    }

    fn in_blocks(samples: &[usize], blocks: usize) -> Vec<Vec<u64>> {
        let of_block = |samples: &[usize]| {
            let mut counts = vec![0; BINS];
            samples.iter().for_each(|&bin| counts[bin] += 1);
            counts
        };
        samples.chunks(samples.len().div_ceil(blocks)).map(of_block).collect()
    }

    /// Returns the bin that contains a quantile of the distribution.
    fn truth(share: f64, part: f64) -> usize {
        // The quiet values are 1 + an exponential variable, the late ones 5 + 20 times such a variable.
        let beyond = |value: f64| {
            let quiet = (1.0 - value).min(0.0).exp();
            let late = ((5.0 - value) / 20.0).min(0.0).exp();
            (1.0 - share) * quiet + share * late
        };
        let (mut low, mut high) = (1.0, 3_000.0);
        for _ in 0..100 {
            let middle = f64::midpoint(low, high);
            if beyond(middle) > 1.0 - part { low = middle } else { high = middle }
        }
        bin(low)
    }

    /// Returns how many of the runs have an interval, and how many of these contain the quantile.
    fn covered(runs: u64, count: usize, (burst, share): (f64, f64), part: f64) -> (u64, u64) {
        let truth = truth(share, part);
        let mut random = Random(burst.to_bits() ^ part.to_bits());
        (0..runs).fold((0, 0), |(found, covered), _| {
            let blocks = in_blocks(&samples(&mut random, count, (burst, share)), 64);
            match interval(&blocks, part, 0.05) {
                Some(Bins { low, end }) => (found + 1, covered + u64::from((low..end).contains(&truth))),
                None => (found, covered),
            }
        })
    }

    /// Returns whether a coverage of 95 % gives so few covered intervals in less than one of a thousand tests.
    fn is_too_few(found: u64, covered: u64) -> bool {
        let expected = 0.95 * found as f64;
        (covered as f64) < expected - 3.1 * (found as f64 * 0.95 * 0.05).sqrt() - 1.0
    }

    fn assert_coverage(runs: u64, count: usize) {
        for burst in [1.0, 10.0, 100.0, 1_000.0] {
            for part in [0.5, 0.9, 0.99, 0.999] {
                let (found, covered) = covered(runs, count, (burst, 0.1), part);
                eprintln!("bursts of {burst}, {part}: {covered} of {found} intervals, {} too few", runs - found);
                assert!(!is_too_few(found, covered), "bursts of {burst}, {part}: {covered} of {found}");
                assert!(burst > 10.0 || found > runs * 9 / 10, "{burst} {part}: {found} of {runs}");
            }
        }
    }

    #[test]
    fn intervals_contain_the_quantile_as_often_as_stated() {
        assert_coverage(20, 100_000);
    }

    #[test]
    #[ignore = "takes minutes: 400 runs for each length of bursts"]
    fn intervals_contain_the_quantile_in_400_runs_of_each_kind() {
        assert_coverage(400, 100_000);
    }

    /// Reads a file of `hpt latency timer --raw`, and compares intervals with the quantiles of the whole recording: for
    /// runs of blocks that are drawn from it, and for consecutive parts, during which the load of the machine differs.
    #[test]
    #[ignore = "needs a recording: HPT_RECORDING names a file of hpt latency timer --raw with one CPU"]
    fn intervals_contain_the_quantile_of_a_recording() {
        const BLOCK: usize = 1_000;
        let path = std::env::var_os("HPT_RECORDING").expect("HPT_RECORDING names a file");
        let text = std::fs::read_to_string(path).expect("a file of --raw");
        let late = |line: &str| line.rsplit(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("a latency");
        let all: Vec<usize> = text.lines().map(|line| bin(late(line) / 1e3)).collect();
        let mut sorted = all.clone();
        sorted.sort_unstable();
        let mut random = Random(1);
        let mut drawn = || {
            let start = |random: &mut Random| (random.part() * (all.len() - BLOCK) as f64) as usize;
            (0..64)
                .flat_map(|_| {
                    let at = start(&mut random);
                    all[at..at + BLOCK].to_vec()
                })
                .collect::<Vec<_>>()
        };
        let drawn: Vec<Vec<usize>> = (0..100).map(|_| drawn()).collect();
        let parts: Vec<Vec<usize>> = all.chunks(all.len() / 100).take(100).map(<[usize]>::to_vec).collect();
        for part in [0.5, 0.9, 0.99, 0.999] {
            let truth = sorted[(sorted.len() as f64 * part).ceil() as usize - 1];
            for (kind, runs) in [("drawn", &drawn), ("consecutive", &parts)] {
                let found = runs.iter().filter_map(|run| interval(&in_blocks(run, 64), part, 0.05));
                let found: Vec<bool> = found.map(|bins| (bins.low..bins.end).contains(&truth)).collect();
                let covered = found.iter().filter(|is_covered| **is_covered).count() as u64;
                eprintln!("{kind}, {part}: {covered} of {} intervals, {} too few", found.len(), 100 - found.len());
                assert!(kind == "consecutive" || !is_too_few(found.len() as u64, covered), "{part}");
            }
        }
    }

    /// A planted fault: if bursts are spread over the run, neighbors look independent, and the intervals of long bursts
    /// are too narrow.
    #[test]
    fn without_the_order_of_the_samples_the_intervals_of_bursts_are_too_narrow() {
        let (part, load) = (0.99, (300.0, 0.1));
        let (truth, mut random) = (truth(load.1, part), Random(3));
        let missed = (0..20).filter(|_| {
            let mut all = samples(&mut random, 50_000, load);
            for place in (1..all.len()).rev() {
                all.swap(place, (random.next() % (place as u64 + 1)) as usize);
            }
            let found = interval(&in_blocks(&all, 64), part, 0.05).expect("they look independent");
            !(found.low..found.end).contains(&truth)
        });
        assert!(missed.count() > 5);
    }

    #[test]
    fn one_long_burst_is_too_few_observations() {
        // Quiet, except for one stop that lasts for 2 % of the run.
        let mut all = vec![10; 9_800];
        all.splice(4_000..4_000, vec![300; 200]);
        assert_eq!(interval(&in_blocks(&all, 64), 0.99, 0.05), None);
        // The median is known. All samples around it are in one bin.
        assert_eq!(interval(&in_blocks(&all, 64), 0.5, 0.05), Some(Bins { low: 10, end: 11 }));
        assert_eq!(interval(&in_blocks(&all, 8), 0.5, 0.05), None, "there are too few blocks");
        assert_eq!(interval(&Vec::<Vec<u64>>::new(), 0.5, 0.05), None);
    }

    #[test]
    fn independent_samples_have_the_limits_of_clopper_and_pearson() {
        // 50 of 500 in equal parts of 100 groups: the variance is that of groups that all agree, so at most all count.
        let groups: Vec<u64> = (0..100).map(|at| at % 2).collect();
        let (low, high) = of_groups(&groups, &[5; 100], 0.05).expect("many");
        // R: binom.test(50, 500)$conf.int is 0.0751 to 0.1297. The t-factor makes it a little wider.
        assert!((low - 0.0751).abs() < 2e-3 && (high - 0.1297).abs() < 2e-3, "{low} {high}");
    }
}
