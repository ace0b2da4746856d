//! Maps a range of a counter's ticks to nanoseconds, and computes the next range. Pure: reads and stores nothing.

/// A linear mapping of a range of the counter's ticks to nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The first tick.
    pub base_ticks: u64,
    /// The time at the first tick, in nanoseconds.
    pub base_ns: u64,
    /// Nanoseconds per tick, with 32 fractional bits.
    pub slope: u64,
    /// The number of ticks. It is below 2^32, and its product with the slope is below 2^64.
    pub ticks: u64,
}

/// A reading of the counter between two readings of the reference, as a point and its width.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    /// The value of the counter, in ticks.
    pub ticks: u64,
    /// The time of the reference in the middle of the bracket, in nanoseconds.
    pub ns: u64,
    /// The bracket's width.
    pub width_ns: u64,
}

/// The rate of the counter, determined from two points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Nanoseconds per tick, with 32 fractional bits.
    pub slope: u64,
    /// The uncertainty of the slope, in parts per billion: the bracket and the tick of both points, divided by the
    /// distance between the points.
    pub uncertainty_ppb: u64,
}

/// The length of the shortest segment, and the shortest distance between two points that determine a rate.
pub(crate) const SHORTEST_NS: u64 = 100_000;
/// The length of the longest segment. In that time, a change of 500 ppm in the reference's rate (Linux,
/// kernel/time/ntp.c, `MAXFREQ`) amounts to half a microsecond.
pub(crate) const LONGEST_NS: u64 = 1_000_000;
/// The maximum age of a point that starts a segment.
pub(crate) const OLDEST_NS: u64 = 20_000;
/// The largest error that the uncertainty of the rate can cause within a segment.
const BUDGET_NS: u64 = 10;
/// The largest rate change between two segments: 1000 ppm from one limit of the reference's rate to the other, and
/// another 100 ppm because the counter's rate changes with temperature.
pub(crate) const LARGEST_CHANGE_PPB: u64 = 1_100_000;
/// The largest offset between two cores whose counters the kernel trusts. Every step of a counter is larger.
const CORES_APART_NS: u64 = 1_000;
const BILLION: u64 = 1_000_000_000;

impl Segment {
    /// Returns the nanoseconds at `ticks` if the segment covers them.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the low half")]
    pub(crate) const fn at(&self, ticks: u64) -> Option<u64> {
        self.at_split(ticks, ticks as u32)
    }

    /// Returns the same result as `at`, computed from the low half of `ticks`. The low half is available sooner than
    /// the whole, and is the only data dependency between the counter and the result.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "below `ticks`, which is below 2^32: the low halves determine the difference"
    )]
    pub(crate) const fn at_split(&self, ticks: u64, low: u32) -> Option<u64> {
        if ticks.wrapping_sub(self.base_ticks) >= self.ticks {
            return None;
        }
        let past = low.wrapping_sub(self.base_ticks as u32) as u64;
        Some(self.base_ns + ((past * self.slope) >> 32))
    }

    /// Returns the same result as `at`, except that ticks shortly before the segment map to its start. Such ticks come
    /// from a core whose counter is behind the counter of the core that made the segment.
    pub(crate) const fn at_or_just_before(&self, ticks: u64) -> Option<u64> {
        let behind = self.base_ticks.wrapping_sub(ticks);
        let is_just_before = behind < 1 << 20 && (behind * self.slope) >> 32 <= CORES_APART_NS;
        if is_just_before && self.ticks > 0 { Some(self.base_ns) } else { self.at(ticks) }
    }

    /// Returns an upper limit for all readings from this segment.
    pub(crate) const fn end_ns(&self) -> u64 {
        self.base_ns + ((self.ticks * self.slope) >> 32)
    }

    /// Returns the nanoseconds on the extended line at `ticks`, which may be before or after the segment.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn extended_to(&self, ticks: u64) -> u64 {
        let past = i64::from_ne_bytes(ticks.wrapping_sub(self.base_ticks).to_ne_bytes());
        let ns = (i128::from(past) * i128::from(self.slope)) >> 32;
        self.base_ns.wrapping_add_signed(i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX }))
    }

    /// Returns the segment that starts at `point` and follows the reference at `rate`. The segment is nowhere below
    /// `floor_ns`, a value that the previous segment may have returned. If the segment starts ahead of the reference,
    /// it runs at a lower rate, but at least half of `rate`, so that the lead shrinks or disappears by its end.
    pub(crate) fn following(point: Point, rate: Rate, floor_ns: u64) -> Self {
        let ticks = rate.ticks_in(length_ns(rate.uncertainty_ppb));
        let slope = rate.slope.max(1);
        let ahead_ns = floor_ns.saturating_sub(point.ns);
        // The lead is spread over the whole length, but the slope is at least half the rate.
        let less = (u128::from(ahead_ns) << 32) / u128::from(ticks);
        let slope = slope - u64::try_from(less).unwrap_or(u64::MAX).min(slope / 2);
        Self { base_ticks: point.ticks, base_ns: point.ns.max(floor_ns), slope, ticks }
    }
}

/// Returns the length of a segment for this uncertainty of the rate.
pub(crate) fn length_ns(uncertainty_ppb: u64) -> u64 {
    (BUDGET_NS * BILLION / uncertainty_ppb.max(1)).clamp(SHORTEST_NS, LONGEST_NS)
}

impl Point {
    /// Returns the same point unless a reading of the reference itself returned a later time, `slowest_ns`. In that
    /// case, a segment that starts in the middle of the bracket could be below that reading. The difference is at most
    /// the sum of half the bracket, a tick, and a gain. The gain is the time by which the reference can get ahead while
    /// the point is young, because its rate changes or is uncertain. The returned point is later by this sum, so a
    /// segment that starts there is not below the reading.
    pub(crate) fn seen_after(self, slowest_ns: u64, rate: Rate) -> Self {
        if slowest_ns <= self.ns {
            return self;
        }
        let gain_ns = OLDEST_NS * (LARGEST_CHANGE_PPB + rate.uncertainty_ppb.min(BILLION)) / BILLION + 1;
        Self { ns: self.ns + self.width_ns.div_ceil(2) + rate.tick_ns() + gain_ns, ..self }
    }
}

impl Rate {
    /// Returns the duration of a tick in nanoseconds, rounded up. A reading can lag by this much. If a reading is
    /// assigned to the middle of its tick, it is off by at most half a tick.
    pub(crate) const fn tick_ns(self) -> u64 {
        self.slope.div_ceil(1 << 32)
    }

    /// Returns the largest distance of a reading from the reference while the rate of the reference stays constant:
    /// half a bracket of this width, a tick, and the uncertainty of the rate over a segment.
    pub(crate) fn bound_ns(self, width_ns: u64) -> u64 {
        let uncertain_ns = length_ns(self.uncertainty_ppb).saturating_mul(self.uncertainty_ppb) / BILLION;
        width_ns.div_ceil(2) + self.tick_ns() + uncertain_ns + 1
    }

    /// Returns the number of ticks in this number of nanoseconds, limited to the maximum number of ticks in a segment.
    pub(crate) fn ticks_in(self, nanoseconds: u64) -> u64 {
        let ticks = (u128::from(nanoseconds) << 32) / u128::from(self.slope.max(1));
        u64::try_from(ticks).unwrap_or(u64::MAX).clamp(1, u64::from(u32::MAX))
    }

    /// Returns the rate between two points; `None` if the points are too close together, are in the wrong order, or
    /// imply a rate that no counter has.
    pub(crate) fn between(earlier: Point, later: Point) -> Option<Self> {
        let elapsed_ns = later.ns.checked_sub(earlier.ns).filter(|&elapsed_ns| elapsed_ns >= SHORTEST_NS)?;
        let ticks = later.ticks.checked_sub(earlier.ticks).filter(|&ticks| ticks > 0)?;
        let slope = u64::try_from((u128::from(elapsed_ns) << 32) / u128::from(ticks)).ok()?;
        // Rates from 1 MHz to 16 GHz are accepted, so that a millisecond of ticks times the slope is below 2^64.
        let sensible = (1 << 28)..=(1001 << 32);
        let exact = Self { slope, uncertainty_ppb: 0 };
        // Each point is uncertain by the width of its bracket, and its reading may be up to one tick old.
        let uncertain_ns = earlier.width_ns + later.width_ns + 2 * exact.tick_ns();
        let uncertainty_ppb = uncertain_ns.saturating_mul(BILLION) / elapsed_ns;
        sensible.contains(&slope).then_some(Self { uncertainty_ppb, ..exact })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::{LONGEST_NS, Point, Rate, SHORTEST_NS, Segment};

    fn slope(hertz: u64) -> u64 {
        u64::try_from((1_000_000_000_u128 << 32) / u128::from(hertz)).expect("below 2^64")
    }

    proptest! {
        /// The line matches exact arithmetic to a nanosecond, never falls, and ends at `end_ns`.
        #[test]
        fn a_segment_is_a_straight_line_within_its_limits(
            base_ticks in proptest::prelude::any::<u64>(),
            base_ns in 0..u64::MAX / 2,
            hertz in 1_000_000..6_000_000_000_u64,
            uncertainty_ppb in 0..1_000_000_u64,
            (part, step) in (0.0..1.0_f64, 1..1_000_u64),
        ) {
            let point = Point { ticks: base_ticks, ns: base_ns, width_ns: 30 };
            let segment = Segment::following(point, Rate { slope: slope(hertz), uncertainty_ppb }, 0);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a part of it")]
            let past = (segment.ticks as f64 * part) as u64;
            let ns = segment.at(base_ticks.wrapping_add(past)).expect("within it");
            let exact = base_ns + u64::try_from(u128::from(past) * 1_000_000_000 / u128::from(hertz)).expect("a millisecond");
            prop_assert!(ns.abs_diff(exact) <= 1 && ns <= segment.end_ns());
            if let Some(later) = segment.at(base_ticks.wrapping_add(past + step)) {
                prop_assert!(later >= ns);
            }
            prop_assert!(segment.at(base_ticks.wrapping_sub(1)).is_none());
            // Ticks within a microsecond before the start map to the start, and earlier ticks map to nothing.
            let microsecond = (1_000_u64 << 32) / segment.slope;
            prop_assert_eq!(segment.at_or_just_before(base_ticks.wrapping_sub(microsecond)), Some(segment.base_ns));
            let earlier = base_ticks.wrapping_sub(microsecond + 2 + (1 << 32) / segment.slope);
            prop_assert_eq!(segment.at_or_just_before(earlier), None);
            prop_assert_eq!(segment.at_or_just_before(base_ticks.wrapping_add(past)), Some(ns));
            prop_assert!(segment.at(base_ticks.wrapping_add(segment.ticks)).is_none());
            prop_assert!(segment.end_ns() - base_ns <= LONGEST_NS + 1_001);
            prop_assert!(segment.extended_to(base_ticks.wrapping_add(past)) == ns);
        }

        /// The lead shrinks, and the segment never starts below the floor.
        #[test]
        fn a_lead_is_absorbed_without_a_backward_step(
            hertz in 1_000_000..6_000_000_000_u64,
            ahead_ns in 0..3_000_000_u64,
        ) {
            let point = Point { ticks: 77, ns: 1_000_000_000, width_ns: 30 };
            let floor_ns = point.ns + ahead_ns;
            let segment = Segment::following(point, Rate { slope: slope(hertz), uncertainty_ppb: 1_000 }, floor_ns);
            prop_assert!(segment.base_ns == floor_ns);
            let true_end = point.ns + LONGEST_NS;
            let left = segment.end_ns().saturating_sub(true_end);
            prop_assert!(left <= ahead_ns.saturating_sub(LONGEST_NS / 2) + 1_001, "{left} of {ahead_ns}");
        }
    }

    proptest! {
        /// The clock is read after the point was taken, and then the counter is read along a segment. The rate of the
        /// segment has the largest possible error, and the bracket is divided as unevenly as possible.
        #[test]
        fn no_reading_is_below_an_earlier_reading(
            width_ns in 30..20_000_u64,
            uncertainty_ppb in 0..400_000_000_u64,
            answered_after_ns in 0..super::OLDEST_NS,
            read_after_ns in 0..100_u64,
        ) {
            // One tick is one nanosecond at the clock's true rate, and the clock is at the end of the bracket when the
            // counter is read.
            let point = Point { ticks: 1_000_000, ns: 5_000_000, width_ns };
            let answer_ns = point.ns + width_ns.div_ceil(2) + answered_after_ns;
            let slope = (1 << 32) - u64::try_from((1_u128 << 32) * u128::from(uncertainty_ppb) / 1_000_000_000).expect("below 2^32");
            let rate = Rate { slope, uncertainty_ppb };
            let segment = Segment::following(point.seen_after(answer_ns, rate), rate, 0);
            let read_ns = segment.at(point.ticks + answered_after_ns + read_after_ns).expect("a point that is recent enough");
            prop_assert!(read_ns >= answer_ns, "{answer_ns}, then {read_ns}");
        }
    }

    #[test]
    fn an_uncertain_rate_produces_short_segments() {
        let point = Point { ticks: 0, ns: 0, width_ns: 30 };
        let length = |uncertainty_ppb| {
            let segment = Segment::following(point, Rate { slope: slope(1_000_000_000), uncertainty_ppb }, 0);
            segment.end_ns()
        };
        assert_eq!(length(600_000), SHORTEST_NS);
        assert_eq!(length(50_000), 200_000);
        assert_eq!(length(0), LONGEST_NS);
    }

    #[test]
    fn a_rate_needs_two_points_far_enough_apart() {
        let point = |ticks, ns| Point { ticks, ns, width_ns: 30 };
        let rate = Rate::between(point(1_000, 0), point(3_001_000, 1_000_000)).expect("a millisecond at 3 GHz");
        assert_eq!(
            (rate.slope, rate.uncertainty_ppb),
            (slope(3_000_000_000), 62_000),
            "two brackets of 30 ns and two ticks, over a millisecond"
        );
        assert_eq!(Rate::between(point(0, 0), point(300, 99_999)), None, "too close");
        assert_eq!(Rate::between(point(300, 0), point(0, 1_000_000)), None, "backwards");
        assert_eq!(Rate::between(point(0, 0), point(0, 1_000_000)), None, "stands still");
        assert_eq!(Rate::between(point(0, 0), point(100, 1_000_000)), None, "slower than 1 MHz");
        assert_eq!(Rate::between(point(0, 0), point(1 << 40, 1_000_000)), None, "faster than any counter");
    }
}
