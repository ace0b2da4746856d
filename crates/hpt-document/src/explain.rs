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
        /// The timer interrupt was late, and nothing else happened on the CPU: interrupts were disabled. The name is
        /// that of the thread that ran.
        InterruptsOff = "interrupts-off",
        /// As `interrupts-off`, or the hypervisor ran other guests. In a virtual machine whose kernel has never counted
        /// steal time, the trace cannot distinguish the two.
        InterruptsOffOrHost = "interrupts-off-or-host",
        /// The timer interrupt was late by less than 20 µs, or 40 µs in a virtual machine.
        TimerDelivery = "timer-delivery",
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
        /// The trace does not explain this part.
        Unexplained = "unexplained",
    }
}

/// A part of a latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainedPart {
    /// The kind.
    pub kind: CauseKind,
    /// The name of the thread, of the interrupt handler or of the softirq.
    pub name: Option<String>,
    /// The number of the thread.
    pub pid: Option<u32>,
    /// The scheduling policy of the thread; null if the thread has ended.
    pub policy: Option<String>,
    /// The real-time priority of the thread; null for other threads.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 99)))]
    pub priority: Option<u8>,
    /// The number of the interrupt; null for interrupts of the CPU itself.
    pub irq: Option<u32>,
    /// The number of the idle state.
    pub idle_state: Option<u32>,
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
    /// The name of the thread, of the interrupt handler or of the softirq.
    pub name: Option<String>,
    /// The number of the thread in the worst sample.
    pub pid: Option<u32>,
    /// The real-time priority of the thread in the worst sample; null for other threads.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 99)))]
    pub priority: Option<u8>,
    /// The number of the interrupt; null for interrupts of the CPU itself.
    pub irq: Option<u32>,
    /// The number of the idle state.
    pub idle_state: Option<u32>,
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
