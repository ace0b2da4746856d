//! The results of one thread of `hpt latency stall`: its stalls with their causes, and the baseline of its CPU.

use std::{collections::BTreeMap, time::SystemTime};

use hpt_document::{cpu_absence::CpuAbsence, not_run::NotRun};
use hpt_instrument::{
    diagnose::{Cause, Habits, stall_causes},
    measure::{Counter, CounterDeltas, PollCost, Stall, StallWatchStats, Stalls, UnreadableFile, Window},
};
use hpt_realtime::Absence;

use crate::sampling::{cpu_absences, realtime_settings::EffectiveSettings};

/// The maximum length of each thread's list of longest stalls, and of its list of newest stalls.
pub(super) const KEPT: usize = 100;

/// The number of counters stored for one stall.
const MOVERS: usize = 12;

/// The details of a stall that [`Stall`] does not contain.
#[derive(Clone, Debug)]
pub(super) struct StallDetails {
    /// The wall-clock time at which the stall began.
    pub(super) began: SystemTime,
    pub(super) cause: Cause,
    pub(super) deltas: CounterDeltas,
    /// The number of stalls in the same window, which share its counter increases.
    pub(super) shared: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) stalls: Stalls<StallDetails>,
    pub(super) habits: Habits,
    /// For each cause, in the order of [`Cause::NAMES`]: the number of stalls, and their total length in nanoseconds.
    pub(super) causes: [(u64, u64); Cause::NAMES.len()],
    /// For each cause, by its place in [`Cause::NAMES`], and counter: the number of stalls in which the counter was the
    /// most unusual one.
    pub(super) most_unusual: BTreeMap<(usize, usize), u64>,
}

/// Returns the counters that the cause names, the most unusual first.
pub(super) fn named_by(cause: &Cause) -> &[usize] {
    match cause {
        Cause::Interrupts(named) | Cause::InterruptsUncompared(named) => named,
        _ => &[],
    }
}

impl Account {
    pub(super) fn new() -> Self {
        Self {
            stalls: Stalls::new(KEPT),
            habits: Habits::default(),
            causes: Default::default(),
            most_unusual: BTreeMap::new(),
        }
    }

    /// Adds a window, and determines the causes of its stalls by comparison with earlier windows.
    pub(super) fn record(&mut self, stalls: &[Stall], deltas: &CounterDeltas, mut each: impl FnMut(&Stall, &Cause)) {
        let causes = stall_causes(stalls, deltas, &self.habits);
        for (stall, cause) in stalls.iter().zip(causes) {
            let place = Cause::NAMES.iter().position(|name| *name == cause.name()).unwrap_or(0);
            self.causes[place].0 += 1;
            self.causes[place].1 = self.causes[place].1.saturating_add(stall.length_ns);
            if let Some(&counter) = named_by(&cause).first() {
                *self.most_unusual.entry((place, counter)).or_default() += 1;
            }
            each(stall, &cause);
            let mut deltas = deltas.clone();
            keep_the_most_unusual(&mut deltas, &cause);
            let details = StallDetails { began: stall.start.to_system_time(), cause, deltas, shared: stalls.len() };
            self.stalls.record(*stall, details);
        }
        self.habits.record(deltas, !stalls.is_empty());
    }
}

/// Keeps at most [`MOVERS`] counters: first the counters that the cause names, then the counters that increased most.
fn keep_the_most_unusual(deltas: &mut CounterDeltas, cause: &Cause) {
    let named = named_by(cause);
    let rank = |place: usize| named.iter().position(|other| *other == place).unwrap_or(usize::MAX);
    if let Some(counts) = &mut deltas.counts {
        counts.sort_by_key(|delta| (rank(delta.counter), std::cmp::Reverse(delta.increase)));
        counts.truncate(MOVERS);
    }
}

/// The time that a thread spent on CPUs other than its own, and its stalls there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OnOtherCpus {
    /// Whether the thread was on another CPU during the last window.
    pub(super) is_now: bool,
    pub(super) ns: u64,
    pub(super) stalls: u64,
}

impl OnOtherCpus {
    /// Adds a window. `stayed` is `true` if the thread stayed on its own CPU. Returns whether the
    /// window counts for that CPU. The window in which the thread was moved to another CPU counts
    /// too, because the stall began on its own CPU.
    pub(super) fn is_own(&mut self, stayed: bool, window: &Window<'_>) -> bool {
        let was_on_other_cpus = std::mem::replace(&mut self.is_now, !stayed);
        let is_own = stayed || (!was_on_other_cpus && window.deltas.migrated);
        if !is_own {
            self.ns = self.ns.saturating_add(window.deltas.window_ns);
            self.stalls += window.stalls.len() as u64;
        }
        is_own
    }
}

/// The results and the settings of a thread, usually of one that has ended.
#[derive(Clone, Debug)]
pub(super) struct ThreadOutcome {
    pub(super) cpu: Option<usize>,
    pub(super) settings: EffectiveSettings,
    pub(super) account: Account,
    pub(super) on_other_cpus: OnOtherCpus,
    pub(super) absences: Vec<Absence>,
    pub(super) not_run: NotRun,
    pub(super) watched: StallWatchStats,
    pub(super) poll_cost: PollCost,
    pub(super) above_ns: u64,
    pub(super) counters: Vec<Counter>,
    pub(super) unreadable: Vec<UnreadableFile>,
    pub(super) counts_firmware: bool,
}

impl ThreadOutcome {
    pub(super) fn absences(&self) -> Vec<CpuAbsence> {
        self.cpu.map_or_else(Vec::new, |cpu| {
            self.absences.iter().map(|absence| cpu_absences::field_of(cpu, absence)).collect()
        })
    }
}

pub(super) fn notes_of(ended: &[ThreadOutcome], no_cpu_left: bool) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    let mut unreadable: Vec<_> = ended.iter().flat_map(|one| &one.unreadable).collect();
    unreadable.sort_by_key(|file| file.path);
    unreadable.dedup();
    notes.extend(unreadable.iter().map(|UnreadableFile { path, cause, .. }| {
        format!("cannot read {path} ({cause}); its counters are missing from the result")
    }));
    if no_cpu_left && ended.iter().all(|one| one.cpu.is_some()) {
        notes.push("another hpt thread shares a CPU with a measuring thread; the other thread wakes up once a minute, or more often if hpt runs on a terminal".to_owned());
    }
    let back: u64 = ended.iter().map(|one| one.watched.backward_steps).sum();
    if back > 0 {
        let times = if back == 1 { "once".to_owned() } else { format!("{back} times") };
        notes.push(format!("the source went backwards {times}; backward steps are not counted as stalls"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use hpt_core::Instant;
    use hpt_instrument::measure::{CounterDeltas, Stall, Window};

    use super::OnOtherCpus;

    const MS: u64 = 1_000_000;

    #[test]
    fn windows_on_other_cpus_are_excluded_except_for_the_window_of_a_migration() {
        let mut on_other_cpus = OnOtherCpus::default();
        let stall = [Stall::new(Instant::EPOCH + std::time::Duration::from_nanos(MS), 30_000)];
        let mut is_own = |stayed, migrated| {
            let mut deltas = CounterDeltas::default();
            (deltas.window_ns, deltas.migrated) = (20 * MS, migrated);
            on_other_cpus.is_own(stayed, &Window::new(&stall, &deltas))
        };
        assert!(is_own(true, false) && is_own(false, true));
        assert!(!is_own(false, false) && !is_own(false, true));
        assert!(is_own(true, true));
        // The affinity of the thread was widened, but the thread did not move, so its CPU in between is unknown.
        assert!(!is_own(false, false));
        assert_eq!((on_other_cpus.ns, on_other_cpus.stalls), (60 * MS, 3));
    }
}
