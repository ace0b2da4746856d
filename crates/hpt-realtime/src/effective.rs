//! The scheduling settings in effect for a thread, as read back from the kernel. They are published with measurements.
//! This module changes nothing and does not rely on the requested settings.

use std::collections::BTreeSet;

use hpt_sys::{host::Host, process::Scheduling, units::saturating_nanos, wait};

use super::{allowed_cpus, awake, limits::Limits, machine};

/// The CPU time that real-time threads may use in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Bandwidth {
    /// The usable time, in microseconds; -1 means the whole period.
    pub runtime_us: i64,
    /// The period, in microseconds.
    pub period_us: i64,
}

/// The time in each period that a CPU reserves for ordinary threads, since Linux 6.12.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FairServer {
    /// The CPU that reserves the time.
    pub cpu: usize,
    /// The reserved time, in nanoseconds; 0 means none.
    pub runtime_ns: u64,
    /// The period, in nanoseconds.
    pub period_ns: u64,
}

/// The settings in effect for a thread and the system. Settings that cannot be read are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct EffectiveSettings {
    /// The CPUs that the thread may run on.
    pub cpus: Vec<usize>,
    /// The scheduling policy: `other`, `batch`, `idle`, `fifo`, `rr`, `deadline` or `ext`.
    pub policy: Option<String>,
    /// The real-time priority.
    pub priority: Option<u32>,
    /// The nice value of an ordinary thread.
    pub nice: Option<i32>,
    /// The run time per period under the policy `deadline`, in nanoseconds.
    pub deadline_runtime_ns: Option<u64>,
    /// The deadline under that policy, in nanoseconds from the start of a period.
    pub deadline_ns: Option<u64>,
    /// The length of a period under that policy, in nanoseconds.
    pub deadline_period_ns: Option<u64>,
    /// The amount of the process's memory that is locked, in bytes.
    pub locked_bytes: Option<u64>,
    /// The timer slack, in nanoseconds: the time by which the kernel may delay the thread's wake-ups to save power.
    pub timer_slack_ns: Option<u64>,
    /// The limit on the exit latency of idle states from /dev/cpu_dma_latency, in microseconds. Only root can read this
    /// limit.
    pub wake_latency_us: Option<u64>,
    /// The time that real-time threads may use in each period.
    pub bandwidth: Option<Bandwidth>,
    /// The fair server that reserves the most time for ordinary threads on any of these CPUs. Only root can read this
    /// setting, and only if debugfs is mounted.
    pub fair_server: Option<FairServer>,
    /// The frequency governors of these CPUs, each listed once.
    pub governors: Vec<String>,
    /// Whether frequencies above the nominal frequency are enabled.
    pub turbo: Option<bool>,
}

impl EffectiveSettings {
    /// Returns the settings in effect for the calling thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::{EffectiveSettings, allowed_cpus};
    ///
    /// let settings = EffectiveSettings::of_this_thread(&Host::live());
    /// println!("policy {:?}, governors {:?}", settings.policy, settings.governors);
    /// assert_eq!(settings.cpus, allowed_cpus());
    /// ```
    #[must_use]
    #[allow(clippy::useless_conversion, reason = "c_ulong is 32 bits wide on some targets")]
    pub fn of_this_thread(host: &Host) -> Self {
        let cpus = allowed_cpus();
        let scheduling = Scheduling::of_this_thread().ok();
        let policy = scheduling.map(|scheduling| scheduling.policy);
        let real_time = matches!(policy, Some(libc::SCHED_FIFO | libc::SCHED_RR));
        let deadline = scheduling.filter(|_| policy == Some(libc::SCHED_DEADLINE));
        let governors: BTreeSet<String> = cpus.iter().filter_map(|&cpu| machine::governor(host, cpu)).collect();
        let bandwidth = machine::bandwidth(host);
        let servers = cpus.iter().filter_map(|&cpu| {
            let (runtime, period) = machine::fair_server(host, cpu)?;
            Some(FairServer { cpu, runtime_ns: saturating_nanos(runtime), period_ns: saturating_nanos(period) })
        });
        Self {
            policy: policy.map(|policy| name(policy).to_owned()),
            priority: scheduling.filter(|_| real_time).map(|scheduling| scheduling.priority),
            nice: scheduling.filter(|_| !real_time && deadline.is_none()).map(|scheduling| scheduling.nice),
            deadline_runtime_ns: deadline.map(|scheduling| scheduling.runtime),
            deadline_ns: deadline.map(|scheduling| scheduling.deadline),
            deadline_period_ns: deadline.map(|scheduling| scheduling.period),
            locked_bytes: Limits::of_this_thread(host).locked,
            timer_slack_ns: wait::timer_slack().map(Into::into),
            wake_latency_us: awake::promised(host).and_then(|latency| u64::try_from(latency.as_micros()).ok()),
            bandwidth: bandwidth.map(|(runtime_us, period_us)| Bandwidth { runtime_us, period_us }),
            fair_server: servers.max_by_key(|server| server.runtime_ns),
            governors: governors.into_iter().collect(),
            turbo: machine::turbo(host),
            cpus,
        }
    }
}

/// Returns the name of a policy; see sched(7). SCHED_EXT is 7 according to Linux 6.12, include/uapi/linux/sched.h.
fn name(policy: libc::c_int) -> &'static str {
    match policy {
        libc::SCHED_OTHER => "other",
        libc::SCHED_FIFO => "fifo",
        libc::SCHED_RR => "rr",
        libc::SCHED_BATCH => "batch",
        libc::SCHED_IDLE => "idle",
        libc::SCHED_DEADLINE => "deadline",
        7 => "ext",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::EffectiveSettings;
    use crate::{Fifo, Pinned, allowed_cpus, machine::tests::Machine};
    use hpt_sys::host::Host;

    #[test]
    fn effective_settings_are_read_from_the_kernel() {
        let host = Host::live();
        let before = EffectiveSettings::of_this_thread(&host);
        assert_eq!(before.cpus, allowed_cpus());
        let pinned = Pinned::new(before.cpus[0]).expect("allowed");
        assert_eq!(EffectiveSettings::of_this_thread(&host).cpus, [pinned.cpu()]);
        match Fifo::new(3) {
            Ok(_fifo) => {
                let during = EffectiveSettings::of_this_thread(&host);
                assert_eq!((during.policy.as_deref(), during.priority, during.nice), (Some("fifo"), Some(3), None));
            }
            Err(refused) => skipped!("{refused}"),
        }
        drop(pinned);
        let after = EffectiveSettings::of_this_thread(&host);
        assert_eq!((after.cpus, after.policy, after.priority), (before.cpus, before.policy, before.priority));
    }

    #[test]
    fn system_wide_settings_are_read_from_files() {
        let machine = Machine::new("-1");
        let told = EffectiveSettings::of_this_thread(&machine.host);
        assert_eq!(told.bandwidth.map(|bandwidth| bandwidth.runtime_us), Some(-1));
        assert_eq!((told.fair_server, told.turbo), (None, None));
        if told.cpus.iter().any(|&cpu| cpu < 2) {
            assert_eq!(told.governors, ["powersave"]);
        }
    }
}
