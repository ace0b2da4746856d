//! A decaying histogram of wake-up latencies, of fixed size. Recent latencies weigh more than old ones, and a lasting
//! change makes the old ones weigh little at once.

/// Each factor of two is divided into this many classes, so that a quantile is at most 6 % too high.
const PER_OCTAVE: usize = 1 << OCTAVE_BITS;
const OCTAVE_BITS: u32 = 4;
/// Latencies below this share the first class.
const SMALLEST_LOG2: u32 = 9;
/// Latencies of at least 2 to this power (0.52 ms) are *beyond*: no margin covers them. They are counted, but they do
/// not change a quantile. A hypervisor that takes the CPU away for milliseconds now and then causes them.
const BEYOND_LOG2: u32 = 19;
pub(super) const CLASSES: usize = 1 + ((BEYOND_LOG2 - SMALLEST_LOG2) as usize) * PER_OCTAVE;

/// The weight of a new latency.
const ONE: u32 = 1 << 16;
/// After this many latencies, all weights are reduced by 1/32. The weight of a latency therefore falls to 1/e after
/// 2048 more latencies, enough for a quantile of 0.999.
const DECAY_EVERY: u32 = 64;
const DECAY_SHIFT: u32 = 5;
/// On a lasting change, all weights are divided by 16.
const FORGET_SHIFT: u32 = 4;
/// The first quantiles are computed after this many latencies.
const FIRST_LEARNED: u32 = 16;
/// The quantiles whose runs show a change.
const WATCHED: [f64; 3] = [0.5, 0.9, 0.98];
/// The probability of a run, for independent latencies, below which it shows a change.
const RARE: f64 = 1e-5;

/// Latencies in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Lateness {
    weights: [u32; CLASSES],
    /// The sum of the weights.
    total: u32,
    /// The weight of the latencies that no margin covers.
    beyond: u32,
    /// The number of latencies since the last decay.
    since: u32,
    /// Runs of latencies below the watched quantiles, and above the first one.
    low: [Run; WATCHED.len()],
    high: Run,
}

/// A run of latencies on one side of a quantile.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Latencies above this class end a run of low ones; the others end a run of high ones.
    class: usize,
    length: u32,
    /// The class of the run that is nearest to the quantile.
    nearest: usize,
    /// A longer run shows a change.
    longest: u32,
}

impl Run {
    const NONE: Self = Self { class: 0, length: 0, nearest: 0, longest: u32::MAX };

    /// Continues or ends a run of low latencies. Returns whether it shows a change.
    fn add_low(&mut self, class: usize) -> bool {
        let nearest = if self.length > 0 { self.nearest.max(class) } else { class };
        (self.length, self.nearest) = if class <= self.class { (self.length + 1, nearest) } else { (0, 0) };
        self.length > self.longest
    }

    /// Continues or ends a run of high latencies. Returns whether it shows a change.
    fn add_high(&mut self, class: usize) -> bool {
        let nearest = if self.length > 0 { self.nearest.min(class) } else { class };
        (self.length, self.nearest) = if class > self.class { (self.length + 1, nearest) } else { (0, 0) };
        self.length > self.longest
    }

    /// Sets the class of the quantile, and the probability of a latency of the run. The run continues if all of it is on
    /// the same side of the new class.
    fn watch(&mut self, class: usize, is_low: bool, probability: f64) {
        let continues = if is_low { self.nearest <= class } else { self.nearest > class };
        let length = if continues { self.length } else { 0 };
        *self = Self { class, length, longest: longest_run(probability), ..*self };
    }
}

impl Lateness {
    pub(super) const NONE: Self =
        Self { weights: [0; CLASSES], total: 0, beyond: 0, since: 0, low: [Run::NONE; WATCHED.len()], high: Run::NONE };

    pub(super) fn add(&mut self, ns: u64) {
        let class = class(ns);
        match self.weights.get_mut(class) {
            Some(weight) => {
                *weight += ONE;
                self.total += ONE;
            }
            None => self.beyond += ONE,
        }
        self.since += 1;
        let mut is_changed = self.high.add_high(class);
        for run in &mut self.low {
            is_changed |= run.add_low(class);
        }
        if is_changed {
            self.reduce(|weight| weight >> FORGET_SHIFT);
            (self.low, self.high) = ([Run::NONE; WATCHED.len()], Run::NONE);
            self.watch();
        } else if self.since >= DECAY_EVERY {
            self.reduce(|weight| weight - (weight >> DECAY_SHIFT));
            self.watch();
        } else if self.since == FIRST_LEARNED && self.high.longest == u32::MAX {
            self.watch();
        }
    }

    /// Returns the number of latencies that have a full weight, or the number that would have the same weight together.
    pub(super) const fn samples(&self) -> u32 {
        self.total / ONE
    }

    /// Returns the share of the latencies that no margin covers.
    pub(super) fn share_beyond(&self) -> f64 {
        let all = u64::from(self.total) + u64::from(self.beyond);
        if all == 0 { 0.0 } else { f64::from(self.beyond) / all as f64 }
    }

    /// Returns the weights of the classes, with the lowest and the highest latency of each class, in nanoseconds.
    pub(super) fn classes(&self) -> impl Iterator<Item = (f64, f64, f64)> + '_ {
        let classes = self.weights.iter().enumerate().filter(|&(_, &weight)| weight > 0);
        classes.map(|(class, &weight)| (f64::from(weight), lowest_ns(class) as f64, lowest_ns(class + 1) as f64))
    }

    #[cfg(test)]
    pub(super) const fn total(&self) -> u32 {
        self.total
    }

    fn reduce(&mut self, smaller: impl Fn(u32) -> u32) {
        self.total = 0;
        for weight in &mut self.weights {
            *weight = smaller(*weight);
            self.total += *weight;
        }
        self.beyond = smaller(self.beyond);
        self.since = 0;
    }

    /// Determines the quantiles whose runs are counted.
    fn watch(&mut self) {
        let total = f64::from(self.total.max(1));
        let (mut below, mut class) = (0.0, 0);
        for (index, quantile) in WATCHED.into_iter().enumerate() {
            // The class that contains the quantile.
            while class < CLASSES - 1 && below + f64::from(self.weights[class]) < quantile * total {
                below += f64::from(self.weights[class]);
                class += 1;
            }
            self.low[index].watch(class.saturating_sub(1), true, below / total);
            // High latencies in a row are common; only the median shows that all have become higher.
            if index == 0 {
                let above = total - below - f64::from(self.weights[class]);
                self.high.watch(class, false, above / total);
            }
        }
    }
}

/// Returns the longest run that is not rare, of events with this probability.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; infinity saturates")]
fn longest_run(probability: f64) -> u32 {
    /// More than the rounding error of the logarithms, which differs between C libraries.
    const ROUNDING: f64 = 1e-9;
    // All latencies may be in one class. Even then, two in another class are no change.
    if probability >= 1.0 { u32::MAX } else { (RARE.ln() / probability.max(0.1).ln() + ROUNDING) as u32 }
}

/// Returns the class of a latency; [`CLASSES`] for those beyond.
#[expect(clippy::cast_possible_truncation, reason = "a number of five bits")]
fn class(ns: u64) -> usize {
    if ns < 1 << SMALLEST_LOG2 {
        return 0;
    }
    let octave = ns.ilog2();
    if octave >= BEYOND_LOG2 {
        return CLASSES;
    }
    let place = (ns >> (octave - OCTAVE_BITS)) as usize - PER_OCTAVE;
    1 + (octave - SMALLEST_LOG2) as usize * PER_OCTAVE + place
}

/// Returns the lowest latency of a class.
const fn lowest_ns(class: usize) -> u64 {
    let Some(place) = class.checked_sub(1) else { return 0 };
    let octave = SMALLEST_LOG2 as usize + place / PER_OCTAVE;
    ((PER_OCTAVE + place % PER_OCTAVE) as u64) << (octave - OCTAVE_BITS as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};

    use super::{CLASSES, Lateness, class, longest_run, lowest_ns};

    /// Returns the share of latencies in classes that reach `ns`.
    fn share_from(lateness: &Lateness, ns: u64) -> f64 {
        let weight: f64 = lateness.classes().filter(|&(_, _, end)| end > ns as f64).map(|(weight, ..)| weight).sum();
        weight / f64::from(lateness.total())
    }

    #[test]
    fn classes_follow_one_another() {
        for at in 1..CLASSES {
            assert_eq!((class(lowest_ns(at)), class(lowest_ns(at) - 1)), (at, at - 1));
        }
        assert_eq!((class(0), class(lowest_ns(CLASSES)), class(u64::MAX)), (0, CLASSES, CLASSES));
    }

    #[test]
    fn a_run_is_long_if_it_is_improbable() {
        assert_eq!((longest_run(0.5), longest_run(0.9), longest_run(1.0)), (16, 109, u32::MAX));
        assert_eq!(longest_run(0.0), 5);
    }

    #[test]
    fn latencies_that_no_margin_covers_are_only_counted() {
        let mut lateness = Lateness::NONE;
        for number in 0..4_000_u64 {
            lateness.add(if number % 10 == 0 { 3_000_000 } else { 20_000 });
        }
        assert!((lateness.share_beyond() - 0.1).abs() < 0.01);
        assert!(share_from(&lateness, 30_000) < 1e-9);
    }

    #[test]
    fn a_rare_latency_is_remembered_for_a_thousand_sleeps() {
        let mut lateness = Lateness::NONE;
        (0..3_000_u64).for_each(|number| lateness.add(20_000 + number % 7 * 1_000));
        lateness.add(200_000);
        (0..1_000_u64).for_each(|number| lateness.add(20_000 + number % 7 * 1_000));
        let share = share_from(&lateness, 150_000);
        assert!((1.0 / 5_000.0..1.0 / 1_000.0).contains(&share), "{share}");
    }

    /// Everything becomes later, or earlier; or one latency in three becomes later, and stops to be.
    #[test]
    fn a_lasting_change_outweighs_the_past_within_500_sleeps() {
        let usual = |number: u64| 20_000 + number % 7 * 1_000;
        let shifted = |number: u64| 70_000 + number % 7 * 1_000;
        let mixed = |number: u64| if number % 3 == 0 { shifted(number) } else { usual(number) };
        let mut lateness = Lateness::NONE;
        let mut feed = |count: u64, latency: &dyn Fn(u64) -> u64| {
            (0..count).for_each(|number| lateness.add(latency(number)));
            share_from(&lateness, 60_000)
        };
        assert!(feed(3_000, &usual) < 1e-9);
        assert!(feed(100, &shifted) > 0.9, "all became later");
        assert!(feed(100, &usual) < 0.1, "all became earlier");
        assert!(feed(3_000, &mixed) > 0.3);
        let share = feed(500, &usual);
        assert!(share < 0.01, "some became earlier: {share}");
    }

    proptest! {
        #[test]
        fn weights_never_overflow(latencies in proptest::collection::vec(any::<u64>(), 0..300)) {
            let mut lateness = Lateness::NONE;
            for ns in latencies.iter().copied().cycle().take(if latencies.is_empty() { 0 } else { 20_000 }) {
                lateness.add(ns);
            }
            prop_assert!(lateness.samples() <= 2_200);
            let sum: f64 = lateness.classes().map(|(weight, ..)| weight).sum();
            prop_assert!((sum - f64::from(lateness.total())).abs() < 1.0);
        }
    }
}
