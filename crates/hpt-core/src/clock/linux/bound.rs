//! Computes the bound on the difference between a reading and the kernel's clock from the known properties of both.
//! Pure: queries neither the kernel nor the counter.

use hpt_sys::adjtime::Slew;

use super::segment::{LONGEST_NS, Rate};

const BILLION: u64 = 1_000_000_000;
/// The allowance for a rate change that adjtimex no longer reports. It is added if a reading is off by more than all
/// known causes explain. The kernel's rate changes by at most a tenth if a tick length is restored (`ADJ_TICK`), and by
/// at most an eighth if an offset is withdrawn (half a second at the smallest time constant). Linux, kernel/time/ntp.c.
const UNEXPLAINED_NS: u64 = LONGEST_NS / 4;

/// The properties of the clock that are known when the bound is computed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// The rate and the width of the last bracket; `None` until both are known.
    pub(super) rate_and_width_ns: Option<(Rate, u64)>,
    /// The lead of the active segment over its point.
    pub(super) lead_ns: u64,
    /// The time by which the end of the last segment is ahead of the clock. No reading is below that end.
    pub(super) ahead_ns: u64,
    /// The distance of the current reading from the interval between the two clock readings around it.
    pub(super) outside_ns: u64,
    /// The change in the kernel's rate due to an offset or a changed tick length, in parts per billion.
    pub(super) slew_ppb: u64,
}

impl Known {
    pub(super) fn bound_ns(self) -> u64 {
        let bound_ns = match self.rate_and_width_ns {
            // `LONGEST_NS / 1_000` allows for 1000 ppm, twice the kernel's limit: a rate learned across a change can be
            // off by that much in the following segment.
            Some((rate, width_ns)) => {
                rate.bound_ns(width_ns) + LONGEST_NS / 1_000 + self.lead_ns + 2 * in_a_segment_ns(self.slew_ppb)
            }
            // The kernel's clock is read directly, but readings do not fall below the end of the last segment.
            None => self.ahead_ns,
        };
        if self.outside_ns > bound_ns { self.outside_ns + UNEXPLAINED_NS } else { bound_ns }
    }
}

fn in_a_segment_ns(ppb: u64) -> u64 {
    u64::try_from(u128::from(ppb) * u128::from(LONGEST_NS) / u128::from(BILLION)).unwrap_or(u64::MAX / 4)
}

/// Returns the difference, in parts per billion, between the kernel's rate and the rate that its frequency correction
/// alone would give, now or from the next second on.
///
/// Each second, the kernel corrects 1 / 2^(2 + time constant) of the remaining offset. It reports the offset that
/// remains after that correction. The part that is being slewed now is therefore the reported offset divided by 2^(2 +
/// time constant) − 1. See second_overflow and ntp_offset_chunk in Linux, kernel/time/ntp.c.
pub(super) fn slew_ppb(slew: Slew) -> u64 {
    let shift = 2 + u32::try_from(slew.time_constant.clamp(0, 30)).unwrap_or(0);
    // Nanoseconds per second are parts per billion.
    let by_offset = slew.offset_ns.unsigned_abs() / ((1 << shift) - 1);
    let usual_us = slew.usual_tick_us.max(1).unsigned_abs();
    let by_tick = slew.tick_us.abs_diff(slew.usual_tick_us).saturating_mul(BILLION) / usual_us;
    by_offset + by_tick
}

#[cfg(test)]
mod tests {
    use super::{Known, slew_ppb};
    use crate::clock::linux::segment::{LONGEST_NS, Rate};
    use hpt_sys::adjtime::Slew;

    const STILL: Slew = Slew { offset_ns: 0, time_constant: 2, tick_us: 10_000, usual_tick_us: 10_000 };

    fn known() -> Known {
        let rate = Rate { slope: 1 << 32, uncertainty_ppb: 1_000 };
        Known { rate_and_width_ns: Some((rate, 40)), ..Known::default() }
    }

    #[test]
    fn each_second_slews_a_share_of_the_remaining_offset() {
        // 100 ms at time constant 1: 12.5 ms in the first second, which leaves 87.5 ms.
        let slew = Slew { offset_ns: -87_500_000, time_constant: 1, ..STILL };
        assert_eq!(slew_ppb(slew), 12_500_000);
        assert_eq!(slew_ppb(Slew { time_constant: 6, offset_ns: 255_000_000, ..STILL }), 1_000_000);
        assert_eq!(slew_ppb(Slew { time_constant: i64::MAX, offset_ns: i64::MIN, ..STILL }), 2_147_483_648);
        assert_eq!(slew_ppb(STILL), 0);
    }

    #[test]
    fn a_tick_of_another_length_changes_the_rate_by_a_tenth_at_most() {
        assert_eq!(slew_ppb(Slew { tick_us: 11_000, ..STILL }), 100_000_000);
        assert_eq!(slew_ppb(Slew { tick_us: 9_999, ..STILL }), 100_000);
    }

    #[test]
    fn a_slew_widens_the_bound() {
        let still_ns = known().bound_ns();
        assert!((1_000..1_100).contains(&still_ns), "{still_ns}");
        assert_eq!(Known { slew_ppb: 12_500_000, ..known() }.bound_ns(), still_ns + 25_000);
        assert_eq!(Known { lead_ns: 300, ..known() }.bound_ns(), still_ns + 300);
    }

    #[test]
    fn without_a_rate_the_bound_is_the_lead_of_the_last_segment() {
        assert_eq!(Known::default().bound_ns(), 0);
        assert_eq!(Known { ahead_ns: 287_000, ..Known::default() }.bound_ns(), 287_000);
    }

    #[test]
    fn an_observed_error_beyond_the_known_limits_widens_the_bound() {
        assert_eq!(Known { outside_ns: 900, ..known() }.bound_ns(), known().bound_ns());
        assert!(Known { outside_ns: 5_000, ..known() }.bound_ns() >= 5_000 + LONGEST_NS / 8);
    }
}
