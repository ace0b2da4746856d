//! What a CPU and the sampled thread did during a latency, from the events of the CPU. Judges nothing: the rules do.

use super::{
    events::{Decoder, Event, ThreadFacts, What, flags, is_timer_name},
    part::LateSample,
};

/// The maximum depth of nested interrupts.
const DEPTH: usize = 16;
/// The longest time from a page fault until the thread waits for the page.
const FAULT_NS: u64 = 200_000;
/// The states in which a thread waits; see TASK_REPORT in the kernel's include/linux/sched.h.
const INTERRUPTIBLE: u8 = 0x01;
pub(super) const UNINTERRUPTIBLE: u8 = 0x02;
const STOPPED: u8 = 0x04;
const TRACED: u8 = 0x08;
/// The kernel's priority of the idle task, as far as the rules are concerned: below all others.
pub(super) const IDLE_PRIORITY: i32 = i32::MAX;
/// The kernel's priority of its stopper threads, and of SCHED_FIFO 99.
const HIGHEST_PRIORITY: i32 = 0;
/// The softirqs of timers; see the kernel's include/linux/interrupt.h.
const TIMER_VECTORS: [u32; 2] = [1, 8];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Running {
    pub(super) pid: i32,
    pub(super) facts: Option<ThreadFacts>,
    pub(super) run: u32,
    /// The time of the switch to it.
    pub(super) since: u64,
    /// The thread whose priority it inherited while it ran.
    pub(super) inherits_from: Option<i32>,
}

impl Running {
    /// Returns its kernel priority, if that is known.
    pub(super) fn priority(&self) -> Option<i32> {
        if self.pid == 0 { Some(IDLE_PRIORITY) } else { self.facts.map(|facts| facts.priority) }
    }
}

/// A handler that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Hard(i32),
    Vector(u16),
    Soft(u32),
    Timer,
    /// An interrupt that cannot be disabled.
    Nmi,
}

/// The activity of the sampled thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// The events do not tell.
    Unknown,
    Runs,
    /// It could run.
    Ready,
    /// It waits in a state that a signal can end, as for a timer.
    Sleeps,
    /// It waits in a state that a signal cannot end, as for a disk or for a lock of the kernel.
    Blocks,
    /// A signal stopped it.
    Stopped,
    /// A tracer stopped it.
    Traced,
}

/// The origin of a wake-up of the sampled thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waker {
    /// An interrupt of the CPU's timer.
    Timer,
    /// A softirq of timers, with the thread in which it ran.
    TimerSoftirq(i32),
    /// Another interrupt or softirq; `None` if its beginning was not recorded.
    Handler(Option<Section>),
    /// A thread.
    Thread(i32),
    /// Something on another CPU: a thread, or an interrupt while this thread ran.
    Elsewhere { pid: i32, is_interrupt: bool },
}

/// A period during which the sampled thread did one thing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) doing: Doing,
    pub(super) since: u64,
    /// The address of the page that was not mapped when the thread accessed it last before it waited.
    pub(super) fault: Option<u64>,
    /// The origin of the wake-up that ended the wait, or began the readiness.
    pub(super) waker: Option<Waker>,
    /// The kernel priority of the thread.
    pub(super) priority: Option<i32>,
    /// Whether the thread ran on this CPU at the end of its readiness.
    pub(super) is_closed: bool,
    /// The least important thread that the scheduler chose while the thread was ready.
    pub(super) chosen: Option<i32>,
    /// The longest time for which the thread that ran already when this one became ready kept running after a further
    /// interrupt at whose end it was to be preempted, in nanoseconds.
    pub(super) held_ns: u64,
    /// The time of the first event that showed that the thread that ran already when this one became ready was to be
    /// preempted.
    pub(super) pending_since: Option<u64>,
    /// Whether the CPU became idle behind the stopper thread, or another one of the highest priority. Before it takes a
    /// CPU offline, the kernel moves all threads away like that.
    pub(super) is_emptied: bool,
    /// The stack with which the thread was switched away from.
    pub(super) stack: Option<u32>,
}

/// A contiguous part of the latency, between two events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) section: Option<Section>,
    /// The address of the function that the handler has called.
    pub(super) function: Option<u64>,
    pub(super) current: Option<Running>,
    /// A stack of the thread that runs: of the interrupt that ends the piece, or of one before.
    pub(super) stack: Option<u32>,
    pub(super) idle: Option<u32>,
    /// The time at which the CPU entered this idle state, before the piece.
    pub(super) idle_since: Option<u64>,
    /// The index of what the sampled thread does.
    pub(super) span: usize,
    /// Whether the sampled thread has run since before its deadline.
    pub(super) is_late: bool,
    /// Whether the events do not tell what ran.
    pub(super) is_lost: bool,
    /// Whether no event was lost since the last switch before it.
    pub(super) is_complete: bool,
    /// Whether the CPU switched to the sampled thread from the idle task in this time, without an event.
    pub(super) is_unseen_switch: bool,
    /// Whether the thread that passes interrupts on to the sampled thread is ready or runs.
    pub(super) helper: Option<Running>,
    /// Whether an interrupt was served after the deadline, while the thread has waited.
    pub(super) is_served: bool,
    /// The event before it.
    pub(super) after: Option<Event>,
    /// The time until the wait ends during which no handler runs.
    pub(super) idle_until_woken: u64,
}

impl Piece {
    pub(super) const fn length(&self) -> u64 {
        self.to - self.from
    }
}

/// The pieces of a latency, and the periods of the sampled thread.
#[derive(Debug)]
pub(super) struct Track {
    pub(super) pieces: Vec<Piece>,
    pub(super) spans: Vec<Span>,
}

struct State<'a> {
    decoder: &'a Decoder,
    thread: i32,
    current: Option<Running>,
    sections: Vec<Section>,
    /// The functions that the handlers have called, each with the number of handlers that had begun.
    functions: Vec<(usize, u64)>,
    /// The idle state, or the last one until the next switch, and the time at which the CPU entered it.
    idle: Option<u32>,
    idle_since: Option<u64>,
    runs: u32,
    is_late: bool,
    /// Whether an interrupt was served after the deadline, while the thread has waited.
    is_served: bool,
    deadline: u64,
    lost: bool,
    /// The time and the address of the last page fault of the sampled thread since it began to run.
    fault: Option<(u64, u64)>,
    /// A thread that passes interrupts on to the sampled thread, and whether it is ready or runs.
    helper: Option<(Running, bool)>,
    /// The section in which the sampled thread was woken.
    waking: Option<usize>,
    /// The threads that inherit a priority, each with the thread that waits for it.
    inheriting: Vec<(i32, i32)>,
    spans: Vec<Span>,
    after: Option<Event>,
    /// The last stack of the thread that runs, with its time.
    stack: Option<(u64, u32)>,
    /// Whether a further interrupt was served since the sampled thread is ready, and the end of the last one at which the
    /// running thread was to be preempted.
    serves: bool,
    served_at: Option<u64>,
}

impl<'a> State<'a> {
    fn new(sample: LateSample, decoder: &'a Decoder, helper: Option<Running>) -> Self {
        let unknown = Span {
            doing: Doing::Unknown,
            since: 0,
            fault: None,
            waker: None,
            priority: None,
            is_closed: false,
            chosen: None,
            held_ns: 0,
            pending_since: None,
            is_emptied: false,
            stack: None,
        };
        Self {
            decoder,
            thread: sample.thread,
            current: None,
            sections: Vec::with_capacity(DEPTH),
            functions: Vec::new(),
            idle: None,
            idle_since: None,
            runs: 0,
            is_late: false,
            is_served: false,
            deadline: sample.deadline_ns,
            lost: false,
            fault: None,
            helper: helper.map(|helper| (helper, false)),
            waking: None,
            inheriting: Vec::new(),
            spans: vec![unknown],
            after: None,
            stack: None,
            serves: false,
            served_at: None,
        }
    }

    fn span(&mut self) -> &mut Span {
        self.spans.last_mut().expect("there is always a span")
    }

    fn begin_span(&mut self, doing: Doing, since: u64) {
        let last = *self.span();
        let waker = last.waker.filter(|_| doing == Doing::Ready);
        (self.is_served, self.serves, self.served_at) = (false, false, None);
        let fault = self.fault.filter(|&(time, _)| since - time <= FAULT_NS).map(|(_, address)| address);
        self.spans.push(Span {
            doing,
            since,
            fault,
            waker,
            priority: last.priority,
            is_closed: false,
            chosen: None,
            held_ns: 0,
            pending_since: None,
            is_emptied: false,
            stack: None,
        });
    }

    /// Notes that the thread that ran already when the sampled one became ready is to be preempted, or that the scheduler
    /// chose it again: only the scheduler withdraws the request.
    fn notice_pending(&mut self, event: &Event) {
        let is_running = |current: &Running| current.pid != 0 && current.pid == event.running;
        let Some(current) = self.current.filter(is_running) else { return };
        let span = self.span();
        // At a switch, the scheduler has withdrawn the request already. The beginning of an NMI has the flags of its end.
        let is_switch = matches!(event.what, What::Switch { .. } | What::NmiBegins(_));
        if is_switch || span.doing != Doing::Ready || current.since >= span.since {
            return;
        }
        if event.flags & flags::RESCHEDULE != 0 {
            span.pending_since.get_or_insert(event.time);
        } else if span.pending_since.take().is_some() {
            span.chosen = span.chosen.max(current.priority());
        }
    }

    fn apply(&mut self, event: &Event) {
        self.notice_pending(event);
        if let Some(at) = self.served_at.take() {
            let span = self.span();
            span.held_ns = span.held_ns.max(event.time - at);
        }
        match event.what {
            What::Switch { previous, state, next, facts } => {
                self.switched(event.time, (previous, state), (next, facts));
            }
            What::Woken { thread, priority } => self.woken(event, thread, priority),
            What::WokenElsewhere { priority, .. } => {
                let is_interrupt = event.flags & (flags::HARD_INTERRUPT | flags::SOFT_INTERRUPT) != 0;
                self.wakes(event.time, priority, Waker::Elsewhere { pid: event.running, is_interrupt });
            }
            What::Inherits { priority, .. } => self.inherits(priority),
            What::Faults(address) if event.running == self.thread => self.fault = Some((event.time, address)),
            What::Faults(_) => {}
            What::HardBegins(irq) => self.handler_begins(event, Section::Hard(irq)),
            What::VectorBegins(vector) => self.handler_begins(event, Section::Vector(vector)),
            What::SoftBegins(vector) => self.begin_section(Section::Soft(vector)),
            What::TimerBegins => {
                // The interrupt of the timer has a name of its own.
                if !self.sections.iter().any(|section| matches!(section, Section::Hard(_) | Section::Vector(_))) {
                    self.handler_begins(event, Section::Timer);
                }
            }
            What::HardEnds(irq) => self.end_section(Section::Hard(irq)),
            What::VectorEnds(vector) => self.end_section(Section::Vector(vector)),
            What::SoftEnds(vector) => self.end_section(Section::Soft(vector)),
            What::TimerEnds => self.end_section(Section::Timer),
            // It is served also while interrupts are disabled.
            What::NmiBegins(function) => {
                self.begin_section(Section::Nmi);
                self.calls(function);
            }
            What::NmiEnds { .. } => self.end_section(Section::Nmi),
            What::Calls(function) => self.calls(function),
            What::Returns => drop(self.functions.pop()),
            What::Idle(state) => self.idles(event.time, state),
            What::Stack(_) => {}
            What::Lost => {
                (self.current, self.stack) = (None, None);
                self.sections.clear();
                self.functions.clear();
                (self.lost, self.fault, self.waking) = (true, None, None);
                self.helper.iter_mut().for_each(|(_, is_ready)| *is_ready = false);
                self.begin_span(Doing::Unknown, event.time);
            }
        }
        let ends = matches!(event.what, What::HardEnds(_) | What::VectorEnds(_) | What::SoftEnds(_) | What::TimerEnds);
        if self.serves && ends && self.sections.is_empty() && event.flags & flags::RESCHEDULE != 0 {
            self.served_at = Some(event.time);
        }
        self.after = Some(*event);
    }

    fn calls(&mut self, function: u64) {
        if self.functions.len() < DEPTH {
            self.functions.push((self.sections.len(), function));
        }
    }

    fn switched(&mut self, time: u64, (previous, state): (i32, u8), (next, facts): (i32, ThreadFacts)) {
        if let Some((helper, is_ready)) = &mut self.helper {
            *is_ready = next == helper.pid || *is_ready && !(previous == helper.pid && state != 0);
        }
        if previous == self.thread {
            let doing = match state {
                0 => Doing::Ready,
                _ if state & STOPPED != 0 => Doing::Stopped,
                _ if state & TRACED != 0 => Doing::Traced,
                _ if state & UNINTERRUPTIBLE != 0 => Doing::Blocks,
                _ if state & INTERRUPTIBLE != 0 => Doing::Sleeps,
                _ => Doing::Unknown,
            };
            self.begin_span(doing, time);
            (self.fault, self.waking) = (None, None);
        }
        self.switch(time, next, Some(facts));
        // A softirq of PREEMPT_RT may be preempted; it then counts as its thread.
        self.sections.clear();
        self.functions.clear();
        (self.lost, self.idle, self.idle_since, self.waking) = (false, None, None, None);
    }

    /// Notes that another thread runs from now on.
    fn switch(&mut self, time: u64, next: i32, facts: Option<ThreadFacts>) {
        self.runs = self.runs.saturating_add(1);
        let running =
            Running { pid: next, facts, run: self.runs, since: time, inherits_from: self.inherits_from(next) };
        let other = self.current.filter(|current| current.pid != self.thread);
        let before = other.map_or(self.current.is_none().then_some(HIGHEST_PRIORITY), |other| other.priority());
        self.current = Some(running);
        self.stack = None;
        let is_thread = next == self.thread;
        let span = self.span();
        if is_thread {
            span.priority = facts.map(|facts| facts.priority).or(span.priority);
            span.is_closed = true;
            self.begin_span(Doing::Runs, time);
        } else if span.doing == Doing::Ready {
            span.chosen = span.chosen.max(running.priority());
            span.is_emptied |= next == 0 && before == Some(HIGHEST_PRIORITY);
        } else if span.doing == Doing::Runs {
            // No event tells how the thread stopped.
            self.begin_span(Doing::Unknown, time);
        }
    }

    /// Notes which threads inherit a priority. Returns whether the event concerns what the CPU does.
    fn concerns(&mut self, event: &Event) -> bool {
        let What::Inherits { thread, is_raised, .. } = event.what else { return true };
        self.inheriting.retain(|&(inherits, _)| inherits != thread);
        if is_raised {
            self.inheriting.push((thread, event.running));
        }
        self.current.is_some_and(|current| current.pid == thread)
    }

    /// Returns the thread whose priority a thread inherits.
    fn inherits_from(&self, thread: i32) -> Option<i32> {
        self.inheriting.iter().find(|&&(inherits, _)| inherits == thread).map(|&(_, waits)| waits)
    }

    /// Notes that the running thread has another priority from now on.
    fn inherits(&mut self, priority: i32) {
        let from = self.current.and_then(|current| self.inherits_from(current.pid));
        let Some(current) = &mut self.current else { return };
        if let Some(facts) = &mut current.facts {
            facts.priority = priority;
        }
        current.inherits_from = from;
    }

    fn idles(&mut self, time: u64, state: Option<u32>) {
        self.idle = state.or(self.idle);
        self.idle_since = state.map(|_| time).or(self.idle_since);
        // The idle task looks for a thread before each idle state.
        let span = self.span();
        if state.is_some() && span.doing == Doing::Ready {
            span.chosen = span.chosen.max(Some(IDLE_PRIORITY));
        }
    }

    fn woken(&mut self, event: &Event, thread: i32, priority: i32) {
        if let Some((helper, is_ready)) = &mut self.helper {
            *is_ready |= helper.pid == thread;
        }
        if thread != self.thread {
            return;
        }
        let waker = match self.sections.last().copied() {
            Some(Section::Soft(vector)) if TIMER_VECTORS.contains(&vector) => Waker::TimerSoftirq(event.running),
            Some(section) if self.is_timer(section) => Waker::Timer,
            Some(section) => Waker::Handler(Some(section)),
            None if event.flags & (flags::HARD_INTERRUPT | flags::SOFT_INTERRUPT) != 0 => Waker::Handler(None),
            None => Waker::Thread(event.running),
        };
        self.waking = self.sections.len().checked_sub(1);
        self.wakes(event.time, priority, waker);
    }

    fn wakes(&mut self, time: u64, priority: i32, waker: Waker) {
        let span = self.span();
        if matches!(span.doing, Doing::Ready | Doing::Runs) {
            return;
        }
        (span.waker, span.priority) = (Some(waker), Some(priority));
        self.begin_span(Doing::Ready, time);
    }

    fn is_timer(&self, section: Section) -> bool {
        match section {
            Section::Timer => true,
            Section::Soft(_) | Section::Nmi => false,
            Section::Hard(irq) => self.decoder.handler_name(irq).is_some_and(|name| is_timer_name(&name)),
            Section::Vector(vector) => self.decoder.vector_name(vector).is_some_and(|name| is_timer_name(&name)),
        }
    }

    fn handler_begins(&mut self, event: &Event, section: Section) {
        let is_outermost = self.waking.is_none_or(|depth| self.sections.len() <= depth);
        let is_first = !self.sections.iter().any(|other| !matches!(other, Section::Soft(_)));
        let since = self.current.filter(|current| current.pid != 0).map_or(u64::MAX, |current| current.since);
        let span = self.span();
        let ran_before = since < span.since && span.since < event.time;
        if span.doing == Doing::Ready && is_outermost && is_first && ran_before {
            self.serves = true;
        }
        self.is_served |= event.time > self.deadline;
        self.begin_section(section);
    }

    fn begin_section(&mut self, section: Section) {
        if self.sections.len() < DEPTH {
            self.sections.push(section);
        }
    }

    fn end_section(&mut self, section: Section) {
        if let Some(at) = self.sections.iter().rposition(|&other| other == section) {
            self.sections.truncate(at);
            self.functions.retain(|&(depth, _)| depth <= at);
            self.waking = self.waking.filter(|&depth| depth < at);
        }
    }

    fn piece(&self, from: u64, to: u64) -> Piece {
        Piece {
            from,
            to,
            section: self.sections.last().copied(),
            function: self.functions.last().filter(|&&(depth, _)| depth == self.sections.len()).map(|&(_, of)| of),
            current: self.current,
            stack: self.stack.map(|(_, stack)| stack),
            idle: self.idle,
            idle_since: self.idle_since,
            span: self.spans.len() - 1,
            is_late: self.is_late,
            is_lost: self.current.is_none(),
            is_complete: !self.lost && self.current.is_some(),
            is_unseen_switch: false,
            helper: self.helper.filter(|&(_, is_ready)| is_ready).map(|(helper, _)| helper),
            is_served: self.is_served,
            after: self.after,
            idle_until_woken: 0,
        }
    }

    /// Notes the stack at the last event. A stack at an interrupt is that of the thread that runs, from the last one on.
    fn adds_stack(&mut self, event: &Event, stack: u32, pieces: &mut [Piece]) {
        match self.after.map(|after| after.what) {
            Some(What::Switch { previous, .. }) if previous == event.running => {
                let is_thread = previous == self.thread;
                self.span().stack = Some(stack).filter(|_| is_thread);
            }
            Some(What::HardBegins(_) | What::VectorBegins(_) | What::TimerBegins) => {
                let run = |current: Option<Running>| current.map(|current| current.run);
                let last = self.stack.replace((event.time, stack)).map_or(0, |(time, _)| time);
                let is_since = |piece: &&mut Piece| piece.from >= last && run(piece.current) == run(self.current);
                pieces.iter_mut().rev().take_while(is_since).for_each(|piece| piece.stack = Some(stack));
            }
            _ => {}
        }
    }

    /// Makes the events agree with the thread that ran when one of them occurred. Some kernels record no switch from the
    /// idle task. Returns whether a switch to the sampled thread from the idle task was not recorded.
    fn learn_running(&mut self, event: &Event, time: u64) -> bool {
        let was_idle = self.current.is_some_and(|current| current.pid == 0);
        let is_known = self.current.is_some_and(|current| current.pid == event.running);
        if is_known || matches!(event.what, What::Lost | What::WokenElsewhere { .. } | What::Inherits { .. }) {
            return false;
        }
        self.switch(time, event.running, self.decoder.thread(event.running));
        was_idle && event.running == self.thread
    }
}

/// Follows the events of the CPU on which the sampled thread ran, up to the end of the latency. `next` is the first event
/// after that.
pub(super) fn follow<'a>(
    sample: LateSample,
    events: impl Iterator<Item = &'a Event>,
    next: Option<&Event>,
    (decoder, helper): (&Decoder, Option<Running>),
) -> Track {
    let (begin, end) = (sample.deadline_ns, sample.end_ns());
    let mut state = State::new(sample, decoder, helper);
    let (mut now, mut pieces) = (begin, Vec::new());
    for event in events {
        if let What::Stack(stack) = event.what {
            state.adds_stack(event, stack, &mut pieces);
            continue;
        }
        if !state.concerns(event) {
            continue;
        }
        let time = event.time.clamp(begin, end);
        let before = state.piece(now, time);
        let is_unseen_switch = state.learn_running(event, event.time.max(now));
        if time > now {
            let is_lost = event.what == What::Lost || before.is_lost;
            let is_complete = event.what != What::Lost && before.is_complete;
            pieces.push(Piece { is_lost, is_complete, is_unseen_switch, ..before });
            now = time;
        }
        state.apply(event);
        if event.time <= begin {
            state.is_late = state.current.is_some_and(|current| current.pid == state.thread);
        }
    }
    if end > now {
        pieces.push(state.piece(now, end));
    }
    // At the end the thread runs, though not every kernel records the switch to it.
    let runs_here = next.is_none_or(|event| event.what == What::Lost || event.running == sample.thread);
    if state.span().doing == Doing::Ready && runs_here {
        state.span().is_closed = true;
    }
    let mut track = Track { pieces, spans: state.spans };
    track.look_ahead();
    track
}

impl Track {
    /// Adds up the time without handlers from the end of each piece until the wait in which it lies ends.
    fn look_ahead(&mut self) {
        let (mut span, mut rest) = (usize::MAX, 0);
        for piece in self.pieces.iter_mut().rev() {
            if piece.span != span {
                (span, rest) = (piece.span, 0);
            }
            piece.idle_until_woken = rest;
            if piece.section.is_none() {
                rest += piece.length();
            }
        }
    }
}
