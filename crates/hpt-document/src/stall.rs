//! `hpt latency stall`: CPU stalls and their likely causes.

use serde::{Deserialize, Serialize};

use crate::{
    head::Head,
    latency::{LatencyRunEnd, LatencyRunTime, LatencyThread, MicrosecondCount},
    words::word_enum,
};

/// CPU stalls (OS noise): when and for how long a busy-polling thread did not run, and the likely causes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt latency stall: CPU stalls"))]
pub struct StallDocument {
    /// The first keys of every document.
    #[serde(flatten)]
    pub head: Head,
    /// The measuring thread.
    #[serde(flatten)]
    pub measuring: LatencyThread,
    /// The mean time of a read.
    pub read_ns: f64,
    /// The 90th percentile of the differences between consecutive readings, excluding differences of zero.
    pub step_p90_ns: Option<u64>,
    /// When the run started, and how long it took.
    #[serde(flatten)]
    pub time: LatencyRunTime,
    /// How the run ended.
    #[serde(flatten)]
    pub end: LatencyRunEnd,
    /// One row for each thread.
    pub results: Vec<StallThreadRow>,
    /// Number of stalls for each likely cause.
    pub causes: Vec<StallCauseRow>,
    /// For each thread, the counters that increased during its stalls. Counters that increased more often
    /// with stalls than without come first.
    pub counters: Vec<StallCounterRow>,
    /// The longest stalls, the longest first.
    #[cfg_attr(feature = "schema", schemars(length(max = 100)))]
    pub longest: Vec<StallRow>,
    /// The newest stalls, the newest first.
    #[cfg_attr(feature = "schema", schemars(length(max = 100)))]
    pub newest: Vec<StallRow>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// The results of one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StallThreadRow {
    /// The thread's CPU; null if it was not pinned.
    pub cpu: Option<usize>,
    /// Number of stalls.
    pub stalls: u64,
    /// The total duration of the stalls.
    pub stalled_ns: u64,
    /// How long the thread polled on its CPU.
    pub elapsed_ns: u64,
    /// How long the thread polled on other CPUs. elapsed_ns does not include this time; see cpu_absences.
    pub elapsed_on_other_cpus_ns: u64,
    /// Number of stalls on other CPUs. No other value includes these stalls.
    pub stalls_on_other_cpus: u64,
    /// The threshold: a longer gap between two readings is a stall.
    pub threshold_ns: u64,
    /// The duration of the shortest stall. This value and the following values are null if there were no stalls.
    pub min_ns: Option<u64>,
    /// The mean duration of a stall.
    pub mean_ns: Option<f64>,
    /// The median duration, rounded to three digits like all quantiles.
    pub p50_ns: Option<u64>,
    /// The 99th percentile. Null if fewer than ten stalls were longer.
    pub p99_ns: Option<u64>,
    /// The 99.9th percentile. Null if fewer than ten stalls were longer.
    pub p999_ns: Option<u64>,
    /// The duration of the longest stall.
    pub max_ns: Option<u64>,
    /// When the longest stall began, on CLOCK_MONOTONIC.
    pub max_at_ns: Option<u64>,
    /// The period at which most stalls recur: the median interval between these stalls, determined from the newest 1024
    /// stalls. Null if there is no such period.
    pub period_ns: Option<u64>,
    /// The 10th percentile of these intervals.
    pub period_p10_ns: Option<u64>,
    /// The 90th percentile of these intervals.
    pub period_p90_ns: Option<u64>,
    /// Number of stalls that were followed by another stall after one period, within 2 %.
    pub period_followed: Option<u64>,
    /// Number of stalls that could have been followed by another stall.
    pub period_eligible: Option<u64>,
    /// The blind time, in which the thread read the kernel's counters instead of polling.
    pub sampling_ns: u64,
    /// Number of these reads.
    pub samplings: u64,
    /// The longest of these reads.
    pub longest_sampling_ns: u64,
    /// A stall during one of these reads is detected only if it is longer than this.
    pub blind_below_ns: u64,
    /// Number of backward steps of the source. They do not count as stalls.
    pub backward_steps: u64,
    /// Number of windows between two reads of the counters that contain a stall.
    pub windows_with_stall: u64,
    /// Number of windows that contain no stall.
    pub windows_without_stall: u64,
    /// Exact stall counts for durations up to ten milliseconds.
    pub histogram_us: Vec<MicrosecondCount>,
    /// Number of stalls above ten milliseconds.
    pub above_10ms: u64,
}

/// All stalls with one likely cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StallCauseRow {
    /// The likely cause, determined from the counters that increased. preempted: the thread was runnable and waited in
    /// the run queue of its CPU; stopped: the thread was put to sleep; page-fault: the thread was put to sleep while a
    /// page was read from a disk; migrated: the thread was on another CPU after the stall; steal: the hypervisor
    /// reports that it ran other guests; firmware: the count of system management interrupts increased; interrupts:
    /// this CPU received more interrupts than without a stall; usual-activity: this CPU received no more interrupts
    /// than without a stall; none: no counter increased; unknown: no counter could be read.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::stall_causes))]
    pub cause: String,
    /// Number of stalls.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub stalls: u64,
    /// The total duration of these stalls.
    pub stalled_ns: u64,
}

/// A counter that increased in a window with a stall.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StallCounterRow {
    /// The thread's CPU; null if it was not pinned.
    pub cpu: Option<usize>,
    /// Whether the counter is a line of /proc/interrupts or of /proc/softirqs.
    pub kind: StallCounterKind,
    /// The kernel's name for the counter.
    pub name: String,
    /// The rest of the counter's line in that file.
    pub label: String,
    /// Number of windows with a stall in which the counter increased.
    pub windows_with_stall: u64,
    /// Number of windows without a stall in which the counter increased.
    pub windows_without_stall: u64,
    /// The rate of the counter in windows without a stall, in counts per second; null if there was no such window.
    pub baseline_hz: Option<f64>,
}

/// One stall.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StallRow {
    /// The thread's CPU; null if it was not pinned.
    pub cpu: Option<usize>,
    /// When the thread was last observed to run before the stall, on CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// The start of the stall as wall-clock time, in UTC.
    pub started_at: String,
    /// Time from start_ns until the thread was next observed to run.
    pub length_ns: u64,
    /// How much shorter the stall may have been, because the thread was reading the counters at that time.
    pub uncertainty_ns: u64,
    /// The likely cause of the stall, with the same names as in `causes`.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::stall_causes))]
    pub cause: String,
    /// The window: the time between the reads of the counters before and after the stall.
    pub window_ns: u64,
    /// Number of stalls in that window.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub stalls_in_window: usize,
    /// Voluntary context switches in the window. This count and the following counts are null if they cannot be read.
    pub voluntary_switches: Option<u64>,
    /// Involuntary context switches in the window.
    pub involuntary_switches: Option<u64>,
    /// Major page faults in the window.
    pub major_faults: Option<u64>,
    /// How long the thread was runnable but not running in the window.
    pub run_queue_wait_ns: Option<u64>,
    /// Whether the thread was on another CPU after the stall.
    pub migrated: bool,
    /// Steal time reported by the hypervisor, a multiple of 10 ms.
    pub steal_ns: Option<u64>,
    /// System management interrupts (SMI) of the core in the window.
    pub smi_count: Option<u64>,
    /// Counters of this CPU that increased, the most unusual first.
    #[cfg_attr(feature = "schema", schemars(length(max = 12)))]
    pub counters: Vec<CounterIncrease>,
}

/// The increase of one counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CounterIncrease(
    /// The counter's name in /proc/interrupts or /proc/softirqs.
    pub String,
    /// The increase.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub u64,
);

word_enum! {
    /// The kernel's file that contains a counter.
    pub enum StallCounterKind {
        /// /proc/interrupts.
        Interrupt = "interrupt",
        /// /proc/softirqs.
        SoftInterrupt = "soft-interrupt",
    }
}
