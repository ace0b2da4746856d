//! The document of `hpt latency stall`: CPU stalls and their likely causes.

use serde::{Deserialize, Serialize};

use crate::{
    conditions::Conditions,
    explain::Explanation,
    head::Head,
    latency::{HistogramBin, LatencyRunEnd, LatencyRunTime, LatencyThread, MicrosecondCount},
    limit::LimitRow,
    load::LoadedPhase,
    not_run::NotRun,
    quantiles::{Quantiles, StallList},
    words::word_enum,
};

/// CPU stalls (OS noise): the periods in which a busy-polling thread did not run, and their likely causes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt latency stall: CPU stalls"))]
pub struct StallDocument {
    /// The keys at the start of the document: `schema`, `kind`, `hpt` and `machine`.
    #[serde(flatten)]
    pub head: Head,
    /// The measuring thread.
    #[serde(flatten)]
    pub measuring: LatencyThread,
    /// The mean time of a read, in nanoseconds.
    pub read_ns: f64,
    /// The 90th percentile of the differences between consecutive readings, in nanoseconds. Differences of zero are
    /// excluded.
    pub step_p90_ns: Option<u64>,
    /// The start and the duration of the run.
    #[serde(flatten)]
    pub time: LatencyRunTime,
    /// The end of the run.
    #[serde(flatten)]
    pub end: LatencyRunEnd,
    /// The conditions during the measurement.
    #[serde(default)]
    pub conditions: Conditions,
    /// The causes of stalls, from the kernel's trace.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// The limits of `--limit`, each with its verdict, in the order in which they were given.
    #[serde(default)]
    pub limits: Vec<LimitRow>,
    /// One row for each thread.
    pub results: Vec<StallThreadRow>,
    /// One row for each likely cause, in order of decreasing time lost.
    pub causes: Vec<StallCauseRow>,
    /// The counters of each thread that increased in windows with a stall. For each thread, the counters that are most
    /// typical of these windows come first.
    pub counters: Vec<StallCounterRow>,
    /// The longest stalls, in order of decreasing length.
    #[cfg_attr(feature = "schema", schemars(length(max = 100)))]
    pub longest: Vec<StallRow>,
    /// The most recent stalls, in reverse chronological order.
    #[cfg_attr(feature = "schema", schemars(length(max = 100)))]
    pub newest: Vec<StallRow>,
    /// The loaded phase; null without --load.
    #[serde(default)]
    pub loaded: Option<LoadedPhase<StallThreadRow>>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// The results of one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StallThreadRow {
    /// The CPU that the thread was pinned to; null if it was not pinned.
    pub cpu: Option<usize>,
    /// Number of stalls on the thread's CPU.
    pub stalls: u64,
    /// The total duration of the stalls, in nanoseconds.
    pub stalled_ns: u64,
    /// The duration of the measurement on the thread's CPU, in nanoseconds.
    pub elapsed_ns: u64,
    /// The time that the thread spent on other CPUs, in nanoseconds. `elapsed_ns` does not include this time; see
    /// `cpu_absences`.
    pub elapsed_on_other_cpus_ns: u64,
    /// The time during which the thread did not run, according to the kernel. The stalls include this time, except for
    /// gaps that do not exceed the threshold.
    pub not_run: NotRun,
    /// Number of stalls on other CPUs. No other value includes these stalls.
    pub stalls_on_other_cpus: u64,
    /// The threshold, in nanoseconds. A longer gap between two readings is a stall.
    pub threshold_ns: u64,
    /// The duration of the shortest stall, in nanoseconds; null if there were no stalls.
    pub min_ns: Option<u64>,
    /// The mean duration of a stall, in nanoseconds; null if there were no stalls.
    pub mean_ns: Option<f64>,
    /// The quantiles: `p50_ns` and so on.
    #[serde(flatten)]
    pub quantiles: Quantiles<StallList>,
    /// The duration of the longest stall, in nanoseconds; null if there were no stalls.
    pub max_ns: Option<u64>,
    /// The CLOCK_MONOTONIC time at which the longest stall began, in nanoseconds; null if there were no stalls.
    pub max_at_ns: Option<u64>,
    /// The period at which most stalls recur, in nanoseconds: the median interval between these stalls, determined from
    /// the newest 1024 stalls. Null if there is no such period.
    pub period_ns: Option<u64>,
    /// The 10th percentile of the intervals between stalls that recur with this period, in nanoseconds. Null if there
    /// is no such period, or if fewer than ten intervals are below it.
    pub period_p10_ns: Option<u64>,
    /// The 90th percentile of the intervals between stalls that recur with this period, in nanoseconds. Null if there
    /// is no such period, or if fewer than ten intervals are above it.
    pub period_p90_ns: Option<u64>,
    /// Number of stalls that were followed by another stall after one period (± 2 %). Null if there is no such period.
    pub period_followed: Option<u64>,
    /// Number of stalls that were early enough to be followed by another stall after one period. Null if there is no
    /// such period.
    pub period_eligible: Option<u64>,
    /// The blind time, in nanoseconds. In this time, the thread read the kernel's counters instead of polling.
    pub sampling_ns: u64,
    /// Number of times that the thread read the kernel's counters.
    pub samplings: u64,
    /// The longest time that the thread took to read the kernel's counters, in nanoseconds.
    pub longest_sampling_ns: u64,
    /// The detection limit while the thread reads the kernel's counters, in nanoseconds. A shorter stall during such a
    /// read may not be detected.
    pub blind_below_ns: u64,
    /// Number of backward steps of the source, which do not count as stalls.
    pub backward_steps: u64,
    /// Number of windows that contain a stall. A window is the time between two reads of the kernel's counters.
    pub windows_with_stall: u64,
    /// Number of windows that contain no stall. A window is the time between two reads of the kernel's counters.
    pub windows_without_stall: u64,
    /// The exact number of stalls for each whole microsecond of duration, up to ten milliseconds.
    pub histogram_us: Vec<MicrosecondCount>,
    /// Number of stalls longer than ten milliseconds.
    pub above_10ms: u64,
    /// The number of stalls in each bin, from one nanosecond to the maximum. Bins without stalls are omitted.
    #[serde(default)]
    pub histogram_ns: Vec<HistogramBin>,
}

/// All stalls with one likely cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StallCauseRow {
    /// The likely cause, determined from the counters that increased. `preempted`: the thread was runnable, but waited
    /// for its CPU. `quota`: it waited while the CPU quota of its control group was used up. `stopped`: the thread was put to sleep. `page-fault`: the thread was put to sleep
    /// while a page was read from a disk. `migrated`: the thread was on another CPU after the stall. `steal`: the
    /// hypervisor reported that it ran other guests. `firmware`: the count of system management interrupts increased.
    /// `interrupts`: the CPU received more interrupts than in windows without a stall. `interrupts-uncompared`: the CPU
    /// received interrupts, and there was no window without a stall to compare with. `usual-activity`: counters
    /// increased, but none of them explains the stall. `none`: no counter increased. `unknown`: neither
    /// /proc/interrupts nor /proc/softirqs could be read, and no other counter explains the stall.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::stall_causes))]
    pub cause: String,
    /// The counter that was most often the most unusual one in these stalls; null unless the cause is `interrupts` or
    /// `interrupts-uncompared`.
    pub counter: Option<String>,
    /// Number of stalls with this likely cause.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub stalls: u64,
    /// The total duration of the stalls with this likely cause, in nanoseconds.
    pub stalled_ns: u64,
}

/// A counter that increased in a window with a stall.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StallCounterRow {
    /// The CPU that the thread was pinned to; null if it was not pinned.
    pub cpu: Option<usize>,
    /// Whether the counter is a line of /proc/interrupts or of /proc/softirqs.
    pub kind: CounterKind,
    /// The kernel's name for the counter.
    pub name: String,
    /// The rest of the counter's line in /proc/interrupts or /proc/softirqs.
    pub label: String,
    /// Number of windows with a stall in which the counter increased.
    pub windows_with_stall: u64,
    /// Number of windows without a stall in which the counter increased.
    pub windows_without_stall: u64,
    /// The rate at which the counter increased in windows without a stall, in counts per second; null if there was no
    /// such window.
    pub baseline_hz: Option<f64>,
}

/// One stall.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StallRow {
    /// The CPU that the thread was pinned to; null if it was not pinned.
    pub cpu: Option<usize>,
    /// The CLOCK_MONOTONIC time at which the thread was last observed to run before the stall, in nanoseconds.
    pub start_ns: u64,
    /// The start of the stall as wall-clock time, in UTC.
    pub started_at: String,
    /// Time from `start_ns` until the thread was next observed to run, in nanoseconds.
    pub length_ns: u64,
    /// The amount by which the stall may have been shorter, in nanoseconds, because the thread was reading the kernel's
    /// counters at that time.
    pub uncertainty_ns: u64,
    /// The likely cause of the stall, with the same names as in `causes`.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::stall_causes))]
    pub cause: String,
    /// The length of the window, in nanoseconds. The window is the time between the reads of the kernel's counters
    /// before and after the stall.
    pub window_ns: u64,
    /// Number of stalls in the window.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub stalls_in_window: usize,
    /// Number of voluntary context switches in the window; null if it cannot be read.
    pub voluntary_switches: Option<u64>,
    /// Number of involuntary context switches in the window; null if it cannot be read.
    pub involuntary_switches: Option<u64>,
    /// Number of major page faults in the window; null if it cannot be read.
    pub major_faults: Option<u64>,
    /// The time for which the thread was runnable but not running in the window, in nanoseconds; null if it cannot be
    /// read.
    pub run_queue_wait_ns: Option<u64>,
    /// Whether the thread was on another CPU after the stall.
    pub migrated: bool,
    /// The steal time that the hypervisor reported in the window, in nanoseconds; a multiple of 10 ms, or null if it
    /// cannot be read.
    pub steal_ns: Option<u64>,
    /// The time for which the CPU quota of the thread's control group paused the threads of the group in the window, in
    /// nanoseconds, added up over the CPUs; null if it cannot be read, or if a group above may have a quota.
    pub throttled_ns: Option<u64>,
    /// Number of system management interrupts (SMI) on the core in the window; null if it cannot be read.
    pub smi_count: Option<u64>,
    /// The counters of this CPU that increased in the window, the most unusual one first.
    #[cfg_attr(feature = "schema", schemars(length(max = 12)))]
    pub counters: Vec<CounterIncrease>,
}

/// The increase of one counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CounterIncrease(
    /// The counter's name in /proc/interrupts or /proc/softirqs.
    pub String,
    /// The amount by which the counter increased.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub u64,
);

word_enum! {
    /// The file that contains a counter.
    pub enum CounterKind {
        /// /proc/interrupts.
        Interrupt = "interrupt",
        /// /proc/softirqs.
        SoftInterrupt = "soft-interrupt",
    }
}
