//! A late sample and its parts: plain data.

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
}

impl LateSample {
    /// Creates a sample of a thread that is pinned to `cpu`, or not pinned.
    #[must_use]
    pub const fn new((thread, cpu): (i32, Option<usize>), deadline_ns: u64, latency_ns: u64) -> Self {
        Self { thread, cpu, deadline_ns, latency_ns }
    }

    /// Returns the time at which the latency ended.
    pub(super) const fn end_ns(&self) -> u64 {
        self.deadline_ns.saturating_add(self.latency_ns)
    }
}

/// The kind of a part of a latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PartKind {
    /// The timer interrupt that woke the thread was late, and the CPU served no other interrupt: a thread or a driver had
    /// disabled interrupts. The part names the thread that ran.
    InterruptsOff,
    /// As [`InterruptsOff`](Self::InterruptsOff), or the hypervisor had the CPU: in a virtual machine, the trace cannot
    /// distinguish the two.
    InterruptsOffOrHost,
    /// The timer interrupt that woke the thread was late by less than 20 µs, or 40 µs in a virtual machine.
    TimerDelivery,
    /// The handler of an interrupt ran.
    HardInterrupt,
    /// A softirq ran.
    SoftInterrupt,
    /// Another thread ran although the sampled thread was ready.
    Thread,
    /// The CPU left an idle state.
    IdleExit,
    /// The hypervisor ran other guests: nothing happened on the CPU, and its steal time rose.
    Host,
    /// The scheduler switched to the sampled thread.
    Scheduling,
    /// The sampled thread itself ran, for example on its way out of the kernel.
    Return,
    /// The sampled thread itself still ran at its deadline, for example because its previous period took too long.
    OwnWork,
    /// A signal had stopped the sampled thread. The part names the thread that continued it.
    Stopped,
    /// A tracer, such as a debugger, had stopped the sampled thread.
    Traced,
    /// The sampled thread accessed a page that was not mapped. The part names the file.
    PageFault,
    /// The sampled thread waited for something other than its timer, such as a disk, a lock or the cgroup freezer. The part
    /// names the thread that woke it.
    Blocked,
    /// The CPU quota of a control group was used up. The part names the group.
    CpuQuota,
    /// The sampled thread had used up its runtime under SCHED_DEADLINE.
    Budget,
    /// The kernel ran less important threads, or none, although the sampled thread was ready: real-time throttling or the
    /// fair server. The part names which of the two, if that is known.
    Paused,
    /// A less important thread kept running, because the kernel could not be preempted. The part names it.
    NotPreemptible,
    /// No rule explains this part: the events that would prove a cause are missing, or others refute it.
    Unexplained,
}

impl PartKind {
    /// All kinds.
    pub const ALL: [Self; 20] = [
        Self::InterruptsOff,
        Self::InterruptsOffOrHost,
        Self::TimerDelivery,
        Self::HardInterrupt,
        Self::SoftInterrupt,
        Self::Thread,
        Self::IdleExit,
        Self::Host,
        Self::Scheduling,
        Self::Return,
        Self::OwnWork,
        Self::Stopped,
        Self::Traced,
        Self::PageFault,
        Self::Blocked,
        Self::CpuQuota,
        Self::Budget,
        Self::Paused,
        Self::NotPreemptible,
        Self::Unexplained,
    ];

    /// Returns the name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InterruptsOff => "interrupts-off",
            Self::InterruptsOffOrHost => "interrupts-off-or-host",
            Self::TimerDelivery => "timer-delivery",
            Self::HardInterrupt => "hard-interrupt",
            Self::SoftInterrupt => "soft-interrupt",
            Self::Thread => "thread",
            Self::IdleExit => "idle-exit",
            Self::Host => "host",
            Self::Scheduling => "scheduling",
            Self::Return => "return",
            Self::OwnWork => "own-work",
            Self::Stopped => "stopped",
            Self::Traced => "traced",
            Self::PageFault => "page-fault",
            Self::Blocked => "blocked",
            Self::CpuQuota => "cpu-quota",
            Self::Budget => "deadline-budget",
            Self::Paused => "real-time-throttling",
            Self::NotPreemptible => "not-preemptible",
            Self::Unexplained => "unexplained",
        }
    }
}

/// The reason why no rule explains a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Doubt {
    /// Events were lost, or not yet recorded.
    Lost,
    /// The wake-up of the thread was not recorded.
    NoWakeUp,
    /// The thread was woken by another CPU, or ran there.
    OtherCpu,
    /// The timer interrupt came late, although the CPU served other interrupts.
    Served,
    /// The CPU was idle for longer than it takes to leave the idle state.
    Idle,
    /// The thread ran, and no event tells why this took so long.
    Silent,
    /// A less important thread ran, and nothing proves why.
    LessImportant,
}

impl Doubt {
    /// All reasons.
    pub const ALL: [Self; 7] =
        [Self::Lost, Self::NoWakeUp, Self::OtherCpu, Self::Served, Self::Idle, Self::Silent, Self::LessImportant];

    /// Returns the name of the reason.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost-events",
            Self::NoWakeUp => "no-wake-up",
            Self::OtherCpu => "other-cpu",
            Self::Served => "interrupts-served",
            Self::Idle => "idle-too-long",
            Self::Silent => "no-events",
            Self::LessImportant => "less-important-thread",
        }
    }
}

/// A part of a latency.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part {
    /// The kind.
    pub kind: PartKind,
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
