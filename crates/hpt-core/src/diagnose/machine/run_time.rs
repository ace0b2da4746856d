//! The fixes that can be applied and undone while the machine runs, as settings. This module changes no setting.

use super::{Examined, MachineFacts, Severity, Subject, Verdict};
use crate::{
    host::{Core, FAIR_SERVER, Host, Interrupt, RT_RUNTIME, Told},
    knobs::{Knob, Setting, irqbalance},
    realtime::{RealtimeError, with_governor, without_turbo},
};

/// The idle states with an exit latency up to this one, in microseconds, stay enabled.
const SHORT_US: u64 = 2;

/// A fix of a finding that can be applied and undone at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunTimeFix {
    /// The name of the fix, which is unique among the fixes and never changes.
    pub name: &'static str,
    /// The name of the rule that found the problem.
    pub rule: &'static str,
    /// A description of the fix in a few words.
    pub text: String,
    /// The change to the machine.
    pub change: RunTimeChange,
}

/// The change to the machine that a fix makes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunTimeChange {
    /// New values of settings.
    Settings(Vec<Setting>),
    /// An exit latency of zero for the idle states of all CPUs, as long as a process requests it:
    /// [`AwakeCpus`](crate::realtime::AwakeCpus).
    LatencyLimit,
    /// The fix cannot be applied at run time on this machine. Contains the reason.
    NotPossible(String),
}

/// Returns the fixes of the problems in `examined` that can be applied and undone at run time. Problems that are notes
/// for the goal of the examination have no fixes. `cpu` is the CPU that was examined.
#[must_use]
pub fn run_time_fixes(host: &Host, facts: &MachineFacts, examined: &[Examined], cpu: usize) -> Vec<RunTimeFix> {
    let machine = Machine { host, facts, cpu, subject: Subject::of(facts, Some(cpu)) };
    let is_problem =
        |one: &&Examined| matches!(&one.verdict, Verdict::Problem(finding) if finding.severity > Severity::Info);
    let rules: Vec<&'static str> = examined.iter().filter(is_problem).map(|one| one.rule.id).collect();
    rules.iter().flat_map(|rule| machine.fixes(rule, &rules)).collect()
}

/// A machine, and the CPU that is to run a time-critical thread.
struct Machine<'a> {
    host: &'a Host,
    facts: &'a MachineFacts,
    cpu: usize,
    subject: Subject,
}

impl Machine<'_> {
    /// Returns the fixes for a rule. `rules` are all rules that found a problem.
    fn fixes(&self, rule: &'static str, rules: &[&'static str]) -> Vec<RunTimeFix> {
        let cpu = self.cpu;
        let fix = |name, text: String, change| RunTimeFix { name, rule, text, change };
        match rule {
            "governor" => vec![
                fix("governor", format!("governor performance on CPU {cpu}"), self.governor()),
                fix("minimum-frequency", format!("minimum frequency at its maximum on CPU {cpu}"), self.minimum()),
            ],
            "turbo" => vec![fix("turbo", "turbo off".to_owned(), of(without_turbo(self.host, &[cpu])))],
            "idle-states" => vec![
                fix("idle-states", format!("deep idle states off on CPU {cpu}"), self.idle_states()),
                fix("dma-latency", "cpu_dma_latency 0".to_owned(), RunTimeChange::LatencyLimit),
            ],
            "throttling" => vec![fix(
                "throttling",
                "real-time throttling off".to_owned(),
                self.one("sched-rt-runtime-us", RT_RUNTIME, "-1"),
            )],
            "fair-server" => {
                vec![fix("fair-server", format!("fair server off on CPU {cpu}"), self.fair_server())]
            }
            "interrupts" => {
                vec![fix("interrupts", format!("interrupts moved off CPU {cpu}"), self.interrupts())]
            }
            // The list of irqbalance belongs to the fix that moves interrupts, if there is one.
            "irqbalance" if !rules.contains(&"interrupts") => {
                let why = "no interrupt is routed to the CPU now, so irqbalance has no effect that could be measured";
                let change = RunTimeChange::NotPossible(why.to_owned());
                vec![fix("irqbalance", format!("irqbalance moves no interrupts to CPU {cpu}"), change)]
            }
            "kernel-threads" => {
                let change = self.workers();
                vec![fix("workqueue-mask", format!("unbound kernel workers off CPU {cpu}"), change)]
            }
            "timer-migration" => {
                let change = self.one("timer-migration", "/proc/sys/kernel/timer_migration", "0");
                vec![fix("timer-migration", "timer migration off".to_owned(), change)]
            }
            "huge-pages" => {
                let change = self.one("huge-pages", "/sys/kernel/mm/transparent_hugepage/enabled", "madvise");
                vec![fix("huge-pages", "transparent huge pages madvise".to_owned(), change)]
            }
            // The value 2 also separates the merged pages. That cannot be undone, because the kernel merges pages only
            // slowly, and a process that writes 2 is the first to be killed if the memory does not suffice.
            "same-pages" => {
                vec![fix("same-pages", "KSM off".to_owned(), self.one("same-pages", "/sys/kernel/mm/ksm/run", "0"))]
            }
            "moved-pages" => {
                let change = self.one("numa-balancing", "/proc/sys/kernel/numa_balancing", "0");
                vec![fix("moved-pages", "NUMA balancing off".to_owned(), change)]
            }
            "nmi-watchdog" => {
                let change = self.one("nmi-watchdog", "/proc/sys/kernel/nmi_watchdog", "0");
                vec![fix("nmi-watchdog", "NMI watchdog off".to_owned(), change)]
            }
            _ => Vec::new(),
        }
    }

    /// Returns the change of one file.
    fn one(&self, kind: &str, path: &str, value: &str) -> RunTimeChange {
        if self.host.text(path).is_none() {
            return RunTimeChange::NotPossible(format!("{path} cannot be read"));
        }
        settings(vec![self.setting(kind, path, value)])
    }

    fn setting(&self, kind: &str, path: &str, value: &str) -> Setting {
        let place = self.host.locate(path).unwrap_or_default();
        // CPUs that share a frequency have links to one directory.
        let place = place.canonicalize().unwrap_or(place);
        Setting::new(Knob::new(kind, place.to_string_lossy()), value)
    }

    fn fair_server(&self) -> RunTimeChange {
        let cpu = self.cpu;
        let path = format!("{FAIR_SERVER}/cpu{cpu}/runtime");
        if matches!(self.facts.fair_servers.get(&cpu), None | Some(Told::Absent)) {
            return RunTimeChange::NotPossible(format!(
                "{path} is missing; if debugfs is not mounted, run `sudo mount -t debugfs none /sys/kernel/debug`"
            ));
        }
        self.one(&format!("fair-server-cpu{cpu}"), &path, "0")
    }

    fn core(&self) -> Option<&Core> {
        self.facts.cores.each.get(&self.cpu)
    }

    fn governor(&self) -> RunTimeChange {
        of(with_governor(self.host, &[self.cpu], "performance"))
    }

    fn minimum(&self) -> RunTimeChange {
        let allowed = self.core().and_then(|core| core.highest_allowed_khz.is().copied());
        let path = format!("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_min_freq", self.cpu);
        match allowed {
            Some(khz) => self.one(&format!("minimum-frequency-cpu{}", self.cpu), &path, &khz.to_string()),
            None => {
                RunTimeChange::NotPossible("the kernel does not report the maximum frequency of the CPU".to_owned())
            }
        }
    }

    fn idle_states(&self) -> RunTimeChange {
        let deep = self.core().into_iter().flat_map(|core| &core.idle);
        let deep = deep.filter(|state| !state.disabled && state.latency_us > SHORT_US).map(|state| {
            let kind = format!("idle-state-cpu{}-{}", self.cpu, state.name);
            let path = format!("/sys/devices/system/cpu/cpu{}/cpuidle/state{}/disable", self.cpu, state.number);
            self.setting(&kind, &path, "1")
        });
        let deep: Vec<Setting> = deep.collect();
        if deep.is_empty() {
            return RunTimeChange::NotPossible(
                "the deep idle states of the CPU cannot be disabled one by one".to_owned(),
            );
        }
        settings(deep)
    }

    fn interrupts(&self) -> RunTimeChange {
        let elsewhere = self.subject.elsewhere(self.facts);
        let is_here = |one: &&Interrupt| match &one.goes_to {
            Told::Is(cpus) => cpus.contains(self.cpu),
            Told::Absent | Told::NotAllowed | Told::Garbled => false,
        };
        let here: Vec<&Interrupt> = self.facts.interrupts.is().into_iter().flatten().filter(is_here).collect();
        if here.is_empty() || elsewhere.is_empty() {
            return RunTimeChange::NotPossible("the affinity of the interrupts cannot be read".to_owned());
        }
        let balances = self.facts.situation.balances_interrupts == Some(true);
        let ban = balances.then(|| self.banned(here.iter().map(|one| one.number)));
        // Without the list, irqbalance may move the interrupts back.
        let ban = match ban.transpose() {
            Ok(ban) => ban,
            Err(why) => return RunTimeChange::NotPossible(why),
        };
        let moved = here.iter().map(|one| {
            let path = format!("/proc/irq/{}/smp_affinity_list", one.number);
            self.setting(&format!("interrupt-{}", one.number), &path, &elsewhere.to_string())
        });
        settings(ban.into_iter().chain(moved).collect())
    }

    /// Returns the setting that adds interrupts to those that irqbalance does not move.
    fn banned(&self, numbers: impl IntoIterator<Item = u32>) -> Result<Setting, String> {
        let names = self.host.list(irqbalance::FOLDER);
        let name = names.iter().find(|name| irqbalance::is_socket_name(name));
        let name = name.ok_or("irqbalance is running, but has no socket in /run/irqbalance")?;
        let knob = Knob::new("irqbalance-banned", format!("{}/{name}", irqbalance::FOLDER));
        let before = knob.value().map_err(|_| "irqbalance does not answer on its socket")?;
        let before = before.split(' ').filter_map(|number| number.parse().ok());
        let all = irqbalance::list_of(before.chain(numbers));
        Ok(Setting::new(knob, all))
    }

    fn workers(&self) -> RunTimeChange {
        const MASK: &str = "/sys/devices/virtual/workqueue/cpumask";
        let elsewhere = self.subject.elsewhere(self.facts);
        if elsewhere.is_empty() {
            return RunTimeChange::NotPossible("no other CPU can run the kernel workers".to_owned());
        }
        self.one("workqueue-mask", MASK, &elsewhere.mask())
    }
}

fn settings(settings: Vec<Setting>) -> RunTimeChange {
    RunTimeChange::Settings(settings)
}

fn of(wanted: Result<Vec<Setting>, RealtimeError>) -> RunTimeChange {
    wanted.map_or_else(|error| RunTimeChange::NotPossible(error.to_string()), RunTimeChange::Settings)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::{RunTimeChange, run_time_fixes};
    use crate::{
        diagnose::{Goal, MachineFacts, examine},
        host::{Facts, Host},
    };

    fn write(folder: &Path, path: &str, value: &str) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a parent directory")).expect("a new directory");
        fs::write(path, format!("{value}\n")).expect("ours");
    }

    /// Returns a machine with four CPUs and one problem of many kinds.
    fn machine(folder: &Path) -> Host {
        for (path, value) in [
            ("sys/devices/system/cpu/online", "0-3"),
            ("sys/devices/system/cpu/isolated", ""),
            ("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave"),
            ("sys/devices/system/cpu/cpu3/cpufreq/scaling_available_governors", "performance powersave"),
            ("sys/devices/system/cpu/cpu3/cpufreq/scaling_min_freq", "600000"),
            ("sys/devices/system/cpu/cpu3/cpufreq/scaling_max_freq", "1500000"),
            ("sys/devices/system/cpu/cpu3/cpuidle/state0/name", "POLL"),
            ("sys/devices/system/cpu/cpu3/cpuidle/state0/latency", "0"),
            ("sys/devices/system/cpu/cpu3/cpuidle/state0/disable", "0"),
            ("sys/devices/system/cpu/cpu3/cpuidle/state1/name", "C6"),
            ("sys/devices/system/cpu/cpu3/cpuidle/state1/latency", "200"),
            ("sys/devices/system/cpu/cpu3/cpuidle/state1/disable", "0"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"),
            ("sys/kernel/mm/ksm/run", "1"),
            ("proc/sys/kernel/nmi_watchdog", "1"),
            ("proc/sys/kernel/timer_migration", "1"),
            ("proc/irq/24/smp_affinity_list", "3"),
            ("proc/irq/25/smp_affinity_list", "0-2"),
            (
                "proc/interrupts",
                "           CPU0       CPU1       CPU2       CPU3\n 24: 0 0 0 90 PCI-MSI 1-edge eth0\n 25: 9 0 0 0 PCI-MSI 2-edge eth1",
            ),
        ] {
            write(folder, path, value);
        }
        Host::below(folder, Facts::live())
    }

    #[test]
    fn each_problem_has_the_fixes_that_can_be_undone() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let host = machine(folder.path());
        let facts = MachineFacts::new(&host);
        let examined = examine(&facts, Some(3), Goal::Realtime);
        let fixes = run_time_fixes(&host, &facts, &examined, 3);
        let values = |name: &str| {
            let fix = fixes.iter().find(|fix| fix.name == name).unwrap_or_else(|| panic!("{name} in {fixes:?}"));
            let RunTimeChange::Settings(settings) = &fix.change else { panic!("{fix:?}") };
            let value = |path: &Path| path.strip_prefix(folder.path()).expect("a path of the machine").to_owned();
            let pairs =
                settings.iter().map(|one| (value(one.knob.path()).to_string_lossy().into_owned(), one.value.clone()));
            pairs.collect::<Vec<_>>()
        };
        let of = |name: &str, path: &str, value: &str| {
            assert_eq!(values(name), [(path.to_owned(), value.to_owned())], "{name}");
        };
        of("governor", "sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "performance");
        of("minimum-frequency", "sys/devices/system/cpu/cpu3/cpufreq/scaling_min_freq", "1500000");
        of("idle-states", "sys/devices/system/cpu/cpu3/cpuidle/state1/disable", "1");
        of("huge-pages", "sys/kernel/mm/transparent_hugepage/enabled", "madvise");
        of("same-pages", "sys/kernel/mm/ksm/run", "0");
        of("nmi-watchdog", "proc/sys/kernel/nmi_watchdog", "0");
        of("timer-migration", "proc/sys/kernel/timer_migration", "0");
        of("interrupts", "proc/irq/24/smp_affinity_list", "0-2");
        assert!(fixes.iter().any(|fix| fix.change == RunTimeChange::LatencyLimit));
        let names: BTreeSet<&str> = fixes.iter().map(|fix| fix.name).collect();
        assert_eq!(names.len(), fixes.len(), "the names are unique");
    }

    #[test]
    fn without_debugfs_the_fix_of_the_fair_server_names_it() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let since = Facts { kernel_release: "6.12.0".to_owned(), ..Facts::live() };
        let host = Host::below(folder.path(), since);
        let change = || {
            let facts = MachineFacts::new(&host);
            let fixes = run_time_fixes(&host, &facts, &examine(&facts, Some(3), Goal::Realtime), 3);
            fixes.into_iter().find(|fix| fix.name == "fair-server").map(|fix| fix.change)
        };
        write(folder.path(), "sys/devices/system/cpu/online", "0-3");
        let missing = change().expect("a fix");
        assert!(matches!(&missing, RunTimeChange::NotPossible(why) if why.contains("mount -t debugfs")), "{missing:?}");
        for (name, value) in [("runtime", "50000000"), ("period", "1000000000")] {
            write(folder.path(), &format!("sys/kernel/debug/sched/fair_server/cpu3/{name}"), value);
        }
        let possible = change().expect("a fix");
        assert!(matches!(&possible, RunTimeChange::Settings(settings) if settings.len() == 1), "{possible:?}");
    }

    #[test]
    fn notes_have_no_fixes() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let host = machine(folder.path());
        let facts = MachineFacts::new(&host);
        let fixes = run_time_fixes(&host, &facts, &examine(&facts, Some(3), Goal::General), 3);
        assert!(fixes.is_empty(), "{fixes:?}");
    }
}
