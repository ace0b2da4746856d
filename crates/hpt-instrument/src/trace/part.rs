//! A late sample and its parts: plain data.

pub use hpt_document::explain::{CauseKind, Doubt};

/// A sample whose latency is to be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LateSample {
    /// The thread, as the kernel numbers it.
    pub thread: i32,
    /// The CPU to which the thread is pinned; `None` if it is not pinned.
    pub cpu: Option<usize>,
    /// The deadline on CLOCK_MONOTONIC, in nanoseconds.
    pub deadline_ns: u64,
    /// The latency, in nanoseconds.
    pub latency_ns: u64,
    /// The timer slack of the thread, in nanoseconds, the longer one of those after this sample and after the late one
    /// before; zero if it is not known.
    pub slack_ns: u64,
}

impl LateSample {
    /// Creates a sample of a thread that is pinned to `cpu`, or not pinned.
    #[must_use]
    pub const fn new((thread, cpu): (i32, Option<usize>), deadline_ns: u64, latency_ns: u64) -> Self {
        Self { thread, cpu, deadline_ns, latency_ns, slack_ns: 0 }
    }

    /// Returns the time at which the latency ended.
    pub(super) const fn end_ns(&self) -> u64 {
        self.deadline_ns.saturating_add(self.latency_ns)
    }
}

/// A part of a latency.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part {
    /// The kind.
    pub kind: CauseKind,
    /// The name of the thread, of the interrupt handler, of the softirq, of the control group or of the file.
    pub name: Option<String>,
    /// The number of the thread.
    pub pid: Option<i32>,
    /// Whether the thread belongs to the kernel; `None` if that is not known.
    pub is_kernel: Option<bool>,
    /// Whether the thread had a higher priority than /proc stated later: inherited from a thread that waited for it, or
    /// changed since.
    pub is_boosted: bool,
    /// The thread that waited for this one and whose priority it inherited, with its number; `None` if no event shows that.
    pub inherits_from: Option<String>,
    /// Why no rule explains the part.
    pub doubt: Option<Doubt>,
    /// The last event before the longest gap of an unexplained part.
    pub after: Option<String>,
    /// The scheduling policy of the thread; `None` if the thread has ended.
    pub policy: Option<&'static str>,
    /// The real-time priority of the thread, from 1 to 99; `None` for other threads.
    pub priority: Option<u8>,
    /// Whether the thread belongs to the process that records, but is not the sampled thread.
    pub is_own: bool,
    /// The number of the interrupt; `None` for interrupts of the CPU itself.
    pub irq: Option<i32>,
    /// The function of the kernel that the handler called; `None` unless a handler caused a large part of an earlier
    /// sample.
    pub function: Option<String>,
    /// The functions of the kernel, innermost first: in which the timer interrupt found a kernel that could not be preempted,
    /// that had disabled interrupts, or whose thread ran; or in which the sampled thread waited. Empty unless the kernel
    /// caused a large part of an earlier sample.
    pub stack: Vec<String>,
    /// The idle state.
    pub idle_state: Option<u32>,
    /// The number of interrupts or runs.
    pub count: u64,
    /// The start of the first one, in nanoseconds after the deadline.
    pub at_ns: u64,
    /// The duration, in nanoseconds.
    pub duration_ns: u64,
    /// The longest gap of an unexplained part, in nanoseconds; zero for other parts.
    pub longest_ns: u64,
    /// Its functions, until they are named.
    pub(super) addresses: Addresses,
}

/// Functions of the kernel that have no names yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Addresses {
    /// That which a handler called.
    pub(super) function: Option<u64>,
    /// Stacks, most relevant first.
    pub(super) stacks: Vec<Vec<u64>>,
}

/// A contiguous piece of a latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Segment {
    /// The start, in nanoseconds after the deadline.
    pub at_ns: u64,
    /// The duration, in nanoseconds.
    pub duration_ns: u64,
    /// The index of its part.
    pub part: usize,
}

/// A late sample that was divided into parts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explained {
    /// The sample.
    pub sample: LateSample,
    /// The CPU on which the thread ran; `None` if the trace does not contain the thread.
    pub cpu: Option<usize>,
    /// Whether no event was lost during the latency.
    pub is_complete: bool,
    /// The parts, longest first. Their durations add up to the latency.
    pub parts: Vec<Part>,
    /// The first 400 pieces of the latency, in chronological order.
    pub timeline: Vec<Segment>,
}
