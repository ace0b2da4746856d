//! The first keys of every document: its kind, the version of hpt, and the machine.

use hpt_core::{
    Host,
    host::{CounterPermission, Cpu},
};
use serde::Serialize;

/// The first keys of a document.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Head {
    schema: u32,
    pub(crate) kind: &'static str,
    pub(crate) hpt: &'static str,
    pub(crate) machine: Machine,
}

impl Head {
    pub(crate) fn of(kind: &'static str, host: &Host) -> Self {
        Self { schema: 1, kind, hpt: env!("CARGO_PKG_VERSION"), machine: Machine::of(host) }
    }
}

/// The machine, for programs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    live: bool,
    architecture: &'static str,
    cpu: Option<String>,
    board: Option<String>,
    hypervisor: Option<String>,
    emulated_by: Option<String>,
    kernel_release: String,
    kernel_version: String,
    clock_source: Option<String>,
    clock_sources_available: Option<Vec<String>>,
    vdso: bool,
    counter_permission: &'static str,
}

impl Machine {
    pub(crate) fn of(host: &Host) -> Self {
        let (facts, cpu, sources) = (host.facts(), host.cpu(), host.clock_sources());
        Self {
            live: host.is_live(),
            architecture: facts.architecture.name(),
            cpu: cpu.name().map(str::to_owned),
            board: cpu.board().map(str::to_owned),
            hypervisor: cpu.hypervisor(),
            emulated_by: host.emulator(),
            kernel_release: facts.kernel_release.clone(),
            kernel_version: facts.kernel_version.clone(),
            clock_source: sources.current,
            clock_sources_available: sources.available,
            vdso: facts.vdso,
            counter_permission: match facts.counter_permission {
                CounterPermission::Enabled => "enabled",
                CounterPermission::Forbidden => "forbidden",
                CounterPermission::Unknown => "unknown",
            },
        }
    }

    /// What its hypervisor calls itself.
    pub(crate) fn hypervisor(&self) -> Option<&str> {
        self.hypervisor.as_deref()
    }

    /// The machine, for people.
    pub(crate) fn facts(&self) -> Vec<(&'static str, String)> {
        let cpu = self.cpu.as_deref().unwrap_or("unnamed");
        let mut facts = vec![("CPU", format!("{cpu} ({})", self.architecture))];
        facts.extend(self.board.iter().map(|board| ("board", board.clone())));
        facts.push(("kernel", self.kernel_release.clone()));
        facts.extend(
            self.hypervisor.iter().map(|hypervisor| ("hypervisor", Cpu::hypervisor_name(hypervisor).to_owned())),
        );
        facts.extend(self.emulated_by.iter().map(|emulator| ("emulated by", emulator.clone())));
        facts.push((
            "clock source",
            match (&self.clock_source, &self.clock_sources_available) {
                (Some(current), Some(available)) => format!("{current} (available: {})", available.join(", ")),
                (Some(current), None) => current.clone(),
                (None, _) => "not told: /sys/devices/system/clocksource cannot be read".to_owned(),
            },
        ));
        facts
    }

    /// The board that firmware names.
    pub(crate) fn board(&self) -> Option<&str> {
        self.board.as_deref()
    }

    /// What emulates it, as far as it tells.
    pub(crate) fn emulator(&self) -> Option<&str> {
        self.emulated_by.as_deref()
    }

    /// The machine in a few words.
    pub(crate) fn line(&self) -> String {
        let cpu = self.cpu.as_deref().or(self.board.as_deref()).unwrap_or(self.architecture);
        let source = self.clock_source.as_deref().unwrap_or("not told");
        let emulated = self.emulated_by.iter().map(|by| format!(", emulated by {by}")).collect::<String>();
        format!("{cpu}, Linux {}, clock source {source}{emulated}", self.kernel_release)
    }
}

#[cfg(test)]
mod tests {
    use super::Machine;
    use crate::golden;

    #[test]
    fn an_emulated_processor_is_told_where_it_tells() {
        let emulator = |name: &str| Machine::of(&golden::captured(name)).emulated_by;
        assert_eq!(emulator("qemu-q35").as_deref(), Some("QEMU"));
        // Its counter runs as no Raspberry Pi's does.
        assert_eq!(emulator("qemu-raspi3b").as_deref(), Some("QEMU"));
        assert_eq!(emulator("derived-raspberry-pi-4-tuned"), None);
        // QEMU gives this board to guests of KVM as well.
        assert_eq!(emulator("qemu-virt-a72"), None);
        assert_eq!(emulator("amd-epyc-zen3-kvm"), None);
    }
}
