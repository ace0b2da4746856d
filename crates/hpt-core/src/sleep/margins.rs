//! Chooses how a thread waits for a deadline: the margin before which it is woken, and whether it blocks a second time.
//! Learns from the latencies of earlier wake-ups. Reads no clock; its inputs are the lengths, latencies and CPU times of
//! sleeps.
//!
//! A sleep has one or two stages. With one, the thread blocks until the margin and then spins. With two, it blocks until
//! an early margin, blocks again for the short rest, and then spins. A thread that has slept for long is woken from a
//! deep idle state, late by a time that varies much. The short second sleep is from a shallow idle state, with a latency
//! that varies little, so a short margin covers it. The second sleep takes CPU time, so it pays only if the latencies of
//! the first one vary by more than that.

use std::time::Duration;

use hpt_sys::units::saturating_nanos;

use super::lateness::{self, Lateness};
use crate::stats::Spread;

/// The longest margin, of either stage. No margin covers a hypervisor that takes the CPU away for milliseconds.
const LONGEST_NS: f64 = 500_000.0;
/// The number of length classes. The wake-up latency of longer sleeps is higher, because an idle processor enters
/// deeper idle states. The sleeps of each class are four times as long as those of the previous class.
const CLASSES: usize = 6;
const SHORTEST_CLASS_NS: u64 = 100_000;
/// The margin that is used before any latency is known: a typical wake-up latency.
const FIRST_NS: f64 = 60_000.0;
/// The CPU time of a block that is assumed before one was measured.
const FIRST_BLOCK_NS: f64 = 15_000.0;
/// The number of measurements after which the CPU time of a block is known.
const MEASURED_FIRST: u32 = 4;
/// The shortest time for which a thread blocks. If less time remains, blocking and waking up would take longer than
/// the remaining time.
pub(super) const SHORTEST_PARK_NS: u64 = 5_000;
/// By default, a sleep takes this much CPU time beyond that of one block, plus this share of its length. See
/// [`Target::Balanced`].
const BALANCED_NS: f64 = 3_000.0;
const BALANCED_PART: f64 = 0.002_5;
/// The level that a sleep reaches by default even if it takes more CPU time: three quarters of all wake-ups.
const BALANCED_LEVEL: usize = 2;
/// The level beyond which a sleep takes no more CPU time by default. The latencies of a real-time thread vary little, so
/// a part of the CPU time is enough.
const BALANCED_HIGHEST: f64 = 0.99;
/// A sleep may spin for this share of the CPU time of a block, even if the target allows less. Latencies below a certain
/// one hardly occur, so a margin of that length costs almost nothing.
const FREE_PART: f64 = 0.02;
/// The time that a sleep needs from its last reading of the clock until it returns. A target allows this much less for
/// the wake-up.
const RETURN_NS: f64 = 300.0;
/// The shares of wake-ups that a level covers. A higher level takes more CPU time.
const LEVELS: [f64; 14] =
    [0.0, 0.5, 0.75, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.985, 0.99, P99_LEVEL, 0.997, P999_LEVEL];
/// The levels that are used to reach a quantile of 0.99 or 0.999. They are higher, because a learned quantile has an
/// error.
const P99_LEVEL: f64 = 0.994;
const P999_LEVEL: f64 = 0.999_4;
/// The levels are computed again after this many latencies of a class, and after each of the first few.
const RELEARN_EVERY: u32 = 32;
/// The number of latencies of second blocks from which levels are computed.
const ENOUGH: u32 = 16;
/// One sleep in this many has a second stage only to learn its latency: before that is known, and afterwards.
const TRY_UNKNOWN: u32 = 8;
const TRY_KNOWN: u32 = 128;
/// The shortest second block of such a sleep, unless the first one ends unusually late. If the first one always ended too
/// late for a second one, its latency would never be known, and the thread would spin instead.
const TRIED_BLOCK_NS: f64 = 20_000.0;
/// The number of sleeps for which a choice is used.
pub(super) const USES: u32 = 8;
/// The shortest sleep for which a second stage is tried.
const SHORTEST_TWO_NS: u64 = 200_000;

/// The aim of a [`Sleeper`](super::Sleeper): how late its sleeps may end, or how much CPU time they may take.
///
/// A shorter overshoot takes more CPU time. [`Report::target`](super::Report::target) states whether the target is met,
/// and what it would take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Target {
    /// At least three quarters of all wake-ups are in time, and as many as possible, up to 99 of 100, for 3 µs plus 0.25 %
    /// of the length of the sleep, in addition to the CPU time of blocking once.
    #[default]
    Balanced,
    /// In 99 of 100 sleeps, the overshoot is at most this long. The target is reached with as little CPU time as
    /// possible.
    P99(Duration),
    /// In 999 of 1000 sleeps, the overshoot is at most this long. The target is reached with as little CPU time as
    /// possible.
    P999(Duration),
    /// Sleeps take at most this share of one CPU (0 to 1), including the CPU time of blocking; a share that is not a number
    /// is zero, and one outside this range is its nearer end. Within this limit, as many wake-ups as possible are in time. The minimum is one block per sleep and a fiftieth of its CPU time for spinning.
    CpuShare(f64),
    /// Like `P99`, but within the CPU time of `CpuShare`, which has precedence.
    P99WithinCpuShare(Duration, f64),
}

impl Target {
    /// Returns the highest level that is used, and the overshoot that it allows.
    fn level(self) -> (usize, f64) {
        let place = |level: f64| LEVELS.iter().position(|&other| other >= level).unwrap_or(LEVELS.len() - 1);
        match self {
            Self::Balanced => (place(BALANCED_HIGHEST), 0.0),
            Self::CpuShare(_) => (LEVELS.len() - 1, 0.0),
            Self::P99(late) | Self::P99WithinCpuShare(late, _) => (place(P99_LEVEL), allowed_ns(late)),
            Self::P999(late) => (place(P999_LEVEL), allowed_ns(late)),
        }
    }

    /// Returns the CPU time that a sleep may take beyond that of the first block; `None` if there is no limit.
    fn budget_ns(self, length_ns: f64, block_ns: f64) -> Option<f64> {
        match self {
            Self::Balanced => Some(BALANCED_NS + BALANCED_PART * length_ns),
            Self::P99(_) | Self::P999(_) => None,
            // NaN counts as zero.
            Self::CpuShare(part) | Self::P99WithinCpuShare(_, part) => {
                Some((part.clamp(0.0, 1.0).max(0.0) * length_ns - block_ns).max(0.0))
            }
        }
    }

    /// Returns whether sleeps with this distribution of overshoots and this share of CPU time meet the target; `None` if
    /// the target has no limit, or if fewer than ten sleeps lie beyond its quantile.
    pub(super) fn is_met(self, late: Option<Spread>, cpu_share: f64) -> Option<bool> {
        let late = late?;
        #[expect(clippy::cast_precision_loss, reason = "a time in nanoseconds")]
        let is_short = |enough: u64, ns: f64, limit: Duration| {
            (late.samples >= enough).then(|| ns <= saturating_nanos(limit) as f64)
        };
        match self {
            Self::Balanced => None,
            Self::P99(limit) => is_short(1_000, late.p99_ns, limit),
            Self::P999(limit) => is_short(10_000, late.p999_ns, limit),
            Self::CpuShare(part) => Some(cpu_share <= part),
            Self::P99WithinCpuShare(limit, part) => {
                if cpu_share > part {
                    Some(false)
                } else {
                    is_short(1_000, late.p99_ns, limit)
                }
            }
        }
    }

    /// Returns whether a margin beyond the highest level has no use.
    const fn ends_at_a_level(self) -> bool {
        !matches!(self, Self::CpuShare(_))
    }

    const fn least_level(self) -> usize {
        if matches!(self, Self::Balanced) { BALANCED_LEVEL } else { 0 }
    }
}

/// Returns how late a wake-up may be for an overshoot of `late`.
#[expect(clippy::cast_precision_loss, reason = "a time in nanoseconds")]
fn allowed_ns(late: Duration) -> f64 {
    (saturating_nanos(late) as f64 - RETURN_NS).max(0.0)
}

/// How a thread waits for a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// The time before the deadline until which the thread blocks.
    pub(super) first_ns: u64,
    /// The time before the deadline until which it blocks a second time; `None` for one stage.
    pub(super) second_ns: Option<u64>,
}

impl Choice {
    /// Returns a choice with one stage whose margin is at most this long.
    pub(super) fn at_most(self, longest_ns: u64) -> Self {
        Self { first_ns: self.first_ns.min(longest_ns), second_ns: None }
    }
}

/// A way of waiting, and the CPU time that it takes beyond that of the first block.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Way {
    first_ns: f64,
    second_ns: Option<f64>,
    cost_ns: f64,
}

impl Way {
    const UNKNOWN: Self = Self { first_ns: FIRST_NS, second_ns: None, cost_ns: 0.0 };

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 500 µs")]
    fn choice(self) -> Choice {
        Choice { first_ns: self.first_ns as u64, second_ns: self.second_ns.map(|ns| ns as u64) }
    }

    /// Returns a way that blocks for at least half of a sleep of this length. A sleep that does not block at all would
    /// spin for its whole length, and learn nothing.
    fn that_blocks(self, length_ns: f64) -> Self {
        let first_ns = self.first_ns.min(length_ns / 2.0);
        #[expect(clippy::cast_precision_loss, reason = "5000")]
        let second_ns = self.second_ns.filter(|second_ns| second_ns + (SHORTEST_PARK_NS as f64) < first_ns);
        Self { first_ns, second_ns, ..self }
    }

    /// Returns a way with one stage that takes up to `budget_ns`, between this one and the next one, which takes more.
    fn extended(self, next: Self, budget_ns: f64) -> Self {
        // The cost of a margin grows faster with its length, so this way takes no more than `budget_ns`.
        let part = ((budget_ns - self.cost_ns) / (next.cost_ns - self.cost_ns)).clamp(0.0, 1.0);
        Self { first_ns: part.mul_add(next.first_ns - self.first_ns, self.first_ns), ..self }
    }
}

/// The ways to reach a level, with one stage and with two, if enough is known about second stages.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Choices {
    one: Way,
    two: Option<Way>,
}

impl Choices {
    fn cheapest(self) -> Way {
        self.two.filter(|two| two.cost_ns < self.one.cost_ns).unwrap_or(self.one)
    }
}

/// The learned statistics of the sleeps of one length class.
#[derive(Clone, Debug)]
struct Learned {
    /// The latencies of blocks that were the first ones of their sleeps, and of second ones.
    first: Lateness,
    second: Lateness,
    /// The CPU time of the first block.
    block_ns: f64,
    /// The ways to reach each level.
    ways: [Choices; LEVELS.len()],
    /// The longest margin.
    longest: Way,
    /// The number of latencies since the ways were computed.
    since: u32,
    /// The number of sleeps since a second stage.
    untried: u32,
    /// The number of measurements of CPU time.
    measured: u32,
}

impl Learned {
    const NOTHING: Self = Self {
        first: Lateness::NONE,
        second: Lateness::NONE,
        block_ns: FIRST_BLOCK_NS,
        ways: [Choices { one: Way::UNKNOWN, two: None }; LEVELS.len()],
        longest: Way::UNKNOWN,
        since: 0,
        untried: 0,
        measured: 0,
    };
}

/// The margins of a sleeper.
#[derive(Clone, Debug)]
pub(super) struct Margins {
    classes: Box<[Learned; CLASSES]>,
    target: Target,
    /// The CPU time of a second block.
    second_block_ns: f64,
    /// Memory for the distributions of the latencies of first and of second blocks. Clearing it each time would take
    /// longer than the rest of the computation.
    tables: Box<[Table; 2]>,
}

impl Margins {
    /// Creates empty statistics.
    pub(super) fn new(target: Target) -> Self {
        Self {
            classes: Box::new([const { Learned::NOTHING }; CLASSES]),
            target,
            second_block_ns: FIRST_BLOCK_NS,
            tables: Box::new([Table::EMPTY; 2]),
        }
    }

    pub(super) const fn target(&self) -> Target {
        self.target
    }

    /// Chooses how to wait for a deadline that is `length_ns` away. Also returns for how many sleeps of this length, 1 or
    /// more, the choice can be used if nothing is learned meanwhile.
    pub(super) fn choose(&mut self, length_ns: u64) -> (Choice, u32) {
        let wanted = class(length_ns);
        // If this class has no data, the next longer class with data is used; if there is none, the next shorter one.
        let mut nearest = (wanted..CLASSES).chain((0..wanted).rev());
        let Some(known) = nearest.find(|&class| self.classes[class].first.samples() > 0) else {
            return (Way::UNKNOWN.choice(), 1);
        };
        self.relearn(known);
        let learned = &mut self.classes[known];
        let way = chosen(self.target, learned, length_ns);
        if way.second_ns.is_some() {
            learned.untried = 0;
            return (way.choice(), USES);
        }
        let try_every = if learned.second.samples() < ENOUGH { TRY_UNKNOWN } else { TRY_KNOWN };
        #[expect(clippy::cast_precision_loss, reason = "a length in nanoseconds, of which only a share is used")]
        let may_spin = self.target.budget_ns(length_ns as f64, learned.block_ns) != Some(0.0);
        if learned.untried < try_every || length_ns < SHORTEST_TWO_NS || !may_spin {
            learned.untried += USES;
            return (way.choice(), USES);
        }
        learned.untried = 0;
        // The second block must not be too short to show its latency.
        let second_ns =
            if learned.second.samples() > 0 { Table::new(&learned.second).quantile_ns(0.9) } else { FIRST_NS };
        let first_ns = (Table::new(&learned.first).quantile_ns(0.95) + second_ns + TRIED_BLOCK_NS).min(LONGEST_NS);
        #[expect(clippy::cast_precision_loss, reason = "compared with half a millisecond")]
        if length_ns as f64 <= 2.0 * first_ns {
            return (way.choice(), USES);
        }
        (Way { first_ns, second_ns: Some(second_ns), cost_ns: 0.0 }.choice(), 1)
    }

    /// Records the latency of the first or the second block of a sleep of this length.
    pub(super) fn learn(&mut self, length_ns: u64, is_second: bool, late_ns: u64) {
        let learned = &mut self.classes[class(length_ns)];
        learned.since += 1;
        if is_second { learned.second.add(late_ns) } else { learned.first.add(late_ns) }
    }

    /// Records the CPU time of the first block of a sleep of this length, and that of the second block if there was one.
    #[expect(clippy::cast_precision_loss, reason = "a CPU time of microseconds")]
    pub(super) fn learn_cpu(&mut self, length_ns: u64, first_ns: u64, second_ns: Option<u64>) {
        let learned = &mut self.classes[class(length_ns)];
        learned.measured = learned.measured.saturating_add(1);
        let weight = 1.0 / f64::from(learned.measured.min(8));
        let average = |average: &mut f64, ns: f64| *average += (ns.min(4.0 * *average) - *average) * weight;
        average(&mut learned.block_ns, first_ns as f64);
        if let Some(second_ns) = second_ns {
            average(&mut self.second_block_ns, second_ns.max(1_000) as f64);
        }
    }

    /// Returns whether the CPU time of sleeps of this length was measured a few times.
    pub(super) fn knows_cpu(&self, length_ns: u64) -> bool {
        self.classes[class(length_ns)].measured >= MEASURED_FIRST
    }

    /// Returns the CPU time of the blocks of a sleep.
    pub(super) fn blocks_ns(&self, length_ns: u64, has_second: bool) -> f64 {
        let second_ns = if has_second { self.second_block_ns } else { 0.0 };
        self.classes[class(length_ns)].block_ns + second_ns
    }

    /// Returns the share of CPU time that the target's quantile takes for sleeps of this length; `None` if the target
    /// has no quantile or nothing is known.
    #[expect(clippy::cast_precision_loss, reason = "a length in nanoseconds, of which only a share is used")]
    pub(super) fn needed_share(&self, length_ns: u64) -> Option<f64> {
        let learned = &self.classes[class(length_ns)];
        let needs_quantile = !matches!(self.target, Target::Balanced | Target::CpuShare(_));
        let is_known = needs_quantile && learned.first.samples() > 0 && length_ns > 0;
        is_known.then(|| {
            let way = learned.ways[self.target.level().0].cheapest();
            ((learned.block_ns + way.cost_ns) / length_ns as f64).min(1.0)
        })
    }

    /// Returns the share of the wake-ups from sleeps of this length that no margin covers.
    pub(super) fn share_beyond(&self, length_ns: u64) -> f64 {
        self.classes[class(length_ns)].first.share_beyond()
    }

    /// Computes the ways of a class again, if enough was learned since.
    fn relearn(&mut self, class: usize) {
        let learned = &mut self.classes[class];
        if learned.since == 0 || learned.since < RELEARN_EVERY.min(learned.first.samples() / 4) {
            return;
        }
        learned.since = 0;
        let (_, allowed_ns) = self.target.level();
        let [first, second] = &mut *self.tables;
        first.fill(&learned.first);
        second.fill(&learned.second);
        let knows_second = learned.second.samples() >= ENOUGH;
        for (ways, level) in learned.ways.iter_mut().zip(LEVELS) {
            let two = || two_stages(first, second, level, allowed_ns, self.second_block_ns);
            *ways = Choices { one: one_stage(first, level, allowed_ns), two: (knows_second && level > 0.0).then(two) };
        }
        learned.longest = Way { first_ns: LONGEST_NS, second_ns: None, cost_ns: first.spin_ns(LONGEST_NS) };
    }
}

/// Returns the way that meets a target.
#[expect(clippy::cast_precision_loss, reason = "a length in nanoseconds, of which only a share is used")]
fn chosen(target: Target, learned: &Learned, length_ns: u64) -> Way {
    let (highest, _) = target.level();
    let Some(budget_ns) = target.budget_ns(length_ns as f64, learned.block_ns) else {
        return learned.ways[highest].cheapest();
    };
    let way = within_budget(target, learned, highest, budget_ns);
    if budget_ns < length_ns as f64 { way.that_blocks(length_ns as f64) } else { way }
}

/// Returns the way that a budget allows, up to the level `highest`.
fn within_budget(target: Target, learned: &Learned, highest: usize, budget_ns: f64) -> Way {
    let budget_ns = budget_ns.max(FREE_PART * learned.block_ns);
    let is_affordable = |way: &Way| way.cost_ns <= budget_ns;
    let affordable = (0..=highest).rev().find(|&level| is_affordable(&learned.ways[level].cheapest()));
    let level = affordable.unwrap_or(0).max(target.least_level());
    let Choices { one, .. } = learned.ways[level];
    // At the same level, one wake-up is better than two: each of them can be late. The rest of the budget makes the
    // margin longer, unless the target is reached.
    if !is_affordable(&one) {
        return learned.ways[level].cheapest();
    }
    match learned.ways.get(level + 1) {
        Some(next) if level < highest => one.extended(next.one, budget_ns),
        _ if target.ends_at_a_level() => one,
        _ => one.extended(learned.longest, budget_ns),
    }
}

/// Returns the cheapest way with one block in which this share of all wake-ups is late by no more than `allowed_ns`.
fn one_stage(first: &Table, level: f64, allowed_ns: f64) -> Way {
    let margin_ns = (first.quantile_ns(level) - allowed_ns).clamp(0.0, LONGEST_NS);
    Way { first_ns: margin_ns, second_ns: None, cost_ns: first.spin_ns(margin_ns) }
}

/// Returns a way with two blocks in which this share of all wake-ups is late by no more than `allowed_ns`.
fn two_stages(first: &Table, second: &Table, level: f64, allowed_ns: f64, block_ns: f64) -> Way {
    // A longer early margin takes little CPU time, so most of the late wake-ups are left to the second block.
    let first_level = 1.0 - (1.0 - level) / 3.0;
    let near_ns = (second.quantile_ns(level / first_level) - allowed_ns).clamp(0.0, LONGEST_NS);
    let far_ns = first.quantile_ns(first_level).max(near_ns).min(LONGEST_NS);
    // If the thread is woken too late to block again, it spins for what is left.
    #[expect(clippy::cast_precision_loss, reason = "5000")]
    let again_ns = (far_ns - near_ns - SHORTEST_PARK_NS as f64).max(0.0);
    let again = first.share_up_to(again_ns);
    let spins_at_once_ns = first.spin_ns(far_ns) - (first.spin_ns(again_ns) + again * (far_ns - again_ns));
    let cost_ns = again * (block_ns + second.spin_ns(near_ns)) + spins_at_once_ns.max(0.0);
    Way { first_ns: far_ns, second_ns: Some(near_ns), cost_ns }
}

fn class(length_ns: u64) -> usize {
    let times = (length_ns / SHORTEST_CLASS_NS).max(1);
    (times.ilog2() as usize / 2).min(CLASSES - 1)
}

/// A distribution of latencies, to be asked several times. Latencies are spread evenly within a class.
#[derive(Clone, Debug)]
struct Table {
    rows: [Row; lateness::CLASSES],
    length: usize,
    total: f64,
}

/// A class with latencies.
#[derive(Clone, Copy, Debug)]
struct Row {
    lowest_ns: f64,
    highest_ns: f64,
    weight: f64,
    /// The weight of the classes before, and the sum of their latencies times weight.
    weight_before: f64,
    sum_before: f64,
}

impl Row {
    const EMPTY: Self = Self { lowest_ns: 0.0, highest_ns: 0.0, weight: 0.0, weight_before: 0.0, sum_before: 0.0 };

    /// Returns the weight up to `ns`, and the sum of the latencies up to `ns` times weight.
    fn up_to(&self, ns: f64) -> (f64, f64) {
        let end_ns = ns.clamp(self.lowest_ns, self.highest_ns);
        let weight = self.weight * (end_ns - self.lowest_ns) / (self.highest_ns - self.lowest_ns);
        (self.weight_before + weight, self.sum_before + weight * f64::midpoint(self.lowest_ns, end_ns))
    }
}

impl Table {
    const EMPTY: Self = Self { rows: [Row::EMPTY; lateness::CLASSES], length: 0, total: 0.0 };

    fn new(lateness: &Lateness) -> Self {
        let mut table = Self::EMPTY;
        table.fill(lateness);
        table
    }

    fn fill(&mut self, lateness: &Lateness) {
        (self.length, self.total) = (0, 0.0);
        let mut sum_before = 0.0;
        for (row, (weight, lowest_ns, highest_ns)) in self.rows.iter_mut().zip(lateness.classes()) {
            *row = Row { lowest_ns, highest_ns, weight, weight_before: self.total, sum_before };
            self.total += weight;
            sum_before += weight * f64::midpoint(lowest_ns, highest_ns);
            self.length += 1;
        }
    }

    fn rows(&self) -> &[Row] {
        &self.rows[..self.length]
    }

    /// Returns the latency that this share of the wake-ups does not exceed; zero without latencies.
    fn quantile_ns(&self, share: f64) -> f64 {
        let wanted = share.clamp(0.0, 1.0) * self.total;
        let place = self.rows().partition_point(|row| row.weight_before + row.weight < wanted);
        let Some(row) = self.rows().get(place).or(self.rows().last()) else { return 0.0 };
        let part = ((wanted - row.weight_before) / row.weight).clamp(0.0, 1.0);
        part.mul_add(row.highest_ns - row.lowest_ns, row.lowest_ns)
    }

    fn up_to(&self, ns: f64) -> (f64, f64) {
        let place = self.rows().partition_point(|row| row.highest_ns < ns);
        self.rows().get(place).or(self.rows().last()).map_or((0.0, 0.0), |row| row.up_to(ns))
    }

    /// Returns the share of the wake-ups that are not later than `ns`.
    fn share_up_to(&self, ns: f64) -> f64 {
        if self.total > 0.0 { self.up_to(ns).0 / self.total } else { 0.0 }
    }

    /// Returns the mean time for which a thread spins with this margin.
    fn spin_ns(&self, margin_ns: f64) -> f64 {
        let (weight, sum) = self.up_to(margin_ns);
        if self.total > 0.0 { (weight * margin_ns - sum) / self.total } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::{any, prop_assert, proptest};

    use super::{Choice, FIRST_NS, LONGEST_NS, Lateness, Margins, SHORTEST_PARK_NS, Table, Target, class};

    const MS: u64 = 1_000_000;

    /// A latency of a block: 40 to 140 µs after a long sleep, and 15 to 25 µs after a short one, as on a virtual machine.
    fn long(number: u64) -> u64 {
        40_000 + number * 7_919 % 100_000
    }

    fn short(number: u64) -> u64 {
        15_000 + number * 7_919 % 10_000
    }

    /// Sleeps `count` times as a sleeper does. Returns the share of the wake-ups that were in time, and the CPU time
    /// beyond that of the first block per sleep.
    fn sleep(
        margins: &mut Margins,
        length_ns: u64,
        count: u64,
        (first, second): (impl Fn(u64) -> u64, impl Fn(u64) -> u64),
    ) -> (f64, f64) {
        let (mut in_time, mut cost_ns) = (0, 0);
        for number in 0..count {
            let (Choice { first_ns, second_ns }, _) = margins.choose(length_ns);
            let late_ns = first(number);
            margins.learn(length_ns, false, late_ns);
            let mut left_ns = first_ns.saturating_sub(late_ns);
            if let Some(second_ns) = second_ns.filter(|&second_ns| left_ns > second_ns + 5_000) {
                let late_ns = second(number);
                margins.learn(length_ns, true, late_ns);
                left_ns = second_ns.saturating_sub(late_ns);
                cost_ns += 15_000;
            }
            in_time += u64::from(left_ns > 0);
            cost_ns += left_ns;
        }
        (in_time as f64 / count as f64, cost_ns as f64 / count as f64)
    }

    #[test]
    fn nothing_is_known_at_first() {
        for target in [Target::Balanced, Target::P99(Duration::ZERO), Target::CpuShare(0.01)] {
            let (choice, uses) = Margins::new(target).choose(MS);
            assert_eq!((choice.first_ns as f64, choice.second_ns, uses), (FIRST_NS, None, 1));
        }
    }

    /// With two stages, the early margin may be long although the latencies vary much.
    #[test]
    #[cfg_attr(miri, ignore = "simulates thousands of sleeps, which takes hours")]
    fn a_second_stage_is_used_where_it_pays() {
        let mut margins = Margins::new(Target::P99(Duration::ZERO));
        sleep(&mut margins, 10 * MS, 2_000, (long, short));
        let (choice, _) = margins.choose(10 * MS);
        assert!(choice.first_ns > 135_000, "{choice:?}");
        assert!(choice.second_ns.is_some_and(|ns| (23_000..28_000).contains(&ns)), "{choice:?}");
        let (in_time, cost_ns) = sleep(&mut margins, 10 * MS, 2_000, (long, short));
        assert!(in_time >= 0.99 && cost_ns < 30_000.0, "{in_time} {cost_ns}");
        // If the latencies vary little, one stage takes less CPU time.
        let mut margins = Margins::new(Target::P99(Duration::ZERO));
        let (in_time, cost_ns) = sleep(&mut margins, 10 * MS, 4_000, (short, short));
        let (choice, _) = margins.choose(10 * MS);
        assert_eq!(choice.second_ns, None);
        assert!(in_time >= 0.98 && cost_ns < 8_000.0, "{in_time} {cost_ns}");
    }

    #[test]
    fn a_trial_leaves_room_for_a_second_block() {
        // The latencies of a real-time thread vary little.
        let mut margins = Margins::new(Target::Balanced);
        let mut trials = 0;
        for number in 0..400 {
            let (choice, _) = margins.choose(MS);
            let late_ns = 13_500 + 100 * (number % 10);
            margins.learn(MS, false, late_ns);
            if let Some(second_ns) = choice.second_ns {
                assert!(choice.first_ns - late_ns > second_ns + SHORTEST_PARK_NS, "{choice:?}");
                margins.learn(MS, true, late_ns);
                trials += 1;
            }
        }
        assert!(trials >= 16, "{trials}");
    }

    #[test]
    fn by_default_99_of_100_wake_ups_are_enough() {
        let mut margins = Margins::new(Target::Balanced);
        // One latency in 200 is long, but not too long for what a sleep may take.
        (0..2_000).for_each(|number| margins.learn(10 * MS, false, if number % 200 == 0 { 30_000 } else { 14_000 }));
        let (choice, _) = margins.choose(10 * MS);
        assert!((14_000..15_000).contains(&choice.first_ns), "{choice:?}");
    }

    #[test]
    fn the_cpu_time_of_each_block_is_known_although_all_sleeps_have_two() {
        let mut margins = Margins::new(Target::Balanced);
        (0..64).for_each(|_| margins.learn_cpu(MS, 24_000, Some(9_000)));
        assert!((margins.blocks_ns(MS, false) - 24_000.0).abs() < 100.0, "{}", margins.blocks_ns(MS, false));
        assert!((margins.blocks_ns(MS, true) - 33_000.0).abs() < 100.0, "{}", margins.blocks_ns(MS, true));
    }

    #[test]
    #[cfg_attr(miri, ignore = "simulates thousands of sleeps, which takes hours")]
    fn a_quantile_is_reached_with_one_stage_and_with_two() {
        for target in [Target::P99(Duration::ZERO), Target::P999(Duration::ZERO)] {
            for length_ns in [150_000, MS, 10 * MS] {
                let mut margins = Margins::new(target);
                sleep(&mut margins, length_ns, 4_000, (long, short));
                let (in_time, _) = sleep(&mut margins, length_ns, 20_000, (long, short));
                let wanted = if target == Target::P99(Duration::ZERO) { 0.99 } else { 0.999 };
                assert!(in_time >= wanted, "{target:?}, {length_ns}: {in_time}");
            }
        }
    }

    #[test]
    fn a_target_that_allows_an_overshoot_needs_a_shorter_margin() {
        let margin = |late_us| {
            let mut margins = Margins::new(Target::P99(Duration::from_micros(late_us)));
            sleep(&mut margins, 150_000, 1_000, (short, short));
            margins.choose(150_000).0.first_ns
        };
        let (zero, five, hour) = (margin(0), margin(5), margin(3_600_000_000));
        assert!((4_600..=4_800).contains(&(zero - five)), "{zero} {five}");
        assert_eq!(hour, 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "simulates thousands of sleeps, which takes hours")]
    fn a_share_of_cpu_time_is_used_and_not_exceeded() {
        for part in [0.0, 0.003, 0.005, 0.01, 0.05, 1.0] {
            let mut margins = Margins::new(Target::CpuShare(part));
            margins.learn_cpu(10 * MS, 20_000, None);
            sleep(&mut margins, 10 * MS, 2_000, (long, short));
            let (in_time, cost_ns) = sleep(&mut margins, 10 * MS, 2_000, (long, short));
            let budget_ns = (part * 10e6 - 20_000.0).max(0.0);
            assert!(cost_ns <= budget_ns * 1.03 + 600.0, "{part}: {cost_ns}");
            assert!(part < 0.01 || in_time > 0.98, "{part}: {in_time}");
        }
        let mut margins = Margins::new(Target::CpuShare(f64::NAN));
        margins.learn(MS, false, 20_000);
        assert!(margins.choose(MS).0.first_ns <= 20_480);
    }

    #[test]
    fn a_sleep_with_a_limit_of_cpu_time_blocks_however_late_it_is_woken() {
        for target in [Target::Balanced, Target::CpuShare(0.2), Target::P99WithinCpuShare(Duration::ZERO, 0.2)] {
            let mut margins = Margins::new(target);
            for number in 0..200 {
                let (choice, _) = margins.choose(250_000);
                assert!(choice.first_ns <= 125_000, "{target:?}, {number}: {choice:?}");
                margins.learn(250_000, false, 200_000 + 1_000 * (number % 100));
                margins.learn(250_000, true, 30_000);
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "simulates thousands of sleeps, which takes hours")]
    fn a_share_of_cpu_time_has_precedence_over_a_quantile() {
        let mut margins = Margins::new(Target::P99WithinCpuShare(Duration::ZERO, 0.003));
        margins.learn_cpu(10 * MS, 20_000, None);
        sleep(&mut margins, 10 * MS, 2_000, (long, short));
        let (in_time, cost_ns) = sleep(&mut margins, 10 * MS, 2_000, (long, short));
        assert!(in_time < 0.9 && cost_ns < 11_000.0, "{in_time} {cost_ns}");
        let needed = margins.needed_share(10 * MS).expect("something was learned");
        assert!((0.003..0.006).contains(&needed), "{needed}");
    }

    /// A load starts and stops, and the host takes the CPU away for milliseconds now and then.
    #[test]
    fn the_margin_follows_the_load_within_100_sleeps() {
        let mut margins = Margins::new(Target::Balanced);
        let mut margin = |late_ns: u64| {
            let late = |number: u64| if number % 10 == 0 { 8_000_000 } else { late_ns + number % 7 * 100 };
            sleep(&mut margins, MS, 100, (late, late));
            // One of them may be a sleep that only learns the latency of a second stage.
            [(); 2].map(|()| margins.choose(MS).0.first_ns).into_iter().min().unwrap_or(0)
        };
        for late_ns in [20_000, 70_000, 20_000] {
            let margin_ns = margin(late_ns);
            assert!((late_ns..late_ns + 6_000).contains(&margin_ns), "{late_ns}: {margin_ns}");
        }
    }

    #[test]
    fn long_and_short_sleeps_are_learned_separately() {
        let mut margins = Margins::new(Target::CpuShare(0.0));
        for _ in 0..100 {
            margins.learn(100_000, false, 15_000);
            margins.learn(10 * MS, false, 40_000);
        }
        let mut margin = |length_ns| margins.choose(length_ns).0.first_ns;
        assert!((14_000..=15_500).contains(&margin(150_000)), "{}", margin(150_000));
        assert!((38_000..=41_000).contains(&margin(12 * MS)));
        // Nothing is known about the classes in between: the longer one decides.
        assert_eq!(margin(MS), margin(12 * MS));
        assert_eq!(margin(u64::MAX), margin(12 * MS));
        assert_eq!((class(0), class(u64::MAX)), (0, super::CLASSES - 1));
    }

    proptest! {
        #[test]
        fn no_latency_extends_a_margin_beyond_its_limit(
            late in proptest::collection::vec(any::<(u64, bool, u64)>(), 0..200),
            length_ns in any::<u64>(),
            part in 0.0..1.0_f64,
        ) {
            for target in [Target::Balanced, Target::P999(Duration::ZERO), Target::CpuShare(part)] {
                let mut margins = Margins::new(target);
                for &(length_ns, is_second, late_ns) in &late {
                    margins.learn(length_ns, is_second, late_ns);
                }
                for _ in 0..20 {
                    let (Choice { first_ns, second_ns }, uses) = margins.choose(length_ns);
                    prop_assert!(first_ns as f64 <= LONGEST_NS && uses > 0);
                    prop_assert!(second_ns.is_none_or(|second_ns| second_ns <= first_ns));
                }
            }
        }

        /// The mean time spent spinning is that of the latencies themselves, up to the width of a class.
        #[test]
        fn a_table_agrees_with_its_latencies(late in proptest::collection::vec(600..400_000_u64, 1..60), margin in 0..500_000_u64) {
            let mut lateness = Lateness::NONE;
            late.iter().for_each(|&ns| lateness.add(ns));
            let table = Table::new(&lateness);
            let mean = |of: &dyn Fn(u64) -> u64| late.iter().map(|&ns| of(ns)).sum::<u64>() as f64 / late.len() as f64;
            let exact = mean(&|ns| margin.saturating_sub(ns));
            let widest = mean(&|ns| ns / 16 + 1);
            // A lasting change may have reduced the weight of the first latencies.
            if late.len() < 16 {
                prop_assert!((table.spin_ns(margin as f64) - exact).abs() <= widest, "{} {exact}", table.spin_ns(margin as f64));
            }
            let (lowest, highest) = (table.quantile_ns(0.0), table.quantile_ns(1.0));
            prop_assert!(lowest <= highest && table.share_up_to(highest) > 0.999);
        }
    }
}
