//! Measures contenders in rounds: in every round, each contender runs one batch, in an order that
//! changes. Figures are compared within a round.
//! Independent of the contenders, and prints nothing.

use std::time::Duration;

use hpt_core::{PosixClock, TimeSource};
use serde::{Deserialize, Serialize};

use crate::{
    bare::Fence,
    contender::{Contender, Pair},
};

/// Untimed reads before each batch, which warm up the caches and the branch predictor after the
/// previous contender.
const WARM_UP_READS: u64 = 200;

/// The length of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Maximum number of rounds.
    pub rounds: usize,
    /// No round starts after this time.
    pub longest: Duration,
    /// Reads in one batch.
    pub reads_per_batch: u64,
}

/// The 10th, 50th and 90th percentile of a set of samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// 10 %.
    pub p10: f64,
    /// 50 %.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
}

impl Quantiles {
    /// Formats the median for a table.
    #[must_use]
    pub fn median(quantiles: Option<Self>) -> String {
        quantiles.map_or("–".to_owned(), |Self { p50, .. }| format!("{p50:.2}"))
    }

    /// Formats the median for a table, with the other two in parentheses.
    #[must_use]
    pub fn spread(quantiles: Option<Self>) -> String {
        quantiles.map_or("–".to_owned(), |Self { p10, p50, p90 }| format!("{p50:.2} ({p10:.2} to {p90:.2})"))
    }

    /// Computes the quantiles of `samples`, by nearest rank; `None` without samples.
    #[must_use]
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = samples.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |percent: usize| sorted[last * percent / 100];
        Some(Self { p10: at(10), p50: at(50), p90: at(90) })
    }
}

/// The result of a comparison: nanoseconds per read, for every contender in every round.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// One line per contender, one column per round.
    read_ns: Vec<Vec<f64>>,
}

impl Times {
    /// Compares `contenders` for `rounds` rounds, or until `keep_going` returns false.
    /// `batch_ns(contender)` runs a batch and returns the nanoseconds per read.
    pub fn of_race(
        contenders: usize,
        rounds: usize,
        mut batch_ns: impl FnMut(usize) -> f64,
        mut keep_going: impl FnMut() -> bool,
    ) -> Self {
        let mut read_ns = vec![Vec::with_capacity(rounds); contenders];
        for round in (0..rounds).take_while(|_| keep_going()) {
            for contender in order(round, contenders) {
                read_ns[contender].push(batch_ns(contender));
            }
        }
        Self { read_ns }
    }

    /// Compares back-to-back reads, which the processor may overlap.
    #[must_use]
    pub fn in_a_row(contenders: &[Contender<'_>], effort: Effort, stopwatch: &PosixClock) -> Self {
        Self::timed(contenders, effort, stopwatch, Contender::read_in_a_row)
    }

    /// Compares reads with `fence` after each.
    #[must_use]
    pub fn fenced(contenders: &[Contender<'_>], effort: Effort, stopwatch: &PosixClock, fence: Fence) -> Self {
        Self::timed(contenders, effort, stopwatch, |contender, reads| contender.read_fenced(reads, fence))
    }

    /// Compares pairs of reads with `fence` after each read. The times are those of a pair.
    #[must_use]
    pub fn pairs(pairs: &[Pair<'_>], effort: Effort, stopwatch: &PosixClock, fence: Fence) -> Self {
        Self::timed(pairs, effort, stopwatch, |pair, times| pair.run(times, fence))
    }

    fn timed<C>(contenders: &[C], effort: Effort, stopwatch: &PosixClock, read: impl Fn(&C, u64)) -> Self {
        let longest_ns = u64::try_from(effort.longest.as_nanos()).unwrap_or(u64::MAX);
        let start = stopwatch.ticks_end();
        Self::of_race(
            contenders.len(),
            effort.rounds,
            |contender| time_ns(effort.reads_per_batch, stopwatch, |reads| read(&contenders[contender], reads)),
            || stopwatch.ticks_end().wrapping_sub(start) < longest_ns,
        )
    }

    /// Returns the number of rounds that were run.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.read_ns.first().map_or(0, Vec::len)
    }

    /// Returns the nanoseconds per read of one contender, over all rounds.
    #[must_use]
    pub fn read_ns(&self, contender: usize) -> Option<Quantiles> {
        Quantiles::of(self.read_ns.get(contender)?.iter().copied())
    }

    /// Returns one contender's time divided by another's in the same round.
    #[must_use]
    pub fn ratio(&self, contender: usize, baseline: usize) -> Option<Quantiles> {
        self.compare(contender, baseline, |read_ns, baseline_ns| read_ns / baseline_ns)
    }

    /// Returns one contender's time minus another's in the same round, in nanoseconds per read.
    #[must_use]
    pub fn extra_ns(&self, contender: usize, baseline: usize) -> Option<Quantiles> {
        self.compare(contender, baseline, |read_ns, baseline_ns| read_ns - baseline_ns)
    }

    fn compare(&self, contender: usize, baseline: usize, by: impl Fn(f64, f64) -> f64) -> Option<Quantiles> {
        let (one, other) = (self.read_ns.get(contender)?, self.read_ns.get(baseline)?);
        Quantiles::of(one.iter().zip(other).map(|(&one_ns, &other_ns)| by(one_ns, other_ns)))
    }
}

/// Returns the order of contenders in a round. Each runs once. Over many rounds, each runs equally
/// often in every position and directly after every other contender.
///
/// A plain rotation would always keep the same predecessor. How soon a processor resumes fetching
/// after a fence depends on the code that ran before (on a Zen 3, the same loop took 66 or 70
/// cycles per iteration, for a whole batch), so a fixed predecessor causes a fixed error.
pub fn order(round: usize, contenders: usize) -> impl Iterator<Item = usize> {
    // With a prime number of seats, every stride from 1 to seats - 1 visits each seat once. Empty
    // seats are skipped.
    let seats = (contenders.max(2)..).find(|&seats| is_prime(seats)).expect("there is always a larger prime");
    let stride = 1 + round % (seats - 1);
    let first = round / (seats - 1) % seats;
    (0..seats).map(move |place| (first + place * stride) % seats).filter(move |&seat| seat < contenders)
}

fn is_prime(number: usize) -> bool {
    number >= 2
        && (2..).take_while(|divisor| divisor * divisor <= number).all(|divisor| !number.is_multiple_of(divisor))
}

/// Returns the nanoseconds per read of one batch, measured with a clock that no time daemon slews
/// and no contender reads.
#[expect(clippy::cast_precision_loss, reason = "a batch lasts less than 2^53 ns")]
fn time_ns(reads: u64, stopwatch: &PosixClock, batch: impl Fn(u64)) -> f64 {
    batch(WARM_UP_READS.min(reads));
    let start = stopwatch.ticks_end();
    batch(reads);
    let end = stopwatch.ticks_end();
    end.wrapping_sub(start) as f64 / reads.max(1) as f64
}

#[cfg(test)]
mod tests {
    use proptest::{
        collection::vec,
        prelude::{prop_assert, prop_assert_eq, proptest},
    };

    use super::{Quantiles, Times, order};

    #[test]
    fn two_contenders_alternate() {
        let rounds: Vec<Vec<usize>> = (0..3).map(|round| order(round, 2).collect()).collect();
        assert_eq!(rounds, [[0, 1], [1, 0], [0, 1]]);
        assert_eq!((order(5, 0).count(), order(5, 1).count()), (0, 1));
    }

    #[test]
    fn each_contender_runs_after_each_other() {
        // Seven is prime: 6 strides from 7 places.
        let mut behind = [[0; 7]; 7];
        for round in 0..6 * 7 {
            let order: Vec<usize> = order(round, 7).collect();
            order.windows(2).for_each(|pair| behind[pair[0]][pair[1]] += 1);
        }
        for (first, counts) in behind.iter().enumerate() {
            for (second, &count) in counts.iter().enumerate() {
                assert_eq!(count, if first == second { 0 } else { 6 }, "{second} after {first}");
            }
        }
    }

    #[test]
    fn stolen_time_in_one_round_moves_no_median() {
        let mut batch = 0;
        let run = |contender| {
            batch += 1;
            if batch == 7 { 1e6 } else { [10.0, 15.0][contender] }
        };
        let times = Times::of_race(2, 11, run, || true);
        assert_eq!(times.ratio(1, 0).map(|ratio| ratio.p50), Some(1.5));
        assert_eq!(times.extra_ns(1, 0).map(|extra| extra.p50), Some(5.0));
        assert_eq!(times.read_ns(0).map(|read| read.p50), Some(10.0));
    }

    #[test]
    fn a_processor_that_slows_down_does_not_change_ratios() {
        let mut batches = 0.0;
        let run = |contender| {
            batches += 1.0;
            [10.0, 20.0][contender] * (1.0 + batches / 200.0)
        };
        let ratio = Times::of_race(2, 100, run, || true).ratio(1, 0).expect("a hundred rounds");
        assert!((ratio.p50 - 2.0).abs() < 0.02 && ratio.p90 - ratio.p10 < 0.05, "{ratio:?}");
    }

    #[test]
    fn an_interrupted_comparison_has_only_whole_rounds() {
        let mut rounds = 0;
        let times = Times::of_race(
            3,
            100,
            |_| 1.0,
            || {
                rounds += 1;
                rounds <= 4
            },
        );
        assert_eq!(times.rounds(), 4);
        assert!(times.read_ns.iter().all(|batches| batches.len() == 4));
    }

    #[test]
    fn no_samples_have_no_quantiles() {
        assert_eq!(Quantiles::of([]), None);
        assert_eq!(Times::of_race(1, 0, |_| 0.0, || true).read_ns(0), None);
        assert_eq!(Times::of_race(1, 1, |_| 1.0, || true).ratio(0, 1), None);
    }

    proptest! {
        #[test]
        fn each_contender_runs_once_in_every_round(contenders in 1_usize..20, rounds in 0_usize..30) {
            let mut runs = vec![0; contenders];
            let run = |contender: usize| {
                runs[contender] += 1;
                1.0
            };
            let times = Times::of_race(contenders, rounds, run, || true);
            prop_assert_eq!(times.rounds(), rounds);
            prop_assert!(runs.iter().all(|&run| run == rounds));
        }

        #[test]
        fn quantiles_are_samples_in_order(samples in vec(-1e9_f64..1e9, 1..100)) {
            let found = Quantiles::of(samples.iter().copied()).expect("not empty");
            prop_assert!(found.p10 <= found.p50 && found.p50 <= found.p90);
            prop_assert!([found.p10, found.p50, found.p90].iter().all(|quantile| samples.contains(quantile)));
        }
    }
}
