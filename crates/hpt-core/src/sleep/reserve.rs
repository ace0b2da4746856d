//! How long before a deadline a thread must be woken so that it is there in time: learned from how late it was woken before.
//! Pure: lengths and errors come in, a reserve goes out.

/// As many errors of each class of lengths are remembered, so that a change of load is learned within as many sleeps.
const REMEMBERED: usize = 64;
/// Longer sleeps are woken later: a processor that idles for long sleeps deeper. Each class is four times as long as the one before it.
const CLASSES: usize = 6;
const SHORTEST_CLASS_NS: u64 = 100_000;
/// Before anything is known: about as late as kernels are.
const FIRST_NS: u64 = 60_000;

/// What was learned.
#[derive(Clone, Debug)]
pub(crate) struct Reserve {
    classes: [Recent; CLASSES],
    /// The part of all wake-ups that are to be in time, in thousandths.
    permille: usize,
    longest_ns: u64,
}

impl Reserve {
    /// One under which so many thousandths of all wake-ups are in time, and never longer than `longest_ns`.
    pub(crate) fn new(permille: usize, longest_ns: u64) -> Self {
        Self { classes: [const { Recent::EMPTY }; CLASSES], permille: permille.min(1_000), longest_ns }
    }

    /// The reserve for a sleep of this length.
    pub(crate) fn for_length(&self, length_ns: u64) -> u64 {
        let class = class(length_ns);
        // What is not known of this class is taken from the nearest that is known, longer ones first.
        let nearest = (class..CLASSES).chain((0..class).rev()).find_map(|class| self.classes[class].at(self.permille));
        nearest.map_or(FIRST_NS, u64::from).min(self.longest_ns)
    }

    /// A sleep of this length was woken so late. Beyond the longest reserve it makes no difference how late.
    pub(crate) fn learn(&mut self, length_ns: u64, late_ns: u64) {
        let late_ns = u32::try_from(late_ns.min(self.longest_ns)).unwrap_or(u32::MAX);
        self.classes[class(length_ns)].put(late_ns);
    }
}

fn class(length_ns: u64) -> usize {
    let times = (length_ns / SHORTEST_CLASS_NS).max(1);
    (times.ilog2() as usize / 2).min(CLASSES - 1)
}

/// The last errors, in the order of their coming and in that of their size.
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

    /// What so many thousandths do not exceed; `None` of nothing.
    fn at(&self, permille: usize) -> Option<u32> {
        let last = self.count.checked_sub(1)?;
        Some(self.by_size[(self.count * permille / 1_000).min(last)])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{FIRST_NS, REMEMBERED, Recent, Reserve, class};

    proptest! {
        /// Both orders hold the same errors, the last ones, whatever comes.
        #[test]
        fn the_last_errors_are_remembered(errors in proptest::collection::vec(0..50_u32, 0..300), permille in 0..=1_000_usize) {
            let mut recent = Recent::EMPTY;
            for &error in &errors {
                recent.put(error);
            }
            let mut last = errors[errors.len().saturating_sub(REMEMBERED)..].to_vec();
            last.sort_unstable();
            prop_assert_eq!(&recent.by_size[..recent.count], &last[..]);
            let expected = last.get((last.len() * permille / 1_000).min(last.len().saturating_sub(1))).copied();
            prop_assert_eq!(recent.at(permille), expected);
        }

        #[test]
        fn no_error_makes_it_longer_than_it_may_be(errors in proptest::collection::vec(any::<(u64, u64)>(), 0..100), length in any::<u64>()) {
            let mut reserve = Reserve::new(950, 200_000);
            for (length_ns, late_ns) in errors {
                reserve.learn(length_ns, late_ns);
            }
            prop_assert!(reserve.for_length(length) <= 200_000);
        }
    }

    /// A load that begins and ends again, and a host that takes milliseconds now and then.
    #[test]
    fn it_follows_the_load_within_a_hundred_sleeps() {
        let mut reserve = Reserve::new(750, 200_000);
        assert_eq!(reserve.for_length(1_000_000), FIRST_NS);
        let mut sleeps = |late_ns: u64| {
            for sleep in 0..100 {
                // One in ten is stolen.
                reserve.learn(1_000_000, if sleep % 10 == 0 { 8_000_000 } else { late_ns + sleep % 7 });
            }
            reserve.for_length(1_000_000)
        };
        assert!((20_000..20_010).contains(&sleeps(20_000)));
        assert!((70_000..70_010).contains(&sleeps(70_000)), "the load began");
        assert!((20_000..20_010).contains(&sleeps(20_000)), "the load ended");
    }

    #[test]
    fn long_sleeps_are_learned_apart_from_short_ones() {
        let mut reserve = Reserve::new(500, 200_000);
        for _ in 0..10 {
            reserve.learn(100_000, 15_000);
            reserve.learn(10_000_000, 40_000);
        }
        assert_eq!((reserve.for_length(150_000), reserve.for_length(12_000_000)), (15_000, 40_000));
        // Of what lies between nothing is known: the longer one tells.
        assert_eq!(reserve.for_length(1_000_000), 40_000);
        assert_eq!(reserve.for_length(u64::MAX), 40_000);
        assert_eq!((class(0), class(u64::MAX)), (0, super::CLASSES - 1));
    }
}
