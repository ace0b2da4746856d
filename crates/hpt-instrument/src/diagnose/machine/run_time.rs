//! The fixes that can be applied and undone while the machine runs, as settings.

use hpt_realtime::{
    RealtimeError, governor_settings,
    knobs::{Knob, Setting, irqbalance},
    no_turbo_settings,
};
use hpt_sys::{
    host::{Core, Host, Interrupt, Known},
    settings::{
        self, FAIR_SERVER, GOVERNOR, IDLE_STATE, IRQ_AFFINITY, IRQBALANCE, LOWEST_FREQUENCY, SystemSetting, WORKERS,
    },
};

use super::{Examined, MachineFacts, Severity, Subject, Verdict, power::SHORT_US};

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
    /// [`AwakeCpus`](hpt_realtime::AwakeCpus).
    LatencyLimit,
    /// The fix cannot be applied at run time on this machine. Contains the reason.
    NotPossible(String),
}

/// Returns the fixes of the problems in `examined` that can be applied and undone at run time. Problems that are notes
/// for the goal of the examination have no fixes. `cpu` is the CPU that was examined.
#[must_use]
pub fn run_time_fixes(host: &Host, facts: &MachineFacts, examined: &[Examined], cpu: usize) -> Vec<RunTimeFix> {
    let machine = TunedMachine { host, facts, cpu, subject: Subject::of(facts, Some(cpu)) };
    let is_problem =
        |one: &&Examined| matches!(&one.verdict, Verdict::Problem(finding) if finding.severity > Severity::Info);
    let rules: Vec<&'static str> = examined.iter().filter(is_problem).map(|one| one.rule.id).collect();
    rules.iter().flat_map(|rule| machine.fixes(rule, &rules)).collect()
}

/// Returns the boot parameter with the effect of a fix, if there is one. `value` is the value of its setting.
#[must_use]
pub fn boot_parameter(fix: &str, value: &str) -> Option<String> {
    let is_fixed = |known: &&SystemSetting| known.trial.is_some_and(|trial| trial.fix == fix);
    settings::ALL.iter().find(is_fixed)?.boot_with(value)
}

/// A machine, and the CPU that is to run a time-critical thread.
struct TunedMachine<'a> {
    host: &'a Host,
    facts: &'a MachineFacts,
    cpu: usize,
    subject: Subject,
}

impl TunedMachine<'_> {
    /// Returns the fixes for a rule. `rules` are all rules that found a problem.
    fn fixes(&self, rule: &'static str, rules: &[&'static str]) -> Vec<RunTimeFix> {
        let of_rule = settings::ALL.iter().filter_map(|known| Some((known, known.trial?)));
        let of_rule = of_rule.filter(|(_, trial)| trial.rule == rule);
        let fixes = of_rule.filter_map(|(known, trial)| {
            let change = match trial.fix {
                "governor" => of(governor_settings(self.host, &[self.cpu], GOVERNOR.better)),
                "minimum-frequency" => self.minimum(),
                "turbo" => of(no_turbo_settings(self.host, &[self.cpu])),
                "idle-states" => self.idle_states(),
                "dma-latency" => RunTimeChange::LatencyLimit,
                "fair-server" => self.fair_server(),
                "interrupts" => self.interrupts(),
                // The list of irqbalance belongs to the fix that moves interrupts, if there is one.
                "irqbalance" if rules.contains(&"interrupts") => return None,
                "irqbalance" => RunTimeChange::NotPossible(
                    "no interrupt is routed to the CPU now, so irqbalance has no effect that could be measured"
                        .to_owned(),
                ),
                "workqueue-mask" => self.workers(),
                _ => self.one(known, &[], known.better),
            };
            Some(RunTimeFix { name: trial.fix, rule, text: trial.text.replace('#', &self.cpu.to_string()), change })
        });
        fixes.collect()
    }

    /// Returns the change of one file.
    fn one(&self, known: &SystemSetting, numbers: &[usize], value: &str) -> RunTimeChange {
        let path = known.path_of(numbers);
        if self.host.text(&path).is_none() {
            return RunTimeChange::NotPossible(format!("{path} cannot be read"));
        }
        settings(vec![Setting::of(self.host, known, numbers, value)])
    }

    fn fair_server(&self) -> RunTimeChange {
        let cpu = self.cpu;
        if matches!(self.facts.fair_servers.get(&cpu), None | Some(Known::Absent)) {
            return RunTimeChange::NotPossible(format!(
                "{} is missing; if debugfs is not mounted, run `sudo mount -t debugfs none /sys/kernel/debug`",
                FAIR_SERVER.path_of(&[cpu])
            ));
        }
        self.one(&FAIR_SERVER, &[cpu], FAIR_SERVER.better)
    }

    fn core(&self) -> Option<&Core> {
        self.facts.cores.each.get(&self.cpu)
    }

    fn minimum(&self) -> RunTimeChange {
        let allowed = self.core().and_then(|core| core.highest_allowed_khz.is().copied());
        match allowed {
            Some(khz) => self.one(&LOWEST_FREQUENCY, &[self.cpu], &khz.to_string()),
            None => {
                RunTimeChange::NotPossible("the kernel does not report the maximum frequency of the CPU".to_owned())
            }
        }
    }

    fn idle_states(&self) -> RunTimeChange {
        let deep = self.core().into_iter().flat_map(|core| &core.idle);
        let deep = deep
            .filter(|state| !state.disabled && state.latency_us > SHORT_US)
            .map(|state| Setting::of(self.host, &IDLE_STATE, &[self.cpu, state.number], IDLE_STATE.better));
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
            Known::Is(cpus) => cpus.contains(self.cpu) && !one.is_fixed,
            Known::Absent | Known::NotAllowed | Known::Garbled => false,
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
            let number = usize::try_from(one.number).unwrap_or(usize::MAX);
            Setting::of(self.host, &IRQ_AFFINITY, &[number], elsewhere.to_string())
        });
        settings(ban.into_iter().chain(moved).collect())
    }

    /// Returns the setting that adds interrupts to those that irqbalance does not move.
    fn banned(&self, numbers: impl IntoIterator<Item = u32>) -> Result<Setting, String> {
        let names = self.host.list(irqbalance::FOLDER);
        let name = names.iter().find(|name| irqbalance::is_socket_name(name));
        let name = name.ok_or("irqbalance is running, but has no socket in /run/irqbalance")?;
        let knob = Knob::new(IRQBALANCE.name, format!("{}/{name}", irqbalance::FOLDER));
        let before = knob.value().map_err(|_| "irqbalance does not answer on its socket")?;
        let before = before.split(' ').filter_map(|number| number.parse().ok());
        let all = irqbalance::list_of(before.chain(numbers));
        Ok(Setting::new(knob, all))
    }

    fn workers(&self) -> RunTimeChange {
        let elsewhere = self.subject.elsewhere(self.facts);
        if elsewhere.is_empty() {
            return RunTimeChange::NotPossible("no other CPU can run the kernel workers".to_owned());
        }
        self.one(&WORKERS, &[], &elsewhere.mask())
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
    use crate::diagnose::{Goal, MachineFacts, examine};
    use hpt_sys::host::{Facts, Host};

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
            let pairs = settings
                .iter()
                .map(|one| (value(one.knob().path()).to_string_lossy().into_owned(), one.value().to_owned()));
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
