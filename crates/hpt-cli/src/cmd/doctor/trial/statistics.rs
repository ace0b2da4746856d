//! The comparison of a figure in rounds with a fix and in rounds without it: an exact rank-sum test, and the spread
//! between rounds.

use hpt_document::doctor_try::TryVerdict;

use crate::statistics::few::{median, spread};

/// The probability with which one of the fixes is wrongly found to help or to harm, if none of them has an effect.
const ERROR: f64 = 0.05;

/// The comparison of rounds with and without a fix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TrialResult {
    pub(super) verdict: TryVerdict,
    /// The difference of the medians, in nanoseconds; positive if the fix helps.
    pub(super) effect: f64,
    pub(super) p_value: Option<f64>,
}

/// Compares the rounds without a fix with those with the fix. The verdict is helpful or worse only if both of these
/// conditions are met:
///
/// - The exact two-sided rank-sum test finds a difference. `comparisons` is the number of fixes that are compared:
///   the level of 5 % is divided by this number, so that it applies to all of them together (Bonferroni).
/// - The difference of the medians is larger than the interquartile range of either group.
///
/// If fewer than `rounds` rounds have the fix, they are not enough to find that there is no difference.
pub(super) fn compare(off: &[f64], on: &[f64], (comparisons, rounds): (usize, usize)) -> TrialResult {
    let (Some(off_median), Some(on_median)) = (median(off), median(on)) else {
        return TrialResult { verdict: TryVerdict::Unknown, effect: 0.0, p_value: None };
    };
    let effect = off_median - on_median;
    let p_value = rank_sum_p(off, on);
    let spread = spread(off).into_iter().chain(spread(on)).fold(0.0, f64::max);
    #[expect(clippy::cast_precision_loss, reason = "there are few fixes")]
    let level = ERROR / comparisons.max(1) as f64;
    let verdict = if p_value <= level && effect.abs() > spread {
        if effect > 0.0 { TryVerdict::Helpful } else { TryVerdict::Worse }
    } else if on.len() < rounds {
        TryVerdict::Unknown
    } else {
        TryVerdict::WithinSpread
    };
    TrialResult { verdict, effect, p_value: Some(p_value) }
}

/// The exact two-sided p-value of the rank-sum test (Wilcoxon, Mann-Whitney) with mean ranks for ties: the share of all
/// ways to choose as many values as `on` has whose rank sum is at least as far from its mean.
fn rank_sum_p(off: &[f64], on: &[f64]) -> f64 {
    let mut all: Vec<(f64, bool)> =
        off.iter().map(|&value| (value, false)).chain(on.iter().map(|&value| (value, true))).collect();
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    // Doubled ranks are whole numbers even for ties: those of the places i to j are i + j + 2.
    let mut ranks = Vec::with_capacity(all.len());
    for group in all.chunk_by(|one, other| one.0 == other.0) {
        let doubled = 2 * ranks.len() + group.len() + 1;
        ranks.extend(std::iter::repeat_n(doubled, group.len()));
    }
    let seen: usize = ranks.iter().zip(&all).filter(|(_, (_, is_on))| *is_on).map(|(rank, _)| rank).sum();
    let (chosen, largest) = (on.len(), ranks.iter().rev().take(on.len()).sum::<usize>());
    // ways[k][s] is the number of ways to choose k values with the doubled rank sum s.
    let mut ways = vec![vec![0.0_f64; largest + 1]; chosen + 1];
    ways[0][0] = 1.0;
    for &rank in &ranks {
        for count in (1..=chosen).rev() {
            let (fewer, more) = ways.split_at_mut(count);
            for (to, from) in more[0].iter_mut().skip(rank).zip(&fewer[count - 1]) {
                *to += from;
            }
        }
    }
    let mean = chosen * (all.len() + 1);
    let distance = seen.abs_diff(mean);
    let total: f64 = ways[chosen].iter().sum();
    let as_far: f64 =
        ways[chosen].iter().enumerate().filter(|(sum, _)| sum.abs_diff(mean) >= distance).map(|(_, ways)| ways).sum();
    as_far / total
}

#[cfg(test)]
mod tests {
    use hpt_document::doctor_try::TryVerdict;
    use proptest::{
        collection::vec,
        prelude::{prop_assert, proptest},
    };

    use super::{compare, rank_sum_p};

    #[test]
    fn the_p_value_is_exact() {
        // One of the 252 ways to choose 5 of 10 is the lowest, and one the highest.
        let (low, high) = ([1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]);
        assert!((rank_sum_p(&high, &low) - 2.0 / 252.0).abs() < 1e-12);
        // R: wilcox.test(c(1, 4, 5), c(2, 3, 6, 7), exact = TRUE) gives 0.6286.
        assert!((rank_sum_p(&[2.0, 3.0, 6.0, 7.0], &[1.0, 4.0, 5.0]) - 22.0 / 35.0).abs() < 1e-12);
        // All values are equal.
        assert!((rank_sum_p(&[1.0; 6], &[1.0; 5]) - 1.0).abs() < 1e-12);
        // Of the 10 ways to choose 2 of 1, 1, 1, 2, 2, one is both twos (rank sum 9), and three are both ones (4).
        assert!((rank_sum_p(&[1.0, 1.0, 1.0], &[2.0, 2.0]) - 0.1).abs() < 1e-12);
    }

    #[test]
    fn a_fix_helps_only_if_its_effect_exceeds_the_spread() {
        let off = [40.0, 41.0, 42.0, 41.5, 40.5, 41.0];
        let of = |on: &[f64]| compare(&off, on, (1, 5)).verdict;
        assert_eq!(of(&[17.0, 17.5, 16.8, 17.2, 18.0]), TryVerdict::Helpful);
        assert_eq!(of(&[60.0, 61.0, 62.0, 61.5, 60.5]), TryVerdict::Worse);
        assert_eq!(of(&[40.2, 41.2, 42.1, 41.4, 40.6]), TryVerdict::WithinSpread);
        // A difference may be systematic, but smaller than the spread.
        let noisy = [30.0, 41.0, 52.0, 35.0, 47.0, 60.0];
        let below = compare(&noisy, &[29.9, 29.8, 29.7, 29.85, 29.95], (1, 5));
        assert_eq!(below.verdict, TryVerdict::WithinSpread);
        assert!(below.p_value.is_some_and(|p| p < 0.05));
    }

    #[test]
    fn many_comparisons_need_stronger_evidence() {
        let (off, on) = ([5.0, 6.0, 7.0, 8.0], [1.0, 1.1, 1.2, 1.3]);
        // The strongest possible evidence of 4 and 4 rounds is p = 2/70.
        assert_eq!(compare(&off, &on, (1, 4)).verdict, TryVerdict::Helpful);
        assert_eq!(compare(&off, &on, (2, 4)).verdict, TryVerdict::WithinSpread);
    }

    #[test]
    fn too_few_rounds_show_nothing() {
        assert_eq!(compare(&[5.0, 6.0], &[1.0], (1, 5)).verdict, TryVerdict::Unknown);
        assert_eq!(compare(&[], &[1.0], (1, 5)).verdict, TryVerdict::Unknown);
        assert_eq!(compare(&[1.0], &[], (1, 5)).p_value, None);
    }

    proptest! {
        #[test]
        fn a_p_value_is_a_probability_and_symmetric(off in vec(0_u8..20, 1..30), on in vec(0_u8..20, 1..8)) {
            let floats = |values: &[u8]| values.iter().map(|&value| f64::from(value)).collect::<Vec<_>>();
            let (off, on) = (floats(&off), floats(&on));
            let p = rank_sum_p(&off, &on);
            prop_assert!(p > 0.0 && p <= 1.0 + 1e-9, "{p}");
            let mirrored = |values: &[f64]| values.iter().map(|value| -value).collect::<Vec<_>>();
            prop_assert!((rank_sum_p(&mirrored(&off), &mirrored(&on)) - p).abs() < 1e-9);
        }
    }
}
