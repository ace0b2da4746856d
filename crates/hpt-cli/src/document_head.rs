//! The first keys of every document: its kind, the version of hpt, and the machine. Also describes the machine as text.

use hpt_core::Host;
use hpt_document::{
    SCHEMA,
    head::{CounterPermission, Head, Machine},
};
use hpt_sys::host::{CounterPermission as Permission, Cpu};

/// Returns the first keys of a document of this kind.
pub(crate) fn head_of(kind: &str, host: &Host) -> Head {
    Head { schema: SCHEMA, kind: kind.to_owned(), hpt: env!("CARGO_PKG_VERSION").to_owned(), machine: machine_of(host) }
}

/// Returns the description of `host` for the `machine` field of a document.
pub(crate) fn machine_of(host: &Host) -> Machine {
    let (facts, cpu, sources) = (host.facts(), host.cpu(), host.clock_sources());
    Machine {
        live: host.is_live(),
        architecture: facts.architecture.name().to_owned(),
        cpu: cpu.name().map(str::to_owned),
        board: cpu.board().map(str::to_owned),
        hypervisor: host.hypervisor(),
        emulated_by: host.emulator(),
        kernel_release: facts.kernel_release.clone(),
        kernel_version: facts.kernel_version.clone(),
        clocksource: sources.current,
        available_clocksources: sources.available,
        vdso: facts.vdso,
        counter_permission: match facts.counter_permission {
            Permission::Enabled => CounterPermission::Enabled,
            Permission::Forbidden => CounterPermission::Forbidden,
            Permission::Unknown => CounterPermission::Unknown,
        },
    }
}

/// Describes the machine in rows of text, each with a label.
pub(crate) fn machine_facts(machine: &Machine) -> Vec<(&'static str, String)> {
    let cpu = machine.cpu.as_deref().unwrap_or("unnamed");
    let mut facts = vec![("CPU", format!("{cpu} ({})", machine.architecture))];
    facts.extend(machine.board.iter().map(|board| ("board", board.clone())));
    facts.push(("kernel", machine.kernel_release.clone()));
    facts.extend(
        machine.hypervisor.iter().map(|hypervisor| ("hypervisor", Cpu::hypervisor_name(hypervisor).to_owned())),
    );
    facts.extend(machine.emulated_by.iter().map(|emulator| ("emulated by", emulator.clone())));
    facts.push((
        "clocksource",
        match (&machine.clocksource, &machine.available_clocksources) {
            (Some(current), Some(available)) => format!("{current} (available: {})", available.join(", ")),
            (Some(current), None) => current.clone(),
            (None, _) => "unknown: cannot read /sys/devices/system/clocksource".to_owned(),
        },
    ));
    facts
}

/// Describes the machine in one line.
pub(crate) fn machine_line(machine: &Machine) -> String {
    let cpu = machine.cpu.as_deref().or(machine.board.as_deref()).unwrap_or(&machine.architecture);
    let source = machine.clocksource.as_deref().unwrap_or("unknown");
    let emulated = machine.emulated_by.iter().map(|by| format!(", emulated by {by}")).collect::<String>();
    format!("{cpu}, Linux {}, clocksource {source}{emulated}", machine.kernel_release)
}

#[cfg(test)]
mod tests {
    use super::machine_of;
    use crate::golden;

    #[test]
    fn an_emulated_processor_is_reported_if_it_is_recognizable() {
        let emulator = |name: &str| machine_of(&golden::captured(name)).emulated_by;
        assert_eq!(emulator("qemu-q35").as_deref(), Some("QEMU"));
        // The counter of a real Raspberry Pi never has this frequency.
        assert_eq!(emulator("qemu-raspi3b").as_deref(), Some("QEMU"));
        assert_eq!(emulator("derived-raspberry-pi-4-tuned"), None);
        // QEMU uses this board for KVM guests as well.
        assert_eq!(emulator("qemu-virt-a72"), None);
        assert_eq!(emulator("amd-epyc-zen3-kvm"), None);
    }
}
