//! Detects a suspend by comparing a clock that counts during suspend with a clock that does not. A suspend interrupts
//! every comparison of sources.

/// Readings of CLOCK_MONOTONIC, CLOCK_BOOTTIME, and CLOCK_MONOTONIC again, in this order, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspends {
    /// CLOCK_MONOTONIC before.
    pub before_ns: u64,
    /// CLOCK_BOOTTIME.
    pub boottime_ns: u64,
    /// CLOCK_MONOTONIC after.
    pub after_ns: u64,
}

/// Returns the minimum time for which the machine was suspended between two such readings, in nanoseconds; `None` if
/// the widths of the brackets explain the difference.
#[must_use]
pub fn suspended_between(earlier: Suspends, later: Suspends) -> Option<u64> {
    // The lead of CLOCK_BOOTTIME was at most `most` in the earlier readings, and is at least `least` in the later
    // readings.
    let most = earlier.boottime_ns.saturating_sub(earlier.before_ns);
    let least = later.boottime_ns.saturating_sub(later.after_ns);
    // The threshold allows for the separate rounding of the two clocks to nanoseconds.
    least.checked_sub(most).filter(|&suspended_ns| suspended_ns > 1_000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::{Suspends, suspended_between};

    fn reading(monotonic_ns: u64, suspended_ns: u64, width_ns: u64) -> Suspends {
        Suspends {
            before_ns: monotonic_ns,
            boottime_ns: monotonic_ns + width_ns / 2 + suspended_ns,
            after_ns: monotonic_ns + width_ns,
        }
    }

    #[test]
    fn a_suspend_shows_in_the_lead_of_boottime() {
        let seen = suspended_between(reading(1_000, 0, 60), reading(2_000, 6_000_000_000, 60));
        assert_eq!(seen, Some(5_999_999_940));
    }

    proptest! {
        #[test]
        fn a_wide_bracket_never_counts_as_a_suspend(first in 0_u64..1_000_000, passed in 0_u64..1_000_000_000, widths in (0_u64..50_000_000, 0_u64..50_000_000), slept in 0_u64..1_000) {
            prop_assert_eq!(suspended_between(reading(first, 7, widths.0), reading(first + widths.0 + passed, 7 + slept, widths.1)), None);
        }
    }
}
