//! The totals of `hpt watch`: combines intervals into the summary.

use std::io;

use hpt_core::{SourceId, clock};
use hpt_document::{
    SCHEMA,
    cpu_absence::CpuAbsence,
    not_run::NotRun,
    watch::{
        CpuOffline, CpuOffset, MachineEvent, OffsetPoint, Synchronization, WatchDocument, WatchLimits, WatchOffset,
        WatchRow, WatchSteps, WatchSummaryDocument, WatchSummaryRow,
    },
};
use hpt_instrument::{
    diagnose::{EndedInterval, Expected, Fault, Interval, Limits, SourceEvent, Watch, core_fault},
    measure::CoreOffset,
};
use hpt_realtime::PinWatch;

use super::machine_events::{CpuStates, MachineWatch};
use crate::{
    context::Context,
    document_head::head_of,
    output::{rounded, saturating_nanos},
    sampling::cpu_absences,
};

/// The maximum number of points in the time series of a source.
const MAX_POINTS: usize = 500;
/// The number of intervals between checks for a time daemon that started during the run.
const INTERVALS_TO_LOOK_FOR_DAEMONS: u64 = 60;

/// The reference, the limits and the CPU of a watch.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) reference: String,
    pub(super) limits: Limits,
    pub(super) cpu: Option<usize>,
}

pub(super) struct Totals {
    pub(super) watched: Watched,
    pub(super) watch: Watch,
    pub(super) rows: Vec<SourceTotal>,
    pub(super) worst_cores: Vec<CpuOffset>,
    pub(super) events: Vec<MachineEvent>,
    pub(super) absences: Vec<CpuAbsence>,
    pub(super) offline: Vec<CpuOffline>,
    pub(super) refusals: Vec<Refusal>,
    pub(super) shared_faults: Vec<String>,
    pub(super) daemons: Option<Vec<String>>,
    pub(super) intervals: u64,
    pub(super) not_run: Option<NotRun>,
    pub(super) synchronization: Option<Synchronization>,
    /// How far the rate of the kernel's clocks was off at the beginning of the interval.
    pub(super) rate_far_off: Option<String>,
}

/// The events of an interval, and the readings of other clocks.
pub(super) struct SeenInInterval {
    pub(super) synchronization: Synchronization,
    pub(super) offsets: Vec<(SourceId, CoreOffset)>,
    pub(super) events: Vec<MachineEvent>,
    pub(super) rounds_on_other_cpus: u64,
}

/// Two CPUs that could not be compared, although both were online.
#[derive(Debug)]
pub(super) struct Refusal {
    cpus: (usize, usize),
    reason: String,
    first_s: f64,
    last_s: f64,
    times: u64,
}

impl Totals {
    pub(super) fn beginning(expected: &[Expected], watch: Watch, watched: Watched) -> Self {
        let row = |expected: &Expected| {
            let by = if expected.is_stated() { expected.nominal().stated_by.name() } else { "measurement" };
            SourceTotal::beginning(expected.id.as_str(), expected.nominal().frequency.hertz_f64(), by)
        };
        Self {
            watched,
            watch,
            rows: expected.iter().map(row).collect(),
            worst_cores: Vec::new(),
            events: Vec::new(),
            absences: Vec::new(),
            offline: Vec::new(),
            refusals: Vec::new(),
            shared_faults: Vec::new(),
            daemons: None,
            intervals: 0,
            not_run: None,
            synchronization: None,
            rate_far_off: None,
        }
    }

    pub(super) fn has_seen_a_step(&self) -> bool {
        !self.shared_faults.is_empty() || self.rows.iter().any(|total| total.row.steps.steps > 0)
    }

    /// Updates the times when the thread was not on its CPU, and when CPUs were offline.
    pub(super) fn follow(&mut self, presence: Option<&PinWatch<'_>>, cpus: &CpuStates) {
        self.absences = presence.map_or_else(Vec::new, cpu_absences::all_of);
        self.offline.clone_from(&cpus.offline);
    }

    pub(super) fn note_refusal(&mut self, cpus: (usize, usize), refused: &io::Error, at_s: f64) {
        let reason = refused.to_string();
        match self.refusals.iter_mut().find(|known| known.cpus == cpus && known.reason == reason) {
            Some(known) => {
                known.last_s = at_s;
                known.times += 1;
            }
            None => self.refusals.push(Refusal { cpus, reason, first_s: at_s, last_s: at_s, times: 1 }),
        }
    }

    /// Returns notes on CPUs that were offline.
    pub(super) fn notes_of_cpus(&self, are_compared: bool) -> Vec<String> {
        let absences = cpu_absences::notes(
            &self.absences,
            ["round of readings was taken there", "rounds of readings were taken there"],
        );
        let then = if are_compared { "; it was compared with other CPUs only while it was online" } else { "" };
        // The thread's own CPU already has a note.
        let is_new =
            |offline: &&CpuOffline| !self.absences.iter().any(|absence| absence.offline && absence.cpu == offline.cpu);
        let offline = self.offline.iter().filter(is_new).map(|offline| {
            format!("CPU {} was offline {}{then}", offline.cpu, cpu_absences::span(offline.from_s, offline.to_s))
        });
        let refused = self.refusals.iter().map(|refusal| {
            let Refusal { cpus: (first, second), reason, first_s, last_s, times } = refusal;
            let when = if *times == 1 {
                format!("at {first_s} s")
            } else {
                format!("in {times} intervals from {first_s} s to {last_s} s")
            };
            format!("CPU {first} and CPU {second} could not be compared {when}, although both were online: {reason}")
        });
        absences.into_iter().chain(offline).chain(refused).collect()
    }

    pub(super) fn synchronization(&mut self, context: &Context) -> Synchronization {
        if self.intervals % INTERVALS_TO_LOOK_FOR_DAEMONS == 0 {
            let daemons = context.host.time_daemons();
            self.daemons = daemons.map(|daemons| daemons.into_iter().map(str::to_owned).collect());
        }
        let is = clock::discipline().ok();
        self.rate_far_off = is.and_then(|is| is.far_off());
        Synchronization {
            readable: is.is_some(),
            synchronized: is.map(|is| is.synchronized),
            status: is.map(|is| is.status),
            frequency_ppm: is.map(|is| rounded(is.frequency_ppm)),
            tick_ppm: is.map(|is| rounded(is.tick_ppm)),
            maximum_error_ns: is.map(|is| saturating_nanos(is.maximum_error)),
            estimated_error_ns: is.map(|is| saturating_nanos(is.estimated_error)),
            daemons: self.daemons.clone(),
        }
    }

    pub(super) fn end_interval(
        &mut self,
        machine: &MachineWatch,
        seen: SeenInInterval,
        context: &Context,
    ) -> WatchDocument {
        let SeenInInterval { synchronization, offsets, events, rounds_on_other_cpus } = seen;
        let EndedInterval { sources: intervals, shared_faults: all, .. } = self.watch.end_interval();
        self.intervals += 1;
        let at_s = machine.at_s();
        let rows: Vec<WatchRow> = self
            .rows
            .iter()
            .zip(&intervals)
            .map(|(sum, interval)| row(self.intervals, at_s, &sum.row.source, interval))
            .collect();
        for ((sum, row), interval) in self.rows.iter_mut().zip(&rows).zip(&intervals) {
            sum.add(row, interval);
        }
        let cores: Vec<CpuOffset> =
            offsets.into_iter().map(|(source, offset)| cores(source.as_str(), &offset, &self.watched.limits)).collect();
        for found in &cores {
            let is_of_both =
                |kept: &&mut CpuOffset| (kept.first_cpu, kept.second_cpu) == (found.first_cpu, found.second_cpu);
            match self.worst_cores.iter_mut().find(is_of_both) {
                Some(kept) if is_worse(found, kept) => kept.clone_from(found),
                Some(_) => {}
                None => self.worst_cores.push(found.clone()),
            }
        }
        let rate = lasting(self.rate_far_off.take(), || clock::discipline().ok()?.far_off());
        let shared_faults: Vec<String> = all.iter().map(Fault::to_string).chain(rate).collect();
        self.shared_faults.extend_from_slice(&shared_faults);
        self.events.extend_from_slice(&events);
        self.synchronization = Some(synchronization.clone());
        WatchDocument {
            schema: SCHEMA,
            kind: "watch".to_owned(),
            hpt: env!("CARGO_PKG_VERSION").to_owned(),
            interval: self.intervals,
            at_s,
            reference: self.watched.reference.clone(),
            clocksource: context.host.clock_sources().current,
            rounds_on_other_cpus,
            sources: rows,
            cores,
            events,
            shared_faults,
            synchronization,
        }
    }

    pub(super) fn summary(
        &mut self,
        machine: &MachineWatch,
        notes: Vec<String>,
        context: &Context,
    ) -> WatchSummaryDocument {
        let Watched { reference, limits, cpu } = self.watched.clone();
        let synchronization = self.synchronization(context);
        let faulty = self.rows.iter().any(|total| total.row.faults > 0)
            || !self.shared_faults.is_empty()
            || self.worst_cores.iter().any(|cores| cores.fault.is_some());
        WatchSummaryDocument {
            head: head_of("watch-summary", &context.host),
            cpu,
            reference,
            limits: WatchLimits {
                frequency_error_ppm: limits.rate_ppm,
                nominal_tolerance_added: limits.statements_may_be_wrong,
                step_ns: saturating_nanos(limits.step),
                core_offset_ns: saturating_nanos(limits.core_offset),
            },
            elapsed_s: machine.at_s(),
            intervals: self.intervals,
            rounds: self.watch.summary().rounds,
            cpu_absences: self.absences.clone(),
            not_run: self.not_run.clone(),
            faulty,
            sources: self.rows.iter().map(|total| total.row.clone()).collect(),
            cores: self.worst_cores.clone(),
            events: self.events.clone(),
            offline: self.offline.clone(),
            shared_faults: self.shared_faults.clone(),
            synchronization,
            interrupted: context.interrupted(),
            notes,
        }
    }
}

/// The totals of one source over all intervals.
#[derive(Clone, Debug)]
pub(super) struct SourceTotal {
    pub(super) row: WatchSummaryRow,
    /// The number of intervals per point of the time series.
    pub(super) intervals_per_point: u64,
}

impl SourceTotal {
    /// Creates the row of a source that has no result yet.
    pub(super) fn beginning(source: &str, expected_hz: f64, expected_by: &str) -> Self {
        let row = WatchSummaryRow {
            source: source.to_owned(),
            expected_hz: Some(expected_hz),
            expected_origin: Some(expected_by.to_owned()),
            offset: WatchOffset { bursts: 0, bracket_ns: None, offset_ns: None, offset_bound_ns: None },
            lowest_ppm: None,
            lowest_bound_ppm: None,
            highest_ppm: None,
            highest_bound_ppm: None,
            steps: WatchSteps { steps: 0, backward_steps: 0, times_set: 0 },
            faults: 0,
            first_fault: None,
            time_series: Vec::new(),
        };
        Self { row, intervals_per_point: 1 }
    }

    pub(super) fn add(&mut self, row: &WatchRow, interval: &Interval) {
        let sum = &mut self.row;
        sum.offset = WatchOffset {
            bursts: sum.offset.bursts + interval.bursts,
            bracket_ns: sum.offset.bracket_ns.into_iter().chain(interval.bracket_ns).min(),
            offset_ns: row.offset.offset_ns.or(sum.offset.offset_ns),
            offset_bound_ns: row.offset.offset_bound_ns.or(sum.offset.offset_bound_ns),
        };
        if let Some((off_ppm, bound_ppm)) = row.frequency_error_ppm.zip(row.frequency_bound_ppm) {
            if sum.lowest_ppm.is_none_or(|lowest| off_ppm < lowest) {
                (sum.lowest_ppm, sum.lowest_bound_ppm) = (Some(off_ppm), Some(bound_ppm));
            }
            if sum.highest_ppm.is_none_or(|highest| off_ppm > highest) {
                (sum.highest_ppm, sum.highest_bound_ppm) = (Some(off_ppm), Some(bound_ppm));
            }
        }
        sum.steps.steps += interval.steps;
        sum.steps.backward_steps += interval.backwards;
        sum.steps.times_set += interval.set;
        sum.faults += interval.faults.len() as u64;
        if sum.first_fault.is_none() {
            sum.first_fault = interval.faults.first().map(|fault| format!("after {} s: {fault}", row.at_s));
        }
        let is_shown = (row.interval - 1) % self.intervals_per_point == 0;
        let offset = row.offset.offset_ns.zip(row.offset.offset_bound_ns).filter(|_| is_shown);
        if let Some((offset_ns, bound_ns)) = offset {
            sum.time_series.push(OffsetPoint(row.at_s, offset_ns, bound_ns));
        }
        if sum.time_series.len() > MAX_POINTS {
            self.intervals_per_point *= 2;
            let mut place = 0_usize;
            sum.time_series.retain(|_| {
                place += 1;
                place % 2 == 1
            });
        }
    }
}

pub(super) fn row(number: u64, at_s: f64, source: &str, interval: &Interval) -> WatchRow {
    let messages = interval.faults.iter().map(Fault::to_string).chain(interval.events.iter().map(happening));
    WatchRow {
        interval: number,
        at_s,
        source: source.to_owned(),
        offset: WatchOffset {
            bursts: interval.bursts,
            bracket_ns: interval.bracket_ns,
            offset_ns: interval.offset.map(|offset| rounded(offset.offset_ns)),
            offset_bound_ns: interval.offset.map(|offset| rounded(offset.bound_ns)),
        },
        frequency_error_ppm: interval
            .frequency_error
            .map(|error| rounded(f64::midpoint(error.lower_ppm, error.upper_ppm))),
        frequency_bound_ppm: interval.frequency_error.map(|error| rounded((error.upper_ppm - error.lower_ppm) / 2.0)),
        steps: WatchSteps { steps: interval.steps, backward_steps: interval.backwards, times_set: interval.set },
        faults: interval.faults.iter().map(|fault| fault.name().to_owned()).collect(),
        messages: messages.collect(),
    }
}

pub(super) fn happening(event: &SourceEvent) -> String {
    match event {
        SourceEvent::WasSet { least_ns, most_ns } => {
            format!("was set, which caused a step of {:.6} to {:.6} s", least_ns / 1e9, most_ns / 1e9)
        }
        SourceEvent::SmallStep { least_ns, most_ns } => {
            format!("stepped by {least_ns:.0} to {most_ns:.0} ns, within the accepted limit")
        }
        SourceEvent::Lost => "may have wrapped, so the comparison restarts".to_owned(),
        other => format!("{other:?}"),
    }
}

pub(super) fn cores(source: &str, offset: &CoreOffset, limits: &Limits) -> CpuOffset {
    CpuOffset {
        source: source.to_owned(),
        first_cpu: offset.cpus.first,
        second_cpu: offset.cpus.second,
        min_ns: rounded(offset.least_ns),
        max_ns: rounded(offset.most_ns),
        handovers: offset.handovers,
        fault: core_fault(offset, limits).map(|fault| fault.to_string()),
    }
}

/// Returns whether `one` is more important than `other`. A pair with a fault is more important than a pair without one.
/// Otherwise, the pair with the tighter bound is more important.
pub(super) fn is_worse(one: &CpuOffset, other: &CpuOffset) -> bool {
    let width = |cores: &CpuOffset| cores.max_ns - cores.min_ns;
    match (one.fault.is_some(), other.fault.is_some()) {
        (true, false) => true,
        (false, true) => false,
        (_, _) => width(one) < width(other),
    }
}

/// Returns the fault of a rate that is far off at the beginning and at the end of an interval. A daemon that corrects an
/// offset changes the rate for a moment.
fn lasting(begin: Option<String>, end: impl FnOnce() -> Option<String>) -> Option<String> {
    begin.and_then(|_| end())
}

#[cfg(test)]
mod tests {
    use hpt_instrument::{
        diagnose::Limits,
        measure::{CoreOffset, CpuPair},
    };

    use super::{cores, is_worse, lasting};

    #[test]
    fn a_rate_is_a_fault_only_if_it_lasts() {
        let far = || Some("7.4 % slow".to_owned());
        assert_eq!((lasting(far(), far), lasting(None, far), lasting(far(), || None)), (far(), None, None));
    }

    #[test]
    fn a_fault_of_two_cores_is_kept_before_the_tightest_limits() {
        let found = |least_ns, most_ns| {
            cores(
                "tsc",
                &CoreOffset { cpus: CpuPair { first: 0, second: 1 }, least_ns, most_ns, handovers: 1 },
                &Limits::default(),
            )
        };
        let (tight, wide, apart) = (found(-10.0, 10.0), found(-1e6, 1e6), found(2_000.0, 9_000.0));
        assert!(is_worse(&tight, &wide) && is_worse(&apart, &tight) && !is_worse(&tight, &apart));
    }
}
