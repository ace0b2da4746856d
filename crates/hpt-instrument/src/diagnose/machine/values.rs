//! The values that a rule examined, including those that no file contains.

use hpt_core::clock::Discipline;
use hpt_sys::host::{ArchTimer, DeviceFile, Interrupt, KernelConfiguration};

use super::{
    MachineFacts,
    evidence::{Evidence, on_one_line},
};

/// Files or system calls, each with its value.
type Values = Vec<(String, String)>;

impl MachineFacts {
    /// Returns the values that a rule examined.
    pub(super) fn evidence_of(&self, rule: &str) -> Vec<Evidence> {
        let mut evidence = self.evidence.get(rule).cloned().unwrap_or_default();
        let others: &[fn(&Self) -> Values] = match rule {
            "wall-time" => &[Self::clock_values, Self::daemon_values],
            "clock-rate" => &[Self::clock_values],
            "time-daemons" => &[Self::daemon_values],
            "preemption" => &[
                |facts| vec![("uname(2)".to_owned(), facts.kernel_version.clone())],
                |facts| facts.options(&["PREEMPT_NONE", "PREEMPT_VOLUNTARY", "PREEMPT", "PREEMPT_LAZY", "PREEMPT_RT"]),
            ],
            "throttling" | "realtime-budget" => {
                &[|facts| facts.options(&["RT_GROUP_SCHED", "RT_GROUP_SCHED_DEFAULT_DISABLED"])]
            }
            "isolated-cpus" => &[|facts| facts.options(&["CPU_ISOLATION"])],
            "parameters-ignored" => &[|facts| facts.options(&["CPU_ISOLATION", "NO_HZ_FULL", "RCU_NOCB_CPU"])],
            "tick" => &[|facts| facts.options(&["NO_HZ_FULL", "HZ"])],
            "rcu-callbacks" => &[|facts| facts.options(&["RCU_NOCB_CPU"])],
            "cpu-quota" | "cpus-left" => &[Self::group_values],
            "irqbalance" | "kernel-threads" => &[Self::process_values],
            "interrupts" => &[Self::affinities],
            "gpio" | "system-timer" => &[Self::device_values],
            "timer-erratum" | "counter-in-suspend" => &[Self::timer_values],
            "virtual-machine" => &[|facts| facts.cpuid.iter().map(|said| ("CPUID".to_owned(), said.clone())).collect()],
            _ => &[],
        };
        let values = others.iter().flat_map(|values| values(self));
        evidence.extend(values.map(|(file, value)| Evidence { file, cpus: None, value: on_one_line(&value) }));
        evidence
    }

    /// Returns what the configuration of the kernel states about options.
    fn options(&self, options: &[&str]) -> Values {
        let stated = |configuration: &KernelConfiguration| {
            Some((configuration.path.clone(), configuration.lines_about(options)?))
        };
        self.configuration.as_ref().and_then(stated).into_iter().collect()
    }

    fn clock_values(&self) -> Values {
        let of = |clock: Discipline| {
            let value = format!(
                "status {:#x}, maximum error {} µs, tick {:+.0} ppm, frequency {:+.3} ppm",
                clock.status,
                clock.maximum_error.as_micros(),
                clock.tick_ppm,
                clock.frequency_ppm
            );
            ("adjtimex(2)".to_owned(), value)
        };
        self.discipline.map(of).into_iter().collect()
    }

    fn daemon_values(&self) -> Values {
        let daemons = self.situation.time_daemons.as_ref();
        let names = daemons.map(|names| if names.is_empty() { "none".to_owned() } else { names.join(", ") });
        let known = names.map(|names| ("/proc/PID/exe".to_owned(), names));
        let others = &self.situation.other_clock_setters;
        let others = (!others.is_empty())
            .then(|| ("/proc/PID/status".to_owned(), format!("CAP_SYS_TIME: {}", others.join(", "))));
        known.into_iter().chain(others).collect()
    }

    fn group_values(&self) -> Values {
        let groups = self.situation.control_groups.as_ref();
        let quota = groups.and_then(|groups| groups.quota.as_ref()).map(|quota| {
            let used_up = quota.used_up.map_or_else(String::new, |times| format!(", used up {times} times"));
            let used_up = used_up + &quota.periods.map_or_else(String::new, |periods| format!(" in {periods} periods"));
            ("cpu.max".to_owned(), format!("{} of every {} µs{used_up}", quota.quota_us, quota.period_us))
        });
        let cpus = groups.and_then(|groups| groups.cpus.clone()).map(|cpus| ("cpuset.cpus.effective".to_owned(), cpus));
        quota.into_iter().chain(cpus).collect()
    }

    fn process_values(&self) -> Values {
        let balances = self
            .situation
            .balances_interrupts
            .map(|runs| ("/proc/PID/exe".to_owned(), if runs { "irqbalance" } else { "no irqbalance" }.to_owned()));
        let threads = self.situation.kernel_threads.as_ref();
        let threads = threads.map(|threads| ("/proc/PID/stat".to_owned(), format!("{} kernel threads", threads.len())));
        balances.into_iter().chain(threads).collect()
    }

    fn affinities(&self) -> Values {
        let of = |one: &Interrupt| {
            let cpus = one.goes_to.is()?.to_string();
            Some((format!("/proc/irq/{}/effective_affinity_list", one.number), cpus))
        };
        let counted =
            |all: &Vec<Interrupt>| ("/proc/interrupts".to_owned(), format!("{} interrupts of devices", all.len()));
        let counted = self.interrupts.is().map(counted);
        self.interrupts.is().into_iter().flatten().filter_map(of).chain(counted).collect()
    }

    fn timer_values(&self) -> Values {
        let of = |timer: &ArchTimer| {
            let stops = timer.stops_in_suspend.then_some("arm,no-tick-in-suspend");
            let stated: Vec<&str> = timer.errata.iter().copied().chain(stops).collect();
            let stated =
                if stated.is_empty() { "no erratum, counts during suspend".to_owned() } else { stated.join(", ") };
            ("/proc/device-tree: node of the ARM generic timer".to_owned(), stated)
        };
        self.arch_timer.iter().map(of).collect()
    }

    fn device_values(&self) -> Values {
        let of = |device: &DeviceFile| {
            let value = match (device.readable, device.writable) {
                (true, true) => "readable and writable",
                (true, false) => "readable",
                (false, true) => "writable",
                (false, false) => "no access",
            };
            (device.path.clone(), value.to_owned())
        };
        self.situation.devices.iter().map(of).collect()
    }
}
