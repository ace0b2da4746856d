//! The files and new values of system-wide settings that affect real-time threads: throttling, the frequency governor
//! and turbo. This module changes no settings; `setup` does, using the journal.

use std::{collections::BTreeSet, time::Duration};

use hpt_sys::{
    host::Host,
    settings::{
        BOOST, BOOST_OF_CPU, FAIR_SERVER, FAIR_SERVER_PERIOD, GOVERNOR, NO_TURBO, RT_PERIOD, RT_RUNTIME, SystemSetting,
    },
};

use super::{RealtimeError, Throttling};
use crate::knobs::Setting;

/// The directory of the CPUs and their frequency settings. Source: Linux, Documentation/admin-guide/pm/cpufreq.rst.
const CPUS: &str = "/sys/devices/system/cpu";

/// The behavior of a thread that requests a real-time policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behavior {
    /// The thread blocks repeatedly, which lets other threads run on its CPU.
    Blocks,
    /// The thread never blocks. Other threads run on its CPU only when the kernel throttles it.
    Spins,
}

/// Returns the changes of a setting of these CPUs: one for each file, which several CPUs may share.
fn of_cpus(host: &Host, known: &SystemSetting, cpus: impl IntoIterator<Item = usize>, value: &str) -> Vec<Setting> {
    let mut seen = BTreeSet::new();
    let settings = cpus.into_iter().map(|cpu| Setting::of(host, known, &[cpu], value));
    settings.filter(|setting| seen.insert(setting.knob().path().to_owned())).collect()
}

/// Returns the time that real-time threads may use in each period, and the period, in microseconds; `None` if they cannot
/// be read.
pub(super) fn bandwidth(host: &Host) -> Option<(i64, i64)> {
    let microseconds = |known: SystemSetting| host.text(known.path)?.trim().parse().ok();
    microseconds(RT_RUNTIME).zip(microseconds(RT_PERIOD))
}

/// Returns the fair server of a CPU: its reserved time and period. `None` if these values cannot be read, for example
/// before Linux 6.12 or without debugfs.
pub(super) fn fair_server(host: &Host, cpu: usize) -> Option<(Duration, Duration)> {
    let ns = |known: SystemSetting| host.text(&known.path_of(&[cpu]))?.trim().parse().ok().map(Duration::from_nanos);
    ns(FAIR_SERVER).zip(ns(FAIR_SERVER_PERIOD))
}

/// Returns the time withheld from real-time threads on these CPUs; `None` if no time is withheld, or if the settings
/// cannot be read.
pub(super) fn throttling(host: &Host, cpus: &[usize]) -> Option<Throttling> {
    if let Some((runtime, period)) = bandwidth(host).filter(|(runtime, period)| (0..*period).contains(runtime)) {
        let us = |us: i64| Duration::from_micros(us.unsigned_abs());
        return Some(Throttling::Bandwidth { runtime: us(runtime), period: us(period) });
    }
    cpus.iter().find_map(|&cpu| {
        let (runtime, period) = fair_server(host, cpu).filter(|(runtime, _)| !runtime.is_zero())?;
        Some(Throttling::FairServer { cpu, runtime, period })
    })
}

/// Returns the changes that let real-time threads use all of the CPU time on these CPUs.
pub(super) fn without_throttling(host: &Host, cpus: &[usize]) -> Result<Vec<Setting>, RealtimeError> {
    if host.text(RT_RUNTIME.path).is_none() {
        return Err(RealtimeError::NoSuchSetting {
            what: "throttling of real-time threads",
            path: RT_RUNTIME.path.to_owned(),
            why: "mount /proc",
        });
    }
    let mut settings = vec![Setting::of(host, &RT_RUNTIME, &[], RT_RUNTIME.better)];
    let served = cpus.iter().copied().filter(|&cpu| fair_server(host, cpu).is_some());
    settings.extend(of_cpus(host, &FAIR_SERVER, served, FAIR_SERVER.better));
    Ok(settings)
}

/// Returns the frequency governor of a CPU; `None` if the CPU has none.
pub(super) fn governor(host: &Host, cpu: usize) -> Option<String> {
    host.text(&GOVERNOR.path_of(&[cpu])).map(|governor| governor.trim().to_owned())
}

/// Returns the changes that set the governor of these CPUs: one for each cpufreq policy, which several CPUs may share.
///
/// # Examples
///
/// ```
/// use hpt_core::Host;
/// use hpt_realtime::governor_settings;
///
/// match governor_settings(&Host::live(), &[0], "performance") {
///     Ok(settings) => {
///         for setting in settings {
///             println!("{} would become {}", setting.knob().path().display(), setting.value());
///         }
///     }
///     Err(refused) => println!("{refused}"),
/// }
/// ```
pub fn governor_settings(host: &Host, cpus: &[usize], name: &str) -> Result<Vec<Setting>, RealtimeError> {
    for &cpu in cpus {
        let path = GOVERNOR.path_of(&[cpu]);
        if governor(host, cpu).is_none() {
            return Err(RealtimeError::NoSuchSetting {
                what: "the governor",
                path,
                why: "the firmware or a hypervisor controls the frequency, or no cpufreq driver is loaded",
            });
        }
        let offered = host.text(&format!("{CPUS}/cpu{cpu}/cpufreq/scaling_available_governors")).unwrap_or_default();
        if !offered.is_empty() && !offered.split_whitespace().any(|governor| governor == name) {
            let available = offered.split_whitespace().collect::<Vec<_>>().join(", ");
            return Err(RealtimeError::NoSuchGovernor { name: name.to_owned(), path, available });
        }
    }
    Ok(of_cpus(host, &GOVERNOR, cpus.iter().copied(), name))
}

/// Returns whether frequencies above the nominal frequency are enabled; `None` if there is no such switch.
///
/// # Examples
///
/// ```
/// use hpt_core::Host;
///
/// match hpt_realtime::turbo(&Host::live()) {
///     Some(true) => println!("the cores may exceed their nominal frequency"),
///     Some(false) => println!("the cores keep to their nominal frequency"),
///     None => println!("this machine has no such switch"),
/// }
/// ```
#[must_use]
pub fn turbo(host: &Host) -> Option<bool> {
    let switch = |path: &str| match host.text(path)?.trim() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    };
    switch(NO_TURBO.path).map(|off| !off).or_else(|| switch(BOOST.path))
}

/// Returns the changes that disable frequencies above the nominal frequency: one change for all CPUs, or one for each
/// cpufreq policy of these CPUs.
///
/// # Examples
///
/// ```
/// use hpt_core::Host;
/// use hpt_realtime::no_turbo_settings;
///
/// match no_turbo_settings(&Host::live(), &[0]) {
///     Ok(settings) => println!("files to change: {}", settings.len()),
///     Err(refused) => println!("{refused}"),
/// }
/// ```
pub fn no_turbo_settings(host: &Host, cpus: &[usize]) -> Result<Vec<Setting>, RealtimeError> {
    if let Some(switch) = [NO_TURBO, BOOST].iter().find(|switch| host.text(switch.path).is_some()) {
        return Ok(vec![Setting::of(host, switch, &[], switch.better)]);
    }
    let switched = cpus.iter().copied().filter(|&cpu| host.text(&BOOST_OF_CPU.path_of(&[cpu])).is_some());
    let settings = of_cpus(host, &BOOST_OF_CPU, switched, BOOST_OF_CPU.better);
    if settings.is_empty() {
        return Err(RealtimeError::NoSuchSetting {
            what: "turbo",
            path: format!("{} or {}", NO_TURBO.path, BOOST.path),
            why: "the processor has no turbo mode, or its firmware or a hypervisor controls it",
        });
    }
    Ok(settings)
}

#[cfg(test)]
pub(super) mod tests {
    use std::{fs, os::unix::fs::symlink, time::Duration};

    use tempfile::TempDir;

    use super::{Throttling, governor, governor_settings, no_turbo_settings, throttling, turbo, without_throttling};
    use crate::RealtimeError;
    use hpt_sys::host::{Facts, Host};

    /// A simulated machine that consists of files and has two CPUs with a shared frequency.
    pub(crate) struct Machine {
        pub(crate) folder: TempDir,
        pub(crate) host: Host,
    }

    impl Machine {
        pub(crate) fn new(runtime: &str) -> Self {
            let folder = tempfile::tempdir().expect("a temporary directory");
            let host = Host::below(folder.path(), Facts::live());
            let machine = Self { folder, host };
            machine.write("proc/sys/kernel/sched_rt_runtime_us", runtime);
            machine.write("proc/sys/kernel/sched_rt_period_us", "1000000");
            machine.write("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave");
            machine
                .write("sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors", "performance powersave");
            for cpu in ["cpu0", "cpu1"] {
                let cpu = machine.folder.path().join("sys/devices/system/cpu").join(cpu);
                fs::create_dir_all(&cpu).expect("ours");
                symlink("../cpufreq/policy0", cpu.join("cpufreq")).expect("ours");
            }
            machine
        }

        pub(crate) fn write(&self, path: &str, value: &str) {
            let path = self.folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent directory")).expect("a new directory");
            fs::write(path, format!("{value}\n")).expect("ours");
        }

        pub(crate) fn read(&self, path: &str) -> String {
            fs::read_to_string(self.folder.path().join(path)).expect("ours").trim().to_owned()
        }
    }

    #[test]
    fn throttling_is_reported() {
        let machine = Machine::new("950000");
        let ms = Duration::from_millis;
        let bandwidth = Throttling::Bandwidth { runtime: ms(950), period: ms(1000) };
        assert_eq!(throttling(&machine.host, &[1]), Some(bandwidth));
        assert!(bandwidth.to_string().contains("950 ms of every 1 s"));
        for off in ["-1", "1000000"] {
            machine.write("proc/sys/kernel/sched_rt_runtime_us", off);
            assert_eq!(throttling(&machine.host, &[1]), None, "{off}");
        }
        for cpu in ["cpu0", "cpu1"] {
            let server = format!("sys/kernel/debug/sched/fair_server/{cpu}");
            machine.write(&format!("{server}/runtime"), if cpu == "cpu0" { "0" } else { "50000000" });
            machine.write(&format!("{server}/period"), "1000000000");
        }
        assert_eq!(throttling(&machine.host, &[0]), None);
        let server = Throttling::FairServer { cpu: 1, runtime: ms(50), period: ms(1000) };
        assert_eq!(throttling(&machine.host, &[0, 1]), Some(server));
        let settings = without_throttling(&machine.host, &[1]).expect("existing settings");
        let kinds: Vec<_> = settings.iter().map(|wanted| (wanted.knob.kind(), wanted.value.as_str())).collect();
        assert_eq!(kinds, [("sched-rt-runtime-us", "-1"), ("fair-server-cpu1", "0")]);
    }

    #[test]
    fn cpus_that_share_a_frequency_have_one_governor() {
        let machine = Machine::new("950000");
        let settings = governor_settings(&machine.host, &[0, 1], "performance").expect("an available governor");
        assert_eq!(settings.len(), 1);
        assert!(settings[0].knob.path().ends_with("cpufreq/policy0/scaling_governor"));
        assert_eq!(governor(&machine.host, 1).as_deref(), Some("powersave"));
        let unknown = governor_settings(&machine.host, &[0], "haste").expect_err("an unavailable governor");
        assert!(unknown.to_string().contains("available: performance, powersave"), "{unknown}");
        let absent = governor_settings(&machine.host, &[7], "performance").expect_err("a CPU that does not exist");
        assert!(matches!(absent, RealtimeError::NoSuchSetting { .. }), "{absent}");
    }

    #[test]
    fn the_turbo_switch_is_found_where_it_exists() {
        let machine = Machine::new("950000");
        assert!(matches!(no_turbo_settings(&machine.host, &[0]), Err(RealtimeError::NoSuchSetting { .. })));
        assert_eq!(turbo(&machine.host), None);
        machine.write("sys/devices/system/cpu/cpufreq/policy0/boost", "1");
        assert_eq!(no_turbo_settings(&machine.host, &[0, 1]).expect("a setting per policy").len(), 1);
        machine.write("sys/devices/system/cpu/cpufreq/boost", "1");
        let of_all = no_turbo_settings(&machine.host, &[0]).expect("a setting for all CPUs");
        assert_eq!((of_all[0].value.as_str(), turbo(&machine.host)), ("0", Some(true)));
        machine.write("sys/devices/system/cpu/intel_pstate/no_turbo", "1");
        let of_intel = no_turbo_settings(&machine.host, &[0]).expect("a setting for all CPUs");
        assert_eq!((of_intel[0].value.as_str(), turbo(&machine.host)), ("1", Some(false)));
    }
}
