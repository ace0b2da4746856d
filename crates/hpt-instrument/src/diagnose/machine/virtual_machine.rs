//! Rules about virtual machines, and the CPU time that a host takes from them.

use hpt_sys::host::Known;

use super::{Finding, MachineFacts, Relevance, Rule, Severity, Subject, Verdict};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "virtual-machine",
        title: "Running in a virtual or emulated machine",
        about: "whether this is a virtual or emulated machine",
        why: "The host may pause the machine at any time, for milliseconds. It also controls the frequency and the idle states of the CPUs, and may run other work on them. Nothing inside the machine can limit these effects, and most of them are not visible from inside.",
        affects: "all programs",
        references: &["Documentation/virt/kvm/index.rst"],
        relevance: Relevance::NOTE.realtime(Severity::Low).benchmarks(Severity::Low),
        judge: virtual_machine,
    },
    Rule {
        id: "stolen-time",
        title: "Hypervisor steals CPU time",
        about: "how much CPU time the host took from this machine (steal time)",
        why: "During stolen time, the CPU is paused with every thread on it, whatever its scheduling policy, while the clocks keep running.",
        affects: "all programs",
        references: &["proc_stat(5)", "Documentation/virt/kvm/x86/msr.rst: MSR_KVM_STEAL_TIME"],
        relevance: Relevance::all(Severity::High).timekeeping(Severity::Low),
        judge: stolen,
    },
];

fn virtual_machine(facts: &MachineFacts, _: &Subject) -> Verdict {
    if let Some(emulator) = &facts.emulator {
        let finding = Finding::new(
            Severity::Low,
            format!(
                "{emulator} emulates this machine: the emulator determines the latency, and a real machine of this kind behaves differently"
            ),
        );
        return finding.fix("Measure on the real machine", []).problem();
    }
    match &facts.hypervisor {
        None => Verdict::pass("no hypervisor reports its presence"),
        Some(hypervisor) => Finding::new(Severity::Low, format!("this machine runs under {hypervisor}"))
            .fix(
                "If you need a bound on latency, dedicate CPUs of the host to this machine, or use a physical machine",
                [],
            )
            .steps(
                "During the busiest hours, measure how long the host pauses the machine",
                ["hpt latency poll --duration 10m".to_owned()],
            )
            .problem(),
    }
}

fn stolen(facts: &MachineFacts, _: &Subject) -> Verdict {
    let Known::Is(stolen) = &facts.stolen else {
        return Verdict::without(&facts.stolen, "/proc/stat");
    };
    if stolen.stolen == 0 {
        return match facts.hypervisor {
            None => Verdict::not_applicable("no hypervisor reports its presence"),
            Some(_) => Verdict::pass("no CPU time has been stolen since boot, according to the host"),
        };
    }
    // The share is in parts per million, to avoid fractions.
    let share = u128::from(stolen.stolen) * 1_000_000 / u128::from(stolen.all.max(1));
    let severity = if share >= 1_000 { Severity::High } else { Severity::Low };
    Finding::new(severity, format!("{}.{:04} % of CPU time since boot", share / 10_000, share % 10_000))
        .fix("On the host, pin the CPUs of this machine to CPUs that run nothing else", [])
        .problem()
}
