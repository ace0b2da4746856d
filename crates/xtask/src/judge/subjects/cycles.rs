//! The kernel module `hpt_cycles` opens the cycle counter, keeps it open, reports what perf does to
//! it, and closes it again.

use hpt_document::{bench::BenchDocument, experiment::ExperimentDocument, pairs::PairsDocument, probe::ProbeDocument};

use super::{cycles_kernel, cycles_kvm};
use crate::judge::{
    board::AfterPerf,
    case::{Case, source},
    counter::{CPU, Counter},
    plant::{Plant, Plants},
    text::{has_line, in_one_line},
};

/// The result of reading a closed counter.
const SIGILL: &str = "SIGILL";
/// The result of reading an open counter.
const MOVES: &str = "moves";

#[expect(clippy::too_many_lines, reason = "one subject after another, on one board")]
pub(super) fn judge(case: &Case<'_>) {
    let counter = Counter::new(case);
    for build in &case.board.builds {
        counter.is_read(&format!("{build}.cycles-before"), SIGILL, None);
        hpt_says(
            case,
            &format!("{build}.cycles-hpt-before"),
            1,
            "arm-cycles is not available, with a reason",
            |available, _, reason, _| !available && reason,
        );
        cycles_kernel::judge_without(case, build);
    }
    if case.board.after_perf == AfterPerf::Refused {
        if case.answers.status("cycles-load").is_none_or(|status| status == 0) {
            case.wrong("cycles-load: loading hpt_cycles did not fail".to_owned());
        }
        counter.module_said("no CPU has a working cycle counter that this module supports");
        case.shown("no cycle counter, and hpt_cycles reports it");
        return;
    }
    if !case.ended("cycles-load") {
        return;
    }
    counter.module_said(&format!("programs can read the cycle counter of CPU {}", counter.all));
    counter.state_is("cycles-state", &format!("open {}", counter.all));
    judge_looks(case);
    for build in &case.board.builds {
        judge_reads(case, &counter, build);
        judge_measurements(case, build);
        cycles_kernel::judge(case, build);
    }
    for when in ["powered-down", "again", "perf-once-more", "unload", "load-again", "unload-again"] {
        case.ended(&format!("cycles-{when}"));
    }
    let mut shown = format!("cycle counter on {} CPUs with hpt_cycles, also read in the kernel", case.board.cores);
    if case.board.hotplug {
        counter.state_is("cycles-offline", &format!("open {}", counter.others));
        counter.state_is("cycles-online", &format!("open {}", counter.all));
        shown += ", through hotplug";
    }
    if case.board.has_user_access() {
        counter.state_is("cycles-user-access", &format!("taken {}", counter.all));
        shown += ", through perf's register access";
    }
    judge_register(case);
    judge_readers(case);
    if case.board.vcpu {
        cycles_kvm::judge_module(case, &counter);
        let build = case.board.first_build();
        hpt_says(
            case,
            &format!("{build}.cycles-hpt-cleared"),
            1,
            "KVM closed arm-cycles, and a fix is reported",
            |_, kind, _, remedy| kind == Some("closed") && remedy.is_some_and(|remedy| remedy.contains("KVM")),
        );
        shown += ", with an imitation of KVM";
    }
    if case.board.kvm {
        cycles_kvm::judge_guest(case, &counter);
        shown += ", with a KVM guest";
    }
    if case.out("cycles-said").contains("other code") {
        case.wrong("cycles: hpt_cycles did not restore everything".to_owned());
    }
    shown += judge_perf(case, &counter);
    case.shown(shown);
}

/// Each read of the state by root interrupts the other CPUs. An unprivileged user cannot interrupt them as often.
fn judge_looks(case: &Case<'_>) {
    let interrupts =
        |step: &str| -> Option<u64> { if case.ended(step) { case.out(step).trim().parse().ok() } else { None } };
    let (root, plain) = (interrupts("cycles-looks"), interrupts("cycles-looks-plain"));
    // Both counts contain the interrupts of the kernel itself, which are more on a slow machine.
    let is_fewer = root.zip(plain).is_some_and(|(root, plain)| root >= 50 && plain < root / 2);
    if case.board.cores > 1 && !is_fewer {
        case.wrong(format!(
            "cycles-looks: 50 reads of the state interrupted other CPUs {root:?} times for root and {plain:?} times for an unprivileged user, expected at least 50 and less than half as many"
        ));
    }
}

/// Judges what programs read, at each time.
fn judge_reads(case: &Case<'_>, counter: &Counter<'_>, build: &str) {
    for when in ["open", "plain", "woken", "again", "by-itself"] {
        counter.is_read(&format!("{build}.cycles-{when}"), MOVES, None);
    }
    for when in ["closed", "closed-again"] {
        counter.is_read(&format!("{build}.cycles-{when}"), SIGILL, None);
    }
    // The module does not open a counter that perf already uses.
    let beside = if case.board.after_perf == AfterPerf::None { MOVES } else { SIGILL };
    counter.is_read(&format!("{build}.cycles-beside-perf"), MOVES, Some(beside));
    for when in ["before", "closed"] {
        hpt_says(
            case,
            &format!("{build}.cycles-hpt-{when}"),
            1,
            "arm-cycles is closed, and a fix is reported",
            |_, kind, _, remedy| kind == Some("closed") && remedy.is_some_and(|remedy| remedy.contains("hpt_cycles")),
        );
    }
    hpt_says(case, &format!("{build}.cycles-hpt-open"), 0, "arm-cycles is available", |available, _, _, _| available);
    if case.board.hotplug {
        counter.is_read(&format!("{build}.cycles-online"), MOVES, None);
    }
    if case.board.has_user_access() {
        counter.is_read(&format!("{build}.cycles-user-access"), SIGILL, None);
        let step = format!("{build}.cycles-register");
        let said = |line: &str| line.starts_with("perf-cycles by register: own cost");
        if case.ended(&step) && !case.out(&step).lines().any(said) {
            case.wrong(format!("{step}: perf's counter was not read from the register"));
        }
    }
}

fn judge_measurements(case: &Case<'_>, build: &str) {
    if let Some(bench) = case.ended_with::<BenchDocument>(&format!("{build}.cycles-bench")) {
        bench.holds("arm-cycles was measured completely", |it| {
            it.results.iter().filter(|row| row.id == "arm-cycles").map(|row| row.repeated.complete).eq([true])
        });
    }
    if let Some(pairs) = case.ended_with::<PairsDocument>(&format!("{build}.cycles-pairs")) {
        pairs.holds("pairs of both sources were read after three kinds of pauses", |it| {
            let read = it.results.iter().filter(|row| {
                row.samples == 50 && row.mean_ticks > 0.0 && row.mean_ns.is_some_and(|mean_ns| mean_ns > 0.0)
            });
            read.map(|row| row.id.as_str()).eq(["monotonic", "arm-cycles"].repeat(3))
        });
    }
    if let Some(period) = case.ended_with::<ExperimentDocument>(&format!("{build}.cycles-period")) {
        let what = "the period error of a task was measured over a thousand starts with the clock and with the cycle counter, \
                    and is compared with the published figures; that of a loop is measured beside it";
        period.holds(what, |it| {
            let by_cycles = it.results.iter().filter(|row| row.method.starts_with("arm-cycles"));
            let (in_time, in_cycles): (Vec<_>, Vec<_>) = by_cycles.partition(|row| row.unit == "ns");
            it.results.iter().filter(|row| row.unit != "times").all(|row| {
                let by_either = row.method.starts_with("monotonic") || row.method.starts_with("arm-cycles (register)");
                let samples = if row.published.is_some() { 999 } else { 1000 };
                row.samples == samples && by_either
            }) && in_time.len() == 4
                && in_cycles.len() == 1
        });
    }
}

/// Judges whether the register on each CPU has its original value each time the module was
/// unloaded.
fn judge_register(case: &Case<'_>) {
    if !case.ended("cycles-access-before") {
        return;
    }
    let found = case.out("cycles-access-before");
    let shows = |line: &&str| {
        let number = line.strip_prefix("CPU ").and_then(|rest| rest.split_once(": access"));
        number.is_some_and(|(number, _)| number.parse::<usize>().is_ok())
    };
    if found.lines().filter(shows).count() != case.board.cores {
        case.wrong("cycles-access-before: the register of a CPU is missing".to_owned());
    }
    let mut whens = vec!["closed", "closed-again"];
    if case.board.vcpu {
        whens.extend(["cleared-closed", "kept-closed", "kept-ended"]);
    }
    if case.board.kvm {
        whens.push("kvm-closed");
    }
    for when in whens {
        let step = format!("cycles-access-{when}");
        if case.ended(&step) && case.out(&step) != found {
            let left = in_one_line(case.out(&step));
            case.wrong(format!("{step}: hpt_cycles left {left}, expected {}", in_one_line(found)));
        }
    }
}

/// Judges an hpt whose counter is closed: it reports that, and ends with SIGILL. If another process
/// sends SIGILL, hpt does not report a closed counter.
fn judge_readers(case: &Case<'_>) {
    for build in &case.board.builds {
        case.ended(&format!("{build}.cycles-reader-load"));
        let steps = ["reader", "foreign"].map(|who| format!("{build}.cycles-{who}"));
        for step in &steps {
            if case.ended(step) && !has_line(case.out(step), "status 132") {
                case.wrong(format!("{step}: SIGILL did not end hpt: {}", in_one_line(case.out(step))));
            }
        }
        let [reader, foreign] = steps;
        let said = |line: &str| line.starts_with("hpt: the cycle counter was closed while hpt read it");
        if !case.out(&reader).lines().any(said) {
            case.wrong(format!("{reader}: hpt ended without a message"));
        }
        if case.out(&foreign).contains("cycle counter") {
            case.wrong(format!("{foreign}: hpt attributes a signal from another process to the cycle counter"));
        }
    }
}

/// Judges the effect of counting with perf, and what the module reports then. Returns a text for
/// the table.
fn judge_perf(case: &Case<'_>, counter: &Counter<'_>) -> &'static str {
    let (word, state, said, shown) = match case.board.after_perf {
        AfterPerf::None | AfterPerf::Refused => {
            judge_count(case, counter, "No such file or directory", &format!("open {}", counter.all));
            for build in &case.board.builds {
                counter.is_read(&format!("{build}.cycles-perf-left"), MOVES, None);
            }
            return "";
        }
        AfterPerf::Sigill => {
            (SIGILL, "closed", "was closed, as perf does: a program that reads it gets SIGILL", ", closed after perf")
        }
        AfterPerf::Stands => {
            ("stands", "standing", "was stopped, as perf does: programs can read it", ", stopped after perf")
        }
    };
    judge_count(case, counter, "counted", &format!("open {};perf {CPU}", counter.others));
    if case.ended("cycles-load-again") && !has_line(case.out("cycles-load-again"), "perf: counted") {
        case.wrong("cycles: perf did not count when it was used first".to_owned());
    }
    for build in &case.board.builds {
        counter.is_read(&format!("{build}.cycles-perf-left"), MOVES, Some(word));
    }
    counter.state_is("cycles-state-left", &format!("open {};{state} {CPU}", counter.others));
    counter.module_said(&format!("CPU{CPU}: perf is counting"));
    counter.module_said(&format!("CPU{CPU}: the cycle counter {said}"));
    counter.module_said(&format!("CPU{CPU}: programs can read the cycle counter"));
    counter.module_said(&format!("programs can read the cycle counter of CPU {}", counter.others));
    shown
}

/// Judges the result of counting with perf, and what the module reported during that.
fn judge_count(case: &Case<'_>, counter: &Counter<'_>, wanted: &str, state: &str) {
    let step = format!("{}.cycles-perf", case.board.first_build());
    if !case.ended(&step) {
        return;
    }
    if !has_line(case.out(&step), &format!("perf: {wanted}")) {
        let said: Vec<_> = case.out(&step).lines().filter(|line| line.starts_with("perf: ")).collect();
        case.wrong(format!("{step}: expected {wanted}: {}", said.join(";")));
    }
    counter.state_is(&step, state);
}

/// Judges what hpt reports about the source. hpt ends with exit code 1 if the source cannot be
/// used. `is_so` gets whether the source is available, the kind of reason, whether there is a
/// reason, and the fix.
fn hpt_says(
    case: &Case<'_>,
    step: &str,
    status: i32,
    what: &str,
    is_so: impl Fn(bool, Option<&str>, bool, Option<&str>) -> bool,
) {
    let ended = case.answers.status(step);
    if ended != Some(status) {
        let ended = ended.map_or("none".to_owned(), |ended| ended.to_string());
        case.wrong(format!("{step}: exit code {ended}, expected {status}"));
    } else if let Some(probe) = case.document::<ProbeDocument>(step) {
        probe.holds(what, |it| {
            source(it, "arm-cycles").is_some_and(|row| {
                is_so(row.available, row.reason_kind.as_deref(), row.reason.is_some(), row.fix.as_deref())
            })
        });
    }
}

pub(super) const PLANTS: &[Plants] = &[
    Plants {
        about: "cycle counter",
        fit: |board| board.asked_for("cycles") && board.hotplug && board.vcpu && board.after_perf == AfterPerf::Sigill,
        plants: PLANTS_CYCLES,
    },
    Plants {
        about: "looks at the cycle counter",
        fit: |board| board.asked_for("cycles") && board.cores > 1 && board.after_perf != AfterPerf::Refused,
        plants: &[
            Plant {
                what: "an unprivileged user interrupts as often as root",
                change: |it| it.copy("cycles-looks", "cycles-looks-plain"),
            },
            Plant { what: "root gets an old state", change: |it| it.copy("cycles-looks-plain", "cycles-looks") },
        ],
    },
    Plants {
        about: "readings in the kernel",
        fit: |board| board.asked_for("cycles") && board.after_perf != AfterPerf::Refused,
        plants: cycles_kernel::PLANTS,
    },
    Plants {
        about: "cycle counter with a KVM guest",
        fit: |board| board.asked_for("cycles") && board.kvm,
        plants: cycles_kvm::PLANTS_GUEST,
    },
    Plants {
        about: "no cycle counter",
        fit: |board| board.asked_for("cycles") && board.after_perf == AfterPerf::Refused,
        plants: &[
            Plant { what: "the module was loaded", change: |it| it.status("cycles-load", 0) },
            Plant {
                what: "the module did not log the reason",
                change: |it| it.leave_out("cycles-said.out", "no CPU has"),
            },
        ],
    },
];

const PLANTS_CYCLES: &[Plant] = &[
    Plant { what: "four CPUs are expected", change: |it| it.board.cores = 4 },
    Plant {
        what: "a counter that is stopped after perf is expected",
        change: |it| it.board.after_perf = AfterPerf::Stands,
    },
    Plant { what: "a kernel that cannot count cycles is expected", change: |it| it.board.after_perf = AfterPerf::None },
    Plant { what: "a module that cannot be loaded is expected", change: |it| it.board.after_perf = AfterPerf::Refused },
    Plant {
        what: "the counter of a CPU was open before",
        change: |it| it.set_lines(".cycles-before.out", "CPU 1: SIGILL", "CPU 1: moves, 1000 MHz"),
    },
    Plant { what: "a CPU is missing", change: |it| it.leave_out(".cycles-open.out", "CPU 1") },
    Plant {
        what: "the counter does not advance for an unprivileged user",
        change: |it| it.set_lines(".cycles-plain.out", "CPU 0: moves", "CPU 0: stands"),
    },
    Plant { what: "an unprivileged user's program ended by a signal", change: |it| it.status(".cycles-plain", 139) },
    Plant {
        what: "hpt reports no counter instead of a closed one",
        change: |it| it.replace(".cycles-hpt-before.out", "\"closed\"", "\"no-device\""),
    },
    Plant {
        what: "hpt reports an open counter as closed",
        change: |it| it.copy(".cycles-hpt-closed", ".cycles-hpt-open"),
    },
    Plant {
        what: "hpt reports a closed counter as open",
        change: |it| it.copy(".cycles-hpt-open", ".cycles-hpt-closed"),
    },
    Plant {
        what: "the counter was not measured completely",
        change: |it| it.replace(".cycles-bench.out", "\"complete\": true", "\"complete\": false"),
    },
    Plant {
        what: "a pair is missing",
        change: |it| it.document(".cycles-pairs", |it: &mut PairsDocument| it.results[0].samples = 49),
    },
    Plant {
        what: "a period was measured with another source",
        change: |it| it.replace(".cycles-period.out", "arm-cycles (register)", "perf-cycles"),
    },
    Plant { what: "the counter of an offline CPU is open", change: |it| it.copy("cycles-state", "cycles-offline") },
    Plant {
        what: "the counter of a CPU that came online is closed",
        change: |it| it.set_lines(".cycles-online.out", "CPU 1: moves", "CPU 1: SIGILL"),
    },
    Plant {
        what: "the counter does not advance after a power-down",
        change: |it| it.set_lines(".cycles-woken.out", "CPU 1: moves", "CPU 1: stands"),
    },
    Plant { what: "there was no power-down", change: |it| it.status("cycles-powered-down", 1) },
    Plant { what: "perf closed nothing", change: |it| it.copy(".cycles-open", ".cycles-perf-left") },
    Plant {
        what: "perf counted nothing",
        change: |it| it.set_lines(".cycles-perf.out", "perf: counted", "perf: counted nothing"),
    },
    Plant {
        what: "the module does not report in its state that perf closed the counter",
        change: |it| it.copy("cycles-state", "cycles-state-left"),
    },
    Plant {
        what: "the module did not log that perf counts",
        change: |it| it.leave_out("cycles-said.out", "CPU1: perf is counting"),
    },
    Plant {
        what: "the module did not log that perf closed the counter",
        change: |it| it.leave_out("cycles-said.out", "CPU1: the cycle counter was closed"),
    },
    Plant {
        what: "the module did not restore everything",
        change: |it| it.append("cycles-said.out", "hpt_cycles: CPU0: other code already lets programs read"),
    },
    Plant { what: "the counter was not opened again", change: |it| it.copy(".cycles-before", ".cycles-again") },
    Plant {
        what: "perf left the counters of all CPUs open",
        change: |it| it.copy(".cycles-open", ".cycles-user-access"),
    },
    Plant {
        what: "a periodic check did not open the counter again",
        change: |it| it.copy(".cycles-before", ".cycles-by-itself"),
    },
    Plant {
        what: "the module took the counter from perf",
        change: |it| it.copy(".cycles-open", ".cycles-beside-perf"),
    },
    Plant {
        what: "the counter of a CPU stayed open",
        change: |it| it.set_lines(".cycles-closed.out", "CPU 0: SIGILL", "CPU 0: moves, 1000 MHz"),
    },
    Plant { what: "the module was not unloaded", change: |it| it.never_ended("cycles-unload") },
    Plant {
        what: "the register is not restored by the module",
        change: |it| it.set_lines("cycles-access-closed.out", "CPU 1: access ", "CPU 1: access 0x4"),
    },
    Plant {
        what: "the register is not restored after a guest, with a KVM that restores it",
        change: |it| it.set_lines("cycles-access-kept-closed.out", "CPU 1: access ", "CPU 1: access 0x4"),
    },
    Plant {
        what: "the register is not restored after a guest, with a KVM that clears it",
        change: |it| it.set_lines("cycles-access-cleared-closed.out", "CPU 1: access ", "CPU 1: access 0xf"),
    },
    Plant { what: "the register of a CPU is missing", change: |it| it.leave_out("cycles-access-before.out", "CPU 1") },
    Plant {
        what: "a counter that KVM closed is open",
        change: |it| it.set_lines(".cycles-cleared.out", "CPU 1: SIGILL", "CPU 1: moves, 1000 MHz"),
    },
    Plant {
        what: "a counter that KVM closed was opened without a request",
        change: |it| it.copy("cycles-cleared-anew", "cycles-cleared-ended"),
    },
    Plant { what: "the module did not see the guest", change: |it| it.status("cycles-kept-seen", 1) },
    Plant { what: "the module does not report the reason", change: |it| it.put("cycles-cleared-why.out", "") },
    Plant {
        what: "the module did not log that KVM closed the counter",
        change: |it| it.leave_out("cycles-said.out", "CPU1: closed by KVM after a guest"),
    },
    Plant {
        what: "the module did not log that a guest has the CPU",
        change: |it| it.leave_out("cycles-said.out", "CPU1: a guest of KVM"),
    },
    Plant {
        what: "hpt does not report that KVM closed the counter",
        change: |it| it.copy(".cycles-hpt-closed", ".cycles-hpt-cleared"),
    },
    Plant {
        what: "a counter that KVM does not close is closed",
        change: |it| it.set_lines(".cycles-kept.out", "CPU 1: moves", "CPU 1: SIGILL"),
    },
    Plant {
        what: "a reader ended without a message",
        change: |it| it.leave_out(".cycles-reader.out", "hpt: the cycle counter"),
    },
    Plant {
        what: "a reader ended with exit code 0",
        change: |it| it.set_lines(".cycles-reader.out", "status 132", "status 0"),
    },
    Plant {
        what: "hpt attributes a signal from another process to the counter",
        change: |it| it.append(".cycles-foreign.out", "hpt: the cycle counter was closed"),
    },
];
