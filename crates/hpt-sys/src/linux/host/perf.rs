//! Facts about perf events from the kernel's files: permissions, the counters of the cores, and the frequency of a
//! core.

use std::collections::BTreeMap;

use super::{CpuList, Host, Known};
use crate::{
    settings::{PARANOID, RDPMC, USER_ACCESS},
    units::Frequency,
};

const DEVICES: &str = "/sys/bus/event_source/devices";
/// The state of each CPU's cycle counter, from the kernel module that allows programs to read it (kmod/ in the hpt
/// repository).
const HPT_CYCLES: &str = "/sys/module/hpt_cycles/parameters/state";
/// The event source that is present whenever the kernel supports perf events, even if the cores have no counters.
const SOFTWARE: &str = "software";
/// The type of the counters of cores, PERF_TYPE_RAW. If several kinds of core have counters, only one kind has this type,
/// and an event of the type PERF_TYPE_HARDWARE counts on that kind. Linux, kernel/events/core.c, `perf_init_event`;
/// arch/x86/events/core.c, `init_hw_perf_events`.
const TYPE_OF_CORES: &str = "4";

/// The permissions to count events, and the available counters. A field is `None` if no file states its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerfEvents {
    /// `kernel.perf_event_paranoid`, which restricts processes without CAP_PERFMON. If the value is 2 or higher, they
    /// may count only their own events in user mode. If it is 3 or higher, in kernels that support such values, they
    /// may not count any events.
    pub paranoid: Option<i32>,
    /// `kernel.perf_user_access`, on ARM: whether programs may read the counter of their own event.
    pub user_access: Option<bool>,
    /// The `rdpmc` setting of the core, on x86: 0 allows no process to read a counter, 1 allows processes with a mapped
    /// event, and 2 allows all processes. Each kind of core of a hybrid processor has its own setting.
    pub rdpmc: BTreeMap<String, u8>,
    /// The kernel's names for the counters of the cores; empty in many virtual machines.
    pub core_pmus: Option<Vec<String>>,
    /// The CPUs that have these counters, for the names whose file `cpus` lists them. Each kind of core of a hybrid
    /// processor has its own counters.
    pub cpus: BTreeMap<String, CpuList>,
    /// The counters that count an event for which no counters were chosen, such as the one of the source `perf-cycles`;
    /// `None` if no file states which these are.
    pub usual: Option<String>,
}

impl Host {
    /// Returns the permissions to count events on this machine, and the available counters.
    ///
    /// # References
    ///
    /// Linux, Documentation/admin-guide/sysctl/kernel.rst, `perf_event_paranoid` and `perf_user_access`;
    /// Documentation/ABI/testing/sysfs-bus-event_source-devices.
    #[must_use]
    pub fn perf_events(&self) -> PerfEvents {
        let devices = self.list(DEVICES);
        let number = |path: &str| self.text(path)?.parse::<i32>().ok();
        let cores: Vec<String> = devices.iter().filter(|name| self.counts_cores(name)).cloned().collect();
        let cpus = cores.iter().filter_map(|pmu| Some((pmu.clone(), CpuList::parse(&self.text(&cpus_path(pmu))?)?)));
        let usual = cores.iter().find(|pmu| self.text(&type_path(pmu)).as_deref() == Some(TYPE_OF_CORES));
        let rdpmc = cores.iter().filter_map(|pmu| {
            let value = number(&RDPMC.path_of(&[pmu])).and_then(|value| u8::try_from(value).ok())?;
            Some((pmu.clone(), value))
        });
        PerfEvents {
            paranoid: number(PARANOID.path),
            user_access: number(USER_ACCESS.path).map(|value| value != 0),
            cpus: cpus.collect(),
            usual: usual.cloned(),
            rdpmc: rdpmc.collect(),
            core_pmus: (!devices.is_empty()).then_some(cores),
        }
    }

    /// Returns whether an event source counts events of cores: the kernel gave it the fixed type for them, it lists the
    /// CPUs that have its counters, or its name is that of such a source. Sources outside of the cores have `cpumask`
    /// instead of `cpus`.
    fn counts_cores(&self, name: &str) -> bool {
        let by_kernel = || {
            self.text(&type_path(name)).as_deref() == Some(TYPE_OF_CORES)
                || self.told(&cpus_path(name)) != Known::Absent
        };
        is_name_of_cores(name) || by_kernel()
    }

    /// Returns the state of the CPUs' cycle counters from the kernel module hpt_cycles (`open 0-3`); `None` if it is
    /// not loaded.
    #[must_use]
    pub fn opened_cycles(&self) -> Option<String> {
        self.text(HPT_CYCLES).map(|state| state.replace('\n', ", "))
    }

    /// Returns the current frequency of a core, as cpufreq reports it; `None` if it reports no frequency.
    #[must_use]
    pub fn core_frequency(&self, cpu: usize) -> Option<Frequency> {
        self.text(&core_frequency_path(cpu)).as_deref().and_then(kilohertz)
    }

    /// Returns the paths of the files that this module reads. Of the files of CPUs, only those of the first CPU are
    /// included.
    pub(super) fn perf_files(&self) -> Vec<String> {
        let pmus = self.list(DEVICES).into_iter().filter(|name| self.counts_cores(name) || name == SOFTWARE);
        let of_pmu = pmus.flat_map(|name| [type_path(&name), cpus_path(&name), RDPMC.path_of(&[name])]);
        let of_pmu: Vec<String> =
            of_pmu.filter(|file| file.ends_with("type") || self.told(file) != Known::Absent).collect();
        let mut files = vec![HPT_CYCLES.to_owned(), core_frequency_path(0)];
        files.extend(of_pmu);
        files
    }
}

fn type_path(pmu: &str) -> String {
    format!("{DEVICES}/{pmu}/type")
}

fn cpus_path(pmu: &str) -> String {
    format!("{DEVICES}/{pmu}/cpus")
}

fn core_frequency_path(cpu: usize) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq")
}

/// Returns whether the kernel uses this name for the counters of cores. Linux, drivers/perf/arm_pmuv3.c and
/// arm_v7_pmu.c, arch/x86/events/core.c.
fn is_name_of_cores(name: &str) -> bool {
    name == "cpu" || ["cpu_", "armv", "apple_"].iter().any(|beginning| name.starts_with(beginning))
}

/// Parses a frequency in kilohertz. Linux, Documentation/admin-guide/pm/cpufreq.rst, `scaling_cur_freq`.
fn kilohertz(text: &str) -> Option<Frequency> {
    Frequency::from_hertz(text.trim().parse::<u64>().ok()?.checked_mul(1_000)?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::{any, proptest};

    use super::{PerfEvents, is_name_of_cores, kilohertz};
    use crate::{
        host::{Facts, Host},
        units::Frequency,
    };

    #[test]
    fn core_pmus_are_recognized_by_their_names() {
        for name in ["cpu", "cpu_core", "cpu_atom", "armv8_cortex_a53", "armv7_cortex_a7", "armv6_1176"] {
            assert!(is_name_of_cores(name), "{name}");
        }
        for name in ["software", "tracepoint", "uncore_imc", "msr", "breakpoint", "arm_smmuv3"] {
            assert!(!is_name_of_cores(name), "{name}");
        }
    }

    #[test]
    fn a_governor_reports_kilohertz() {
        assert_eq!(kilohertz("1500000\n"), Frequency::from_hertz(1_500_000_000));
        assert_eq!((kilohertz("0"), kilohertz("<unknown>"), kilohertz("99999999999999999999")), (None, None, None));
    }

    #[test]
    fn perf_settings_are_read_from_the_files_of_a_machine() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let write = |path: &str, content: &str| {
            let file = folder.path().join(path);
            fs::create_dir_all(file.parent().expect("a parent directory")).expect("a new directory");
            fs::write(file, content).expect("writable");
        };
        let host = Host::below(folder.path(), Facts::live());
        assert_eq!((host.perf_events(), host.core_frequency(0)), (PerfEvents::default(), None));
        write("proc/sys/kernel/perf_event_paranoid", "-1\n");
        write("proc/sys/kernel/perf_user_access", "1\n");
        write("sys/bus/event_source/devices/cpu/rdpmc", "2\n");
        write("sys/bus/event_source/devices/software/type", "1\n");
        write("sys/bus/event_source/devices/uncore_imc/cpumask", "0\n");
        write("sys/devices/system/cpu/cpu3/cpufreq/scaling_cur_freq", "600000\n");
        let told = host.perf_events();
        assert_eq!((told.paranoid, told.user_access), (Some(-1), Some(true)));
        assert_eq!(told.rdpmc.get("cpu"), Some(&2));
        assert_eq!(told.core_pmus, Some(vec!["cpu".to_owned()]));
        // A name that is not known: the kernel's type, and the list of CPUs.
        write("sys/bus/event_source/devices/cpum_cf/type", "4\n");
        write("sys/bus/event_source/devices/new_cores/cpus", "4-7\n");
        let told = host.perf_events();
        assert_eq!(told.core_pmus, Some(vec!["cpu".to_owned(), "cpum_cf".to_owned(), "new_cores".to_owned()]));
        assert_eq!((told.usual.as_deref(), told.cpus.len()), (Some("cpum_cf"), 1));
        assert_eq!(host.core_frequency(3), Frequency::from_hertz(600_000_000));
        assert_eq!(host.opened_cycles(), None);
        write("sys/module/hpt_cycles/parameters/state", "open 0,2\nclosed 1,3\n");
        assert_eq!(host.opened_cycles().as_deref(), Some("open 0,2, closed 1,3"));
        let captured = host.capture();
        assert!(captured.copied.iter().any(|path| path.ends_with("perf_event_paranoid")), "{captured:?}");
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_as_a_frequency_or_none(text in any::<String>()) {
            let _ = kilohertz(&text);
        }
    }
}
