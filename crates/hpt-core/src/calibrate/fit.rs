//! Computes a frequency and its limits from bracketed readings. Reads no source and no clock; the result depends only
//! on the arguments.

use std::cmp::Ordering;

use hpt_sys::units::{Frequency, FrequencyRange};

use crate::source::Pair;

/// A frequency and the limits that follow from the pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fit {
    /// The midpoint of the two limits.
    pub frequency: Frequency,
    /// The frequencies that fit all brackets.
    pub limits: FrequencyRange,
}

/// The reason a set of pairs does not yield a frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FitError {
    /// No two pairs are far enough apart to bound the rate from both sides.
    TooShort,
    /// No constant rate fits all brackets.
    NotConstant,
    /// The rate is outside the range of [`Frequency`] (1 µHz to 18.4 THz).
    OutOfRange,
}

impl std::fmt::Display for FitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooShort => {
                f.write_str("the window is too short: no two readings are further apart than their uncertainty")
            }
            Self::NotConstant => f.write_str(
                "no constant rate fits the readings: the source or the reference was stepped, or changed its rate",
            ),
            Self::OutOfRange => f.write_str("the rate is out of range"),
        }
    }
}

impl std::error::Error for FitError {}

/// The granules of the two counters. A reading lags behind the true count by less than one granule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granules {
    /// The granule of the source, in ticks.
    pub source_ticks: u64,
    /// The granule of the reference, in nanoseconds.
    pub reference_ns: u64,
}

/// Determines the constant rates that fit all brackets. Returns their limits and the midpoint of the limits.
///
/// # Why the limits are a bound
///
/// Suppose that the source advances by one tick every `r` nanoseconds, at a constant rate. Each reading lags by less
/// than one granule `g`. For two pairs `i` and `j` with source readings `T`, the time between the source readings is
/// therefore less than `after_j + g_ref - before_i` and more than `before_j - after_i - g_ref`. In this time, the
/// source counts more than `T_j - T_i - g_src` and fewer than `T_j - T_i + g_src` ticks. Any two pairs therefore imply
///
/// ```text
/// (before_j - after_i - g_ref) / (T_j - T_i + g_src)  <  r  <  (after_j + g_ref - before_i) / (T_j - T_i - g_src)
/// ```
///
/// Together, these inequalities describe exactly the rates for which some offset satisfies every bracket
/// (Fourier-Motzkin elimination of the offset). Fractions are compared exactly, and the limits are rounded outward.
///
/// `pairs` must be in chronological order, and their ticks must not wrap.
///
/// # Errors
///
/// Returns [`FitError`] if the pairs are too close together to bound the rate, or if they contradict each other.
pub fn fit(pairs: &[Pair], granules: Granules) -> Result<Fit, FitError> {
    let mut shortest: Option<Ratio> = None;
    let mut longest: Option<Ratio> = None;
    for (i, first) in pairs.iter().enumerate() {
        for second in &pairs[i + 1..] {
            let ticks = second.ticks.saturating_sub(first.ticks);
            let most_ns = second.after_ns.saturating_add(granules.reference_ns).saturating_sub(first.before_ns);
            let least_ns = second.before_ns.saturating_sub(first.after_ns).saturating_sub(granules.reference_ns);
            if let Some(ticks) = ticks.checked_sub(granules.source_ticks).filter(|&ticks| ticks > 0) {
                let limit = Ratio { nanoseconds: most_ns, ticks };
                longest = Some(longest.map_or(limit, |longest| longest.min(limit)));
            }
            let limit = Ratio { nanoseconds: least_ns, ticks: ticks.saturating_add(granules.source_ticks) };
            if limit.ticks > 0 {
                shortest = Some(shortest.map_or(limit, |shortest| shortest.max(limit)));
            }
        }
    }
    let (Some(shortest), Some(longest)) = (shortest, longest) else {
        return Err(FitError::TooShort);
    };
    if shortest.nanoseconds == 0 {
        return Err(FitError::TooShort);
    }
    if shortest > longest {
        return Err(FitError::NotConstant);
    }
    let limits = FrequencyRange {
        lowest: longest.microhertz_rounded_down().ok_or(FitError::OutOfRange)?,
        highest: shortest.microhertz_rounded_up().ok_or(FitError::OutOfRange)?,
    };
    Ok(Fit { frequency: limits.midpoint(), limits })
}

impl Fit {
    /// Returns the worst-case error of [`frequency`](Self::frequency), in parts per million.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{calibrate::{Granules, fit}, source::Pair};
    ///
    /// // A megahertz, read in brackets of 1 µs that are a second apart.
    /// let pair = |at: u64| Pair { before_ns: at, ticks: at / 1_000, after_ns: at + 1_000 };
    /// let fitted = fit(&[pair(0), pair(1_000_000_000)], Granules { source_ticks: 1, reference_ns: 1 })?;
    /// assert!((1.9..2.1).contains(&fitted.bound_ppm()));
    /// # Ok::<(), hpt_core::calibrate::FitError>(())
    /// ```
    #[must_use]
    pub fn bound_ppm(&self) -> f64 {
        let FrequencyRange { lowest, highest } = self.limits;
        highest.error_ppm(self.frequency).max(-lowest.error_ppm(self.frequency))
    }
}

/// Nanoseconds per tick as an exact fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ratio {
    nanoseconds: u64,
    ticks: u64,
}

/// 10^9 ns/s · 10^6 µHz/Hz.
const MICROHERTZ_PER_TICK_A_NANOSECOND: u128 = 1_000_000_000_000_000;

impl Ratio {
    fn microhertz_rounded_down(self) -> Option<Frequency> {
        let scaled = u128::from(self.ticks) * MICROHERTZ_PER_TICK_A_NANOSECOND;
        let microhertz = scaled.checked_div(u128::from(self.nanoseconds))?;
        u64::try_from(microhertz).ok().and_then(Frequency::from_microhertz)
    }

    fn microhertz_rounded_up(self) -> Option<Frequency> {
        if self.nanoseconds == 0 {
            return None;
        }
        let scaled = u128::from(self.ticks) * MICROHERTZ_PER_TICK_A_NANOSECOND;
        u64::try_from(scaled.div_ceil(u128::from(self.nanoseconds))).ok().and_then(Frequency::from_microhertz)
    }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Self) -> Ordering {
        let here = u128::from(self.nanoseconds) * u128::from(other.ticks);
        here.cmp(&(u128::from(other.nanoseconds) * u128::from(self.ticks)))
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use proptest::{
        collection::vec,
        prelude::{prop_assert, prop_assert_eq, proptest},
    };

    use super::{FitError, Granules, fit};
    use crate::source::Pair;
    use hpt_sys::units::Frequency;

    const EXACT: Granules = Granules { source_ticks: 0, reference_ns: 0 };

    /// Returns the reading of a source that ticks at `microhertz`, with granule `granules.source_ticks`, at `true_ns`
    /// nanoseconds, in a bracket that opened `early_ns` earlier and closed `late_ns` later, with a reference whose
    /// granule is `granules.reference_ns`.
    fn pair(microhertz: u64, true_ns: u64, early_ns: u64, late_ns: u64, granules: Granules) -> Pair {
        let floor = |value: u64, granule: u64| value / granule.max(1) * granule.max(1);
        let ticks = u128::from(true_ns) * u128::from(microhertz) / 1_000_000_000_000_000;
        Pair {
            before_ns: floor(true_ns - early_ns, granules.reference_ns),
            ticks: floor(u64::try_from(ticks).expect("the test's windows are short"), granules.source_ticks),
            after_ns: floor(true_ns + late_ns, granules.reference_ns),
        }
    }

    #[test]
    fn two_exact_pairs_give_the_exact_rate() {
        let pairs = [
            Pair { before_ns: 0, ticks: 0, after_ns: 0 },
            Pair { before_ns: 1_000_000, ticks: 1_000, after_ns: 1_000_000 },
        ];
        let fitted = fit(&pairs, EXACT).expect("two pairs");
        assert_eq!((fitted.frequency, fitted.bound_ppm()), (Frequency::MEGAHERTZ, 0.0));
    }

    #[test]
    fn brackets_that_no_straight_line_fits_are_refused() {
        let at = |ns: u64, ticks: u64| Pair { before_ns: ns, ticks, after_ns: ns + 10 };
        // Halfway through, the source steps by half the window.
        let pairs = [at(0, 0), at(1_000, 1_000), at(2_000, 5_000), at(3_000, 6_000)];
        assert_eq!(fit(&pairs, EXACT), Err(FitError::NotConstant));
    }

    #[test]
    fn too_few_or_too_close_pairs_are_refused() {
        let pair = Pair { before_ns: 0, ticks: 0, after_ns: 100 };
        assert_eq!(fit(&[], EXACT), Err(FitError::TooShort));
        assert_eq!(fit(&[pair], EXACT), Err(FitError::TooShort));
        assert_eq!(fit(&[pair, Pair { before_ns: 50, ticks: 5, after_ns: 150 }], EXACT), Err(FitError::TooShort));
    }

    #[test]
    fn a_stopped_source_is_refused_as_too_short() {
        let pairs =
            [Pair { before_ns: 0, ticks: 7, after_ns: 10 }, Pair { before_ns: 1_000, ticks: 7, after_ns: 1_010 }];
        assert_eq!(fit(&pairs, EXACT), Err(FitError::TooShort));
    }

    proptest! {
        #[test]
        fn the_true_rate_lies_between_the_limits_for_any_brackets(
            hertz in 32_768_u64..5_000_000_000,
            fraction in 0_u64..1_000_000,
            source_ticks in 1_u64..100,
            reference_ns in 1_u64..2_000,
            gaps in vec((1_000_u64..50_000_000, 0_u64..900, 0_u64..5_000), 2..40),
        ) {
            let granules = Granules { source_ticks, reference_ns };
            let microhertz = hertz * 1_000_000 + fraction;
            let mut now = 1_000_000;
            let pairs: Vec<_> = gaps.into_iter().map(|(gap, early, late)| {
                now += gap;
                pair(microhertz, now, early, late, granules)
            }).collect();
            match fit(&pairs, granules) {
                Ok(fitted) => {
                    let truth = Frequency::from_microhertz(microhertz).expect("not zero");
                    prop_assert!(fitted.limits.contains(truth), "{fitted:?} without {truth:?}");
                    prop_assert!(fitted.limits.contains(fitted.frequency));
                }
                Err(error) => {
                    prop_assert_eq!(error, FitError::TooShort);
                    // The fit may fail only if the whole span is no longer than a few granules and brackets.
                    let span = pairs[pairs.len() - 1].before_ns - pairs[0].before_ns;
                    let granule_ns = source_ticks * 1_000_000_000 / hertz + 1;
                    prop_assert!(span < 4 * (granule_ns + reference_ns + 6_000), "{span} ns were enough");
                }
            }
        }

        #[test]
        fn more_pairs_never_loosen_the_bound(hertz in 1_000_000_u64..5_000_000_000, late in vec(1_u64..300, 3..20)) {
            let granules = Granules { source_ticks: 1, reference_ns: 1 };
            let pairs: Vec<_> = (1_u64..).zip(late).map(|(i, late)| pair(hertz * 1_000_000, i * 1_000_000, 20, late, granules)).collect();
            let all = fit(&pairs, granules).expect("a millisecond apart").bound_ppm();
            let fewer = fit(&pairs[..pairs.len() - 1], granules).map_or(f64::INFINITY, |fitted| fitted.bound_ppm());
            prop_assert!(all <= fewer * (1.0 + 1e-9), "{all} {fewer}");
        }
    }
}
