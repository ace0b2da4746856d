//! The rows of the `hpt latency stall` document.

use std::collections::BTreeMap;

use hpt_core::Instant;
use hpt_document::{
    latency::MicrosecondCount,
    stall::{CounterIncrease, CounterKind, StallCauseRow, StallCounterRow, StallRow, StallThreadRow},
};
use hpt_instrument::{
    diagnose::Cause,
    measure::{Counter, CounterDelta, KeptStall, Recurrence},
};

use super::account::{Account, KEPT, StallDetails, ThreadOutcome, named_by};
use crate::{
    output::{self, latency_files::ThreadLatencies, metrics::stall::StallFigures, rounded, short_time},
    sampling::{
        bins::bins_of,
        cpu_options::place_of,
        latency_figures::quantiles_of,
        limits::{
            quantity::Quantity,
            verdict::{LimitedRow, Seen},
        },
    },
};

pub(super) fn so_far(thread: &ThreadLatencies) -> StallFigures {
    let lengths = &thread.latencies;
    let counts = lengths.histogram();
    StallFigures {
        cpu: thread.cpu,
        stalls: counts.samples(),
        quantiles: quantiles_of(counts),
        max_ns: lengths.worst().map(|longest| longest.latency_ns),
        ended: None,
    }
}

pub(super) fn row(ended: &ThreadOutcome) -> StallThreadRow {
    let ThreadOutcome { account, watched, .. } = ended;
    let lengths = account.stalls.lengths();
    let counts = lengths.histogram();
    let period = account.stalls.recurrence();
    let of_period = |figure: fn(&Recurrence) -> u64| period.as_ref().map(figure);
    let windows = account.habits.windows();
    let microseconds = (0..).zip(lengths.microseconds()).filter(|&(_, &count)| count > 0);
    StallThreadRow {
        cpu: ended.cpu,
        stalls: counts.samples(),
        stalled_ns: account.stalls.stalled_ns(),
        elapsed_ns: watched.elapsed_ns.saturating_sub(ended.on_other_cpus.ns),
        elapsed_on_other_cpus_ns: ended.on_other_cpus.ns,
        not_run: ended.not_run.clone(),
        stalls_on_other_cpus: ended.on_other_cpus.stalls,
        threshold_ns: ended.above_ns,
        min_ns: counts.quantile(0.0),
        mean_ns: lengths.mean_ns().map(rounded),
        quantiles: quantiles_of(counts),
        max_ns: lengths.worst().map(|longest| longest.latency_ns),
        max_at_ns: lengths.worst().map(|longest| longest.deadline.nanos_since(Instant::EPOCH)),
        period_ns: of_period(|period| period.period_ns),
        // As many samples lie below the first as above the second.
        period_p10_ns: period.as_ref().and_then(|period| output::tail(period.followed, 0.9, period.p10_ns)),
        period_p90_ns: period.as_ref().and_then(|period| output::tail(period.followed, 0.9, period.p90_ns)),
        period_followed: of_period(|period| period.followed),
        period_eligible: of_period(|period| period.eligible),
        sampling_ns: watched.sampling_ns,
        samplings: watched.samplings,
        longest_sampling_ns: watched.longest_sampling_ns,
        blind_below_ns: watched.blind_below_ns,
        backward_steps: watched.backward_steps,
        windows_with_stall: windows.with_stall,
        windows_without_stall: windows.without_stall,
        histogram_us: microseconds.map(|(us, &count)| MicrosecondCount(us, count)).collect(),
        above_10ms: lengths.overflows(),
        histogram_ns: bins_of(counts),
    }
}

/// Returns the results of one thread, to be compared with limits. Gaps up to the threshold are no stalls.
#[expect(clippy::cast_precision_loss, reason = "for comparing")]
pub(super) fn limited_row(ended: &ThreadOutcome) -> LimitedRow<'_> {
    let lengths = ended.account.stalls.lengths();
    let above = short_time(ended.above_ns as f64);
    let none = format!("there is no stall above {above}");
    let of_lengths = LimitedRow::of_latencies(place_of(ended.cpu), lengths);
    let samples = of_lengths.samples;
    let of_stalls = of_lengths.seen;
    let seen = move |quantity| match quantity {
        Quantity::Max if samples == 0 => {
            Ok(Seen::AtMost(ended.above_ns as f64, format!("{none}; shorter gaps are seen with a lower --above")))
        }
        Quantity::Quantile(_) | Quantity::Mean if samples == 0 => Err(none.clone()),
        other => of_stalls(other),
    };
    LimitedRow { each: ["stall", "stalls"], seen: Box::new(seen), ..of_lengths }
}

/// Returns the counter that was most often the most unusual one in the stalls with this cause.
fn counter_of(place: usize, ended: &[ThreadOutcome]) -> Option<String> {
    let mut stalls: BTreeMap<&str, u64> = BTreeMap::new();
    for one in ended {
        for (&(_, counter), count) in one.account.most_unusual.range((place, 0)..=(place, usize::MAX)) {
            *stalls.entry(one.counters.get(counter).map_or("", |counter| &counter.name)).or_default() += count;
        }
    }
    // Of several counters with the same number of stalls, the first by name.
    let most = stalls.into_iter().rev().max_by_key(|&(_, count)| count);
    most.map(|(name, _)| name.to_owned()).filter(|name| !name.is_empty())
}

/// Returns a row for each cause, in order of decreasing time lost.
pub(super) fn cause_rows(ended: &[ThreadOutcome]) -> Vec<StallCauseRow> {
    let sum = |place: usize| {
        ended
            .iter()
            .map(|one| one.account.causes[place])
            .fold((0, 0_u64), |sum, one| (sum.0 + one.0, sum.1.saturating_add(one.1)))
    };
    let rows = Cause::NAMES.iter().enumerate().map(|(place, &cause)| {
        let (stalls, stalled_ns) = sum(place);
        StallCauseRow { cause: cause.to_owned(), counter: counter_of(place, ended), stalls, stalled_ns }
    });
    let mut rows: Vec<_> = rows.filter(|row| row.stalls > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.stalled_ns));
    rows
}

const fn kind(counter: &Counter) -> CounterKind {
    match counter.kind {
        CounterKind::SoftInterrupt => CounterKind::SoftInterrupt,
        // Kinds that later versions add are treated as interrupts.
        _ => CounterKind::Interrupt,
    }
}

/// Returns the counters that increased in a window with a stall. The counters that are most typical of windows with a
/// stall come first.
pub(super) fn counter_rows(ended: &ThreadOutcome) -> Vec<StallCounterRow> {
    let habits = &ended.account.habits;
    let windows = habits.windows();
    let mut rows: Vec<StallCounterRow> = (0..ended.counters.len())
        .map(|place| (&ended.counters[place], habits.of(place)))
        .filter(|(_, habit)| habit.with > 0)
        .map(|(counter, habit)| StallCounterRow {
            cpu: ended.cpu,
            kind: kind(counter),
            name: counter.name.clone(),
            label: counter.label.clone(),
            windows_with_stall: habit.with,
            windows_without_stall: habit.without,
            baseline_hz: habit.usual_hz.map(rounded),
        })
        .collect();
    #[expect(clippy::cast_precision_loss, reason = "shares of windows")]
    let lift = |row: &StallCounterRow| {
        row.windows_with_stall as f64 / windows.with_stall.max(1) as f64
            - row.windows_without_stall as f64 / windows.without_stall.max(1) as f64
    };
    rows.sort_by(|one, other| lift(other).total_cmp(&lift(one)));
    rows
}

/// A stall as a document row, and its likely cause as text.
pub(super) type StallWithWords = (StallRow, String);

/// Merges the stalls of all threads into one sorted list of at most [`KEPT`] stalls.
pub(super) fn chosen<'a, I, K>(
    ended: &'a [ThreadOutcome],
    of: impl Fn(&'a Account) -> I,
    order: impl Fn(&StallRow) -> K,
) -> Vec<StallWithWords>
where
    I: Iterator<Item = &'a KeptStall<StallDetails>>,
    K: Ord,
{
    let rows = ended.iter().flat_map(|one| {
        of(&one.account).map(|found| (stall_row(one, found), words(&found.details, &one.counters, one.counts_firmware)))
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(|(row, _)| order(row));
    rows.truncate(KEPT);
    rows
}

fn stall_row(ended: &ThreadOutcome, KeptStall { stall, details, .. }: &KeptStall<StallDetails>) -> StallRow {
    let deltas = &details.deltas;
    let named = deltas.counts.iter().flatten();
    let named = named.filter_map(|delta| Some((ended.counters.get(delta.counter)?, delta.increase)));
    StallRow {
        cpu: ended.cpu,
        start_ns: stall.start.nanos_since(Instant::EPOCH),
        started_at: humantime::format_rfc3339_micros(details.began).to_string(),
        length_ns: stall.length_ns,
        uncertainty_ns: stall.uncertainty_ns,
        cause: details.cause.name().to_owned(),
        window_ns: deltas.window_ns,
        stalls_in_window: details.shared,
        voluntary_switches: deltas.voluntary,
        involuntary_switches: deltas.involuntary,
        major_faults: deltas.major_faults,
        run_queue_wait_ns: deltas.waited_ns,
        migrated: deltas.migrated,
        steal_ns: deltas.stolen_ns,
        throttled_ns: deltas.throttled_ns,
        smi_count: deltas.firmware,
        counters: named.map(|(counter, by)| CounterIncrease(counter.name.clone(), by)).collect(),
    }
}

/// Returns the likely cause and its evidence as text.
#[expect(clippy::cast_precision_loss, reason = "for printing")]
pub(super) fn words(details: &StallDetails, counters: &[Counter], counts_firmware: bool) -> String {
    let deltas = &details.deltas;
    let time = |ns: Option<u64>| short_time(ns.unwrap_or(0) as f64);
    let counted = |delta: &CounterDelta| {
        let counter = counters.get(delta.counter)?;
        let named = if counter.name.bytes().all(|byte| byte.is_ascii_digit()) && !counter.label.is_empty() {
            format!("{} ({})", counter.name, counter.label)
        } else {
            counter.name.clone()
        };
        Some(format!("{named} +{}", delta.increase))
    };
    let counts = |most: usize| {
        let counts = deltas.counts.iter().flatten().filter_map(counted).take(most);
        counts.collect::<Vec<_>>().join(", ")
    };
    let words = match &details.cause {
        Cause::KeptWaiting => {
            let waited = deltas
                .waited_ns
                .map_or_else(String::new, |_| format!("waited {} for the CPU: ", time(deltas.waited_ns)));
            let or_quota = if deltas.throttled_ns.is_none() { ", or a quota was exhausted" } else { "" };
            format!("{waited}other threads ran{or_quota}")
        }
        Cause::QuotaUsedUp => {
            format!("the CPU quota was used up: paused for {}", time(deltas.throttled_ns))
        }
        Cause::Stopped => "stopped by a signal, a debugger or the cgroup freezer".to_owned(),
        Cause::PagedIn => "waited for a page to be read from disk".to_owned(),
        Cause::Migrated => "moved to another CPU".to_owned(),
        Cause::Stolen => format!("the hypervisor ran other guests: {} of steal time", time(deltas.stolen_ns)),
        Cause::Firmware => format!("firmware: SMI +{}", deltas.firmware.unwrap_or(0)),
        Cause::Interrupts(_) => counts(named_by(&details.cause).len().min(3)),
        Cause::InterruptsUncompared(_) => {
            format!("{} (no window without a stall to compare with)", counts(named_by(&details.cause).len().min(3)))
        }
        Cause::AsUsual => format!("nothing unusual: {}", counts(2)),
        Cause::Nothing if counts_firmware => {
            "no counter increased; likely the hypervisor or the processor itself".to_owned()
        }
        Cause::Nothing => "no counter increased; likely firmware or the hypervisor".to_owned(),
        Cause::Untold => "no counter could be read".to_owned(),
        // Causes added by later versions are shown by name.
        other => other.name().to_owned(),
    };
    let shared = if details.shared > 1 { format!(" (shared by {} stalls)", details.shared) } else { String::new() };
    format!("{words}{shared}")
}
