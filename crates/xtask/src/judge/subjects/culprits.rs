//! Each culprit that delays a thread is named, or nothing is.

use hpt_document::{
    explain::{CauseKind, ExplainedPart, ExplainedSample},
    wake_latency::WakeLatencyDocument,
};

use super::explain::Injected;
use crate::judge::{
    case::Case,
    plant::{Plant, Planted, Plants},
};

/// The right answer to a culprit.
struct Culprit {
    name: &'static str,
    /// Returns whether a part names it.
    names: fn(&ExplainedPart) -> bool,
    /// Whether it runs on the measured CPU, so that it does nothing while the measured thread runs.
    is_beside: bool,
}

/// A culprit that does its work on another CPU, or in the kernel.
const fn elsewhere(name: &'static str, names: fn(&ExplainedPart) -> bool) -> Culprit {
    Culprit { name, names, is_beside: false }
}

/// A culprit on the measured CPU.
const fn beside(name: &'static str, names: fn(&ExplainedPart) -> bool) -> Culprit {
    Culprit { name, names, is_beside: true }
}

fn is_thread(part: &ExplainedPart) -> bool {
    part.kind == CauseKind::Thread && is_culprit(part)
}

fn is_culprit(part: &ExplainedPart) -> bool {
    part.name.as_deref() == Some("culprit")
}

/// Code of the kernel that does not switch to another thread.
fn is_not_preemptible(part: &ExplainedPart) -> bool {
    part.kind == CauseKind::NotPreemptible && is_culprit(part)
}

/// The kernel's thread that stops the CPU, or the work with which the kernel then divides the others anew.
fn is_unplug(part: &ExplainedPart) -> bool {
    let stops = part.name.as_deref().is_some_and(|name| name.starts_with("migration/"));
    stops || part.stack.iter().any(|function| function.starts_with("cpuset_hotplug_workfn"))
}

fn is_timer(part: &ExplainedPart) -> bool {
    part.kind == CauseKind::HardInterrupt && part.name.as_deref() == Some("local_timer")
}

/// While the quota lasts, the two threads share the CPU.
fn is_quota(part: &ExplainedPart) -> bool {
    part.kind == CauseKind::CpuQuota || is_thread(part)
}

const CULPRITS: [Culprit; 16] = [
    elsewhere("stop", |part| part.kind == CauseKind::Stopped && is_culprit(part)),
    elsewhere("trace", |part| part.kind == CauseKind::Traced),
    elsewhere("freeze", |part| part.kind == CauseKind::Blocked && is_culprit(part)),
    beside("unplug", is_unplug),
    beside("equal", |part| is_thread(part) && part.priority == Some(80)),
    beside("deadline", |part| is_thread(part) && part.policy.as_deref() == Some("deadline")),
    beside("lock", |part| is_thread(part) && part.inherits_from.is_some()),
    beside("unmap", is_not_preemptible),
    beside("exit", is_not_preemptible),
    beside("tasks", is_not_preemptible),
    beside("timers", is_timer),
    beside("quota", is_quota),
    beside("parent-quota", is_quota),
    beside("budget", |part| part.kind == CauseKind::Budget),
    beside("throttled", |part| part.kind == CauseKind::Paused),
    beside("starved", |part| part.kind == CauseKind::Paused),
];

/// The largest number of runs in which a fault is planted.
const MOST_RUNS: u32 = 9;

/// The number of samples with each kind of answer.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    right: usize,
    unexplained: usize,
}

pub(super) fn judge(case: &Case<'_>) {
    let mut all = Count::default();
    for culprit in &CULPRITS {
        let count = judge_culprit(case, culprit);
        case.shown(format!("{}: {} right, {} unexplained", culprit.name, count.right, count.unexplained));
        all.right += count.right;
        all.unexplained += count.unexplained;
        let has_run = case.answers.status(&step_of(case, culprit, 1)).is_some();
        if has_run && count.right == 0 {
            case.wrong(format!("{}: expected: it is named: never", culprit.name));
        }
    }
    if all.right < 9 * all.unexplained {
        case.wrong(format!("expected: nine of ten are right: {} are, {} are unexplained", all.right, all.unexplained));
    }
}

fn step_of(case: &Case<'_>, culprit: &Culprit, run: u32) -> String {
    format!("{}.culprit-{}-{run}", case.board.first_build(), culprit.name)
}

/// Counts the answers in all runs of a culprit.
fn judge_culprit(case: &Case<'_>, culprit: &Culprit) -> Count {
    let name = culprit.name;
    let mut count = Count::default();
    for run in 1.. {
        let step = step_of(case, culprit, run);
        // Linux 6.12 does not throttle real-time threads.
        let may_lack = run > 1 || name == "throttled" && case.board.has_fair_server;
        if may_lack && case.answers.status(&step).is_none() {
            break;
        }
        let Some(timer) = case.ended_with::<WakeLatencyDocument>(&step) else { break };
        let injected = Injected::read(case.err(&step));
        for sample in timer.explanation.explained.iter().filter(|sample| is_caused(&injected, sample)) {
            let Some(first) = deciding(culprit, sample) else { continue };
            match first.kind {
                _ if (culprit.names)(first) => count.right += 1,
                // hpt's own delays, which it names rightly.
                CauseKind::OwnWork | CauseKind::PageFault if culprit.is_beside => {}
                // Where time advances with instructions, a CPU stands while QEMU runs another one.
                CauseKind::InterruptsOffOrHost if culprit.is_beside => count.unexplained += 1,
                CauseKind::Unexplained => count.unexplained += 1,
                kind => {
                    let other = first.name.as_deref().unwrap_or_default();
                    case.wrong(format!("{step}: expected: {name} or nothing is named: {kind:?} {other}"));
                }
            }
        }
    }
    count
}

/// Returns the part that tells the cause: the largest one, without those that the machine adds to every delay, unless they
/// name the culprit.
fn deciding<'a>(culprit: &Culprit, sample: &'a ExplainedSample) -> Option<&'a ExplainedPart> {
    const ALWAYS: [CauseKind; 6] = [
        CauseKind::HardInterrupt,
        CauseKind::SoftInterrupt,
        CauseKind::IdleExit,
        CauseKind::TimerDelivery,
        CauseKind::Scheduling,
        CauseKind::Return,
    ];
    sample.parts.iter().find(|part| (culprit.names)(part) || !ALWAYS.contains(&part.kind))
}

/// Returns whether the culprit caused a sample. One without a program of its own causes all.
fn is_caused(injected: &Injected, sample: &ExplainedSample) -> bool {
    !injected.has_times() || injected.during(sample) * 2 > sample.latency_ns
}

/// Changes the answers of all runs of a culprit.
fn parts(it: &mut Planted, culprit: &str, change: impl Fn(&mut ExplainedPart)) {
    for run in 1..=MOST_RUNS {
        it.document(&format!(".culprit-{culprit}-{run}"), |it: &mut WakeLatencyDocument| {
            it.explanation.explained.iter_mut().flat_map(|sample| &mut sample.parts).for_each(&change);
        });
    }
}

pub(super) const PLANTS: &[Plants] = &[Plants {
    about: "culprits",
    fit: |board| board.asked_for("culprits"),
    plants: &[
        Plant {
            what: "a stopped thread waits for a late timer",
            change: |it| parts(it, "stop", |part| part.kind = CauseKind::InterruptsOff),
        },
        Plant {
            what: "nothing is explained",
            change: |it| parts(it, "quota", |part| part.kind = CauseKind::Unexplained),
        },
        Plant { what: "the priority is its own", change: |it| parts(it, "lock", |part| part.inherits_from = None) },
    ],
}];
