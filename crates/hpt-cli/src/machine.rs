//! What machine a document speaks of: every result carries it.

use hpt_core::{Host, host::CounterPermission};
use serde::Serialize;

/// The machine, for programs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    live: bool,
    architecture: &'static str,
    cpu: Option<String>,
    board: Option<String>,
    hypervisor: Option<String>,
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

    /// The machine, for people.
    pub(crate) fn facts(&self) -> Vec<(&'static str, String)> {
        let cpu = self.cpu.as_deref().unwrap_or("unnamed");
        let mut facts = vec![("CPU", format!("{cpu} ({})", self.architecture))];
        facts.extend(self.board.iter().map(|board| ("board", board.clone())));
        facts.push(("kernel", self.kernel_release.clone()));
        facts.extend(self.hypervisor.iter().map(|hypervisor| ("hypervisor", hypervisor.clone())));
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

    /// The machine in a few words.
    pub(crate) fn line(&self) -> String {
        let cpu = self.cpu.as_deref().or(self.board.as_deref()).unwrap_or(self.architecture);
        let source = self.clock_source.as_deref().unwrap_or("not told");
        format!("{cpu}, Linux {}, clock source {source}", self.kernel_release)
    }
}
