//! The fields of the document that `--explain` adds.

use std::collections::BTreeSet;

use hpt_core::Host;
use hpt_document::explain::{
    ExplainedCause, ExplainedPart, ExplainedSample, Explanation, TimelinePiece, TraceRecording,
};
use hpt_instrument::trace::{CauseTotal, Explained, Part, TraceError, TraceReport};

use super::fix::{Fixes, MeasuredThread};
use crate::{exit::causes, output::rounded_share};

/// The latency from which on a sample counts toward the causes, in nanoseconds: the default of hpt-instrument.
const THRESHOLD_NS: u64 = 20_000;

/// Returns the fields of a run whose trace could not be recorded.
pub(super) fn without_trace(error: &TraceError) -> Explanation {
    let recording = TraceRecording {
        available: false,
        reason: Some(causes(error)),
        fix: error.fix().map(str::to_owned),
        ..recording(&TraceReport::default())
    };
    Explanation { explain: Some(recording), ..Explanation::default() }
}

/// Returns the fields of a run whose trace was recorded.
pub(super) fn explanation(report: TraceReport, host: &Host, measured: MeasuredThread<'_>) -> Explanation {
    let all_ns = report.latency_ns;
    // Without a cause, the machine need not be examined.
    let causes = if report.causes.is_empty() {
        Vec::new()
    } else {
        let fixes = Fixes::of(host, measured);
        report.causes.iter().map(|cause| cause_of(cause, all_ns, &fixes)).collect()
    };
    Explanation {
        explain: Some(TraceRecording { own_threads: own_threads(&report), ..recording(&report) }),
        causes,
        explained: report.explained.into_iter().map(sample).collect(),
    }
}

const fn recording(report: &TraceReport) -> TraceRecording {
    TraceRecording {
        available: true,
        reason: None,
        fix: None,
        threshold_ns: THRESHOLD_NS,
        samples: report.samples,
        latency_ns: report.latency_ns,
        incomplete: report.incomplete,
        lost_events: report.lost_events,
        event_ns: report.event_ns,
        events: report.events,
        skipped: report.skipped,
        host_unknown: report.host_unknown,
        own_threads: Vec::new(),
        steal_s: report.steal_s,
    }
}

/// Returns the threads of hpt that the parts and the causes name.
fn own_threads(report: &TraceReport) -> Vec<u32> {
    let parts = report.explained.iter().flat_map(|explained| &explained.parts);
    let parts = parts.filter(|part| part.is_own).filter_map(|part| part.pid);
    let causes = report.causes.iter().filter(|cause| cause.is_own).filter_map(|cause| cause.pid);
    let threads: BTreeSet<u32> = parts.chain(causes).map(i32::unsigned_abs).collect();
    threads.into_iter().collect()
}

fn sample(explained: Explained) -> ExplainedSample {
    ExplainedSample {
        cpu: explained.cpu,
        thread: explained.sample.thread.unsigned_abs(),
        deadline_ns: explained.sample.deadline_ns,
        latency_ns: explained.sample.latency_ns,
        complete: explained.is_complete,
        parts: explained.parts.into_iter().map(part).collect(),
        timeline: explained
            .timeline
            .into_iter()
            .map(|piece| TimelinePiece(piece.at_ns, piece.duration_ns, piece.part))
            .collect(),
    }
}

fn part(part: Part) -> ExplainedPart {
    ExplainedPart {
        kind: part.kind,
        name: part.name,
        pid: part.pid.map(i32::unsigned_abs),
        kernel: part.is_kernel,
        boosted: part.is_boosted,
        inherits_from: part.inherits_from,
        doubt: part.doubt,
        longest_ns: part.doubt.map(|_| part.longest_ns),
        after: part.after,
        policy: part.policy.map(str::to_owned),
        priority: part.priority,
        irq: part.irq.map(i32::unsigned_abs),
        function: part.function,
        stack: part.stack,
        idle_state: part.idle_state,
        count: part.count,
        at_ns: part.at_ns,
        duration_ns: part.duration_ns,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share has four digits")]
fn cause_of(cause: &CauseTotal, all_ns: u64, fixes: &Fixes) -> ExplainedCause {
    let fix = fixes.for_cause(cause);
    ExplainedCause {
        kind: cause.kind,
        name: cause.name.clone(),
        pid: cause.pid.map(i32::unsigned_abs),
        kernel: cause.is_kernel,
        boosted: cause.is_boosted,
        inherits_from: cause.inherits_from.clone(),
        doubt: cause.doubt,
        policy: cause.policy.map(str::to_owned),
        priority: cause.priority,
        irq: cause.irq.map(i32::unsigned_abs),
        function: cause.function.clone(),
        stack: cause.stack.clone(),
        idle_state: cause.idle_state,
        samples: cause.samples,
        total_ns: cause.total_ns,
        share: if all_ns == 0 { 0.0 } else { rounded_share(cause.total_ns as f64 / all_ns as f64) },
        worst_ns: cause.worst_ns,
        rule: fix.rule.map(str::to_owned),
        fix: fix.text,
    }
}

#[cfg(test)]
mod tests {
    use hpt_instrument::trace::{CauseKind, CauseTotal, TraceReport};

    use super::own_threads;

    #[test]
    fn the_threads_of_hpt_are_listed_once_and_in_order() {
        let cause = |pid, is_own| {
            let mut cause = CauseTotal::new(CauseKind::Thread);
            (cause.pid, cause.is_own) = (Some(pid), is_own);
            cause
        };
        let mut report = TraceReport::default();
        report.causes = vec![cause(9, true), cause(8, false), cause(7, true), cause(9, true)];
        assert_eq!(own_threads(&report), [7, 9]);
    }
}
