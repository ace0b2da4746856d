//! All that hpt knows of each system setting, one row for each: its file and the form of its value, the rules that
//! judge it, the value with which they find no problem, the parameter that sets it at boot, and what `hpt doctor --try`
//! may change.

use std::fmt::Display;

/// A system setting.
#[derive(Clone, Copy, Debug)]
pub struct SystemSetting {
    /// Its file. Each `#` stands for a number, which in a directory `cpu#` is that of a CPU; `*` stands for any name.
    pub path: &'static str,
    /// Other canonical paths of the file, in the same notation.
    pub also: &'static [&'static str],
    /// The form of its value.
    pub form: Form,
    /// Its name in the journal, with a `#` for each `#` of the path; empty if hpt never changes it.
    pub name: &'static str,
    /// The rules of which it is evidence.
    pub rules: &'static [&'static str],
    /// The value with which there is no problem; empty if it depends on the machine.
    pub better: &'static str,
    /// The change that `hpt doctor --try` may make.
    pub trial: Option<Trial>,
    /// The boot parameters that set it, or one that ends in `=` and takes a value; empty if there are none.
    pub boot: &'static str,
}

/// A change of a setting that `hpt doctor --try` may make, and undo.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// The name of the fix, which is unique and never changes.
    pub fix: &'static str,
    /// The rule that finds the problem.
    pub rule: &'static str,
    /// The fix in a few words. A `#` stands for the CPU.
    pub text: &'static str,
}

/// The form of the value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A name: letters, digits, and a few marks.
    Name,
    /// A whole number, which may be negative.
    Number,
    /// A list of CPUs.
    Cpus,
    /// A mask of CPUs.
    Mask,
    /// One of these words. The file may list all of them, and mark this one.
    OneOf(&'static [&'static str]),
    /// A list of interrupts that irqbalance does not move.
    Interrupts,
    /// A limit that lasts as long as a process keeps the file open.
    WhileOpen,
}

impl SystemSetting {
    const fn also(self, also: &'static [&'static str]) -> Self {
        Self { also, ..self }
    }

    const fn form(self, form: Form) -> Self {
        Self { form, ..self }
    }

    const fn judged_by(self, rules: &'static [&'static str]) -> Self {
        Self { rules, ..self }
    }

    const fn changed_as(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    const fn better(self, better: &'static str) -> Self {
        Self { better, ..self }
    }

    const fn at_boot(self, boot: &'static str) -> Self {
        Self { boot, ..self }
    }

    const fn tried(self, fix: &'static str, rule: &'static str, text: &'static str) -> Self {
        Self { trial: Some(Trial { fix, rule, text }), ..self }
    }

    /// Returns whether the machine has a single file with this setting.
    pub fn is_of_the_machine(&self) -> bool {
        !self.path.contains(['#', '*'])
    }

    /// Returns the path of the file for these numbers.
    pub fn path_of(&self, numbers: &[impl Display]) -> String {
        numbered(self.path, numbers)
    }

    /// Returns the name in the journal for these numbers.
    pub fn name_of(&self, numbers: &[impl Display]) -> String {
        numbered(self.name, numbers)
    }

    /// Returns the command that sets a better value until reboot.
    pub fn command(&self) -> String {
        self.command_for(&[""; 0], self.better)
    }

    /// Returns the command that sets a value until reboot. A number may be `*`.
    pub fn command_for(&self, numbers: &[impl Display], value: impl Display) -> String {
        match self.path.strip_prefix("/proc/sys/") {
            Some(name) => format!("sudo sysctl -w {}={value}", name.replace('/', ".")),
            None => format!("echo {value} | sudo tee {}", self.path_of(numbers)),
        }
    }

    /// Returns the name of the boot parameter.
    pub fn boot_name(&self) -> &'static str {
        self.boot.split('=').next().unwrap_or_default()
    }

    /// Returns the boot parameters that set the value, if there are any.
    pub fn boot_with(&self, value: &str) -> Option<String> {
        match self.boot {
            "" => None,
            name if name.ends_with('=') => (!value.is_empty()).then(|| format!("{name}{value}")),
            complete => Some(complete.to_owned()),
        }
    }
}

const fn at(path: &'static str) -> SystemSetting {
    SystemSetting { path, also: &[], form: Form::Number, name: "", rules: &[], better: "", trial: None, boot: "" }
}

/// Replaces each `#`, or `*`, with the next number, or name.
fn numbered(pattern: &str, numbers: &[impl Display]) -> String {
    let mut numbers = numbers.iter();
    let replaced = |letter: char| {
        let number = if matches!(letter, '#' | '*') { numbers.next() } else { None };
        number.map_or_else(|| letter.to_string(), ToString::to_string)
    };
    pattern.chars().map(replaced).collect()
}

/// Defines each row, and `ALL`.
macro_rules! table {
    ($($name:ident: $row:expr;)*) => {
        $(pub const $name: SystemSetting = $row;)*
        /// All rows. A rule shows its settings, and has its fixes, in this order.
        pub const ALL: &[SystemSetting] = &[$($name),*];
    };
}

table! {
    CLOCK_SOURCE: at("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .also(&["/sys/devices/system/clocksource/clocksource#/current_clocksource"]).form(Form::Name)
        .judged_by(&["clock-source", "clock-by-system-call"]).changed_as("clock-source").at_boot("clocksource=");
    // The kernel states only that it is PREEMPT_RT; another kernel has no such file.
    REALTIME: at("/sys/kernel/realtime").judged_by(&["preemption"]);
    // Linux, kernel/sched/debug.c, sched_dynamic_show.
    PREEMPTION: at("/sys/kernel/debug/sched/preempt").form(Form::OneOf(&["none", "voluntary", "full", "lazy"]))
        .judged_by(&["preemption"]).better("full").at_boot("preempt=full");
    // The time that all real-time threads together may use in each period. Linux,
    // Documentation/scheduler/sched-rt-group.rst.
    RT_RUNTIME: at("/proc/sys/kernel/sched_rt_runtime_us").judged_by(&["throttling", "realtime-budget"])
        .changed_as("sched-rt-runtime-us").better("-1").tried("throttling", "throttling", "real-time throttling off");
    RT_PERIOD: at("/proc/sys/kernel/sched_rt_period_us").judged_by(&["throttling", "realtime-budget"]);
    // The time that each CPU reserves for ordinary threads, since Linux 6.12. Linux 6.12, kernel/sched/debug.c.
    FAIR_SERVER: at("/sys/kernel/debug/sched/fair_server/cpu#/runtime").judged_by(&["fair-server"])
        .changed_as("fair-server-cpu#").better("0").tried("fair-server", "fair-server", "fair server off on CPU #");
    FAIR_SERVER_PERIOD: at("/sys/kernel/debug/sched/fair_server/cpu#/period").judged_by(&["fair-server"]);
    ISOLATED: at("/sys/devices/system/cpu/isolated").form(Form::Cpus)
        .judged_by(&["isolated-cpus", "parameters-ignored"]).at_boot("isolcpus=");
    NOHZ_FULL: at("/sys/devices/system/cpu/nohz_full").form(Form::Cpus).judged_by(&["parameters-ignored", "tick"])
        .at_boot("nohz_full=");
    IRQ_AFFINITY: at("/proc/irq/#/smp_affinity_list").form(Form::Cpus).changed_as("interrupt-#").at_boot("irqaffinity=")
        .tried("interrupts", "interrupts", "interrupts moved off CPU #");
    NEW_INTERRUPTS: at("/proc/irq/default_smp_affinity").form(Form::Mask).judged_by(&["new-interrupts"])
        .at_boot(IRQ_AFFINITY.boot);
    IRQBALANCE: at("/run/irqbalance/irqbalance#.sock").form(Form::Interrupts).changed_as("irqbalance-banned")
        .tried("irqbalance", "irqbalance", "irqbalance moves no interrupts to CPU #");
    TIMER_MIGRATION: at("/proc/sys/kernel/timer_migration").judged_by(&["timer-migration"])
        .changed_as("timer-migration").better("0").tried("timer-migration", "timer-migration", "timer migration off");
    // Linux, Documentation/core-api/workqueue.rst.
    WORKERS: at("/sys/devices/virtual/workqueue/cpumask").form(Form::Mask).changed_as("workqueue-mask")
        .tried("workqueue-mask", "kernel-threads", "unbound kernel workers off CPU #");
    // Linux, Documentation/admin-guide/pm/cpufreq.rst. Since Linux 4.2, cpu0/cpufreq is a link to cpufreq/policy0.
    GOVERNOR: at("/sys/devices/system/cpu/cpu#/cpufreq/scaling_governor")
        .also(&["/sys/devices/system/cpu/cpufreq/policy#/scaling_governor"]).form(Form::Name).judged_by(&["governor"])
        .changed_as("governor-cpu#").better("performance")
        .tried("governor", "governor", "governor performance on CPU #");
    LOWEST_FREQUENCY: at("/sys/devices/system/cpu/cpu#/cpufreq/scaling_min_freq")
        .also(&["/sys/devices/system/cpu/cpufreq/policy#/scaling_min_freq"]).changed_as("minimum-frequency-cpu#")
        .tried("minimum-frequency", "governor", "minimum frequency at its maximum on CPU #");
    HIGHEST_FREQUENCY: at("/sys/devices/system/cpu/cpu#/cpufreq/scaling_max_freq").judged_by(&["frequency-limit"]);
    // Linux, Documentation/admin-guide/pm/intel_pstate.rst.
    NO_TURBO: at("/sys/devices/system/cpu/intel_pstate/no_turbo").judged_by(&["turbo"]).changed_as("no-turbo")
        .better("1").tried("turbo", "turbo", "turbo off");
    BOOST: at("/sys/devices/system/cpu/cpufreq/boost").judged_by(&["turbo"]).changed_as("boost").better("0");
    BOOST_OF_CPU: at("/sys/devices/system/cpu/cpu#/cpufreq/boost")
        .also(&["/sys/devices/system/cpu/cpufreq/policy#/boost"]).changed_as("boost-cpu#").better("0");
    // Linux, Documentation/admin-guide/pm/cpuidle.rst.
    IDLE_STATE: at("/sys/devices/system/cpu/cpu#/cpuidle/state#/disable").changed_as("idle-state-cpu#-#").better("1")
        .tried("idle-states", "idle-states", "deep idle states off on CPU #");
    // Linux, Documentation/power/pm_qos_interface.rst.
    DMA_LATENCY: at("/dev/cpu_dma_latency").form(Form::WhileOpen).better("0")
        .tried("dma-latency", "idle-states", "cpu_dma_latency 0");
    // Linux, Documentation/admin-guide/mm/transhuge.rst.
    HUGE_PAGES: at("/sys/kernel/mm/transparent_hugepage/enabled").form(Form::OneOf(&["always", "madvise", "never"]))
        .judged_by(&["huge-pages"]).changed_as("huge-pages").better("madvise").at_boot("transparent_hugepage=madvise")
        .tried("huge-pages", "huge-pages", "transparent huge pages madvise");
    // The value 2 also separates the merged pages. That cannot be undone, because the kernel merges pages only slowly,
    // and a process that writes 2 is the first to be killed if the memory does not suffice.
    SAME_PAGES: at("/sys/kernel/mm/ksm/run").judged_by(&["same-pages"]).changed_as("same-pages").better("0")
        .tried("same-pages", "same-pages", "KSM off");
    NUMA_BALANCING: at("/proc/sys/kernel/numa_balancing").judged_by(&["moved-pages"]).changed_as("numa-balancing")
        .better("0").at_boot("numa_balancing=disable").tried("moved-pages", "moved-pages", "NUMA balancing off");
    NMI_WATCHDOG: at("/proc/sys/kernel/nmi_watchdog").judged_by(&["nmi-watchdog"]).changed_as("nmi-watchdog")
        .better("0").at_boot("nmi_watchdog=0").tried("nmi-watchdog", "nmi-watchdog", "NMI watchdog off");
    PARANOID: at("/proc/sys/kernel/perf_event_paranoid").judged_by(&["perf-paranoid"]).better("2");
    USER_ACCESS: at("/proc/sys/kernel/perf_user_access").judged_by(&["perf-user-access"]).better("1");
    RDPMC: at("/sys/bus/event_source/devices/*/rdpmc").judged_by(&["rdpmc"]).better("1");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{ALL, Form, IDLE_STATE, IRQ_AFFINITY, NMI_WATCHDOG, RDPMC};

    #[test]
    fn numbers_and_names_fill_their_places_once() {
        assert_eq!(IDLE_STATE.path_of(&["*", "2"]), "/sys/devices/system/cpu/cpu*/cpuidle/state2/disable");
        assert_eq!(IDLE_STATE.name_of(&[3, 2]), "idle-state-cpu3-2");
        assert_eq!(
            RDPMC.command_for(&["cpu_core"], 1),
            "echo 1 | sudo tee /sys/bus/event_source/devices/cpu_core/rdpmc"
        );
        assert_eq!(NMI_WATCHDOG.command(), "sudo sysctl -w kernel.nmi_watchdog=0");
        let boot = |value| IRQ_AFFINITY.boot_with(value);
        assert_eq!((boot("0-2").as_deref(), boot("")), (Some("irqaffinity=0-2"), None));
    }

    #[test]
    fn each_row_is_consistent() {
        let fixes: BTreeSet<&str> = ALL.iter().filter_map(|row| Some(row.trial?.fix)).collect();
        assert_eq!(fixes.len(), ALL.iter().filter(|row| row.trial.is_some()).count(), "the names of fixes are unique");
        for row in ALL {
            let places = |text: &str| text.matches(['#', '*']).count();
            assert!(
                row.name.is_empty() || row.form == Form::Interrupts || places(row.name) == places(row.path),
                "{row:?}"
            );
            assert!(!row.better.contains(['#', '*']), "{row:?}");
            if row.name.is_empty() {
                assert!(row.also.is_empty() && (row.trial.is_none() || row.form == Form::WhileOpen), "{row:?}");
            }
        }
    }
}
