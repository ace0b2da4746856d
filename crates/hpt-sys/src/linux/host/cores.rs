//! The CPUs: their number, isolation, SMT siblings, frequency control, and idle states.

use std::collections::BTreeMap;

use super::{CpuList, Host, Known};
use crate::settings::{GOVERNOR, HIGHEST_FREQUENCY, ISOLATED, NOHZ_FULL};

pub(super) const STAT: &str = "/proc/stat";
/// The driver of idle states. Linux, Documentation/ABI/testing/sysfs-devices-system-cpu.
pub const IDLE_DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";
const CPUS: &str = "/sys/devices/system/cpu";
const ONLINE: &str = "/sys/devices/system/cpu/online";
const OFFLINE: &str = "/sys/devices/system/cpu/offline";
const PRESENT: &str = "/sys/devices/system/cpu/present";
/// The CPUs isolated by partitions of control groups. Linux, Documentation/admin-guide/cgroup-v2.rst,
/// cpuset.cpus.isolated.
const ISOLATED_BY_GROUPS: &str = "/sys/fs/cgroup/cpuset.cpus.isolated";
/// The performance cores of a hybrid x86 processor.
const PERFORMANCE_CORES: &str = "/sys/devices/cpu_core/cpus";
const SIBLINGS: &str = "topology/thread_siblings_list";
/// The number of times that the processor throttled a core because of its temperature. Linux,
/// drivers/thermal/intel/therm_throt.c.
const THROTTLED: &str = "thermal_throttle/core_throttle_count";
const DRIVER: &str = "cpufreq/scaling_driver";
const HIGHEST: &str = "cpufreq/cpuinfo_max_freq";
/// The highest frequency without turbo, of the driver `intel_pstate`.
const BASE: &str = "cpufreq/base_frequency";

/// The CPUs of a machine.
#[derive(Clone, Debug)]
pub struct Cores {
    /// The online CPUs, from sysfs or, without it, from /proc/stat.
    pub online: Known<CpuList>,
    /// The CPUs that are present, but offline.
    pub offline: CpuList,
    /// The CPUs isolated from the scheduler.
    pub isolated: Known<CpuList>,
    /// The CPUs on which the scheduler tick stops while only one thread runs.
    pub nohz_full: Known<CpuList>,
    pub each: BTreeMap<usize, Core>,
}

/// One CPU.
#[derive(Clone, Debug)]
pub struct Core {
    /// The CPUs that share the core, including this CPU.
    pub siblings: Known<CpuList>,
    pub governor: Known<String>,
    pub driver: Known<String>,
    /// The highest allowed frequency, in kHz.
    pub highest_allowed_khz: Known<u64>,
    /// The highest frequency that the hardware supports, in kHz.
    pub highest_khz: Known<u64>,
    /// The highest frequency without turbo, in kHz.
    pub base_khz: Known<u64>,
    pub throttled: Known<u64>,
    pub idle: Vec<IdleState>,
}

/// An idle state of a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleState {
    pub number: usize,
    pub name: String,
    /// Its exit latency according to its driver, in microseconds.
    pub latency_us: u64,
    pub disabled: bool,
}

impl Host {
    /// Returns the CPUs of the machine.
    ///
    /// # References
    ///
    /// Linux, Documentation/admin-guide/cputopology.rst; Documentation/ABI/testing/sysfs-devices-system-cpu;
    /// Documentation/admin-guide/pm/cpufreq.rst and cpuidle.rst.
    pub fn cores(&self) -> Cores {
        let list = |path: &str| self.told(path).parsed(|text| CpuList::parse(&text));
        let online = self.online();
        let isolated = match (list(ISOLATED.path), list(ISOLATED_BY_GROUPS)) {
            (Known::Is(at_boot), Known::Is(by_groups)) => Known::Is(at_boot.or(&by_groups)),
            (Known::Is(one), _) | (Known::Absent, Known::Is(one)) => Known::Is(one),
            (other, _) => other,
        };
        let each = online.is().into_iter().flat_map(CpuList::iter).map(|cpu| (cpu, self.core(cpu))).collect();
        let offline = match (list(OFFLINE), list(PRESENT)) {
            (Known::Is(offline), Known::Is(present)) => offline.and(&present),
            _ => CpuList::default(),
        };
        Cores { online, offline, isolated, nohz_full: list(NOHZ_FULL.path), each }
    }

    /// Returns the CPUs that are online now, from sysfs or, without it, from /proc/stat; `None` if neither can be read.
    #[must_use]
    pub fn online_cpus(&self) -> Option<CpuList> {
        self.online().is().cloned()
    }

    /// Returns the CPUs that are present, online or not; `None` if sysfs does not list them.
    pub fn present_cpus(&self) -> Option<CpuList> {
        CpuList::parse(&self.text(PRESENT)?)
    }

    /// Returns the CPUs that are set aside for the threads of one application: isolated from the scheduler, or without
    /// a tick.
    pub fn reserved_cpus(&self) -> CpuList {
        let lists = [ISOLATED.path, NOHZ_FULL.path, ISOLATED_BY_GROUPS].map(|path| CpuList::parse(&self.text(path)?));
        lists.into_iter().flatten().fold(CpuList::default(), |all, list| all.or(&list))
    }

    /// Returns the performance cores of a hybrid processor; `None` if all CPUs are alike, as far as the kernel reports.
    ///
    /// # References
    ///
    /// Linux, Documentation/ABI/testing/sysfs-devices-system-cpu, cpu_capacity (Arm, and x86 since 6.13);
    /// Documentation/ABI/testing/sysfs-bus-event_source-devices and arch/x86/events/intel/core.c, cpu_core.
    pub fn performance_cpus(&self) -> Option<CpuList> {
        let online = self.online_cpus()?;
        let capacity = |cpu| self.text(&format!("{CPUS}/cpu{cpu}/cpu_capacity"))?.trim().parse::<u64>().ok();
        let capacities: Option<Vec<(usize, u64)>> = online.iter().map(|cpu| Some((cpu, capacity(cpu)?))).collect();
        let fastest = match capacities {
            Some(all) => {
                let most = all.iter().map(|&(_, capacity)| capacity).max()?;
                all.into_iter().filter(|&(_, capacity)| capacity == most).map(|(cpu, _)| cpu).collect()
            }
            None => CpuList::parse(&self.text(PERFORMANCE_CORES)?)?.and(&online),
        };
        (fastest != online && !fastest.is_empty()).then_some(fastest)
    }

    fn online(&self) -> Known<CpuList> {
        match self.told(ONLINE).parsed(|text| CpuList::parse(&text)) {
            Known::Is(online) => Known::Is(online),
            _ => self.told(STAT).parsed(|text| online_by_stat(&text)),
        }
    }

    fn core(&self, cpu: usize) -> Core {
        let path = |name: &str| format!("{CPUS}/cpu{cpu}/{name}");
        let told = |name: &str| self.told(&path(name));
        let number = |path: &str| self.told(path).parsed(|text| text.trim().parse().ok());
        let word = |path: &str| self.told(path).parsed(|text| text.split_whitespace().next().map(str::to_owned));
        Core {
            siblings: told(SIBLINGS).parsed(|text| CpuList::parse(&text)),
            governor: word(&GOVERNOR.path_of(&[cpu])),
            driver: word(&path(DRIVER)),
            highest_allowed_khz: number(&HIGHEST_FREQUENCY.path_of(&[cpu])),
            highest_khz: number(&path(HIGHEST)),
            base_khz: number(&path(BASE)),
            throttled: number(&path(THROTTLED)),
            idle: self.idle_states(cpu),
        }
    }

    fn idle_states(&self, cpu: usize) -> Vec<IdleState> {
        let folder = format!("{CPUS}/cpu{cpu}/cpuidle");
        let states = self.list(&folder).into_iter().filter_map(|state| {
            let text = |name: &str| self.text(&format!("{folder}/{state}/{name}"));
            Some(IdleState {
                number: state.strip_prefix("state")?.parse().ok()?,
                name: text("name")?,
                latency_us: text("latency")?.trim().parse().ok()?,
                disabled: text("disable").is_some_and(|disabled| disabled.trim() != "0"),
            })
        });
        let mut states: Vec<IdleState> = states.collect();
        states.sort_by_key(|state| state.number);
        states
    }

    /// Returns the paths of the files that this module reads. Files of a CPU are included only if they exist.
    pub(super) fn core_files(&self) -> Vec<String> {
        let mut files = [ONLINE, OFFLINE, PRESENT, ISOLATED_BY_GROUPS].map(str::to_owned).to_vec();
        for number in self.cores().each.keys() {
            let cpu = format!("{CPUS}/cpu{number}");
            let names = [SIBLINGS, DRIVER, HIGHEST, BASE, THROTTLED];
            let mut of_this: Vec<String> = names.iter().map(|name| format!("{cpu}/{name}")).collect();
            of_this.extend([GOVERNOR, HIGHEST_FREQUENCY].map(|setting| setting.path_of(&[number])));
            for state in self.list(&format!("{cpu}/cpuidle")) {
                of_this.extend(["name", "latency", "disable"].map(|name| format!("{cpu}/cpuidle/{state}/{name}")));
            }
            files.extend(of_this.into_iter().filter(|file| self.told(file) != Known::Absent));
        }
        files
    }
}

/// Returns the online CPUs. Each of them has a line such as `cpu0 …` in /proc/stat. proc_stat(5).
fn online_by_stat(stat: &str) -> Option<CpuList> {
    let cpus: CpuList = stat
        .lines()
        .filter_map(|line| line.split_whitespace().next()?.strip_prefix("cpu")?.parse().ok())
        .filter(|&cpu: &usize| cpu < 8192)
        .collect();
    (!cpus.is_empty()).then_some(cpus)
}

#[cfg(test)]
mod tests {
    use super::online_by_stat;

    #[test]
    fn without_sysfs_the_cpus_are_counted_in_proc() {
        let list = |text| online_by_stat(text).map(|list| list.to_string());
        assert_eq!(list("cpu  1 2 3\ncpu0 1 2\ncpu1 1 2\nintr 5\n").as_deref(), Some("0-1"));
        assert_eq!((list(""), list("cpu 1\n")), (None, None));
    }
}
