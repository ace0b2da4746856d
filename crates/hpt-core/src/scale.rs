//! Converts ticks to nanoseconds by fixed-point multiplication, with a proof of the error bound. Does not depend on a
//! counter or an anchor; `clock` combines a scale with both.

use hpt_sys::units::Frequency;

/// Nanoseconds per tick as a 64.64 fixed-point number: whole nanoseconds, and a fraction in units of 2⁻⁶⁴ ns.
///
/// # The bound
///
/// Let `p` be the exact number of nanoseconds per tick, and let `q = whole + fraction/2⁶⁴` be the stored value.
/// `fraction` is rounded to the nearest integer, so `|p - q| ≤ 2⁻⁶⁵`. [`nanos`](Self::nanos) returns
/// exactly `⌊q·t⌋` for `t` ticks, because `whole·t` is an integer and the high half of `fraction·t` is rounded down.
/// Hence
///
/// ```text
/// -1 - t·2⁻⁶⁵  <  ⌊q·t⌋ - p·t  ≤  t·2⁻⁶⁵
/// ```
///
/// The error is thus less than 1 ns plus `t·2⁻⁶⁵` ns, and the second term reaches 1 ns only at 2⁶⁵ ticks. The error is
/// therefore below 2 ns for every `u64`. The result is the floor of a non-decreasing function, so more ticks never
/// yield a shorter time.
///
/// # Comparison with the kernel's multiply and shift
///
/// A 32-bit multiplier with a shift requires a bounded range of `t` and represents the rate only to about 10⁻⁹. Its
/// shift adds to the critical path. Here, the shift is free, because it selects the high word of the product. The two
/// products are computed in parallel, and any `t` is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scale {
    whole: u64,
    fraction: u64,
}

impl Scale {
    /// Returns the scale of a counter that ticks at `frequency`, correct to 2⁻⁶⁵ ns per tick.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Frequency, Scale};
    ///
    /// let scale = Scale::of(Frequency::from_hertz(54_000_000).expect("not zero"));
    /// assert!(scale.nanos(54_000_000).abs_diff(1_000_000_000) <= 1);
    /// assert_eq!(Scale::of(Frequency::MEGAHERTZ).nanos(7), 7_000);
    /// ```
    #[must_use]
    pub fn of(frequency: Frequency) -> Self {
        // ns per tick = 1e9 / Hz = 1e15 / µHz. One division yields the whole part. The remainder is below µHz < 2^64,
        // so remainder * 2^64 fits in 128 bits.
        const FEMTO: u64 = 1_000_000_000_000_000;
        let microhertz = frequency.microhertz();
        let whole = FEMTO / microhertz;
        let remainder = u128::from(FEMTO % microhertz) << 64;
        let microhertz = u128::from(microhertz);
        let rounded = remainder / microhertz + u128::from(remainder % microhertz >= microhertz.div_ceil(2));
        // remainder < µHz < 2^64, so the quotient is at most 2^64 - 2^64/µHz < 2^64 - 1, which rounds to 2^64 - 1 at
        // most.
        let fraction = u64::try_from(rounded).expect("a remainder is smaller than its divisor");
        Self { whole, fraction }
    }

    /// Returns the duration of `ticks` in nanoseconds, rounded down and taken modulo 2⁶⁴ ns (584 years).
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Frequency, Scale};
    ///
    /// let scale = Scale::of(Frequency::from_hertz(3).expect("not zero"));
    /// assert_eq!((scale.nanos(1), scale.nanos(2)), (333_333_333, 666_666_666));
    /// ```
    #[must_use]
    #[inline(always)]
    pub const fn nanos(self, ticks: u64) -> u64 {
        let below_one = ((ticks as u128 * self.fraction as u128) >> 64) as u64;
        if self.whole == 0 {
            return below_one;
        }
        slower_than_a_gigahertz();
        self.whole.wrapping_mul(ticks).wrapping_add(below_one)
    }

    /// Returns the length of one tick in nanoseconds, for statistics and printing.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Frequency, Scale};
    ///
    /// assert_eq!(Scale::of(Frequency::MEGAHERTZ).tick_ns_f64(), 1_000.0);
    /// ```
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for printing")]
    pub fn tick_ns_f64(self) -> f64 {
        self.whole as f64 + self.fraction as f64 / 18_446_744_073_709_551_616.0
    }
}

/// Makes the compiler emit a branch instead of an unconditional addition. For a counter above 1 GHz, the high word of
/// one product is the result, and an unconditional addition would delay it. For a slower counter, the cost of the
/// branch is small compared with the cost of the read.
#[cold]
const fn slower_than_a_gigahertz() {}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};

    use super::Scale;
    use hpt_sys::units::Frequency;

    /// Returns exactly `ticks * 1e15 / µHz` as quotient and remainder: the slow computation that checks the fast one.
    fn exact(ticks: u64, frequency: Frequency) -> (u128, u128) {
        let femto = u128::from(ticks) * 1_000_000_000_000_000;
        (femto / u128::from(frequency.microhertz()), femto % u128::from(frequency.microhertz()))
    }

    #[test]
    fn ticks_of_nanosecond_clocks_are_unchanged() {
        let scale = Scale::of(Frequency::GIGAHERTZ);
        assert_eq!(scale.nanos(u64::MAX), u64::MAX);
    }

    #[test]
    fn the_lowest_and_highest_frequencies_have_a_scale() {
        // A tick takes 1e15 / (1e15 + 1) = 1 - 1e-15 ns: the nearest multiple of 2^-64 is below one, and must not
        // become zero.
        let scale = Scale::of(Frequency::from_microhertz(1_000_000_000_000_001).expect("not zero"));
        assert!(scale.nanos(2_000_000_000_000_000) >= 1_999_999_999_999_997);
        // The highest possible rate: a remainder as close to its divisor as possible.
        let fastest = Scale::of(Frequency::from_microhertz(u64::MAX).expect("not zero"));
        assert!(fastest.nanos(u64::MAX).abs_diff(1_000_000_000_000_000) <= 1);
        // The lowest possible rate: one tick in a million seconds.
        assert_eq!(Scale::of(Frequency::from_microhertz(1).expect("not zero")).nanos(3), 3_000_000_000_000_000);
    }

    proptest! {
        #[test]
        fn the_proven_bound_holds_against_exact_arithmetic(
            microhertz in 1_000_000_u64..u64::MAX,
            ticks in any::<u64>(),
            shift in 0_u32..64,
        ) {
            let frequency = Frequency::from_microhertz(microhertz).expect("not zero");
            let ticks = ticks >> shift;
            let (whole, remainder) = exact(ticks, frequency);
            if let Ok(whole) = u64::try_from(whole) {
                let fast = i128::from(Scale::of(frequency).nanos(ticks));
                let slow = i128::from(whole);
                // t * 2^-65 < 0.5 for every t, so the bound reads: between -1.5 and +0.5 of the exact value.
                prop_assert!(fast - slow <= i128::from(remainder * 2 >= u128::from(microhertz)), "{fast} {slow}");
                prop_assert!(slow - fast <= 1, "{fast} {slow}");
            }
        }

        #[test]
        fn more_ticks_never_convert_to_less_time(hertz in 1_000_u64..10_000_000_000, ticks in 0_u64..1 << 50, step in 0_u64..1_000) {
            let scale = Scale::of(Frequency::from_hertz(hertz).expect("not zero"));
            prop_assert!(scale.nanos(ticks + step) >= scale.nanos(ticks));
        }
    }
}
