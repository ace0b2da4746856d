//! A CPU that the user names is tried, although the kernel leaves isolated CPUs out of the affinity of programs. A
//! refusal names its cause. If no CPU is named, the choice suits the machine, and is stated.

use hpt_document::wake_latency::WakeLatencyDocument;

use crate::judge::{
    case::Case,
    plant::{Plant, Plants},
};

/// The commands that name a CPU, each with the exit code of its refusal.
const REFUSED: [(&str, u8); 4] =
    [("latency timer -n 5", 2), ("bench --count 100", 2), ("doctor --measure", 2), ("run", 125)];

pub(super) fn judge(case: &Case<'_>) {
    let (last, tickless) = (case.board.cores - 1, case.board.cores - 2);
    case.said_all("cpus-isolated", &format!("{last};{tickless}-{last}"));
    for build in &case.board.builds {
        let step = format!("{build}.cpus");
        runs_on(case, &format!("{step}-named"), &[last], "");
        runs_on(case, &format!("{step}-taskset"), &[1], "");
        runs_on(case, &format!("{step}-all"), &(0..case.board.cores).collect::<Vec<_>>(), "");
        runs_on(case, &format!("{step}-chosen"), &[last], "reserves it");
        runs_on(case, &format!("{step}-chosen-hybrid"), &[tickless], "reserves it");
        runs_on(case, &format!("{step}-chosen-beside"), &[tickless], "reserves it");
        runs_on(case, &format!("{step}-chosen-busy"), &[0], "may run on each reserved CPU");
        runs_on(case, &format!("{step}-chosen-busy-hybrid"), &[1], "may run on each reserved CPU");
        runs_on(case, &format!("{step}-chosen-cpuset"), &[tickless], "reserves it");
        judge_refusals(case, &step, last);
        if let Some(result) = case.ended_with::<WakeLatencyDocument>(&format!("{step}-best-effort")) {
            result.holds("it measured without a CPU that does not exist, and states that", |it| {
                let refused = &it.measuring.thread.refused;
                refused.len() == 1
                    && refused[0].setting == "cpu"
                    && refused[0].reason.starts_with("no such CPU: ")
                    && it.results.iter().all(|row| row.figures.samples >= 5)
            });
        }
    }
    case.shown("each refusal of a CPU has a cause");
}

fn judge_refusals(case: &Case<'_>, step: &str, last: usize) {
    let (absent, before) = (last + 2, last - 1);
    let others = if last == 3 { "0,2-3".to_owned() } else { format!("0,2-{last}") };
    for (kind, message) in [
        ("absent", format!("no such CPU: {absent} (present: 0-{last})")),
        (
            "offline",
            format!(
                "CPU 1 is offline (online: {others}); bring it online first: echo 1 | sudo tee /sys/devices/system/cpu/cpu1/online"
            ),
        ),
        (
            "outside",
            format!(
                "CPU {last} is outside the cpuset of this process: /sys/fs/cgroup/without-last/cpuset.cpus.effective contains 0-{before}; add the CPU to this cpuset, or start the program in another control group"
            ),
        ),
    ] {
        let lines = REFUSED.map(|(command, code)| format!("hpt: error: {message};{command}: {code}"));
        case.said_all(&format!("{step}-{kind}"), &lines.join(";"));
    }
}

/// Judges that a measurement ran on these CPUs, and that a note has this text; no note mentions a choice if it is empty.
fn runs_on(case: &Case<'_>, step: &str, cpus: &[usize], note: &str) {
    let Some(result) = case.ended_with::<WakeLatencyDocument>(step) else { return };
    result.holds(&format!("it measured on {cpus:?}"), |it| {
        let rows: Vec<_> = it.results.iter().map(|row| row.cpu).collect();
        it.measuring.thread.cpus == cpus
            && rows == cpus.iter().copied().map(Some).collect::<Vec<_>>()
            && it.measuring.thread.refused.is_empty()
            && it.results.iter().all(|row| row.figures.samples >= 5)
    });
    result.holds("a note states the choice of the CPU, if it was not named", |it| {
        let choice = it.notes.iter().find(|text| text.contains("was chosen"));
        if note.is_empty() { choice.is_none() } else { choice.is_some_and(|text| text.contains(note)) }
    });
}

pub(super) const PLANTS: &[Plants] = &[Plants {
    about: "CPUs",
    fit: |board| board.asked_for("cpus"),
    plants: &[
        Plant { what: "no CPU is isolated", change: |it| it.put("cpus-isolated.out", "\n2-3\n") },
        Plant { what: "a named CPU was not used", change: |it| it.copy(".cpus-taskset", ".cpus-named") },
        Plant { what: "the affinity limits a named CPU", change: |it| it.copy(".cpus-named", ".cpus-taskset") },
        Plant { what: "all CPUs are one", change: |it| it.copy(".cpus-named", ".cpus-all") },
        Plant { what: "the chosen CPU is not stated", change: |it| it.copy(".cpus-named", ".cpus-chosen") },
        Plant { what: "an efficient core is chosen", change: |it| it.copy(".cpus-chosen", ".cpus-chosen-hybrid") },
        Plant {
            what: "the CPU of a real-time program is chosen",
            change: |it| it.copy(".cpus-chosen", ".cpus-chosen-beside"),
        },
        Plant {
            what: "a CPU is chosen although real-time programs are on both",
            change: |it| it.copy(".cpus-chosen-beside", ".cpus-chosen-busy"),
        },
        Plant {
            what: "an efficient core is chosen beside real-time programs",
            change: |it| it.copy(".cpus-chosen-busy", ".cpus-chosen-busy-hybrid"),
        },
        Plant {
            what: "a CPU outside of the cpuset is chosen",
            change: |it| it.copy(".cpus-chosen", ".cpus-chosen-cpuset"),
        },
        Plant {
            what: "a CPU that is offline is refused as absent",
            change: |it| it.copy(".cpus-absent", ".cpus-offline"),
        },
        Plant {
            what: "the cpuset has another name",
            change: |it| it.replace(".cpus-outside.out", "without-last", "other"),
        },
        Plant {
            what: "a command ignores that the CPU is absent",
            change: |it| it.set_lines(".cpus-absent.out", "bench", "bench --count 100: 0"),
        },
        Plant {
            what: "the run without the CPU does not mention it",
            change: |it| {
                it.document(".cpus-best-effort", |it: &mut WakeLatencyDocument| {
                    it.measuring.thread.refused.clear();
                });
            },
        },
        Plant {
            what: "few samples were measured",
            change: |it| {
                it.document(".cpus-named", |it: &mut WakeLatencyDocument| {
                    it.results.iter_mut().for_each(|row| row.figures.samples = 4);
                });
            },
        },
        Plant { what: "another number of processors is expected", change: |it| it.board.cores = 3 },
    ],
}];
