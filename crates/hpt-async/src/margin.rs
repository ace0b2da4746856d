//! Computes how long before its deadline a task must be woken so that it runs in time. Learns from earlier wake-up
//! latencies.

use crate::finish::Finish;

/// The number of latencies stored for each length class. A change in load is learned within this many sleeps.
const REMEMBERED: usize = 64;
/// The wake-up latency of longer sleeps is higher, because an idle processor enters deeper idle states. The sleeps of
/// each class are ten times as long as those of the previous class.
const CLASSES: usize = 4;
const SHORTEST_CLASS_NS: u64 = 30_000;
/// The number of latencies of which the shortest one is known.
const ENOUGH: usize = 8;
/// A time shorter than this many times the shortest latency is the rest after an early wake-up.
const REST_FACTOR: u64 = 4;
/// The share of the wake-ups that the margin covers, in hundredths.
const COVERED_PERCENT: usize = 95;
/// The margin before any latency is known: a typical wake-up latency.
const FIRST_NS: u64 = 60_000;
/// The longest margin. It prevents a hypervisor that preempts a virtual CPU for milliseconds from extending the margin
/// to milliseconds.
const LONGEST_NS: u64 = 200_000;
/// The shortest time to block. Blocking for less takes longer than the remaining time.
const SHORTEST_BLOCK_NS: u64 = 10_000;
/// If the margin leaves no time to block, one in this many sleeps blocks for half of its length anyway. Otherwise, the
/// margin for such sleeps would never decrease again.
const TRY_EVERY: u32 = 16;

/// The learned wake-up latencies of one task or thread.
#[derive(Clone, Debug)]
pub(crate) struct Margin {
    finish: Finish,
    /// On the heap, so that futures that own a sleeper are small.
    classes: Box<[Recent]>,
    untried: u32,
}

impl Margin {
    pub(crate) fn new(finish: Finish) -> Self {
        Self { finish, classes: vec![Recent::EMPTY; CLASSES].into(), untried: 0 }
    }

    pub(crate) const fn finish(&self) -> Finish {
        self.finish
    }

    /// Returns the time to block, in nanoseconds, if the deadline is `remaining_ns` away; `None` if the deadline is too
    /// close to block.
    pub(crate) fn block_ns(&mut self, remaining_ns: u64) -> Option<u64> {
        if self.finish == Finish::Kernel {
            return self.block_without_waiting_ns(remaining_ns);
        }
        let margin_ns = self.classes[class(remaining_ns)].covering().unwrap_or(FIRST_NS);
        let block_ns = remaining_ns.saturating_sub(margin_ns);
        if block_ns >= SHORTEST_BLOCK_NS {
            return Some(block_ns);
        }
        self.untried += 1;
        if self.untried < TRY_EVERY || remaining_ns < 2 * SHORTEST_BLOCK_NS {
            return None;
        }
        self.untried = 0;
        Some(remaining_ns / 2)
    }

    /// Returns the time to block if nothing may wait for the deadline without blocking. Every wake-up takes the shortest
    /// latency, so the alarm is earlier by that. A task that is woken faster than ever blocks again.
    fn block_without_waiting_ns(&self, remaining_ns: u64) -> Option<u64> {
        // The kernel's clock can be ahead of `Instant` by less than this. Blocking again would return at once.
        if remaining_ns <= 1_000 {
            return None;
        }
        let shortest_ns = self.classes[class(remaining_ns)].shortest().unwrap_or(0);
        // The rest after an early wake-up is short.
        let is_rest = remaining_ns < REST_FACTOR * shortest_ns;
        Some(if is_rest { remaining_ns } else { remaining_ns - shortest_ns })
    }

    /// Records that a sleep of `remaining_ns` was woken `late_ns` after the requested time.
    pub(crate) fn learn(&mut self, remaining_ns: u64, late_ns: u64) {
        self.classes[class(remaining_ns)].put(late_ns.min(LONGEST_NS));
    }
}

fn class(remaining_ns: u64) -> usize {
    let times = (remaining_ns / SHORTEST_CLASS_NS).max(1);
    (times.ilog10() as usize).min(CLASSES - 1)
}

/// The last latencies of one class, in no order that matters.
#[derive(Clone, Debug)]
struct Recent {
    late_ns: [u32; REMEMBERED],
    count: usize,
    next: usize,
}

impl Recent {
    const EMPTY: Self = Self { late_ns: [0; REMEMBERED], count: 0, next: 0 };

    fn put(&mut self, late_ns: u64) {
        self.late_ns[self.next] = u32::try_from(late_ns).unwrap_or(u32::MAX);
        self.next = (self.next + 1) % REMEMBERED;
        self.count = (self.count + 1).min(REMEMBERED);
    }

    /// Returns the shortest latency; `None` if there are too few to tell.
    fn shortest(&self) -> Option<u64> {
        let known = &self.late_ns[..self.count];
        known.iter().min().filter(|_| known.len() >= ENOUGH).map(|&shortest| shortest.into())
    }

    /// Returns the latency that the covered share of the wake-ups did not exceed; `None` if there are no latencies.
    fn covering(&self) -> Option<u64> {
        let mut known = self.late_ns;
        let known = known.get_mut(..self.count).filter(|known| !known.is_empty())?;
        let (_, &mut covering, _) = known.select_nth_unstable(self.count * COVERED_PERCENT / 100);
        Some(covering.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};

    use super::{ENOUGH, FIRST_NS, LONGEST_NS, Margin, REMEMBERED, SHORTEST_BLOCK_NS, TRY_EVERY};
    use crate::finish::Finish;

    const MS: u64 = 1_000_000;

    fn margin_ns(margin: &mut Margin) -> u64 {
        MS - margin.block_ns(MS).expect("the margin is shorter than a millisecond")
    }

    #[test]
    fn the_margin_follows_the_load() {
        let mut margin = Margin::new(Finish::Spin);
        assert_eq!(margin_ns(&mut margin), FIRST_NS);
        for (late_ns, rare_ns) in [(20_000, 8 * MS), (70_000, 0), (20_000, 8 * MS)] {
            for sleep in 0..REMEMBERED {
                // One sleep in 32 loses its CPU to the host.
                margin.learn(MS, if sleep % 32 == 0 { rare_ns } else { late_ns });
            }
            assert_eq!(margin_ns(&mut margin), late_ns);
        }
    }

    #[test]
    fn a_margin_that_leaves_no_time_to_block_is_learned_again() {
        let mut margin = Margin::new(Finish::Yield);
        (0..REMEMBERED).for_each(|_| margin.learn(100_000, LONGEST_NS));
        for _ in 1..TRY_EVERY {
            assert_eq!(margin.block_ns(100_000), None);
        }
        assert_eq!(margin.block_ns(100_000), Some(50_000));
        (0..REMEMBERED).for_each(|_| margin.learn(100_000, 5_000));
        assert_eq!(margin.block_ns(100_000), Some(95_000));
    }

    #[test]
    fn long_and_short_sleeps_are_learned_separately() {
        let mut margin = Margin::new(Finish::Spin);
        margin.learn(MS, 15_000);
        margin.learn(1_000 * MS, 90_000);
        assert_eq!(margin.block_ns(MS), Some(MS - 15_000));
        assert_eq!(margin.block_ns(1_000 * MS), Some(1_000 * MS - 90_000));
        assert_eq!(margin.block_ns(u64::MAX), Some(u64::MAX - 90_000));
    }

    #[test]
    fn the_alarm_is_earlier_by_the_shortest_latency_if_nothing_may_wait_without_blocking() {
        let mut margin = Margin::new(Finish::Kernel);
        (1..ENOUGH).for_each(|_| margin.learn(MS, 50_000));
        assert_eq!((margin.block_ns(MS), margin.block_ns(500)), (Some(MS), None), "too few are known");
        (0..REMEMBERED).for_each(|number| margin.learn(MS, if number == 9 { 20_000 } else { 50_000 }));
        assert_eq!(margin.block_ns(MS), Some(MS - 20_000));
        // It was woken early, and blocks for the rest.
        (0..REMEMBERED).for_each(|_| margin.learn(100_000, 20_000));
        assert_eq!((margin.block_ns(5_000), margin.block_ns(60_000)), (Some(5_000), Some(60_000)));
        // The fast wake-up is forgotten.
        (0..REMEMBERED).for_each(|_| margin.learn(MS, 50_000));
        assert_eq!(margin.block_ns(MS), Some(MS - 50_000));
    }

    proptest! {
        #[test]
        fn no_latency_extends_the_margin_beyond_its_limit(late in proptest::collection::vec(any::<(u64, u64)>(), 0..100), remaining in any::<u64>()) {
            let mut margin = Margin::new(Finish::Spin);
            late.into_iter().for_each(|(remaining_ns, late_ns)| margin.learn(remaining_ns, late_ns));
            let block_ns = margin.block_ns(remaining);
            prop_assert!(block_ns.unwrap_or(0) <= remaining);
            prop_assert!(block_ns.is_some() || remaining < LONGEST_NS + SHORTEST_BLOCK_NS);
        }
    }
}
