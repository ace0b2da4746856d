//! Determines the likely cause of a stall. The kernel's counts during the stall are compared with its counts without a
//! stall. Counters that increased are evidence, but not proof.

use crate::measure::{CounterDelta, CounterDeltas, Stall};

/// The divisor of a stall's length: a wait or steal time is the cause of a stall if it covers at least half of the
/// stall. Steal time is reported in whole hundredths of a second. If an entire stall of 10 ms or more was stolen,
/// the reported steal time always covers at least half of it.
const HALF: u64 = 2;
/// The unit of steal time. A stall caused by steal time uses up whole units, because only whole units are reported.
const HUNDREDTH_NS: u64 = 10_000_000;

/// The likely reason why a thread did not run, according to the counters that increased around the stall.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The thread was on another CPU afterwards.
    Migrated,
    /// The thread was runnable, and waited for at least half of the stall: other threads ran, or, unless the kernel's
    /// counts rule it out, its quota was used up.
    KeptWaiting,
    /// The thread was runnable, and waited for at least half of the stall, and the CPU quota of its control group paused
    /// the threads of the group for at least as long.
    QuotaUsedUp,
    /// The thread was put to sleep for a page that had to be read from a disk.
    PagedIn,
    /// The thread was put to sleep for another reason: for example, a stop signal, a debugger or the freezer.
    Stopped,
    /// The firmware took over the core (SMI).
    Firmware,
    /// The hypervisor reported that it ran other guests for at least half of the stall.
    Stolen,
    /// More interrupts arrived on this CPU than without a stall. Contains the indices of these interrupts, the most
    /// unusual first.
    Interrupts(Vec<usize>),
    /// Interrupts arrived on this CPU, but there was no window without a stall to compare with. Contains the indices of
    /// these interrupts, the most frequent first.
    InterruptsUncompared(Vec<usize>),
    /// Counters increased, but none of them explains the stall: interrupts arrived at their usual rate, and all other
    /// increases were too small or had been used up by a longer stall.
    AsUsual,
    /// No counter increased: the cause is below the kernel (firmware, or a hypervisor that does not report it) or in
    /// the processor itself.
    Nothing,
    /// No counter could be read.
    Untold,
}

impl Cause {
    /// Returns the name of the cause in JSON.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Migrated => "migrated",
            Self::KeptWaiting => "preempted",
            Self::QuotaUsedUp => "quota",
            Self::PagedIn => "page-fault",
            Self::Stopped => "stopped",
            Self::Firmware => "firmware",
            Self::Stolen => "steal",
            Self::Interrupts(_) => "interrupts",
            Self::InterruptsUncompared(_) => "interrupts-uncompared",
            Self::AsUsual => "usual-activity",
            Self::Nothing => "none",
            Self::Untold => "unknown",
        }
    }

    /// All names, in output order.
    pub const NAMES: [&str; 12] = hpt_document::words::STALL_CAUSES;
}

/// The increases of each counter in windows with and without a stall.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Habits {
    quiet: Seen,
    stalled: Seen,
}

/// The increases in windows of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    windows: u64,
    ns: u128,
    counts: Vec<Count>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Count {
    windows: u64,
    by: u64,
}

/// The numbers of windows in which one counter increased, with and without a stall, and its usual rate.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Habit {
    /// The number of windows with a stall in which the counter increased.
    pub with: u64,
    /// The number of windows without a stall in which the counter increased.
    pub without: u64,
    /// The counter's rate without stalls, in counts per second; `None` if there was no window without a stall.
    pub usual_hz: Option<f64>,
}

/// The numbers of windows with and without a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WindowCounts {
    /// The number of windows with a stall.
    pub with_stall: u64,
    /// The number of windows without a stall.
    pub without_stall: u64,
}

impl Habits {
    /// Records the increases in one window, and whether the window contained a stall.
    pub fn record(&mut self, deltas: &CounterDeltas, stalled: bool) {
        let seen = if stalled { &mut self.stalled } else { &mut self.quiet };
        seen.windows += 1;
        seen.ns += u128::from(deltas.window_ns);
        for &CounterDelta { counter: place, increase } in deltas.counts.iter().flatten() {
            if seen.counts.len() <= place {
                seen.counts.resize(place + 1, Count::default());
            }
            seen.counts[place].windows += 1;
            seen.counts[place].by += increase;
        }
    }

    /// Returns the numbers of windows with and without a stall.
    #[must_use]
    pub const fn windows(&self) -> WindowCounts {
        WindowCounts { with_stall: self.stalled.windows, without_stall: self.quiet.windows }
    }

    /// Returns how often the counter with this index increased with and without a stall, and its usual rate.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub fn of(&self, place: usize) -> Habit {
        let count = |seen: &Seen| seen.counts.get(place).copied().unwrap_or_default();
        let rate = |ns: u128| count(&self.quiet).by as f64 * 1e9 / ns as f64;
        Habit {
            with: count(&self.stalled).windows,
            without: count(&self.quiet).windows,
            usual_hz: (self.quiet.ns > 0).then(|| rate(self.quiet.ns)),
        }
    }

    /// Returns the excess of a counter's increase in a window over its usual increase; `None` if the increase is not
    /// unusual. By chance, up to one in twenty normal increases counts as unusual.
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    fn excess(&self, place: usize, by: u64, window_ns: u64) -> Option<f64> {
        let usual = self.of(place).usual_hz.unwrap_or(0.0) * window_ns as f64 / 1e9;
        let excess = by as f64 - usual;
        (excess > 2.0 * usual.sqrt() + 0.5).then_some(excess)
    }
}

/// The increases in a window that longer stalls have not used up yet. A field is `None` if its counter could not be
/// read.
struct Left<'a> {
    deltas: &'a CounterDeltas,
    migrated: bool,
    waited_ns: Option<u64>,
    voluntary: Option<u64>,
    involuntary: Option<u64>,
    major_faults: Option<u64>,
    firmware: Option<u64>,
    stolen_ns: Option<u64>,
    throttled_ns: Option<u64>,
    /// The number of times that the thread was preempted or gave up its CPU. At most this many stalls can include a
    /// wait.
    switches: u64,
    /// The counters that increased more than usual, the most unusual first.
    unusual: Option<Vec<usize>>,
    /// Whether there was a window without a stall, which determines what is usual.
    is_compared: bool,
}

/// Decrements the count if it is above zero, and returns whether it was.
const fn take(count: &mut Option<u64>) -> bool {
    match count {
        Some(left @ 1..) => {
            *left -= 1;
            true
        }
        _ => false,
    }
}

impl<'a> Left<'a> {
    fn of(deltas: &'a CounterDeltas, habits: &Habits) -> Self {
        let unusual = deltas.counts.as_ref().map(|counts| {
            let excess = |delta: &CounterDelta| {
                let excess = habits.excess(delta.counter, delta.increase, deltas.window_ns)?;
                Some((excess, delta.counter))
            };
            let mut unusual: Vec<(f64, usize)> = counts.iter().filter_map(excess).collect();
            unusual.sort_by(|one, other| other.0.total_cmp(&one.0));
            unusual.into_iter().map(|(_, place)| place).collect()
        });
        let switches = deltas.voluntary.unwrap_or(0).saturating_add(deltas.involuntary.unwrap_or(0));
        Self {
            deltas,
            migrated: deltas.migrated,
            waited_ns: deltas.waited_ns,
            voluntary: deltas.voluntary,
            involuntary: deltas.involuntary,
            major_faults: deltas.major_faults,
            firmware: deltas.firmware,
            stolen_ns: deltas.stolen_ns,
            throttled_ns: deltas.throttled_ns,
            // The kernel may report the wait one read before it reports the switch.
            switches: switches.max(1),
            unusual,
            is_compared: habits.quiet.ns > 0,
        }
    }

    /// Returns whether a wait of the thread is the cause of the stall. A thread that waited was preempted.
    fn waited(&mut self, least_ns: u64, length_ns: u64) -> bool {
        let Some(waited_ns) = &mut self.waited_ns else {
            // If the wait time is unknown, the preemption is the evidence.
            return take(&mut self.involuntary);
        };
        if *waited_ns == 0 || *waited_ns < least_ns / HALF || self.switches == 0 {
            return false;
        }
        *waited_ns = waited_ns.saturating_sub(length_ns);
        self.switches -= 1;
        if !take(&mut self.involuntary) {
            take(&mut self.voluntary);
        }
        true
    }

    /// Returns whether the stall of a thread that waited covers time for which its quota was used up.
    fn throttled(&mut self, least_ns: u64, length_ns: u64) -> bool {
        let Some(throttled_ns) = self.throttled_ns.as_mut().filter(|throttled_ns| **throttled_ns > 0) else {
            return false;
        };
        if *throttled_ns < least_ns / HALF {
            return false;
        }
        *throttled_ns = throttled_ns.saturating_sub(length_ns);
        true
    }

    fn stolen(&mut self, least_ns: u64, length_ns: u64) -> bool {
        let Some(stolen_ns) = self.stolen_ns.as_mut().filter(|stolen_ns| **stolen_ns > 0) else { return false };
        if *stolen_ns < least_ns / HALF {
            return false;
        }
        *stolen_ns = stolen_ns.saturating_sub(length_ns.div_ceil(HUNDREDTH_NS).saturating_mul(HUNDREDTH_NS));
        true
    }

    /// Returns the cause of a stall. The longest stall must come first.
    fn cause(&mut self, stall: &Stall) -> Cause {
        let least_ns = stall.length_ns.saturating_sub(stall.uncertainty_ns);
        if std::mem::take(&mut self.migrated) {
            // The wait and the preemption are part of the migration.
            if let Some(waited_ns) = &mut self.waited_ns {
                *waited_ns = waited_ns.saturating_sub(stall.length_ns);
            }
            self.switches = self.switches.saturating_sub(1);
            let _ = take(&mut self.involuntary) || take(&mut self.voluntary);
            return Cause::Migrated;
        }
        if self.waited(least_ns, stall.length_ns) {
            let is_throttled = self.throttled(least_ns, stall.length_ns);
            return if is_throttled { Cause::QuotaUsedUp } else { Cause::KeptWaiting };
        }
        if take(&mut self.voluntary) {
            self.switches = self.switches.saturating_sub(1);
            return if take(&mut self.major_faults) { Cause::PagedIn } else { Cause::Stopped };
        }
        if take(&mut self.firmware) {
            return Cause::Firmware;
        }
        if self.stolen(least_ns, stall.length_ns) {
            return Cause::Stolen;
        }
        let (Some(unusual), Some(counts)) = (&self.unusual, &self.deltas.counts) else {
            return Cause::Untold;
        };
        match (unusual.is_empty(), counts.is_empty() && self.involuntary.unwrap_or(0) == 0) {
            (false, _) if self.is_compared => Cause::Interrupts(unusual.clone()),
            (false, _) => Cause::InterruptsUncompared(unusual.clone()),
            (true, false) => Cause::AsUsual,
            (true, true) => Cause::Nothing,
        }
    }
}

/// Determines the cause of each of these stalls, in their order, from the counters that increased around them. If
/// several counters increased, the counter that is most specific to the thread determines the cause. The stalls share
/// the increases, and the longest stall comes first. The increases that it uses up (wait time, steal time, a switch, a
/// page fault, a firmware interrupt) are not evidence for a shorter stall. Interrupts are not used up, because they may
/// have caused several stalls.
#[must_use]
pub fn stall_causes(stalls: &[Stall], deltas: &CounterDeltas, habits: &Habits) -> Vec<Cause> {
    let mut causes = vec![Cause::Untold; stalls.len()];
    if stalls.is_empty() {
        return causes;
    }
    let mut left = Left::of(deltas, habits);
    let mut order: Vec<usize> = (0..stalls.len()).collect();
    order.sort_by_key(|&place| std::cmp::Reverse(stalls[place].length_ns.saturating_sub(stalls[place].uncertainty_ns)));
    for place in order {
        causes[place] = left.cause(&stalls[place]);
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::{Cause, Habits, WindowCounts, stall_causes};
    use crate::measure::{CounterDelta, CounterDeltas, Stall};

    const MS: u64 = 1_000_000;

    fn counts_of(counts: &[(usize, u64)]) -> Vec<CounterDelta> {
        counts.iter().map(|&(counter, increase)| CounterDelta::new(counter, increase)).collect()
    }

    fn deltas(change: impl FnOnce(&mut CounterDeltas)) -> CounterDeltas {
        let mut deltas = CounterDeltas {
            window_ns: 20 * MS,
            waited_ns: Some(0),
            counts: Some(Vec::new()),
            ..CounterDeltas::default()
        };
        change(&mut deltas);
        deltas
    }

    /// Returns the causes of stalls of these lengths in one window.
    fn causes(lengths_ns: &[u64], change: impl FnOnce(&mut CounterDeltas), habits: &Habits) -> Vec<Cause> {
        let stall = |(number, &length_ns): (u64, &u64)| Stall::new(crate::instant(number * MS), length_ns);
        let stalls: Vec<Stall> = (0..).zip(lengths_ns).map(stall).collect();
        stall_causes(&stalls, &deltas(change), habits)
    }

    fn cause(change: impl FnOnce(&mut CounterDeltas), habits: &Habits) -> Cause {
        causes(&[MS], change, habits).remove(0)
    }

    #[test]
    fn evidence_about_the_thread_comes_before_evidence_about_the_cpu() {
        let none = Habits::default();
        let because = |change: fn(&mut CounterDeltas)| cause(change, &none);
        assert_eq!(because(|_| {}), Cause::Nothing);
        assert_eq!(because(|deltas| deltas.counts = None), Cause::Untold);
        assert_eq!(because(|deltas| deltas.waited_ns = Some(MS / 2)), Cause::KeptWaiting);
        assert_eq!(because(|deltas| (deltas.waited_ns, deltas.involuntary) = (None, Some(1))), Cause::KeptWaiting);
        assert_eq!(because(|deltas| deltas.voluntary = Some(1)), Cause::Stopped);
        assert_eq!(because(|deltas| (deltas.voluntary, deltas.major_faults) = (Some(1), Some(1))), Cause::PagedIn);
        assert_eq!(because(|deltas| (deltas.migrated, deltas.voluntary) = (true, Some(1))), Cause::Migrated);
        assert_eq!(because(|deltas| deltas.stolen_ns = Some(10 * MS)), Cause::Stolen);
        assert_eq!(because(|deltas| (deltas.firmware, deltas.stolen_ns) = (Some(1), Some(10 * MS))), Cause::Firmware);
        let quota = |deltas: &mut CounterDeltas, throttled_ns| {
            (deltas.waited_ns, deltas.throttled_ns) = (Some(MS), Some(throttled_ns));
        };
        assert_eq!(cause(|deltas| quota(deltas, MS / 2), &none), Cause::QuotaUsedUp);
        assert_eq!(cause(|deltas| quota(deltas, MS / 3), &none), Cause::KeptWaiting, "far shorter than the stall");
        assert_eq!(cause(|deltas| quota(deltas, 0), &none), Cause::KeptWaiting);
        // The quota of other threads does not stop a thread that did not wait.
        assert_eq!(because(|deltas| deltas.throttled_ns = Some(MS)), Cause::Nothing);
        // A wait far shorter than the stall is not its cause.
        let stopped = because(|deltas| (deltas.waited_ns, deltas.voluntary) = (Some(MS / 10), Some(1)));
        assert_eq!(stopped, Cause::Stopped);
    }

    #[test]
    fn stalls_in_one_window_share_the_increases_and_the_longest_comes_first() {
        let none = Habits::default();
        let tick = || Cause::InterruptsUncompared(vec![0]);
        let ticks = |deltas: &mut CounterDeltas| deltas.counts = Some(vec![CounterDelta::new(0, 24)]);
        // Stopped during ticks: it waited a little for its CPU afterwards.
        let mut lengths: Vec<u64> = (0..24).map(|number| 11_000 + number * 1_000).collect();
        lengths.insert(7, 20 * MS);
        let stopped = causes(
            &lengths,
            |deltas| {
                ticks(deltas);
                (deltas.waited_ns, deltas.voluntary, deltas.involuntary) = (Some(50_000), Some(1), Some(0));
            },
            &none,
        );
        assert_eq!((&stopped[7], stopped.iter().filter(|cause| **cause == tick()).count()), (&Cause::Stopped, 24));
        // Another thread during ticks: the wait time is used up by the stall that it caused.
        let waited = |waited_ns, involuntary| {
            move |deltas: &mut CounterDeltas| {
                ticks(deltas);
                (deltas.waited_ns, deltas.voluntary, deltas.involuntary) =
                    (Some(waited_ns), Some(0), Some(involuntary));
            }
        };
        let hogged = causes(&[20_000, 5 * MS, 30_000], waited(5 * MS - 1_000, 1), &none);
        assert_eq!(hogged, [tick(), Cause::KeptWaiting, tick()]);
        // Two stalls, and enough time for a third that was never preempted.
        let hogged = causes(&[20_000, MS, 2 * MS], waited(3 * MS + 50_000, 2), &none);
        assert_eq!(hogged, [tick(), Cause::KeptWaiting, Cause::KeptWaiting]);
        // One that was stopped and one that waited, in either order.
        let both = |deltas: &mut CounterDeltas| {
            (deltas.waited_ns, deltas.voluntary, deltas.involuntary) = (Some(MS), Some(1), Some(1));
        };
        assert_eq!(causes(&[MS, 20 * MS], both, &none), [Cause::KeptWaiting, Cause::Stopped]);
        assert_eq!(causes(&[20 * MS, MS], both, &none), [Cause::Stopped, Cause::KeptWaiting]);
        // Each fault, firmware interrupt, switch and migration counts for one stall.
        let once = |deltas: &mut CounterDeltas| (deltas.voluntary, deltas.major_faults) = (Some(2), Some(1));
        assert_eq!(causes(&[1, 3, 2], once, &none), [Cause::Nothing, Cause::PagedIn, Cause::Stopped]);
        assert_eq!(causes(&[1, 2], |deltas| deltas.firmware = Some(1), &none), [Cause::Nothing, Cause::Firmware]);
        assert_eq!(causes(&[1, 2], |deltas| deltas.migrated = true, &none), [Cause::Nothing, Cause::Migrated]);
        let taken_off = |deltas: &mut CounterDeltas| (deltas.waited_ns, deltas.involuntary) = (None, Some(1));
        assert_eq!(causes(&[2, 1], taken_off, &none), [Cause::KeptWaiting, Cause::Nothing]);
        assert_eq!(causes(&[], taken_off, &none), []);
    }

    #[test]
    fn steal_time_covers_at_least_half_of_a_stall_and_is_consumed_in_hundredths_of_a_second() {
        let none = Habits::default();
        let stolen = |ns| move |deltas: &mut CounterDeltas| deltas.stolen_ns = Some(ns);
        assert_eq!(causes(&[19 * MS], stolen(10 * MS), &none), [Cause::Stolen]);
        assert_eq!(causes(&[21 * MS], stolen(10 * MS), &none), [Cause::Nothing]);
        assert_eq!(causes(&[40_000, 50_000], stolen(10 * MS), &none), [Cause::Nothing, Cause::Stolen]);
        assert_eq!(causes(&[40_000, 50_000], stolen(20 * MS), &none), [Cause::Stolen, Cause::Stolen]);
    }

    #[test]
    fn an_interrupt_is_named_if_its_count_increases_more_than_without_a_stall() {
        let mut habits = Habits::default();
        // The tick arrives five times in a window, a device once in a hundred windows.
        for number in 0..1_000 {
            let counts = if number % 100 == 0 { &[(0, 5), (1, 1)][..] } else { &[(0, 5)] };
            habits.record(&deltas(|deltas| deltas.counts = Some(counts_of(counts))), false);
        }
        let because = |counts: &[(usize, u64)]| cause(|deltas| deltas.counts = Some(counts_of(counts)), &habits);
        assert_eq!(because(&[(0, 5)]), Cause::AsUsual);
        assert_eq!(because(&[(0, 6), (1, 1)]), Cause::Interrupts(vec![1]));
        assert_eq!(because(&[(0, 50), (1, 1)]), Cause::Interrupts(vec![0, 1]));
        assert_eq!(because(&[]), Cause::Nothing);
        habits.record(&deltas(|deltas| deltas.counts = Some(counts_of(&[(1, 1)]))), true);
        let habit = habits.of(1);
        assert_eq!(habits.windows(), WindowCounts { with_stall: 1, without_stall: 1_000 });
        assert_eq!((habit.with, habit.without), (1, 10));
        assert!((habit.usual_hz.expect("there were quiet windows") - 0.5).abs() < 1e-9, "{habit:?}");
        assert_eq!(habits.of(7).usual_hz, Some(0.0));
    }

    #[test]
    fn without_windows_to_compare_with_no_interrupt_counts_as_more_frequent_than_usual() {
        let mut habits = Habits::default();
        let because = |habits: &Habits| cause(|deltas| deltas.counts = Some(counts_of(&[(3, 1), (1, 2)])), habits);
        assert_eq!(because(&habits), Cause::InterruptsUncompared(vec![1, 3]));
        assert_eq!(habits.of(3).usual_hz, None);
        habits.record(&deltas(|deltas| deltas.counts = Some(counts_of(&[(3, 1)]))), true);
        assert_eq!(because(&habits), Cause::InterruptsUncompared(vec![1, 3]), "windows with a stall do not count");
        habits.record(&deltas(|_| {}), false);
        assert_eq!(because(&habits), Cause::Interrupts(vec![1, 3]));
    }

    #[test]
    fn every_cause_has_a_unique_name() {
        let mut names = Cause::NAMES.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Cause::NAMES.len());
        assert!(Cause::NAMES.contains(&Cause::Interrupts(Vec::new()).name()));
    }
}
