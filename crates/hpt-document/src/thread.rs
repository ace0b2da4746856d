//! The active scheduling settings of a measuring thread.

use serde::{Deserialize, Serialize};

/// The active settings of the measuring thread and of the system, as read back from the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Thread {
    /// The CPUs on which the thread is allowed to run.
    pub cpus: Vec<usize>,
    /// The scheduling policy; `other` is the default policy.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::scheduling_policies))]
    pub policy: Option<String>,
    /// The real-time priority; null if the policy has none.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 99)))]
    pub priority: Option<u32>,
    /// The nice value; null if the policy has none.
    #[cfg_attr(feature = "schema", schemars(range(min = -20, max = 19)))]
    pub nice: Option<i32>,
    /// The run time in each period under SCHED_DEADLINE, in nanoseconds.
    pub deadline_runtime_ns: Option<u64>,
    /// The relative deadline in each period under SCHED_DEADLINE, in nanoseconds.
    pub deadline_ns: Option<u64>,
    /// The period under SCHED_DEADLINE, in nanoseconds.
    pub deadline_period_ns: Option<u64>,
    /// The amount of memory that hpt has locked, in bytes.
    pub locked_bytes: Option<u64>,
    /// The timer slack, in nanoseconds: the time by which the kernel may delay a wake-up to save power; 0 for real-time
    /// threads.
    pub timer_slack_ns: Option<u64>,
    /// The limit on the exit latency of idle states (/dev/cpu_dma_latency), in microseconds; 2000000000 if no process
    /// has requested a lower limit, null if the limit cannot be read.
    pub wake_latency_us: Option<u64>,
    /// The share of each period that real-time threads may use; null if it cannot be read.
    pub bandwidth: Option<RealtimeBandwidth>,
    /// The fair server that reserves the most time for ordinary threads on these CPUs (since Linux 6.12); null if it
    /// cannot be read.
    pub fair_server: Option<FairServer>,
    /// The frequency governors of these CPUs, each listed once; empty if the CPUs have no governor.
    pub governors: Vec<String>,
    /// Whether frequencies above the nominal frequency are enabled; null if the system has no such setting.
    pub turbo: Option<bool>,
    /// Settings that were requested but are not active (--best-effort).
    pub refused: Vec<RefusedSetting>,
}

/// The share of each period that real-time threads may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RealtimeBandwidth {
    /// The time that real-time threads may use in each period (sched_rt_runtime_us), in microseconds; -1 means the
    /// whole period.
    #[cfg_attr(feature = "schema", schemars(range(min = -1)))]
    pub runtime_us: i64,
    /// The period (sched_rt_period_us), in microseconds.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub period_us: i64,
}

/// The time that one CPU reserves for ordinary threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FairServer {
    /// The CPU.
    pub cpu: usize,
    /// The reserved time in each period, in nanoseconds; 0 means that no time is reserved.
    pub runtime_ns: u64,
    /// The period, in nanoseconds.
    pub period_ns: u64,
}

/// A setting that was requested but is not active.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RefusedSetting {
    /// The name of the setting.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::settings))]
    pub setting: String,
    /// The reason why the setting is not active.
    pub reason: String,
}
