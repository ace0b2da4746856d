//! The facts that the rules use. This module reads a host's files, but does not reach verdicts.

use std::collections::BTreeMap;

use hpt_core::{
    clock::Discipline,
    source::{PosixClock, PosixId, ReadPath, TimeSource as _},
};
use hpt_realtime::{
    self, Limits,
    knobs::{ClockSourceOutline, outline_clock_sources},
};
use hpt_sys::{
    host::{
        ArchTimer, Architecture, BootParameter, Cores, Cpu, CpuList, Family, Host, IDLE_DRIVER, Interrupt,
        KernelConfiguration, KernelRelease, Known, PerfEvents, Situation, Stolen, Supply, Zone,
    },
    settings::{FAIR_SERVER, FAIR_SERVER_PERIOD, PREEMPTION, SystemSetting},
};

use super::evidence::{self, Evidence};

/// Linux, include/uapi/linux/capability.h.
pub(super) const CAP_SYS_ADMIN: u32 = 21;

/// All facts about a machine that the rules use.
#[derive(Clone, Debug)]
pub struct MachineFacts {
    pub(super) architecture: Architecture,
    /// The kernel release; `None` if it does not begin with two numbers, or if the kernel is not Linux.
    pub(super) kernel: Option<KernelRelease>,
    pub(super) kernel_release: String,
    pub(super) kernel_version: String,
    /// The system that imitates the Linux kernel.
    pub(super) imitator: Option<String>,
    pub(super) hypervisor: Option<String>,
    /// The hypervisor according to CPUID, or that there is none; `None` without CPUID.
    pub(super) cpuid: Option<String>,
    pub(super) emulator: Option<String>,
    pub(super) is_a_raspberry_pi: bool,
    pub(super) vdso: bool,
    /// Whether the vDSO reads the clocksource, as measured on the machine; `None` for a capture that does not state it.
    pub(super) reads_by_vdso: Option<bool>,
    /// The lines of the kernel log that report trapped reads of the ARM generic timer.
    pub(super) trapped: Vec<String>,
    pub(super) clock_sources: ClockSourceOutline,
    pub(super) tsc_runs_at_one_rate: Option<bool>,
    pub(super) arch_timer: Option<ArchTimer>,
    pub(super) parameters: Option<Vec<BootParameter>>,
    pub(super) discipline: Option<Discipline>,
    pub(super) situation: Situation,
    pub(super) cores: Cores,
    /// The values of the files that each rule examines.
    pub(super) evidence: BTreeMap<&'static str, Vec<Evidence>>,
    pub(super) interrupts: Known<Vec<Interrupt>>,
    /// The settings of the machine, each by its file.
    settings: BTreeMap<&'static str, Known<String>>,
    /// The time that the fair server of each CPU reserves, in nanoseconds.
    pub(super) fair_servers: BTreeMap<usize, Known<i64>>,
    /// The period of the fair server of each CPU, in nanoseconds.
    pub(super) fair_server_periods: BTreeMap<usize, Known<i64>>,
    pub(super) limits: Limits,
    /// The configuration with which the kernel was built, if a file states it.
    pub(super) configuration: Option<KernelConfiguration>,
    /// The driver that selects idle states; `none` if the kernel has none for this machine.
    pub(super) idle_driver: Known<String>,
    pub(super) turbo: Option<bool>,
    pub(super) swaps: Known<usize>,
    pub(super) nodes: Known<CpuList>,
    pub(super) stolen: Known<Stolen>,
    pub(super) supply: Option<Supply>,
    pub(super) temperatures: Vec<Zone>,
    pub(super) perf: PerfEvents,
    pub(super) has_system_timer: bool,
    /// The sources that read the counters of a system on a chip without a generic timer.
    pub(super) soc_counters: Vec<&'static str>,
    /// Whether a UIO device provides access to the System Timer.
    pub(super) timer_by_uio: bool,
}

impl MachineFacts {
    /// Collects the facts of a machine.
    #[must_use]
    pub fn new(host: &Host) -> Self {
        let (facts, cpu, cores, situation) = (host.facts(), host.cpu(), host.cores(), host.situation());
        let of_cpus = |known: SystemSetting| {
            cores.each.keys().map(|&cpu| (cpu, host.number_in(&known.path_of(&[cpu])))).collect()
        };
        let system_timer = host.system_timer();
        let registers = system_timer.as_ref().ok().and_then(|timer| timer.registers);
        Self {
            evidence: evidence::collect(host, &cores),
            architecture: facts.architecture,
            kernel: KernelRelease::parse(&facts.kernel_release).filter(|_| facts.imitator.is_none()),
            imitator: facts.imitator.clone(),
            kernel_release: facts.kernel_release.clone(),
            kernel_version: facts.kernel_version.clone(),
            hypervisor: host.hypervisor().map(|hypervisor| Cpu::hypervisor_name(&hypervisor).to_owned()),
            cpuid: cpu.leaf(1).map(|_| cpu.hypervisor().unwrap_or_else(|| "no hypervisor".to_owned())),
            emulator: host.emulator(),
            is_a_raspberry_pi: cpu.board().is_some_and(|board| board.starts_with("Raspberry Pi")),
            vdso: facts.vdso,
            reads_by_vdso: reads_by_vdso(host),
            trapped: host.kernel_log().map(|log| log.trapped_counter_reads()).unwrap_or_default(),
            clock_sources: outline_clock_sources(host),
            tsc_runs_at_one_rate: host.tsc_runs_at_one_rate(),
            arch_timer: host.arch_timer(),
            parameters: host.boot_parameters(),
            discipline: situation.timex.map(Discipline::of),
            interrupts: host.interrupts(),
            settings: host.settings().collect(),
            fair_servers: of_cpus(FAIR_SERVER),
            fair_server_periods: of_cpus(FAIR_SERVER_PERIOD),
            limits: Limits::of_this_thread(host),
            configuration: host.kernel_configuration(),
            idle_driver: host.told(IDLE_DRIVER),
            turbo: hpt_realtime::turbo(host),
            swaps: host.swaps(),
            nodes: host.told("/sys/devices/system/node/online").parsed(|text| CpuList::parse(&text)),
            stolen: host.stolen(),
            supply: host.supply(),
            temperatures: host.temperatures(),
            perf: host.perf_events(),
            has_system_timer: system_timer.is_ok(),
            soc_counters: host.soc_counters().into_iter().map(|counter| counter.kind.id).collect(),
            timer_by_uio: registers.is_some_and(|registers| host.uio_window(registers).is_some()),
            situation,
            cores,
        }
    }

    /// Returns the online CPUs; `None` if neither /sys nor /proc lists them.
    #[must_use]
    pub fn cpus(&self) -> Option<&CpuList> {
        self.cores.online.is()
    }

    /// Returns the value of a setting of the machine.
    pub(super) fn value(&self, setting: &SystemSetting) -> &Known<String> {
        self.settings.get(setting.path).unwrap_or(&Known::Absent)
    }

    /// Returns the value of a setting of the machine as a number.
    pub(super) fn number(&self, setting: &SystemSetting) -> Known<i64> {
        self.value(setting).clone().parsed(|value| value.parse().ok())
    }

    /// Returns whether a setting of the machine is on: a number greater than zero.
    pub(super) fn is_on(&self, setting: &SystemSetting) -> Known<bool> {
        self.number(setting).parsed(|value| Some(value > 0))
    }

    /// Returns whether the kernel was built with an option; `None` if no file states it.
    pub(super) fn is_built_with(&self, option: &str) -> Option<bool> {
        self.configuration.as_ref()?.is_set(option)
    }

    /// Returns the facts that can be checked only as root, without duplicates.
    #[must_use]
    pub fn needs_root(&self) -> Vec<&'static str> {
        // A locked-down kernel denies access even to root, so running as root does not help.
        if self.is_root() {
            return Vec::new();
        }
        let refused = |is_refused: bool, what: &'static str| is_refused.then_some(what);
        let servers = self.fair_servers.values().any(|server| *server == Known::NotAllowed);
        let log = matches!(self.clock_sources.log, Err(hpt_sys::host::LogError::NotAllowed));
        [
            refused(
                servers,
                "the CPU time that is reserved for ordinary threads (/sys/kernel/debug/sched/fair_server)",
            ),
            refused(
                *self.value(&PREEMPTION) == Known::NotAllowed,
                "the preemption mode of the kernel (/sys/kernel/debug/sched/preempt)",
            ),
            refused(log, "messages about clocksources in the kernel's log (/dev/kmsg)"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Returns the family of the distribution, whose commands are known.
    pub(super) fn family(&self) -> Option<Family> {
        self.situation.system.as_ref()?.family()
    }

    /// Returns whether this is a container, whose kernel can be changed only on its host.
    pub(super) fn is_a_container(&self) -> bool {
        self.situation.system.as_ref().is_some_and(|system| system.is_a_container)
    }

    /// Returns commands of systemd, if systemd is known to start the services of this system.
    pub(super) fn by_systemd(&self, commands: impl IntoIterator<Item = String>) -> Vec<String> {
        if self.has_systemd() { commands.into_iter().collect() } else { Vec::new() }
    }

    /// Returns whether systemd is known to start the services.
    pub(super) fn has_systemd(&self) -> bool {
        self.situation.system.as_ref().is_some_and(|system| system.has_systemd)
    }

    /// Returns whether the current user has all permissions.
    pub(super) fn is_root(&self) -> bool {
        self.has(CAP_SYS_ADMIN) == Some(true)
    }

    /// Returns whether the current user has a capability; `None` if this is unknown.
    pub(super) fn has(&self, capability: u32) -> Option<bool> {
        self.limits.has(capability)
    }
}

/// Returns whether the vDSO reads the clocksource, as measured; for a capture, as measured when it was made.
fn reads_by_vdso(host: &Host) -> Option<bool> {
    if !host.is_live() {
        return host.facts().reads_by_vdso;
    }
    let clock = PosixClock::open(host, PosixId::Monotonic).ok()?;
    Some(clock.info().read_path == ReadPath::Vdso)
}
