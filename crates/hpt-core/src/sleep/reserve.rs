//! Computes the margin: how long before its deadline a thread must be woken so that it runs in time. Learns the margin
//! from earlier wake-up latencies. Reads no clock; its inputs are the lengths and the latencies of sleeps.

/// The number of latencies stored for each length class. The margin adapts to a change in load within this many sleeps.
const REMEMBERED: usize = 64;
/// The number of length classes. The wake-up latency of longer sleeps is higher, because an idle processor enters
/// deeper idle states. The sleeps of each class are four times as long as those of the previous class.
const CLASSES: usize = 6;
const SHORTEST_CLASS_NS: u64 = 100_000;
/// The minimum quantile of the balanced goal. A higher quantile is used if it costs, per sleep, only a few microseconds
/// of spinning plus a small share of the length of the sleep. This is less than the cost of blocking, and less than the
/// cost of an unnecessary wake-up.
const BALANCED_PERMILLE: usize = 750;
const BALANCED_SPIN_NS: f64 = 3_500.0;
const BALANCED_SPIN_PART: f64 = 0.002;
/// The margin that is used before any latency is known: a typical wake-up latency.
const FIRST_NS: u64 = 60_000;

/// The learned statistics.
#[derive(Clone, Debug)]
pub(crate) struct Reserve {
    classes: [Recent; CLASSES],
    aim: Aim,
    longest_ns: u64,
}

/// The goal of a margin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Aim {
    /// At least three quarters of all wake-ups are in time, and more if that requires little spinning. If the wake-up
    /// latency is almost constant, all wake-ups are in time.
    Balanced,
    /// This many thousandths of all wake-ups are in time.
    Quantile { permille: usize },
    /// At most this share of the sleep time is spent spinning.
    Budget { part: f64 },
}

impl Aim {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1000")]
    pub(crate) fn quantile(part: f64) -> Self {
        Self::Quantile { permille: (part.clamp(0.0, 1.0) * 1_000.0) as usize }
    }

    pub(crate) fn budget(part: f64) -> Self {
        // NaN counts as a budget of zero.
        Self::Budget { part: part.clamp(0.0, 1.0).max(0.0) }
    }
}

impl Reserve {
    /// Creates empty statistics with this goal; margins are limited to `longest_ns`.
    pub(crate) fn new(aim: Aim, longest_ns: u64) -> Self {
        Self { classes: [const { Recent::EMPTY }; CLASSES], aim, longest_ns }
    }

    /// Returns the margin for a sleep of this length.
    #[expect(clippy::cast_precision_loss, reason = "a length in nanoseconds, of which only a share is used")]
    pub(crate) fn for_length(&self, length_ns: u64) -> u64 {
        let class = class(length_ns);
        // If this class has no data, the next longer class with data is used; if there is none, the next shorter one.
        let mut nearest = (class..CLASSES).chain((0..class).rev()).map(|class| &self.classes[class]);
        let length = length_ns as f64;
        let known = nearest.find(|recent| recent.count > 0).and_then(|recent| match self.aim {
            Aim::Balanced => {
                recent.at(BALANCED_PERMILLE).max(recent.within(BALANCED_SPIN_NS + BALANCED_SPIN_PART * length))
            }
            Aim::Quantile { permille } => recent.at(permille),
            Aim::Budget { part } => recent.within(part * length),
        });
        known.unwrap_or(FIRST_NS).min(self.longest_ns)
    }

    /// Records the wake-up latency of a sleep of this length. A latency above the longest margin is recorded as the
    /// longest margin.
    pub(crate) fn learn(&mut self, length_ns: u64, late_ns: u64) {
        let late_ns = u32::try_from(late_ns.min(self.longest_ns)).unwrap_or(u32::MAX);
        self.classes[class(length_ns)].put(late_ns);
    }
}

fn class(length_ns: u64) -> usize {
    let times = (length_ns / SHORTEST_CLASS_NS).max(1);
    (times.ilog2() as usize / 2).min(CLASSES - 1)
}

/// The last latencies, in order of arrival and in order of size.
#[derive(Clone, Debug)]
struct Recent {
    by_time: [u32; REMEMBERED],
    by_size: [u32; REMEMBERED],
    count: usize,
    next: usize,
}

impl Recent {
    const EMPTY: Self = Self { by_time: [0; REMEMBERED], by_size: [0; REMEMBERED], count: 0, next: 0 };

    fn put(&mut self, value: u32) {
        let mut count = self.count;
        if count == REMEMBERED {
            let oldest = self.by_size.partition_point(|&other| other < self.by_time[self.next]);
            self.by_size.copy_within(oldest + 1.., oldest);
            count -= 1;
        }
        let place = self.by_size[..count].partition_point(|&other| other < value);
        self.by_size.copy_within(place..count, place + 1);
        self.by_size[place] = value;
        self.by_time[self.next] = value;
        self.next = (self.next + 1) % REMEMBERED;
        self.count = count + 1;
    }

    /// Returns the latency at this quantile, which is in thousandths; `None` if there are no latencies.
    fn at(&self, permille: usize) -> Option<u64> {
        let last = self.count.checked_sub(1)?;
        Some(self.by_size[(self.count * permille / 1_000).min(last)].into())
    }

    /// Returns the longest margin with which spinning would have taken no more than `spin_ns` per sleep, on average;
    /// `None` if there are no latencies.
    ///
    /// If the margin exceeds the k smallest latencies, each of those k sleeps spins for the difference.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a budget in nanoseconds"
    )]
    fn within(&self, spin_ns: f64) -> Option<u64> {
        let all_may_spin_ns = (spin_ns * self.count as f64) as u64;
        let mut sum_ns = 0;
        let mut reserve_ns = None;
        for (k, &error) in (1_u64..).zip(&self.by_size[..self.count]) {
            let error_ns = u64::from(error);
            // A margin as long as this latency would exceed the budget, so the result for the smaller latencies is
            // final.
            if (k - 1) * error_ns - sum_ns > all_may_spin_ns {
                break;
            }
            sum_ns += error_ns;
            reserve_ns = Some((all_may_spin_ns.saturating_add(sum_ns)) / k);
        }
        // A margin longer than the largest latency has no benefit.
        reserve_ns.map(|reserve_ns| reserve_ns.min(self.by_size[self.count - 1].into()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{Aim, FIRST_NS, REMEMBERED, Recent, Reserve, class};

    proptest! {
        /// Both orders contain the same errors, the newest ones, whatever comes.
        #[test]
        fn the_latest_errors_are_remembered(errors in proptest::collection::vec(0..50_u32, 0..300), permille in 0..=1_000_usize) {
            let mut recent = Recent::EMPTY;
            for &error in &errors {
                recent.put(error);
            }
            let mut last = errors[errors.len().saturating_sub(REMEMBERED)..].to_vec();
            last.sort_unstable();
            prop_assert_eq!(&recent.by_size[..recent.count], &last[..]);
            let expected = last.get((last.len() * permille / 1_000).min(last.len().saturating_sub(1))).copied();
            prop_assert_eq!(recent.at(permille), expected.map(u64::from));
        }

        /// This margin stays within the budget, and no longer margin does.
        #[test]
        fn a_budget_is_spent_and_not_exceeded(errors in proptest::collection::vec(0..200_000_u32, 1..64), spin_ns in 0.0..1e6_f64) {
            let mut recent = Recent::EMPTY;
            for &error in &errors {
                recent.put(error);
            }
            let reserve = recent.within(spin_ns).expect("at least one error");
            let spun = |reserve: u64| errors.iter().map(|&error| reserve.saturating_sub(error.into())).sum::<u64>() as f64;
            let budget = spin_ns * errors.len() as f64;
            prop_assert!(spun(reserve) <= budget, "{} > {budget}", spun(reserve));
            let largest = u64::from(*errors.iter().max().expect("at least one error"));
            prop_assert!(reserve == largest || spun(reserve + 1) > budget - 1.0, "{reserve} could be longer");
        }

        #[test]
        fn no_error_extends_the_reserve_beyond_its_limit(errors in proptest::collection::vec(any::<(u64, u64)>(), 0..100), length in any::<u64>()) {
            let mut reserve = Reserve::new(Aim::quantile(0.95), 200_000);
            for (length_ns, late_ns) in errors {
                reserve.learn(length_ns, late_ns);
            }
            prop_assert!(reserve.for_length(length) <= 200_000);
        }
    }

    /// A load starts and ends again, and the host takes the CPU away for milliseconds now and then.
    #[test]
    fn the_reserve_follows_the_load_within_100_sleeps() {
        let mut reserve = Reserve::new(Aim::quantile(0.75), 200_000);
        assert_eq!(reserve.for_length(1_000_000), FIRST_NS);
        let mut sleeps = |late_ns: u64| {
            for sleep in 0..100 {
                // One sleep in ten loses its CPU to the host.
                reserve.learn(1_000_000, if sleep % 10 == 0 { 8_000_000 } else { late_ns + sleep % 7 });
            }
            reserve.for_length(1_000_000)
        };
        assert!((20_000..20_010).contains(&sleeps(20_000)));
        assert!((70_000..70_010).contains(&sleeps(70_000)), "the load began");
        assert!((20_000..20_010).contains(&sleeps(20_000)), "the load ended");
    }

    /// All wake-ups are in time if the latency is almost constant, but only three quarters if the other latencies
    /// are much higher.
    #[test]
    fn the_reserve_covers_errors_within_the_spin_budget() {
        let reserve = |errors: [u64; 8]| {
            let mut reserve = Reserve::new(Aim::Balanced, 200_000);
            (0..64).for_each(|sleep| reserve.learn(1_000_000, errors[sleep % 8]));
            reserve.for_length(1_000_000)
        };
        assert_eq!(reserve([12_000, 12_000, 13_000, 13_000, 14_000, 14_000, 16_000, 19_000]), 19_000);
        // 50 µs of spinning per sleep, but no less.
        assert_eq!(reserve([20_000, 30_000, 40_000, 50_000, 60_000, 70_000, 150_000, 160_000]), 150_000);
        // A host that takes the CPU in one of eight sleeps: the rest of 5.5 µs per sleep.
        assert_eq!(reserve([20_000, 20_000, 20_000, 20_000, 20_000, 20_000, 20_000, 8_000_000]), 26_285);
    }

    #[test]
    fn long_and_short_sleeps_are_learned_separately() {
        let mut reserve = Reserve::new(Aim::quantile(0.5), 200_000);
        for _ in 0..10 {
            reserve.learn(100_000, 15_000);
            reserve.learn(10_000_000, 40_000);
        }
        assert_eq!((reserve.for_length(150_000), reserve.for_length(12_000_000)), (15_000, 40_000));
        // Nothing is known about the classes in between: the longer one decides.
        assert_eq!(reserve.for_length(1_000_000), 40_000);
        assert_eq!(reserve.for_length(u64::MAX), 40_000);
        assert_eq!((class(0), class(u64::MAX)), (0, super::CLASSES - 1));
    }
}
