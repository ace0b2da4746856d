//! The causes of late samples, from the kernel's trace (`--explain`).

use serde::{Deserialize, Serialize};

use crate::words::word_enum;

/// The causes of late samples. All fields are empty without `--explain`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// The recording of the kernel's trace; null without --explain.
    #[serde(default)]
    pub explain: Option<TraceRecording>,
    /// The worst samples, worst first, then those above --stop-above or a limit on `max`. Each one is divided into parts
    /// that add up to its latency.
    #[serde(default)]
    pub explained: Vec<ExplainedSample>,
    /// The causes of all samples above the threshold, largest first.
    #[serde(default, rename = "explained_causes")]
    pub causes: Vec<ExplainedCause>,
}

/// The recording of the kernel's trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceRecording {
    /// Whether the kernel's trace was recorded.
    pub available: bool,
    /// The reason why it was not recorded.
    pub reason: Option<String>,
    /// The fix for that reason, in the imperative.
    pub fix: Option<String>,
    /// The latency, in nanoseconds, from which on a sample counts toward the causes.
    pub threshold_ns: u64,
    /// Number of samples at or above the threshold.
    pub samples: u64,
    /// The sum of their latencies, in nanoseconds.
    pub latency_ns: u64,
    /// Number of these samples during which events were lost. The time of lost events is unexplained.
    pub incomplete: u64,
    /// Number of events that were lost during the run.
    pub lost_events: u64,
    /// The time that recording one event takes, in nanoseconds: the shortest time between two events; null without events.
    #[serde(default)]
    pub event_ns: Option<u64>,
    /// The smallest number of events during the latency of a sample; null without samples.
    #[serde(default)]
    pub events: Option<u64>,
    /// Number of late samples that were not examined, because too many came at once.
    pub skipped: u64,
    /// Whether this is a virtual machine whose kernel has never counted steal time. A pause by the hypervisor then cannot
    /// be distinguished from disabled interrupts.
    #[serde(default)]
    pub host_unknown: bool,
    /// The threads of hpt itself among those that the parts and the causes name, in ascending order of their numbers.
    #[serde(default)]
    pub own_threads: Vec<u32>,
    /// The time that the hypervisor took from the recorded CPUs during the run (steal time), in seconds; null if the
    /// kernel does not report it.
    pub steal_s: Option<f64>,
}

/// A late sample, divided into parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainedSample {
    /// The CPU on which the thread ran; null if the trace does not contain the thread.
    pub cpu: Option<usize>,
    /// The measuring thread.
    pub thread: u32,
    /// The CLOCK_MONOTONIC time of the deadline, in nanoseconds.
    pub deadline_ns: u64,
    /// The latency, in nanoseconds.
    pub latency_ns: u64,
    /// Whether no event was lost during the latency.
    pub complete: bool,
    /// The parts, longest first. Their durations add up to the latency.
    pub parts: Vec<ExplainedPart>,
    /// The pieces of the latency in chronological order, without those after the first 400.
    #[cfg_attr(feature = "schema", schemars(length(max = 400)))]
    pub timeline: Vec<TimelinePiece>,
}

word_enum! {
    /// The kind of a part of a latency.
    pub enum CauseKind {
        /// The timer interrupt that woke the thread was late, and the CPU served no other interrupt: interrupts were
        /// disabled, or firmware held the CPU. The name is that of the thread that ran.
        InterruptsOff = "interrupts-off",
        /// As `interrupts-off`, or the hypervisor had the CPU: in a virtual machine, the trace cannot distinguish the two.
        InterruptsOffOrHost = "interrupts-off-or-host",
        /// The timer interrupt that woke the thread was late by less than 20 µs, or 40 µs in a virtual machine.
        TimerDelivery = "timer-delivery",
        /// The timer of the measuring thread expired at the end of its timer slack, as the kernel may let it do.
        TimerSlack = "timer-slack",
        /// The handler of an interrupt ran.
        HardInterrupt = "hard-interrupt",
        /// A softirq ran.
        SoftInterrupt = "soft-interrupt",
        /// Another thread ran although the measuring thread was ready.
        Thread = "thread",
        /// The CPU left an idle state.
        IdleExit = "idle-exit",
        /// The hypervisor ran other guests: nothing happened on the CPU, and its steal time rose.
        Host = "host",
        /// The scheduler switched to the measuring thread.
        Scheduling = "scheduling",
        /// The measuring thread itself ran, for example on its way out of the kernel.
        Return = "return",
        /// The measuring thread itself still ran at its deadline, for example because its previous period took too long.
        OwnWork = "own-work",
        /// A signal had stopped the measuring thread. The name is that of the thread that continued it.
        Stopped = "stopped",
        /// A tracer, such as a debugger, had stopped the measuring thread.
        Traced = "traced",
        /// The measuring thread accessed a page that was not mapped. The name is that of the file.
        PageFault = "page-fault",
        /// The measuring thread waited for something other than its timer, such as a disk, a lock or the cgroup freezer.
        /// The name is that of the thread that woke it.
        Blocked = "blocked",
        /// The CPU quota of a control group was used up. The name is that of the group.
        CpuQuota = "cpu-quota",
        /// The measuring thread had used up its runtime under SCHED_DEADLINE.
        Budget = "deadline-budget",
        /// The kernel ran less important threads, or none, although the measuring thread was ready: real-time throttling
        /// or the fair server. The name states which of the two, if that is known.
        Paused = "real-time-throttling",
        /// A less important thread kept running, because the kernel could not be preempted.
        NotPreemptible = "not-preemptible",
        /// No rule explains this part.
        Unexplained = "unexplained",
    }
}

word_enum! {
    /// Why no rule explains a part.
    pub enum Doubt {
        /// Events were lost, or not yet recorded.
        Lost = "lost-events",
        /// The wake-up of the thread was not recorded.
        NoWakeUp = "no-wake-up",
        /// The thread was woken by another CPU, or ran there.
        OtherCpu = "other-cpu",
        /// The timer interrupt came late, although the CPU served other interrupts.
        Served = "interrupts-served",
        /// The CPU was idle for longer than it takes to leave the idle state, or had just entered it.
        Idle = "idle-too-long",
        /// The timer slack of the thread allows its timer to expire late, and nothing tells why it expired when it did.
        Slack = "timer-slack",
        /// The thread ran, and no event tells why this took so long.
        Silent = "no-events",
        /// A less important thread ran, and nothing proves why.
        LessImportant = "less-important-thread",
    }
}

/// A part of a latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainedPart {
    /// The kind.
    pub kind: CauseKind,
    /// The name of the thread, of the interrupt handler, of the softirq, of the control group or of the file.
    pub name: Option<String>,
    /// The number of the thread.
    pub pid: Option<u32>,
    /// Whether the thread belongs to the kernel; null if that is not known.
    #[serde(default)]
    pub kernel: Option<bool>,
    /// Whether the thread had a higher priority than /proc stated later: inherited from a thread that waited for it, or
    /// changed since.
    #[serde(default)]
    pub boosted: bool,
    /// The thread that waited for this one and whose priority it inherited, with its number; null if no event shows that.
    #[serde(default)]
    pub inherits_from: Option<String>,
    /// Why no rule explains the part; null for other parts.
    #[serde(default)]
    pub doubt: Option<Doubt>,
    /// The last event before the longest gap of an unexplained part; null for other parts.
    #[serde(default)]
    pub after: Option<String>,
    /// The longest gap of an unexplained part, in nanoseconds; null for other parts.
    #[serde(default)]
    pub longest_ns: Option<u64>,
    /// The scheduling policy of the thread; null if the thread has ended.
    pub policy: Option<String>,
    /// The real-time priority of the thread; null for other threads.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 99)))]
    pub priority: Option<u8>,
    /// The number of the interrupt; null for interrupts of the CPU itself.
    pub irq: Option<u32>,
    /// The number of the idle state.
    pub idle_state: Option<u32>,
    /// The function of the kernel that the handler called; null unless a handler caused a large part of an earlier sample.
    #[serde(default)]
    pub function: Option<String>,
    /// The functions of the kernel, innermost first: in which the timer interrupt found a kernel that could not be preempted,
    /// that had disabled interrupts, or whose thread ran; or in which the measuring thread waited. Empty unless the kernel
    /// caused a large part of an earlier sample.
    #[serde(default)]
    pub stack: Vec<String>,
    /// Number of interrupts or runs.
    pub count: u64,
    /// The start of the first one, in nanoseconds after the deadline.
    pub at_ns: u64,
    /// The duration, in nanoseconds.
    pub duration_ns: u64,
}

/// A contiguous piece of a latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelinePiece(
    /// The start, in nanoseconds after the deadline.
    pub u64,
    /// The duration, in nanoseconds.
    pub u64,
    /// The index of its part in `parts`.
    pub usize,
);

/// A cause of late samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainedCause {
    /// The kind.
    pub kind: CauseKind,
    /// The name of the thread, of the interrupt handler, of the softirq, of the control group or of the file.
    pub name: Option<String>,
    /// The number of the thread in the worst sample.
    pub pid: Option<u32>,
    /// Whether the thread belongs to the kernel; null if that is not known.
    #[serde(default)]
    pub kernel: Option<bool>,
    /// Whether the thread had a higher priority in the worst sample than /proc stated later: inherited from a thread that
    /// waited for it, or changed since.
    #[serde(default)]
    pub boosted: bool,
    /// The thread whose priority the thread inherited in the worst sample, with its number; null if no event shows that.
    #[serde(default)]
    pub inherits_from: Option<String>,
    /// Why no rule explains this time; null for other causes.
    #[serde(default)]
    pub doubt: Option<Doubt>,
    /// The scheduling policy of the thread in the worst sample; null if it is not known.
    #[serde(default)]
    pub policy: Option<String>,
    /// The real-time priority of the thread in the worst sample; null for other threads.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 99)))]
    pub priority: Option<u8>,
    /// The number of the interrupt; null for interrupts of the CPU itself.
    pub irq: Option<u32>,
    /// The number of the idle state.
    pub idle_state: Option<u32>,
    /// The function of the kernel that the handler called; null unless a handler caused a large part of an earlier sample.
    #[serde(default)]
    pub function: Option<String>,
    /// The functions of the kernel in its largest part that has some, innermost first.
    #[serde(default)]
    pub stack: Vec<String>,
    /// Number of samples to which the cause contributed.
    pub samples: u64,
    /// The sum of its contributions, in nanoseconds.
    pub total_ns: u64,
    /// Its share of the latency of all samples above the threshold, from 0 to 1.
    pub share: f64,
    /// Its largest contribution to one sample, in nanoseconds.
    pub worst_ns: u64,
    /// The rule of `hpt doctor` that examines this cause; null if there is none.
    pub rule: Option<String>,
    /// The fix, in the imperative; null if none is known.
    pub fix: Option<String>,
}
