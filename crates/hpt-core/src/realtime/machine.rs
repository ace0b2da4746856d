//! The files and new values of system-wide settings that affect real-time threads: throttling, the frequency governor
//! and turbo. This module changes no settings; `setup` does, using the journal.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use super::{RealtimeError, Throttling};
use crate::{
    host::Host,
    knobs::{Knob, Setting},
};

use crate::host::{BOOST, NO_TURBO};
pub(super) use crate::host::{FAIR_SERVER, RT_PERIOD, RT_RUNTIME};

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

fn wanted(host: &Host, kind: impl Into<String>, path: &str, value: &str) -> Setting {
    Setting::new(Knob::new(kind, place(host, path).to_string_lossy()), value)
}

/// Returns the path of a setting's file. The settings of a system snapshot are never changed.
fn place(host: &Host, path: &str) -> PathBuf {
    host.locate(path).unwrap_or_default()
}

/// Returns the signed number of microseconds that a file contains; `None` if it cannot be read.
pub(super) fn microseconds(host: &Host, path: &str) -> Option<i64> {
    host.text(path)?.trim().parse().ok()
}

/// Returns the fair server of a CPU: its reserved time and period. `None` if these values cannot be read, for example
/// before Linux 6.12 or without debugfs.
pub(super) fn fair_server(host: &Host, cpu: usize) -> Option<(Duration, Duration)> {
    let ns = |name: &str| Some(Duration::from_nanos(host.text(&fair_server_file(cpu, name))?.trim().parse().ok()?));
    Some((ns("runtime")?, ns("period")?))
}

fn fair_server_file(cpu: usize, name: &str) -> String {
    format!("{FAIR_SERVER}/cpu{cpu}/{name}")
}

/// Returns the time withheld from real-time threads on these CPUs; `None` if no time is withheld, or if the settings
/// cannot be read.
pub(super) fn throttling(host: &Host, cpus: &[usize]) -> Option<Throttling> {
    let (runtime, period) = (microseconds(host, RT_RUNTIME), microseconds(host, RT_PERIOD));
    if let Some((runtime, period)) = runtime.zip(period)
        && (0..period).contains(&runtime)
    {
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
    if host.text(RT_RUNTIME).is_none() {
        return Err(RealtimeError::NoSuchSetting {
            what: "throttling of real-time threads",
            path: RT_RUNTIME.to_owned(),
            why: "mount /proc",
        });
    }
    let mut settings = vec![wanted(host, "sched-rt-runtime-us", RT_RUNTIME, "-1")];
    let served = cpus.iter().filter(|&&cpu| fair_server(host, cpu).is_some());
    settings.extend(
        served.map(|&cpu| wanted(host, format!("fair-server-cpu{cpu}"), &fair_server_file(cpu, "runtime"), "0")),
    );
    Ok(settings)
}

fn governor_file(cpu: usize) -> String {
    format!("{CPUS}/cpu{cpu}/cpufreq/scaling_governor")
}

/// Returns the frequency governor of a CPU; `None` if the CPU has none.
pub(super) fn governor(host: &Host, cpu: usize) -> Option<String> {
    host.text(&governor_file(cpu)).map(|governor| governor.trim().to_owned())
}

/// Returns the changes that set the governor of these CPUs: one for each cpufreq policy, which several CPUs may share.
pub(crate) fn with_governor(host: &Host, cpus: &[usize], name: &str) -> Result<Vec<Setting>, RealtimeError> {
    let mut seen = BTreeSet::new();
    let mut settings = Vec::new();
    for &cpu in cpus {
        let path = governor_file(cpu);
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
        // If CPUs share a frequency, their `cpufreq` directories are links to a shared directory.
        let shared = place(host, &path);
        let shared = shared.canonicalize().unwrap_or(shared);
        if seen.insert(shared.clone()) {
            let knob = Knob::new(format!("governor-cpu{cpu}"), shared.to_string_lossy());
            settings.push(Setting::new(knob, name));
        }
    }
    Ok(settings)
}

/// Returns whether frequencies above the nominal frequency are enabled; `None` if there is no such switch.
pub(crate) fn turbo(host: &Host) -> Option<bool> {
    let switch = |path: &str| match host.text(path)?.trim() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    };
    switch(NO_TURBO).map(|off| !off).or_else(|| switch(BOOST))
}

/// Returns the changes that disable frequencies above the nominal frequency: one change for all CPUs, or one for each
/// cpufreq policy of these CPUs.
pub(crate) fn without_turbo(host: &Host, cpus: &[usize]) -> Result<Vec<Setting>, RealtimeError> {
    if host.text(NO_TURBO).is_some() {
        return Ok(vec![wanted(host, "no-turbo", NO_TURBO, "1")]);
    }
    if host.text(BOOST).is_some() {
        return Ok(vec![wanted(host, "boost", BOOST, "0")]);
    }
    let mut seen = BTreeSet::new();
    let settings: Vec<Setting> = cpus
        .iter()
        .filter_map(|&cpu| {
            let path = format!("{CPUS}/cpu{cpu}/cpufreq/boost");
            host.text(&path)?;
            let shared = place(host, &path).canonicalize().unwrap_or_else(|_| place(host, &path));
            let knob = Knob::new(format!("boost-cpu{cpu}"), shared.to_string_lossy());
            seen.insert(shared).then_some(Setting::new(knob, "0"))
        })
        .collect();
    if settings.is_empty() {
        return Err(RealtimeError::NoSuchSetting {
            what: "turbo",
            path: format!("{NO_TURBO} or {BOOST}"),
            why: "the processor has no turbo mode, or its firmware or a hypervisor controls it",
        });
    }
    Ok(settings)
}

#[cfg(test)]
pub(super) mod tests {
    use std::{fs, os::unix::fs::symlink, time::Duration};

    use tempfile::TempDir;

    use super::{Throttling, governor, throttling, turbo, with_governor, without_throttling, without_turbo};
    use crate::{
        host::{Facts, Host},
        realtime::RealtimeError,
    };

    /// A simulated machine that consists of files and has two CPUs with a shared frequency.
    pub(in crate::realtime) struct Machine {
        pub(in crate::realtime) folder: TempDir,
        pub(in crate::realtime) host: Host,
    }

    impl Machine {
        pub(in crate::realtime) fn new(runtime: &str) -> Self {
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

        pub(in crate::realtime) fn write(&self, path: &str, value: &str) {
            let path = self.folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent directory")).expect("a new directory");
            fs::write(path, format!("{value}\n")).expect("ours");
        }

        pub(in crate::realtime) fn read(&self, path: &str) -> String {
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
        let settings = with_governor(&machine.host, &[0, 1], "performance").expect("an available governor");
        assert_eq!(settings.len(), 1);
        assert!(settings[0].knob.path().ends_with("cpufreq/policy0/scaling_governor"));
        assert_eq!(governor(&machine.host, 1).as_deref(), Some("powersave"));
        let unknown = with_governor(&machine.host, &[0], "haste").expect_err("an unavailable governor");
        assert!(unknown.to_string().contains("available: performance, powersave"), "{unknown}");
        let absent = with_governor(&machine.host, &[7], "performance").expect_err("a CPU that does not exist");
        assert!(matches!(absent, RealtimeError::NoSuchSetting { .. }), "{absent}");
    }

    #[test]
    fn the_turbo_switch_is_found_where_it_exists() {
        let machine = Machine::new("950000");
        assert!(matches!(without_turbo(&machine.host, &[0]), Err(RealtimeError::NoSuchSetting { .. })));
        assert_eq!(turbo(&machine.host), None);
        machine.write("sys/devices/system/cpu/cpufreq/policy0/boost", "1");
        assert_eq!(without_turbo(&machine.host, &[0, 1]).expect("a setting per policy").len(), 1);
        machine.write("sys/devices/system/cpu/cpufreq/boost", "1");
        let of_all = without_turbo(&machine.host, &[0]).expect("a setting for all CPUs");
        assert_eq!((of_all[0].value.as_str(), turbo(&machine.host)), ("0", Some(true)));
        machine.write("sys/devices/system/cpu/intel_pstate/no_turbo", "1");
        let of_intel = without_turbo(&machine.host, &[0]).expect("a setting for all CPUs");
        assert_eq!((of_intel[0].value.as_str(), turbo(&machine.host)), ("1", Some(false)));
    }
}
