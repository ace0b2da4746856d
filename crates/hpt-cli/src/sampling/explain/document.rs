//! The fields of the document that `--explain` adds. Prints nothing.

use hpt_core::{
    Host,
    trace::{CauseTotal, Explained, Part, PartKind, TraceError, TraceReport},
};
use hpt_document::explain::{
    CauseKind, ExplainedCause, ExplainedPart, ExplainedSample, Explanation, TimelinePiece, TraceRecording,
};

use super::fix::Fixes;
use crate::{exit::causes, output::rounded_share};

/// The latency from which on a sample counts toward the causes, in nanoseconds: the default of hpt-core.
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
pub(super) fn explanation(report: TraceReport, host: &Host, measured: &[Option<usize>]) -> Explanation {
    let cpu = if let [cpu] = measured { *cpu } else { None };
    let fixes = if report.causes.is_empty() { Fixes::default() } else { Fixes::of(host, cpu) };
    let all_ns = report.latency_ns;
    Explanation {
        explain: Some(recording(&report)),
        causes: report.causes.iter().map(|cause| cause_of(cause, all_ns, &fixes)).collect(),
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
        skipped: report.skipped,
        host_unknown: report.host_unknown,
        steal_s: report.steal_s,
    }
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
        kind: kind(part.kind),
        name: part.name,
        pid: part.pid.map(i32::unsigned_abs),
        policy: part.policy.map(str::to_owned),
        priority: part.priority,
        irq: part.irq.map(i32::unsigned_abs),
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
        kind: kind(cause.kind),
        name: cause.name.clone(),
        pid: cause.pid.map(i32::unsigned_abs),
        priority: cause.priority,
        irq: cause.irq.map(i32::unsigned_abs),
        idle_state: cause.idle_state,
        samples: cause.samples,
        total_ns: cause.total_ns,
        share: if all_ns == 0 { 0.0 } else { rounded_share(cause.total_ns as f64 / all_ns as f64) },
        worst_ns: cause.worst_ns,
        rule: fix.rule.map(str::to_owned),
        fix: fix.text,
    }
}

const fn kind(kind: PartKind) -> CauseKind {
    match kind {
        PartKind::InterruptsOff => CauseKind::InterruptsOff,
        PartKind::InterruptsOffOrHost => CauseKind::InterruptsOffOrHost,
        PartKind::TimerDelivery => CauseKind::TimerDelivery,
        PartKind::HardInterrupt => CauseKind::HardInterrupt,
        PartKind::SoftInterrupt => CauseKind::SoftInterrupt,
        PartKind::Thread => CauseKind::Thread,
        PartKind::IdleExit => CauseKind::IdleExit,
        PartKind::Host => CauseKind::Host,
        PartKind::Scheduling => CauseKind::Scheduling,
        PartKind::Return => CauseKind::Return,
        PartKind::OwnWork => CauseKind::OwnWork,
        _ => CauseKind::Unexplained,
    }
}

#[cfg(test)]
mod tests {
    use hpt_core::trace::PartKind;

    use super::kind;

    #[test]
    fn each_kind_has_the_name_that_the_library_gives_it() {
        for one in PartKind::ALL {
            assert_eq!(kind(one).name(), one.name());
        }
    }
}
