//! What a host takes from its virtual machines. Does not examine the host.

use super::{Finding, MachineFacts, Rule, Severity, Subject, Verdict};
use crate::host::Told;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "virtual-machine",
        about: "whether this is a virtual or an emulated machine",
        why: "The host may stop it at any moment, for milliseconds, and decides on the frequency, the sleep and the neighbours of its CPUs. Nothing inside can bound that, and most of it cannot be seen from inside.",
        bites: "everybody",
        references: &["Documentation/virt/kvm/index.rst"],
        judge: virtual_machine,
    },
    Rule {
        id: "stolen-time",
        about: "time in which the host ran something else instead (steal)",
        why: "The whole CPU stood still, with every thread on it, of whatever class; the clocks went on.",
        bites: "everybody",
        references: &["proc_stat(5)", "Documentation/virt/kvm/x86/msr.rst: MSR_KVM_STEAL_TIME"],
        judge: stolen,
    },
];

fn virtual_machine(facts: &MachineFacts, _: &Subject) -> Verdict {
    if let Some(emulator) = &facts.emulator {
        let finding = Finding::new(
            Severity::ToKnow,
            format!(
                "{emulator} emulates it: what is late here is late in the emulator, and a real machine of this kind behaves differently"
            ),
        );
        return finding.helped("measure on the real machine", []).found();
    }
    match &facts.hypervisor {
        None => Verdict::fine("no hypervisor says that it is there"),
        Some(hypervisor) => Finding::new(Severity::ToKnow, format!("it runs under {hypervisor}"))
            .helped(
                "measure how long it stands still, at its worst hours",
                ["hpt latency poll --duration 10m".to_owned()],
            )
            .helped(
                "where a bound is needed, have CPUs of the host for this machine alone, or use a machine of its own",
                [],
            )
            .found(),
    }
}

fn stolen(facts: &MachineFacts, _: &Subject) -> Verdict {
    let Told::Is(stolen) = &facts.stolen else {
        return Verdict::without(&facts.stolen, "/proc/stat");
    };
    if stolen.stolen == 0 {
        return match facts.hypervisor {
            None => Verdict::not_here("no hypervisor says that it is there"),
            Some(_) => Verdict::fine("none since boot, as far as the host tells"),
        };
    }
    // In parts per million, to avoid fractions.
    let share = u128::from(stolen.stolen) * 1_000_000 / u128::from(stolen.all.max(1));
    let severity = if share >= 1_000 { Severity::Major } else { Severity::Minor };
    Finding::new(severity, format!("{}.{:04} % of its CPU time since boot", share / 10_000, share % 10_000))
        .helped("have the machine's CPUs bound to CPUs of the host that nothing else runs on", [])
        .found()
}
