//! The distribution of the overshoot of all sleeps, in a fixed amount of memory.

use crate::stats::Spread;

/// Each factor of two is divided into this many classes, so that a quantile is at most 1.6 % off.
const PER_OCTAVE: usize = 1 << OCTAVE_BITS;
const OCTAVE_BITS: u32 = 5;
/// Overshoots of 2^36 ns (69 s) and more share the last class.
const OCTAVES: usize = 36 - OCTAVE_BITS as usize;
/// Below `PER_OCTAVE` nanoseconds, each nanosecond has its own class, so values are exact.
const CLASSES: usize = PER_OCTAVE * (OCTAVES + 1);

/// The overshoots of the sleeps that reached their deadline, in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Overshoots {
    counts: Box<[u64; CLASSES]>,
    samples: u64,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u128,
}

impl Default for Overshoots {
    fn default() -> Self {
        Self { counts: Box::new([0; CLASSES]), samples: 0, min_ns: u64::MAX, max_ns: 0, sum_ns: 0 }
    }
}

impl Overshoots {
    pub(super) fn record(&mut self, late_ns: u64) {
        self.counts[class(late_ns)] += 1;
        self.samples += 1;
        self.min_ns = self.min_ns.min(late_ns);
        self.max_ns = self.max_ns.max(late_ns);
        self.sum_ns += u128::from(late_ns);
    }

    pub(super) const fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns the distribution; `None` before the first sample. The minimum, the maximum and the mean are exact.
    #[expect(clippy::cast_precision_loss, reason = "durations for printing, below 2^53 ns")]
    pub(super) fn spread(&self) -> Option<Spread> {
        if self.samples == 0 {
            return None;
        }
        Some(Spread {
            samples: self.samples,
            min_ns: self.min_ns as f64,
            p50_ns: self.quantile_ns(500) as f64,
            p99_ns: self.quantile_ns(990) as f64,
            p999_ns: self.quantile_ns(999) as f64,
            max_ns: self.max_ns as f64,
            mean_ns: self.sum_ns as f64 / self.samples as f64,
        })
    }

    /// Returns the value that `permille` thousandths of the samples do not exceed.
    fn quantile_ns(&self, permille: u64) -> u64 {
        let wanted = u128::from(self.samples) * u128::from(permille);
        let mut reached = 0;
        let class = self.counts.iter().position(|&count| {
            reached += u128::from(count);
            reached * 1000 >= wanted
        });
        // The last class has no end.
        let value = class.filter(|&class| class < CLASSES - 1).map_or(self.max_ns, middle_ns);
        value.clamp(self.min_ns, self.max_ns)
    }
}

/// Returns the class of a value. The first classes contain one value each, and each later octave has [`PER_OCTAVE`]
/// classes.
fn class(value: u64) -> usize {
    let octave = (value | (PER_OCTAVE as u64 - 1)).ilog2() + 1 - OCTAVE_BITS;
    let place = usize::try_from(value >> octave.saturating_sub(1)).unwrap_or(usize::MAX);
    (octave.saturating_sub(1) as usize * PER_OCTAVE).saturating_add(place).min(CLASSES - 1)
}

/// Returns the middle of a class.
const fn middle_ns(class: usize) -> u64 {
    if class < 2 * PER_OCTAVE {
        return class as u64;
    }
    let shift = class / PER_OCTAVE - 1;
    let first = ((class % PER_OCTAVE + PER_OCTAVE) as u64) << shift;
    first + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::{CLASSES, Overshoots, class, middle_ns};

    #[test]
    fn without_samples_there_is_no_distribution() {
        assert_eq!(Overshoots::default().spread(), None);
    }

    #[test]
    fn classes_follow_one_another_and_contain_their_middle() {
        for at in 0..CLASSES - 1 {
            assert_eq!(class(middle_ns(at)), at);
            assert!(middle_ns(at) < middle_ns(at + 1));
        }
        assert_eq!((class(u64::MAX), class(1 << 36), class((1 << 36) - 1)), (CLASSES - 1, CLASSES - 1, CLASSES - 1));
    }

    #[test]
    fn the_ends_and_the_mean_are_exact_and_outliers_do_not_move_the_median() {
        let mut overshoots = Overshoots::default();
        for (late_ns, times) in [(60, 990), (5_000, 9), (u64::MAX, 1)] {
            (0..times).for_each(|_| overshoots.record(late_ns));
        }
        let spread = overshoots.spread().expect("it has samples");
        assert_eq!((spread.samples, spread.min_ns, spread.p50_ns, spread.p99_ns), (1_000, 60.0, 60.0, 60.0));
        assert!((spread.p999_ns / 5_000.0 - 1.0).abs() < 0.016, "{spread:?}");
        assert_eq!(spread.max_ns, u64::MAX as f64);
    }

    proptest! {
        #[test]
        fn a_quantile_is_within_1_6_percent(mut samples in proptest::collection::vec(0_u64..1 << 36, 1..400)) {
            let mut overshoots = Overshoots::default();
            samples.iter().for_each(|&sample| overshoots.record(sample));
            samples.sort_unstable();
            for permille in [500, 990, 999, 1000] {
                let rank = (samples.len() * permille).div_ceil(1000).max(1);
                let (exact, found) = (samples[rank - 1], overshoots.quantile_ns(permille as u64));
                prop_assert!(exact.abs_diff(found) <= exact / 60 + 1, "{permille}: {exact} {found}");
            }
        }
    }
}
