//! Learns a counter's rate from points, and decides whether the next point fits. Pure: reads neither a counter nor a
//! clock.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

use super::{
    clock_words::{FollowerWords, PointWords},
    segment::{LARGEST_CHANGE_PPB, Point, Rate},
};

/// The length of a baseline. In the long run, the two points that determine a rate are between one and two baselines
/// apart.
const BASELINE_NS: u64 = 64_000_000;
/// The pause after which the rate is known only roughly.
const LONG_PAUSE_NS: u64 = 1_000_000_000;
const BILLION: u64 = 1_000_000_000;

/// The points that determine the rate, and the numbers of points that did not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Follower {
    last: Option<Point>,
    /// The start of the current baseline; `middle` is the start of the next baseline.
    oldest: Point,
    middle: Point,
    rate: Option<Rate>,
    /// The number of points that determined a rate.
    pub followed: u64,
    /// The number of points that gave a different rate from the points before them.
    pub rate_changes: u64,
    /// The number of times that the counter or the reference stepped, after which the rate had to be learned again.
    pub jumps: u64,
}

impl Follower {
    /// Takes one more point. Returns the rate from `point` on; `None` while it is not known.
    pub(crate) fn take(&mut self, point: Point) -> Option<Rate> {
        let Some(last) = self.last else {
            self.start_again(point);
            return None;
        };
        let forwards = point.ticks.checked_sub(last.ticks).zip(point.ns.checked_sub(last.ns));
        let Some((ticks, elapsed_ns)) = forwards else {
            self.jumps += 1;
            self.start_again(point);
            return None;
        };
        if let Some(rate) = self.rate {
            let expected_ns = u64::try_from((u128::from(ticks) * u128::from(rate.slope)) >> 32).unwrap_or(u64::MAX);
            let off_ns = elapsed_ns.abs_diff(expected_ns);
            let part = |ppb: u64| {
                u64::try_from(u128::from(elapsed_ns) * u128::from(ppb) / u128::from(BILLION)).unwrap_or(u64::MAX)
            };
            let known_ns = (last.width_ns + point.width_ns) / 2 + rate.tick_ns() + 1 + part(rate.uncertainty_ppb);
            if off_ns > known_ns.saturating_add(part(LARGEST_CHANGE_PPB)) {
                self.jumps += 1;
                self.start_again(point);
                return None;
            }
            if elapsed_ns > LONG_PAUSE_NS {
                // What happened during the pause is unknown, so only values that cannot have changed much are kept.
                self.start_again(point);
                self.rate = Some(Rate { slope: rate.slope, uncertainty_ppb: LARGEST_CHANGE_PPB });
                self.followed += 1;
                return self.rate;
            }
            if off_ns > known_ns {
                self.rate_changes += 1;
                (self.oldest, self.middle) = (last, last);
                self.rate = Some(Rate { slope: rate.slope, uncertainty_ppb: LARGEST_CHANGE_PPB });
            }
        }
        if let Some(rate) = Rate::between(self.oldest, point) {
            self.rate = Some(rate);
        }
        if point.ns - self.oldest.ns >= 2 * BASELINE_NS {
            self.oldest = self.middle;
        }
        if point.ns - self.middle.ns >= BASELINE_NS {
            self.middle = point;
        }
        self.last = Some(point);
        self.followed += u64::from(self.rate.is_some());
        self.rate
    }

    /// Discards everything learned about the counter, after the counter was replaced or reset.
    pub(crate) fn disrupted(&mut self) {
        self.last = None;
        self.rate = None;
    }

    /// Returns the last point that was accepted.
    pub(crate) const fn last(&self) -> Option<Point> {
        self.last
    }

    /// Returns the rate, if it is known.
    pub(crate) const fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Stores the follower; one that has learned nothing is stored as zeros.
    pub(crate) fn store(self, words: &FollowerWords) {
        let rate = self.rate.unwrap_or(Rate { slope: 0, uncertainty_ppb: 0 });
        store_point(&words.last, self.last.unwrap_or_default());
        store_point(&words.oldest, self.oldest);
        store_point(&words.middle, self.middle);
        words.has_last.store(u64::from(self.last.is_some()), Ordering::Relaxed);
        words.slope.store(rate.slope, Ordering::Relaxed);
        words.uncertainty_ppb.store(rate.uncertainty_ppb, Ordering::Relaxed);
        words.followed.store(self.followed, Ordering::Relaxed);
        words.rate_changes.store(self.rate_changes, Ordering::Relaxed);
        words.jumps.store(self.jumps, Ordering::Relaxed);
    }

    /// Returns the follower that was stored, or one that has learned nothing.
    pub(crate) fn load(words: &FollowerWords) -> Self {
        let value = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let point = |words: &PointWords| Point {
            ticks: value(&words.ticks),
            ns: value(&words.ns),
            width_ns: value(&words.width_ns),
        };
        let rate = Rate { slope: value(&words.slope), uncertainty_ppb: value(&words.uncertainty_ppb) };
        Self {
            last: (value(&words.has_last) != 0).then(|| point(&words.last)),
            oldest: point(&words.oldest),
            middle: point(&words.middle),
            rate: (rate.slope != 0).then_some(rate),
            followed: value(&words.followed),
            rate_changes: value(&words.rate_changes),
            jumps: value(&words.jumps),
        }
    }

    const fn start_again(&mut self, point: Point) {
        self.last = Some(point);
        self.oldest = point;
        self.middle = point;
        self.rate = None;
    }
}

fn store_point(words: &PointWords, point: Point) {
    words.ticks.store(point.ticks, Ordering::Relaxed);
    words.ns.store(point.ns, Ordering::Relaxed);
    words.width_ns.store(point.width_ns, Ordering::Relaxed);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{Follower, FollowerWords, LARGEST_CHANGE_PPB};
    use crate::clock::linux::segment::{Point, Segment};

    /// A simulation with a 2.25 GHz counter and a reference that a daemon slews by `ppm`.
    struct World {
        real_ns: u64,
        reference_ns: f64,
        ppm: f64,
    }

    impl World {
        fn new() -> Self {
            Self { real_ns: 5_000_000_000, reference_ns: 1e9, ppm: 0.0 }
        }

        #[expect(clippy::cast_precision_loss, reason = "a test of a few seconds")]
        fn wait(&mut self, ns: u64) {
            self.real_ns += ns;
            self.reference_ns += ns as f64 * (1.0 + self.ppm / 1e6);
        }

        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a test of a few seconds")]
        fn point(&self) -> Point {
            Point { ticks: self.real_ns * 9 / 4, ns: self.reference_ns as u64, width_ns: 40 }
        }
    }

    /// Follows the reference for `rounds` segments. Returns the error at the end of the last segment.
    fn worst_after(world: &mut World, follower: &mut Follower, rounds: u32) -> u64 {
        let mut worst_ns = 0;
        for _ in 0..rounds {
            let point = world.point();
            let Some(rate) = follower.take(point) else {
                world.wait(100_000);
                continue;
            };
            let segment = Segment::following(point, rate, 0);
            world.wait(segment.end_ns() - segment.base_ns);
            let end = world.point();
            worst_ns = segment.extended_to(end.ticks).abs_diff(end.ns);
        }
        worst_ns
    }

    #[test]
    fn a_constant_rate_reference_is_followed_within_nanoseconds() {
        for ppm in [0.0, 500.0, -500.0, 17.3] {
            let (mut world, mut follower) = (World { ppm, ..World::new() }, Follower::default());
            assert!(worst_after(&mut world, &mut follower, 400) <= 2, "{ppm}");
            assert_eq!((follower.rate_changes, follower.jumps), (0, 0));
        }
    }

    #[test]
    fn a_rate_change_affects_one_segment_and_is_learned() {
        let (mut world, mut follower) = (World::new(), Follower::default());
        worst_after(&mut world, &mut follower, 400);
        world.ppm = 500.0;
        assert!(worst_after(&mut world, &mut follower, 1) <= 501, "one millisecond of 500 ppm");
        assert!(worst_after(&mut world, &mut follower, 3) <= 41);
        assert_eq!((follower.rate_changes, follower.jumps), (1, 0));
        assert!(worst_after(&mut world, &mut follower, 400) <= 2);
    }

    #[test]
    fn the_rate_is_learned_again_after_a_suspend() {
        // Either the reference stops while the counter keeps running, or both stop and the counter restarts.
        for reset in [false, true] {
            let (mut world, mut follower) = (World::new(), Follower::default());
            worst_after(&mut world, &mut follower, 400);
            world.real_ns = if reset { 1_000 } else { world.real_ns + 3_600_000_000_000 };
            assert_eq!(follower.take(world.point()), None);
            assert_eq!(follower.jumps, 1);
            assert!(worst_after(&mut world, &mut follower, 400) <= 2);
        }
    }

    #[test]
    fn after_a_long_pause_the_rate_is_only_roughly_known() {
        let (mut world, mut follower) = (World::new(), Follower::default());
        worst_after(&mut world, &mut follower, 400);
        world.wait(10_000_000_000);
        let rate = follower.take(world.point()).expect("no step occurred");
        assert_eq!(rate.uncertainty_ppb, LARGEST_CHANGE_PPB);
        assert!(worst_after(&mut world, &mut follower, 400) <= 2);
    }

    proptest! {
        #[test]
        fn a_follower_is_loaded_as_it_was_stored(points in proptest::collection::vec((any::<u64>(), any::<u64>(), 0..1_000_u64), 0..20)) {
            let (mut follower, words) = (Follower::default(), FollowerWords::default());
            prop_assert_eq!(Follower::load(&words), follower);
            for (ticks, ns, width_ns) in points {
                follower.take(Point { ticks, ns, width_ns });
                follower.store(&words);
                prop_assert!(Follower::load(&words) == follower);
            }
        }
    }
}
