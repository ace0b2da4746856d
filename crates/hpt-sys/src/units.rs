//! Defines the basic quantities of this crate: counter widths, tick differences and frequencies. Does not convert ticks
//! to time; `scale` does.

use std::{fmt, time::Duration};

/// Returns `duration` in nanoseconds, or `u64::MAX` if it exceeds 584 years.
#[inline]
pub fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A duration as text for messages, with a space before the unit: `950 ms`.
#[derive(Clone, Copy, Debug)]
pub struct Spaced(pub Duration);

impl fmt::Display for Spaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:?}", self.0);
        let value = text.trim_end_matches(char::is_alphabetic);
        write!(f, "{value} {}", &text[value.len()..])
    }
}

/// The width of a counter in bits, from 1 to 64. A counter of width `n` wraps after 2ⁿ ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Width(u8);

impl Width {
    /// The width of a 64-bit counter.
    pub const BITS_64: Self = Self(64);
    /// The width of a 32-bit counter.
    pub const BITS_32: Self = Self(32);

    /// Creates the width of a counter with `bits` bits; returns `None` unless `bits` is from 1 to 64.
    #[must_use]
    pub const fn new(bits: u8) -> Option<Self> {
        if bits >= 1 && bits <= 64 { Some(Self(bits)) } else { None }
    }

    /// Returns the number of bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the largest reading of the counter.
    #[must_use]
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.0)
    }

    /// Returns the number of ticks from `earlier` to `later`. The result is correct even if the counter wrapped,
    /// provided that fewer than 2^bits ticks have passed.
    ///
    /// Two readings do not reveal the number of wraps, so the result is the distance modulo 2^bits.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_sys::units::Width;
    ///
    /// assert_eq!(Width::BITS_32.difference(0xffff_fff0, 0x10), 0x20);
    /// ```
    #[must_use]
    pub const fn difference(self, earlier: u64, later: u64) -> u64 {
        later.wrapping_sub(earlier) & self.mask()
    }

    /// Returns the number of ticks from `earlier` to `later`, which is negative if `later` precedes `earlier` by less
    /// than half a wrap.
    #[must_use]
    #[expect(clippy::cast_possible_wrap, reason = "the top bit of the distance is interpreted as the sign")]
    pub const fn signed_difference(self, earlier: u64, later: u64) -> i64 {
        let unused_bits = 64 - self.0;
        (self.difference(earlier, later) << unused_bits) as i64 >> unused_bits
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A tick rate, stored in whole microhertz (millionths of a tick per second). Never zero.
///
/// The range is 1 µHz to 18.4 THz. The relative resolution is 10⁻¹² for a 1 MHz counter and 3·10⁻¹⁶ for a 3 GHz
/// counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Frequency {
    microhertz: std::num::NonZeroU64,
}

impl Frequency {
    /// One tick per nanosecond: the rate of a clock whose readings are in nanoseconds.
    pub const GIGAHERTZ: Self = Self::from_hertz(1_000_000_000).expect("a billion is not zero");
    /// One tick per microsecond.
    pub const MEGAHERTZ: Self = Self::from_hertz(1_000_000).expect("a million is not zero");

    /// Creates a frequency of `hertz` Hz; returns `None` if `hertz` is zero or the frequency exceeds 18.4 THz.
    #[must_use]
    pub const fn from_hertz(hertz: u64) -> Option<Self> {
        match hertz.checked_mul(1_000_000) {
            Some(microhertz) => Self::from_microhertz(microhertz),
            None => None,
        }
    }

    /// Creates a frequency of `microhertz` µHz; returns `None` if `microhertz` is zero.
    #[must_use]
    pub const fn from_microhertz(microhertz: u64) -> Option<Self> {
        match std::num::NonZeroU64::new(microhertz) {
            Some(microhertz) => Some(Self { microhertz }),
            None => None,
        }
    }

    /// Returns the frequency of a counter that advances by `ticks` in `nanoseconds`, rounded to the nearest microhertz;
    /// `None` if either argument is zero or the frequency is out of range.
    #[must_use]
    pub fn from_ratio(ticks: u64, nanoseconds: u64) -> Option<Self> {
        if nanoseconds == 0 {
            return None;
        }
        // ticks / ns * 1e9 ns/s * 1e6 µHz/Hz: below 2^64 * 2^50, so it fits in 128 bits.
        let scaled = u128::from(ticks) * 1_000_000_000_000_000 + u128::from(nanoseconds / 2);
        u64::try_from(scaled / u128::from(nanoseconds)).ok().and_then(Self::from_microhertz)
    }

    /// Returns the frequency in whole microhertz.
    #[must_use]
    pub const fn microhertz(self) -> u64 {
        self.microhertz.get()
    }

    /// Returns the frequency in hertz, rounded to the nearest integer.
    #[must_use]
    pub const fn hertz(self) -> u64 {
        let microhertz = self.microhertz.get();
        microhertz / 1_000_000 + (microhertz % 1_000_000 >= 500_000) as u64
    }

    /// Returns the frequency in hertz, for statistics and printing.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "53 bits are enough for a printed value")]
    pub fn hertz_f64(self) -> f64 {
        self.microhertz.get() as f64 / 1e6
    }

    /// Returns the length of one tick in nanoseconds, for printing.
    #[must_use]
    pub fn tick_ns_f64(self) -> f64 {
        1e9 / self.hertz_f64()
    }

    /// Returns the frequency error relative to `nominal`, in parts per million.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "the difference is exact; only its quotient is rounded")]
    pub fn error_ppm(self, nominal: Self) -> f64 {
        let difference = i128::from(self.microhertz.get()) - i128::from(nominal.microhertz.get());
        difference as f64 / nominal.microhertz.get() as f64 * 1e6
    }
}

impl fmt::Display for Frequency {
    /// Formats the frequency with a suitable unit, without trailing zeros and with at most six decimals, or with those of
    /// the format.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hertz = self.hertz_f64();
        // The rounded value determines the unit: 999.99 Hz with one decimal is 1.0 kHz.
        let rounded = |size: f64| match f.precision() {
            Some(decimals) => format!("{:.decimals$}", hertz / size).parse().unwrap_or(hertz / size),
            None => hertz / size,
        };
        let (value, unit) = match () {
            () if rounded(1e3) >= 1e3 => (hertz / 1e6, "MHz"),
            () if rounded(1.0) >= 1e3 => (hertz / 1e3, "kHz"),
            () => (hertz, "Hz"),
        };
        match f.precision() {
            Some(decimals) => write!(f, "{value:.decimals$} {unit}"),
            // A millionth of a unit is finer than any calibration.
            None => write!(f, "{} {unit}", (value * 1e6).round() / 1e6),
        }
    }
}

/// A range of frequencies. Both ends belong to the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "SavedRange", into = "SavedRange"))]
pub struct FrequencyRange {
    /// The lowest frequency in the range.
    pub lowest: Frequency,
    /// The highest frequency in the range.
    pub highest: Frequency,
}

impl FrequencyRange {
    /// Returns whether `frequency` is in the range.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_sys::units::{Frequency, FrequencyRange};
    ///
    /// let range = FrequencyRange { lowest: Frequency::MEGAHERTZ, highest: Frequency::GIGAHERTZ };
    /// assert!(range.contains(Frequency::MEGAHERTZ));
    /// assert!(range.contains(range.midpoint()));
    /// ```
    #[must_use]
    pub fn contains(&self, frequency: Frequency) -> bool {
        (self.lowest..=self.highest).contains(&frequency)
    }

    /// Returns the midpoint of the range, rounded down to a whole microhertz.
    #[must_use]
    pub fn midpoint(&self) -> Frequency {
        Frequency { microhertz: self.lowest.microhertz.midpoint(self.highest.microhertz) }
    }
}

/// The serialized form of a [`FrequencyRange`]: the lowest and the highest frequency, in this order. Saved calibrations
/// have this form.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct SavedRange(Frequency, Frequency);

#[cfg(feature = "serde")]
impl From<SavedRange> for FrequencyRange {
    fn from(SavedRange(lowest, highest): SavedRange) -> Self {
        Self { lowest, highest }
    }
}

#[cfg(feature = "serde")]
impl From<FrequencyRange> for SavedRange {
    fn from(FrequencyRange { lowest, highest }: FrequencyRange) -> Self {
        Self(lowest, highest)
    }
}

/// A frequency and its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrequencyEstimate {
    /// The frequency.
    pub frequency: Frequency,
    /// The largest deviation of the true frequency from [`frequency`](Self::frequency) in either direction, in parts
    /// per million.
    pub uncertainty_ppm: f64,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{Frequency, FrequencyRange, Spaced, Width};

    #[test]
    fn a_space_separates_the_unit_of_a_duration() {
        let texts = [0, 1_500, 18_250_000, 1_000_000_000].map(|ns| Spaced(Duration::from_nanos(ns)).to_string());
        assert_eq!(texts, ["0 ns", "1.5 µs", "18.25 ms", "1 s"]);
    }

    #[test]
    fn the_rounded_frequency_determines_the_unit() {
        let texts = [999_999_999, 1_000_000_000_000 - 1, 2_250_000_000_000_000]
            .map(|microhertz| format!("{:.1}", Frequency::from_microhertz(microhertz).expect("not zero")));
        assert_eq!(texts, ["1.0 kHz", "1.0 MHz", "2250.0 MHz"]);
    }

    #[test]
    fn a_width_outside_one_to_sixty_four_bits_is_none() {
        assert_eq!(Width::new(0), None);
        assert_eq!(Width::new(65), None);
        assert_eq!(Width::new(64), Some(Width::BITS_64));
    }

    #[test]
    fn a_backward_step_is_a_small_negative_number() {
        assert_eq!(Width::BITS_32.signed_difference(5, 3), -2);
        assert_eq!(Width::BITS_64.signed_difference(u64::MAX, 1), 2);
        assert_eq!(Width::BITS_32.signed_difference(u64::from(u32::MAX), 1), 2);
    }

    #[test]
    fn hertz_round_to_nearest() {
        assert_eq!(Frequency::from_microhertz(1_499_999).map(Frequency::hertz), Some(1));
        assert_eq!(Frequency::from_microhertz(1_500_000).map(Frequency::hertz), Some(2));
    }

    #[test]
    fn both_ends_belong_to_a_range_of_frequencies() {
        let microhertz = |microhertz| Frequency::from_microhertz(microhertz).expect("not zero");
        let range = FrequencyRange { lowest: microhertz(2), highest: microhertz(5) };
        let contained: Vec<u64> = (1..=6).filter(|&each| range.contains(microhertz(each))).collect();
        assert_eq!((contained.as_slice(), range.midpoint()), ([2, 3, 4, 5].as_slice(), microhertz(3)));
        let whole = FrequencyRange { lowest: microhertz(u64::MAX - 2), highest: microhertz(u64::MAX) };
        assert_eq!(whole.midpoint(), microhertz(u64::MAX - 1));
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_range_of_frequencies_is_serialized_as_two_numbers() {
        let range = FrequencyRange { lowest: Frequency::MEGAHERTZ, highest: Frequency::GIGAHERTZ };
        let written = serde_json::to_string(&range).expect("two integers");
        assert_eq!(written, "[1000000000000,1000000000000000]");
        assert_eq!(serde_json::from_str::<FrequencyRange>(&written).expect("the same"), range);
    }

    #[test]
    fn zero_time_and_zero_ticks_have_no_frequency() {
        assert_eq!(Frequency::from_ratio(1, 0), None);
        assert_eq!(Frequency::from_ratio(0, 1), None);
        assert_eq!(Frequency::from_hertz(0), None);
        assert_eq!(Frequency::from_hertz(u64::MAX), None);
    }

    proptest! {
        #[test]
        fn a_difference_is_exact_across_any_wrap(bits in 1_u8..=64, start in any::<u64>(), step in any::<u64>()) {
            let width = Width::new(bits).expect("bits is in range");
            let (start, step) = (start & width.mask(), step & width.mask());
            let end = start.wrapping_add(step) & width.mask();
            prop_assert_eq!(width.difference(start, end), step);
        }

        #[test]
        fn a_ratio_of_whole_seconds_is_exact(hertz in 1_u64..10_000_000_000, seconds in 1_u64..1_000) {
            prop_assert_eq!(Frequency::from_ratio(hertz * seconds, seconds * 1_000_000_000), Frequency::from_hertz(hertz));
        }
    }
}
