//! A type for the time during which a measuring thread did not run although it was ready.

use serde::{Deserialize, Serialize};

/// The time that a measuring thread needed its CPU, but did not get it, because other threads used the CPU, the quota
/// of its cgroup was exhausted, or the hypervisor ran other guests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotRun {
    /// The part of the elapsed time during which the thread was ready, but did not run, from 0 to 1; null if the kernel
    /// does not report it.
    pub share: Option<f64>,
    /// The elapsed time of the measurement, in seconds.
    pub wall_s: f64,
    /// The time during which the hypervisor did not run the thread's CPU although the CPU had work, in seconds; null if
    /// the thread is not pinned or the kernel does not report it. It is included in `share`.
    pub stolen_s: Option<f64>,
    /// The number of periods in which the CPU quota of the thread's control group was used up; null if the kernel does
    /// not report it, or if a group above may have a quota. 0 for a real-time thread, to which no quota applies.
    pub throttled: Option<u64>,
    /// The time for which the quota paused the threads of the group, in seconds, added up over the CPUs.
    pub throttled_s: Option<f64>,
}
