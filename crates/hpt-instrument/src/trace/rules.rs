//! The causes of a delay: the events that prove each of them, and those that refute it. What no rule proves is unexplained.

use super::{
    events::What,
    part::{CauseKind, Doubt},
    track::{Doing, IDLE_PRIORITY, Piece, Section, Span, Waker},
};

/// The longest piece without events during which the sampled thread is assumed to run, or the scheduler to switch.
const RETURN_NS: u64 = 50_000;
/// The limits of the longest piece after a wake-up that is attributed to the scheduler if a less important thread was
/// interrupted.
const SCHEDULING_NS: u64 = 5_000;
/// The number of usual switches that such a piece may last.
const SCHEDULING_FACTOR: u64 = 2;
/// The number of usual switches that no switch lasts. A longer path through the scheduler takes up to three of them.
const NO_SWITCH_FACTOR: u64 = 4;
pub(super) const MOST_SCHEDULING_NS: u64 = 50_000;
/// The shortest piece that can be attributed to the hypervisor.
const HOST_NS: u64 = 50_000;
/// The resolution of the steal time. The kernel's USER_HZ is 100.
pub(super) const TICK_NS: u64 = 10_000_000;
/// The time to leave an idle state: a multiple of the latency that the driver states, and a part that is the same for all
/// states, on a real machine and on a virtual one.
const IDLE_FACTOR: u64 = 3;
const IDLE_NS: u64 = 50_000;
const VIRTUAL_IDLE_NS: u64 = 200_000;
/// The lowest kernel priority of a thread without a real-time policy, and the highest of one with a priority.
const ORDINARY: i32 = 100;
const FIFO: i32 = 0;

/// The facts about a sample that are not in its events.
#[derive(Clone, Copy, Debug)]
pub(super) struct TraceEvidence<'a> {
    /// The time that can be attributed to the hypervisor, in nanoseconds: zero if the steal time of the CPU did not rise
    /// around the sample.
    pub(super) steal_ns: u64,
    /// The time for which a CPU quota paused threads of the sampled thread's control group around the sample, in
    /// nanoseconds.
    pub(super) throttled_ns: u64,
    /// The ordinary threads that belong to this control group.
    pub(super) sharing: &'a [i32],
    /// The shortest delay of a timer interrupt that is attributed to disabled interrupts, in nanoseconds. Slow timer
    /// hardware and virtual machines cause shorter delays.
    pub(super) interrupts_off_ns: u64,
    /// The time that the scheduler of this machine takes to switch to a thread, in nanoseconds.
    pub(super) scheduling_ns: u64,
    /// The latencies of the CPU's idle states, in nanoseconds, as their driver states them.
    pub(super) idle_ns: &'a [u64],
    /// Whether the thread blocks until its deadline. A polling thread runs all the time, so its own work is no cause.
    pub(super) is_blocking: bool,
    /// Whether the thread is pinned to the CPU. If not, it may have waited for another one.
    pub(super) is_pinned: bool,
    /// Whether this is a virtual machine, and whether it has never counted steal time, so that a pause by the host looks
    /// like disabled interrupts.
    pub(super) is_virtual: bool,
    pub(super) host_unknown: bool,
    /// Whether a timer of the CPU wakes the thread. The interrupt of a device may arrive late for other reasons.
    pub(super) waits_for_timer: bool,
    pub(super) slack: Slack,
    pub(super) pauses: Pauses,
}

/// The timer slack of the sampled thread, and the time at which its timer expires at the latest, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slack {
    pub(super) ns: u64,
    pub(super) ends_ns: u64,
}

/// The mechanisms that may pause a real-time thread in favor of ordinary ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    pub(super) throttling: bool,
    /// The fair server, since Linux 6.12.
    pub(super) fair_server: bool,
}

#[cfg(test)]
impl TraceEvidence<'_> {
    /// A pinned, blocking thread on a machine of its own, without any evidence.
    pub(super) const QUIET: Self = Self {
        steal_ns: 0,
        throttled_ns: 0,
        sharing: &[],
        interrupts_off_ns: 20_000,
        scheduling_ns: 1_000,
        idle_ns: &[],
        is_blocking: true,
        is_pinned: true,
        is_virtual: false,
        host_unknown: false,
        waits_for_timer: true,
        slack: Slack { ns: 0, ends_ns: 0 },
        pauses: Pauses { throttling: true, fair_server: false },
    };
}

/// A piece of a latency to which the rules are applied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case<'a> {
    pub(super) piece: &'a Piece,
    pub(super) span: &'a Span,
    pub(super) evidence: TraceEvidence<'a>,
}

/// The rule of one cause.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CauseRule {
    /// The kind of the parts that it explains.
    pub kind: CauseKind,
    /// The events that must be there.
    pub proof: &'static str,
    /// The events and values that refute it.
    pub refutation: &'static str,
    /// The fix, in general.
    pub fix: &'static str,
    /// The needs of the rule, apart from tracepoints.
    pub needs: &'static str,
    pub(super) holds: fn(Case<'_>) -> bool,
    pub(super) is_refuted: fn(Case<'_>) -> bool,
}

const fn never(_: Case<'_>) -> bool {
    false
}

/// The rules, in the order in which they are tried. The first one that holds and is not refuted explains a piece.
pub static CAUSE_RULES: [CauseRule; 22] = [
    CauseRule {
        kind: CauseKind::Stopped,
        proof: "the thread was switched away from in state T (stopped), and nothing has woken it",
        refutation: "another state",
        fix: "find the program that sends SIGSTOP or SIGTSTP",
        needs: "",
        holds: |case| case.span.doing == Doing::Stopped,
        is_refuted: never,
    },
    CauseRule {
        kind: CauseKind::Traced,
        proof: "the thread was switched away from in state t (tracing stop), and nothing has woken it",
        refutation: "another state",
        fix: "measure without a debugger or strace",
        needs: "",
        holds: |case| case.span.doing == Doing::Traced,
        is_refuted: never,
    },
    CauseRule {
        kind: CauseKind::PageFault,
        proof: "the thread accessed a page that was not mapped, and had no other event before it was switched away from, or \
                before it continued",
        refutation: "its timer woke it",
        fix: "lock the memory: --mlockall",
        needs: "x86: the events of the group exceptions",
        holds: |case| case.is_fault(),
        is_refuted: |case| case.waits_for_timer(),
    },
    CauseRule {
        kind: CauseKind::Blocked,
        proof: "the thread was switched away from in state D, or in state S and then woken by a thread",
        refutation: "its timer woke it; it measures the interrupt of a device",
        fix: "find what the thread waits for; the part names what woke it",
        needs: "",
        holds: |case| case.is_blocked(),
        is_refuted: |case| case.span.doing == Doing::Sleeps && !case.evidence.waits_for_timer,
    },
    CauseRule {
        kind: CauseKind::HardInterrupt,
        proof: "the handler had begun and had not ended, and the thread was ready or waited for its timer",
        refutation: "the thread waited for something else",
        fix: "move the interrupt to another CPU",
        needs: "",
        holds: |case| {
            matches!(case.piece.section, Some(Section::Hard(_) | Section::Vector(_) | Section::Timer | Section::Nmi))
        },
        is_refuted: |case| case.is_elsewhere(),
    },
    CauseRule {
        kind: CauseKind::SoftInterrupt,
        proof: "the softirq had begun and had not ended, and the thread was ready or waited for its timer",
        refutation: "the thread waited for something else",
        fix: "move the interrupt that raises it to another CPU",
        needs: "",
        holds: |case| matches!(case.piece.section, Some(Section::Soft(_))),
        is_refuted: |case| case.is_elsewhere(),
    },
    CauseRule {
        kind: CauseKind::TimerSlack,
        proof: "the thread is ordinary, its timer slack is 20 µs or more (40 µs in a virtual machine), and a timer interrupt \
                woke it that much after its deadline, or up to as much more as the interrupt may be late",
        refutation: "the interrupt came earlier or later; a real-time policy, for which the kernel ignores the slack",
        fix: "a timer slack of 1 ns, or a real-time policy",
        needs: "",
        holds: |case| case.is_timer_gap() && case.may_expire_later() && case.expires_at_the_end(),
        is_refuted: never,
    },
    CauseRule {
        kind: CauseKind::Host,
        proof: "the CPU was idle, or a gap lasts 5 ms or more; nothing happened for 50 µs or more, and the steal time rose by at \
                least that, give or take one tick",
        refutation: "the CPU served another interrupt before that of the timer; the steal time rose by less; the timer slack \
                     allows the delay",
        fix: "give the virtual machine CPUs of its own on the host",
        needs: "CONFIG_PARAVIRT_TIME_ACCOUNTING, and a hypervisor that reports steal time",
        holds: |case| case.is_silent() && case.host_may_have_it() && (case.is_undisturbed() || case.is_long()),
        is_refuted: |case| case.is_sleeping() && (case.has_served() || case.may_expire_later()),
    },
    CauseRule {
        kind: CauseKind::IdleExit,
        proof: "the CPU was idle, its timer interrupt then woke the thread, and the time is no longer than the idle state needs: \
                three times the stated latency plus 50 µs (200 µs in a virtual machine)",
        refutation: "another interrupt was served before; the time is longer; it is longer than 50 µs, and the CPU had \
                     begun to enter the idle state no longer before, so that it may not have been there yet; the timer slack \
                     allows the delay",
        fix: "disable deep idle states: --dma-latency 0",
        needs: "the event power:cpu_idle, for more than 50 µs",
        holds: |case| case.is_sleeping() && case.is_idle() && case.piece.length() <= case.idle_limit(),
        is_refuted: |case| case.has_served() || case.may_still_enter() || case.may_expire_later(),
    },
    CauseRule {
        kind: CauseKind::TimerDelivery,
        proof: "a timer interrupt woke the thread less than 20 µs late (40 µs in a virtual machine), and nothing else happened",
        refutation: "the delays add up to more",
        fix: "",
        needs: "",
        holds: |case| case.is_timer_gap() && !case.is_idle() && !case.is_long_gap(),
        is_refuted: |case| case.piece.length() + case.piece.idle_until_woken >= case.evidence.interrupts_off_ns,
    },
    CauseRule {
        kind: CauseKind::InterruptsOffOrHost,
        proof: "as for disabled interrupts, in a virtual machine: a hypervisor need not count as steal time what it takes",
        refutation: "another interrupt was served before; the timer slack allows the delay",
        fix: "search with the irqsoff tracer; own CPUs on the host",
        needs: "",
        holds: |case| case.is_timer_gap() && !case.is_idle() && case.is_long_gap() && case.host_is_possible(),
        is_refuted: |case| case.has_served() || case.may_expire_later(),
    },
    CauseRule {
        kind: CauseKind::InterruptsOff,
        proof: "a thread ran, no interrupt was served, and the timer interrupt that then woke the sampled thread was 20 µs late \
                or more",
        refutation: "another interrupt was served before; the machine is virtual; the timer slack allows the delay",
        fix: "search with the irqsoff tracer; a real-time kernel",
        needs: "firmware (SMI) that holds the CPU looks the same",
        holds: |case| case.is_timer_gap() && !case.is_idle() && case.is_long_gap(),
        is_refuted: |case| case.has_served() || case.host_is_possible() || case.may_expire_later(),
    },
    CauseRule {
        kind: CauseKind::Thread,
        proof: "the thread that passes the interrupt or the timer on ran, or was ready while a thread ran that is at least as \
                important",
        refutation: "a less important thread ran",
        fix: "a higher priority for the thread that passes it on",
        needs: "PREEMPT_RT, or threaded interrupts",
        holds: |case| case.helper_is_delayed(),
        is_refuted: never,
    },
    CauseRule {
        kind: CauseKind::OwnWork,
        proof: "the thread ran at its deadline and still runs",
        refutation: "a page fault; it does not block until its deadlines; nothing happened for 50 µs or more, and the steal \
                     time rose, or the hypervisor does not report it",
        fix: "less work per period",
        needs: "",
        holds: |case| case.runs() && case.piece.is_late && case.is_longer_than_a_return(),
        is_refuted: |case| !case.evidence.is_blocking || case.host_may_pause_it(),
    },
    CauseRule {
        kind: CauseKind::Return,
        proof: "the thread runs, for 50 µs at most",
        refutation: "the time is longer",
        fix: "",
        needs: "",
        holds: |case| case.runs(),
        is_refuted: |case| case.is_longer_than_a_return(),
    },
    CauseRule {
        kind: CauseKind::Scheduling,
        proof: "the thread was ready, the CPU was idle for 50 µs at most or ran a less important thread for 5 µs or twice \
                a usual switch at most, and then ran the thread",
        refutation: "the time is longer",
        fix: "",
        needs: "",
        holds: |case| case.is_waiting_to_run() && case.is_switching(),
        is_refuted: never,
    },
    CauseRule {
        kind: CauseKind::CpuQuota,
        proof: "the thread is ordinary and was ready, the CPU was idle or ran a thread of another control group, and cpu.stat \
                counts that much throttled time around the sample",
        refutation: "cpu.stat counts less; a thread of the same group ran; a real-time thread ran",
        fix: "raise cpu.max",
        needs: "CONFIG_CFS_BANDWIDTH",
        holds: |case| case.is_waiting_to_run() && case.is_ordinary() && case.quota_covers_it(),
        is_refuted: |case| case.current_is_realtime() || case.shares_the_quota(),
    },
    CauseRule {
        kind: CauseKind::Budget,
        proof: "the thread is SCHED_DEADLINE and was ready, and the CPU was switched to a less important thread, or to idle, \
                or entered an idle state",
        refutation: "a kernel that was about to preempt the running thread",
        fix: "a longer runtime: -P d:RUNTIME/PERIOD",
        needs: "",
        holds: |case| case.own() < Some(FIFO) && case.is_passed_over(),
        is_refuted: |case| case.must_be_preempted() || case.own().is_none(),
    },
    CauseRule {
        kind: CauseKind::Paused,
        proof: "the thread has a real-time priority and was ready, and the CPU was switched to a less important thread, or to \
                idle, or entered an idle state, or a less important thread was to be preempted and then no longer, so that \
                the scheduler had chosen it again",
        refutation: "a kernel that was about to preempt the running thread; a CPU that became idle behind the stopper \
                     thread, which empties a CPU before it goes offline; throttling is disabled, and so is the fair \
                     server, or the CPU was idle",
        fix: "disable real-time throttling: --no-throttling",
        needs: "before Linux 6.12 or with CONFIG_RT_GROUP_SCHED: throttling; since Linux 6.12: the fair server",
        holds: |case| case.is_realtime() && case.is_passed_over(),
        is_refuted: |case| case.must_be_preempted() || !(case.may_be_throttled() || case.may_be_served()),
    },
    CauseRule {
        kind: CauseKind::NotPreemptible,
        proof: "this CPU woke the thread, which has a real-time policy, and a less important thread that ran \
                already kept running after an event that showed that it was to be preempted, for longer than four usual \
                switches (10 to 50 µs), or than two if it also kept running for two after a further interrupt",
        refutation: "the CPU was switched to a less important thread meanwhile; nothing happened for 50 µs or more, the steal \
                     time rose, or the hypervisor does not report it, and the CPU was switched soon after each further \
                     interrupt",
        fix: "preempt=full, or a real-time kernel",
        needs: "a kernel without PREEMPT_RT, or code that disables preemption",
        holds: |case| case.keeps_running() && case.must_be_preempted(),
        is_refuted: |case| case.host_may_pause_it() && !case.is_held(),
    },
    CauseRule {
        kind: CauseKind::Host,
        proof: "the thread was ready, the CPU was idle, and the steal time rose by at least that, give or take one tick",
        refutation: "the steal time rose by less",
        fix: "give the virtual machine CPUs of its own on the host",
        needs: "CONFIG_PARAVIRT_TIME_ACCOUNTING, and a hypervisor that reports steal time",
        holds: |case| case.is_waiting_to_run() && case.is_idle() && case.host_may_have_it(),
        is_refuted: never,
    },
    CauseRule {
        kind: CauseKind::Thread,
        proof: "the thread was ready, and a thread ran that is at least as important, by its own priority at the switch or by \
                one that it inherited since (sched_pi_setprio), or of the same ordinary policy",
        refutation: "the thread ran on another CPU afterwards; the running thread is less important",
        fix: "isolate the CPU, or a higher priority",
        needs: "",
        holds: |case| case.is_waiting_to_run() && !case.is_idle(),
        is_refuted: |case| case.is_less_important(),
    },
];

/// Returns the kind of a piece: that of the first rule that holds and is not refuted.
pub(super) fn kind(case: Case<'_>) -> CauseKind {
    if case.piece.is_lost {
        return CauseKind::Unexplained;
    }
    if case.piece.is_unseen_switch && case.piece.length() <= RETURN_NS {
        return CauseKind::Scheduling;
    }
    let rule = CAUSE_RULES.iter().find(|rule| (rule.holds)(case) && !(rule.is_refuted)(case));
    rule.map_or(CauseKind::Unexplained, |rule| rule.kind)
}

/// Returns why no rule explains a piece.
pub(super) fn doubt(case: Case<'_>) -> Doubt {
    match (case.span.doing, case.span.waker) {
        _ if case.piece.is_lost => Doubt::Lost,
        (Doing::Ready, _) if !case.span.is_closed => Doubt::OtherCpu,
        (Doing::Ready, Some(Waker::Elsewhere { .. })) if !case.evidence.is_pinned => Doubt::OtherCpu,
        (Doing::Sleeps, None) => Doubt::NoWakeUp,
        (Doing::Sleeps, Some(Waker::Elsewhere { .. })) => Doubt::OtherCpu,
        (Doing::Sleeps, Some(Waker::Timer)) if case.may_expire_later() => Doubt::Slack,
        (Doing::Sleeps, Some(Waker::Timer)) if !case.is_last_gap() || case.piece.is_served => Doubt::Served,
        (Doing::Sleeps | Doing::Ready, _) if case.is_idle() => Doubt::Idle,
        (Doing::Sleeps, Some(_)) => Doubt::Served,
        (Doing::Ready, _) => Doubt::LessImportant,
        (Doing::Runs, _) => Doubt::Silent,
        _ => Doubt::NoWakeUp,
    }
}

impl Case<'_> {
    /// Returns whether the sampled thread waits for its timer, and that of this CPU then woke it.
    fn waits_for_timer(self) -> bool {
        self.span.doing == Doing::Sleeps && matches!(self.span.waker, Some(Waker::Timer | Waker::TimerSoftirq(_)))
    }

    /// As [`waits_for_timer`](Self::waits_for_timer), while no handler runs.
    fn is_sleeping(self) -> bool {
        self.evidence.waits_for_timer && self.waits_for_timer() && self.piece.section.is_none()
    }

    /// Returns whether no handler runs, and an interrupt of the timer then wakes the thread.
    fn is_timer_gap(self) -> bool {
        self.is_sleeping() && self.span.waker == Some(Waker::Timer)
    }

    /// Returns whether the thread does something that handlers and other threads of this CPU do not delay.
    fn is_elsewhere(self) -> bool {
        match self.span.doing {
            Doing::Unknown | Doing::Blocks | Doing::Stopped | Doing::Traced => true,
            Doing::Sleeps => !self.waits_for_timer() && self.evidence.waits_for_timer,
            Doing::Ready => !self.span.is_closed,
            Doing::Runs => false,
        }
    }

    fn is_fault(self) -> bool {
        match self.span.doing {
            Doing::Blocks | Doing::Sleeps => self.span.fault.is_some(),
            Doing::Runs => self.page().is_some() && self.piece.section.is_none(),
            _ => false,
        }
    }

    fn is_blocked(self) -> bool {
        match (self.span.doing, self.span.waker) {
            (Doing::Blocks, _) => true,
            (Doing::Sleeps, Some(Waker::Thread(_))) => !self.helper_woke(),
            (Doing::Sleeps, Some(Waker::Elsewhere { is_interrupt, .. })) => !is_interrupt,
            _ => false,
        }
    }

    fn helper_woke(self) -> bool {
        let helper = self.piece.helper.map(|helper| helper.pid);
        helper.is_some()
            && matches!(self.span.waker, Some(Waker::Thread(pid) | Waker::TimerSoftirq(pid)) if Some(pid) == helper)
    }

    fn helper_is_delayed(self) -> bool {
        let Some(helper) = self.piece.helper.filter(|_| self.helper_woke() && self.piece.section.is_none()) else {
            return false;
        };
        let current = self.piece.current.filter(|current| current.pid != 0);
        current.is_some_and(|current| current.pid == helper.pid || current.priority() <= helper.priority())
    }

    fn is_idle(self) -> bool {
        self.piece.current.is_some_and(|current| current.pid == 0)
    }

    fn runs(self) -> bool {
        self.span.doing == Doing::Runs && self.piece.section.is_none()
    }

    const fn is_longer_than_a_return(self) -> bool {
        self.piece.length() > RETURN_NS
    }

    /// Returns whether only handlers, and a delay that timer hardware can cause, come between this piece and the wake-up.
    const fn is_last_gap(self) -> bool {
        self.piece.idle_until_woken <= self.evidence.interrupts_off_ns
    }

    /// Returns whether the CPU served another interrupt after the deadline and before that of the timer. Interrupts were
    /// enabled then, so that of the timer would have been served as well.
    const fn has_served(self) -> bool {
        self.piece.is_served || !self.is_last_gap()
    }

    const fn is_long_gap(self) -> bool {
        self.piece.length() >= self.evidence.interrupts_off_ns
    }

    const fn is_long(self) -> bool {
        self.piece.length() >= TICK_NS / 2
    }

    /// Returns whether the sampled thread waits for its timer or runs, and nothing happens.
    fn is_silent(self) -> bool {
        self.is_sleeping() || self.runs()
    }

    /// Returns whether no thread could have disabled interrupts.
    fn is_undisturbed(self) -> bool {
        self.is_idle() || self.runs()
    }

    const fn host_may_have_it(self) -> bool {
        self.piece.length() >= HOST_NS && self.piece.length() <= self.evidence.steal_ns
    }

    /// Returns whether the host may have paused the thread that ran, in a gap that its steal time does not explain.
    const fn host_may_pause_it(self) -> bool {
        (self.evidence.steal_ns > 0 || self.evidence.host_unknown) && self.piece.length() >= HOST_NS
    }

    const fn host_is_possible(self) -> bool {
        self.evidence.host_unknown || self.evidence.is_virtual || self.host_may_have_it()
    }

    /// Returns whether the timer slack of the thread allows its timer to expire later than this piece begins.
    fn may_expire_later(self) -> bool {
        let slack = self.evidence.slack;
        self.is_ordinary() && slack.ns >= self.evidence.interrupts_off_ns && self.piece.from < slack.ends_ns
    }

    /// Returns whether the interrupt of the timer came at the end of the slack.
    const fn expires_at_the_end(self) -> bool {
        let (came, due) = (self.piece.to + self.piece.idle_until_woken, self.evidence.slack.ends_ns);
        came >= due && came < due + self.evidence.interrupts_off_ns
    }

    /// Returns whether the CPU may not have reached its idle state yet.
    fn may_still_enter(self) -> bool {
        let before = self.piece.idle_since.map(|since| self.piece.from.saturating_sub(since));
        self.is_longer_than_a_return() && before.is_none_or(|before| before < self.idle_limit())
    }

    fn idle_limit(self) -> u64 {
        let state = self.piece.idle.and_then(|state| usize::try_from(state).ok());
        let stated = state.and_then(|state| self.evidence.idle_ns.get(state)).copied().unwrap_or_default();
        let more = if self.evidence.is_virtual { VIRTUAL_IDLE_NS } else { IDLE_NS };
        stated.saturating_mul(IDLE_FACTOR).saturating_add(more)
    }

    /// Returns whether the sampled thread is ready, and runs on this CPU afterwards.
    fn is_waiting_to_run(self) -> bool {
        let is_here = self.evidence.is_pinned || !self.is_woken_elsewhere();
        self.span.doing == Doing::Ready && self.span.is_closed && is_here && self.piece.section.is_none()
    }

    const fn own(self) -> Option<i32> {
        self.span.priority
    }

    fn is_ordinary(self) -> bool {
        self.own() >= Some(ORDINARY)
    }

    fn is_realtime(self) -> bool {
        self.own().is_some_and(|own| (FIFO..ORDINARY).contains(&own))
    }

    fn current_priority(self) -> Option<i32> {
        self.piece.current.and_then(|current| current.priority())
    }

    fn current_is_realtime(self) -> bool {
        self.current_priority().is_none_or(|priority| priority < ORDINARY)
    }

    fn shares_the_quota(self) -> bool {
        self.piece.current.is_some_and(|current| self.evidence.sharing.contains(&current.pid))
    }

    const fn quota_covers_it(self) -> bool {
        self.piece.length() > SCHEDULING_NS && self.piece.length() <= self.evidence.throttled_ns
    }

    /// Returns whether the thread has a real-time policy, and a less important thread runs, or none.
    fn is_less_important(self) -> bool {
        let (own, current) = (self.own(), self.current_priority());
        let is_known = own.zip(current).is_some_and(|(own, current)| own < ORDINARY && current > own);
        is_known && self.is_waiting_to_run()
    }

    /// Returns whether the thread ran already when the sampled one became ready.
    fn ran_before(self) -> bool {
        self.piece.current.is_some_and(|current| current.since < self.span.since)
    }

    fn scheduling_limit(self) -> u64 {
        self.evidence.scheduling_ns.saturating_mul(SCHEDULING_FACTOR).clamp(SCHEDULING_NS, MOST_SCHEDULING_NS)
    }

    /// Returns whether the scheduler did not choose the sampled thread although it is more important than the current one.
    fn is_passed_over(self) -> bool {
        // Until the interrupt by which another CPU wakes the thread has arrived, the scheduler does not know of it.
        // A priority that changed since the last switch is not known, so only a switch proves a choice.
        self.is_less_important()
            && self.span.chosen > self.own()
            && !self.is_woken_elsewhere()
            && !(self.is_idle() && self.span.is_emptied)
    }

    fn is_woken_elsewhere(self) -> bool {
        matches!(self.span.waker, Some(Waker::Elsewhere { .. }))
    }

    fn is_woken_here(self) -> bool {
        self.span.waker.is_some() && !self.is_woken_elsewhere()
    }

    fn keeps_running(self) -> bool {
        self.is_less_important()
            && self.ran_before()
            && !self.is_idle()
            && self.is_woken_here()
            && self.piece.length() > if self.is_held() { self.scheduling_limit() } else { self.no_switch() }
    }

    /// Returns whether the CPU was not switched at the end of a further interrupt.
    fn is_held(self) -> bool {
        self.span.held_ns > self.scheduling_limit()
    }

    /// Returns the time that a switch cannot take, in nanoseconds.
    fn no_switch(self) -> u64 {
        let limit = self.evidence.scheduling_ns.saturating_mul(NO_SWITCH_FACTOR);
        limit.clamp(2 * SCHEDULING_NS, MOST_SCHEDULING_NS)
    }

    /// Returns whether an event before this piece showed that the running thread was to be preempted.
    fn must_be_preempted(self) -> bool {
        self.span.pending_since.is_some_and(|time| time <= self.piece.from) && self.ran_before() && !self.is_idle()
    }

    /// Returns whether the scheduler may have switched to the sampled thread in this time without an event.
    pub(super) fn is_switched_unseen(self) -> bool {
        let may_run = self.span.doing == Doing::Ready || self.waits_for_timer();
        may_run && !self.piece.is_lost && self.piece.length() <= RETURN_NS
    }

    /// Returns the page that the running thread lacks.
    pub(super) fn page(self) -> Option<u64> {
        self.piece.after.and_then(|event| match event.what {
            What::Faults(address) => Some(address),
            _ => None,
        })
    }

    /// Returns what paused the sampled thread, if only one of the two is possible.
    pub(super) fn pause(self) -> Option<&'static str> {
        match (self.may_be_throttled(), self.may_be_served()) {
            (true, false) => Some("real-time throttling"),
            (false, true) => Some("the fair server"),
            _ => None,
        }
    }

    const fn may_be_throttled(self) -> bool {
        self.evidence.pauses.throttling
    }

    /// Returns whether the fair server may have paused the thread. It runs ordinary threads, and does not leave the CPU
    /// idle.
    fn may_be_served(self) -> bool {
        self.evidence.pauses.fair_server && self.span.chosen != Some(IDLE_PRIORITY)
    }

    fn is_switching(self) -> bool {
        let limit = if self.is_idle() { RETURN_NS } else { self.scheduling_limit() };
        let is_less_important = self.is_less_important() || self.current_priority() == Some(IDLE_PRIORITY);
        is_less_important && self.piece.length() <= limit
    }
}
