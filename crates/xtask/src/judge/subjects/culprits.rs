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
    /// Whether most delays are shorter than a tick. The emulator does not report what it takes from a CPU, so that nothing
    /// proves then that the kernel could not be preempted.
    is_short: bool,
}

/// A culprit that does its work on another CPU, or in the kernel.
const fn elsewhere(name: &'static str, names: fn(&ExplainedPart) -> bool) -> Culprit {
    Culprit { name, names, is_beside: false, is_short: false }
}

/// A culprit on the measured CPU.
const fn beside(name: &'static str, names: fn(&ExplainedPart) -> bool) -> Culprit {
    Culprit { name, names, is_beside: true, is_short: false }
}

/// As [`beside`], for short delays.
const fn short(name: &'static str, names: fn(&ExplainedPart) -> bool) -> Culprit {
    Culprit { is_short: true, ..beside(name, names) }
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

/// A page comes back from the swap area, or the thread waits until the culprit has written it there.
fn is_page_fault(part: &ExplainedPart) -> bool {
    part.kind == CauseKind::PageFault || part.kind == CauseKind::Blocked && is_culprit(part)
}

/// The thread that writes, the kernel's thread that writes for it, or the interrupt of the disk.
fn is_disk(part: &ExplainedPart) -> bool {
    let name = part.name.as_deref().unwrap_or_default();
    match part.kind {
        CauseKind::NotPreemptible => is_culprit(part) || name.starts_with("kworker/"),
        CauseKind::HardInterrupt => name.starts_with("virtio"),
        CauseKind::SoftInterrupt => name == "BLOCK",
        _ => false,
    }
}

/// The softirq in the call of the thread that sends, or the call itself.
fn is_packets(part: &ExplainedPart) -> bool {
    is_not_preemptible(part) || part.kind == CauseKind::SoftInterrupt && part.name.as_deref() == Some("NET_RX")
}

/// The work of the module, by the thread that does it.
fn is_work(part: &ExplainedPart) -> bool {
    part.kind == CauseKind::NotPreemptible && part.name.as_deref().is_some_and(|name| name.starts_with("kworker/"))
}

/// The thread that changes the slack has the CPU meanwhile.
fn is_slack(part: &ExplainedPart) -> bool {
    part.kind == CauseKind::TimerSlack || is_thread(part) || is_own(part)
}

/// A thread of hpt itself, which delays a thread without a real-time policy like any other.
fn is_own(part: &ExplainedPart) -> bool {
    part.kind == CauseKind::Thread && part.name.as_deref() == Some("hpt-trace")
}

/// While the quota lasts, the two threads share the CPU.
fn is_quota(part: &ExplainedPart) -> bool {
    part.kind == CauseKind::CpuQuota || is_thread(part) || is_own(part)
}

const CULPRITS: [Culprit; 23] = [
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
    elsewhere("pages", is_page_fault),
    beside("disk", is_disk),
    short("packets", is_packets),
    short("compact", is_not_preemptible),
    elsewhere("sampler", is_timer),
    elsewhere("slack", is_slack),
    beside("work", is_work),
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
        if !culprit.is_short {
            all.unexplained += count.unexplained;
        }
        let has_run = case.answers.status(&step_of(case, culprit, 1)).is_some();
        if has_run && count.right == 0 && !culprit.is_short {
            case.wrong(format!("{}: expected: it is named: never", culprit.name));
        }
    }
    // With several CPUs, each one stands still while the emulator runs another one.
    if case.board.cores == 1 && all.right < 9 * all.unexplained {
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
        // Linux 6.12 does not throttle real-time threads. A board with one CPU has none to unplug; one with several shows
        // nothing else.
        let may_lack = run > 1
            || name == "throttled" && case.board.has_fair_server
            || (name == "unplug") == (case.board.cores == 1);
        if may_lack && case.answers.status(&step).is_none() {
            break;
        }
        let Some(timer) = case.ended_with::<WakeLatencyDocument>(&step) else { break };
        let injected = Injected::read(case.err(&step));
        for sample in timer.explanation.explained.iter().filter(|sample| is_caused(&injected, sample)) {
            match decision(culprit, sample) {
                Decision::Right => count.right += 1,
                Decision::Nothing => {}
                // hpt's own delays, which it names rightly.
                Decision::Other(CauseKind::OwnWork | CauseKind::PageFault, _) if culprit.is_beside => {}
                // Where time advances with instructions, a CPU stands while QEMU runs another one.
                Decision::Other(CauseKind::InterruptsOffOrHost, _) if culprit.is_beside => count.unexplained += 1,
                Decision::Other(CauseKind::Unexplained, _) => count.unexplained += 1,
                Decision::Other(kind, other) => {
                    case.wrong(format!("{step}: expected: {name} or nothing is named: {kind:?} {other}"));
                }
            }
        }
    }
    count
}

/// The cause that a sample names.
enum Decision<'a> {
    Right,
    /// Another cause, with its name.
    Other(CauseKind, &'a str),
    /// Only what the machine adds to every delay.
    Nothing,
}

/// Returns what a sample names: the culprit, if its parts are together a quarter of the delay and the longest, or else the
/// longest other cause, without those that the machine adds to every delay.
fn decision<'a>(culprit: &Culprit, sample: &'a ExplainedSample) -> Decision<'a> {
    const ALWAYS: [CauseKind; 6] = [
        CauseKind::HardInterrupt,
        CauseKind::SoftInterrupt,
        CauseKind::IdleExit,
        CauseKind::TimerDelivery,
        CauseKind::Scheduling,
        CauseKind::Return,
    ];
    let (named, others): (Vec<_>, Vec<_>) = sample.parts.iter().partition(|part| (culprit.names)(part));
    let named_ns: u64 = named.iter().map(|part| part.duration_ns).sum();
    let others = others.into_iter().filter(|part| !ALWAYS.contains(&part.kind));
    match others.max_by_key(|part| part.duration_ns) {
        Some(other) if other.duration_ns > named_ns => {
            Decision::Other(other.kind, other.name.as_deref().unwrap_or_default())
        }
        _ if named_ns * 4 >= sample.latency_ns => Decision::Right,
        _ => Decision::Nothing,
    }
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
    fit: |board| board.asked_for("culprits") && board.cores == 1,
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
