//! Divides the latency of one sample into parts, from the events of its CPU. Pure: reads no trace and no clock.

use super::{
    events::{Decoder, Event, ThreadFacts, What, printable, softirq_name},
    part::{Explained, LateSample, Part, PartKind, Segment},
    threads::Threads,
};

/// The longest piece without events during which the sampled thread is assumed to run.
const RETURN_NS: u64 = 50_000;
/// The longest piece after a wake-up that is attributed to the scheduler if a less important thread was interrupted.
const SCHEDULING_NS: u64 = 5_000;
/// The shortest piece that can be attributed to the hypervisor.
const HOST_NS: u64 = 50_000;
/// The number of runs of other threads that have a part each. Further runs are added up for each thread.
const RUNS: u32 = 32;
/// The maximum number of parts, and of pieces on the timeline.
const PARTS: usize = 64;
const SEGMENTS: usize = 400;
/// The maximum depth of nested interrupts.
const DEPTH: usize = 16;

/// A thread that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Running {
    pid: i32,
    facts: Option<ThreadFacts>,
    run: u32,
}

/// A handler that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Hard(i32),
    Vector(u16),
    Soft(u32),
    Timer,
}

/// The subject of a part: parts with the same subject are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    None,
    Section(Section),
    Thread { pid: i32, facts: Option<ThreadFacts>, run: Option<u32> },
    Idle(Option<u32>),
}

/// The state of a CPU at one time.
#[derive(Clone, Debug)]
struct State {
    current: Option<Running>,
    sections: Vec<Section>,
    /// The idle state, or the last one until the next switch.
    idle: Option<u32>,
    /// Whether the sampled thread is ready to run.
    is_ready: bool,
    runs: u32,
    /// Whether the sampled thread has run since before its deadline.
    is_late: bool,
    /// Whether events were lost since the last switch.
    lost: bool,
}

impl State {
    fn apply(&mut self, what: What, thread: i32) {
        match what {
            What::Switch { previous, stays_ready, next, facts } => {
                self.switch(next, Some(facts));
                if previous == thread {
                    self.is_ready = stays_ready;
                }
                // A softirq of PREEMPT_RT may be preempted; it then counts as its thread.
                self.sections.clear();
                self.lost = false;
                self.idle = None;
            }
            What::Woken(pid) if pid == thread => self.is_ready = true,
            What::Woken(_) => {}
            What::HardBegins(irq) => self.begin(Section::Hard(irq)),
            What::VectorBegins(vector) => self.begin(Section::Vector(vector)),
            What::SoftBegins(vector) => self.begin(Section::Soft(vector)),
            What::TimerBegins => {
                // The interrupt of the timer has a name of its own.
                if !self.sections.iter().any(|section| matches!(section, Section::Hard(_) | Section::Vector(_))) {
                    self.begin(Section::Timer);
                }
            }
            What::HardEnds(irq) => self.end(Section::Hard(irq)),
            What::VectorEnds(vector) => self.end(Section::Vector(vector)),
            What::SoftEnds(vector) => self.end(Section::Soft(vector)),
            What::TimerEnds => self.end(Section::Timer),
            What::Idle(state) => self.idle = state.or(self.idle),
            What::Lost => {
                self.current = None;
                self.sections.clear();
                self.lost = true;
            }
        }
    }

    fn switch(&mut self, next: i32, facts: Option<ThreadFacts>) {
        self.runs = self.runs.saturating_add(1);
        self.current = Some(Running { pid: next, facts, run: self.runs });
    }

    fn begin(&mut self, section: Section) {
        if self.sections.len() < DEPTH {
            self.sections.push(section);
        }
    }

    fn end(&mut self, section: Section) {
        if let Some(at) = self.sections.iter().rposition(|&other| other == section) {
            self.sections.truncate(at);
        }
    }
}

/// The facts about a sample that are not in its events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    /// Whether the steal time of the CPU rose around the sample.
    pub(super) steal_rose: bool,
    /// The shortest delay of a timer interrupt that is attributed to disabled interrupts, in nanoseconds. Slow timer
    /// hardware and virtual machines cause shorter delays.
    pub(super) interrupts_off_ns: u64,
    /// Whether the thread blocks until its deadline. A polling thread runs all the time, so its own work is no cause.
    pub(super) is_blocking: bool,
    /// Whether this is a virtual machine that has never counted steal time, so that a pause by the host looks like disabled
    /// interrupts.
    pub(super) host_unknown: bool,
    /// Whether a timer of the CPU wakes the thread. The interrupt of a device may arrive late for other reasons.
    pub(super) waits_for_timer: bool,
}

/// Divides a sample. `events` are those of the CPU on which the thread ran, up to the end of the latency.
pub(super) fn divide<'a>(
    sample: LateSample,
    events: impl Iterator<Item = &'a Event> + Clone,
    evidence: Evidence,
    (decoder, threads): (&Decoder, &mut Threads),
) -> Explained {
    let thread = sample.thread;
    let (begin, end) = (sample.deadline_ns, sample.end_ns());
    let own_priority = decoder.thread(thread).map(|facts| facts.priority);
    // Without the wake-up of the thread, another thread that runs cannot be told from disabled interrupts.
    let is_woken = events.clone().any(|event| matches!(event.what, What::Woken(pid) if pid == thread));
    let mut state = State {
        current: None,
        sections: Vec::with_capacity(DEPTH),
        idle: None,
        is_ready: false,
        runs: 0,
        is_late: false,
        lost: false,
    };
    let mut pieces = Pieces { begin, parts: Vec::new(), segments: Vec::new() };
    let (mut now, mut is_complete) = (begin, true);
    let mut last = None;
    let classify = |state: &State, length: u64| {
        let is_host = evidence.steal_rose && length >= HOST_NS;
        if let Some(&section) = state.sections.last() {
            let kind =
                if matches!(section, Section::Soft(_)) { PartKind::SoftInterrupt } else { PartKind::HardInterrupt };
            return (kind, Subject::Section(section));
        }
        let Some(running) = state.current else { return (PartKind::Unexplained, Subject::None) };
        let Running { pid, facts, run } = running;
        let subject = Subject::Thread { pid, facts, run: (run <= RUNS).then_some(run) };
        match (pid, state.is_ready) {
            (pid, _) if pid == thread => match length {
                _ if is_host => (PartKind::Host, Subject::None),
                ..=RETURN_NS => (PartKind::Return, Subject::None),
                _ if evidence.is_blocking && state.is_late => (PartKind::OwnWork, Subject::None),
                _ => (PartKind::Unexplained, Subject::None),
            },
            (0, true) => (PartKind::Scheduling, Subject::None),
            (0, false) if is_host => (PartKind::Host, Subject::None),
            (0, false) => (PartKind::IdleExit, Subject::Idle(state.idle)),
            (_, true) => {
                let priorities = facts.zip(own_priority);
                let is_less_important = priorities.is_some_and(|(facts, own)| facts.priority > own);
                let is_short = is_less_important && length < SCHEDULING_NS;
                if is_short { (PartKind::Scheduling, Subject::None) } else { (PartKind::Thread, subject) }
            }
            (_, false) if is_host => (PartKind::Host, Subject::None),
            (_, false) if !is_woken => (PartKind::Unexplained, Subject::None),
            (_, false) if !evidence.waits_for_timer => {
                let serves_interrupt = facts.is_some_and(|facts| facts.name.starts_with(b"irq/"));
                if serves_interrupt { (PartKind::Thread, subject) } else { (PartKind::Unexplained, Subject::None) }
            }
            (_, false) if length < evidence.interrupts_off_ns => (PartKind::TimerDelivery, Subject::None),
            (_, false) if evidence.host_unknown => (PartKind::InterruptsOffOrHost, subject),
            (_, false) => (PartKind::InterruptsOff, subject),
        }
    };
    for event in events {
        let time = event.time.clamp(begin, end);
        // Some kernels record no switch from the idle task. The thread then ran since the event before, or the scheduler
        // switched to it in that time.
        let is_unseen = event.what != What::Lost && state.current.is_some_and(|current| current.pid != event.running);
        let was_idle = state.current.is_some_and(|current| current.pid == 0);
        if event.what != What::Lost && (is_unseen || state.current.is_none()) {
            let is_known = state.current.is_some();
            state.switch(event.running, decoder.thread(event.running));
            if !is_known && time > now {
                // What ran before the first event, or after lost events, is not known.
                pieces.add(now, time, PartKind::Unexplained, Subject::None);
                is_complete &= !state.lost;
                now = time;
            }
        }
        if time > now {
            if event.what == What::Lost {
                // What happened since the event before is not known.
                is_complete = false;
                pieces.add(now, time, PartKind::Unexplained, Subject::None);
            } else {
                let is_own = is_unseen && was_idle && event.running == thread;
                let (kind, subject) = match classify(&state, time - now) {
                    (PartKind::Return | PartKind::Unexplained, _) if is_own => (PartKind::Scheduling, Subject::None),
                    other => other,
                };
                is_complete &= !state.lost;
                pieces.add(now, time, kind, subject);
            }
            now = time;
        } else if event.what == What::Lost && event.time > begin {
            is_complete = false;
        }
        state.apply(event.what, thread);
        if event.time <= begin {
            state.is_late = state.current.is_some_and(|current| current.pid == thread);
        }
        last = Some(event.time);
    }
    if end > now {
        let is_own = state.current.is_some_and(|current| current.pid == thread || current.pid == 0);
        let (kind, subject) = match last.map(|_| classify(&state, end - now)) {
            None => (PartKind::Unexplained, Subject::None),
            // At the end, the sampled thread runs, so the switch to it was not recorded.
            Some((
                PartKind::Thread | PartKind::InterruptsOff | PartKind::InterruptsOffOrHost | PartKind::TimerDelivery,
                _,
            )) if !is_own => {
                let kind = if end - now <= RETURN_NS { PartKind::Scheduling } else { PartKind::Unexplained };
                (kind, Subject::None)
            }
            Some(other) => other,
        };
        is_complete &= !state.lost;
        pieces.add(now, end, kind, subject);
    }
    pieces.explained(sample, is_complete, (decoder, threads))
}

/// The pieces of a latency so far.
struct Pieces {
    begin: u64,
    parts: Vec<(PartKind, Subject, Part)>,
    segments: Vec<Segment>,
}

impl Pieces {
    fn add(&mut self, from: u64, to: u64, kind: PartKind, subject: Subject) {
        let (at_ns, duration_ns) = (from - self.begin, to - from);
        let known = self.parts.iter().position(|(other, of, _)| (*other, of) == (kind, &subject));
        let (index, is_new) = match known {
            Some(index) => (index, false),
            None if self.parts.len() < PARTS => {
                self.parts.push((kind, subject, part(kind, at_ns)));
                (self.parts.len() - 1, true)
            }
            None => (self.remainder(kind, at_ns), false),
        };
        let follows =
            self.segments.last().is_some_and(|last| last.part == index && last.at_ns + last.duration_ns == at_ns);
        let part = &mut self.parts[index].2;
        part.duration_ns += duration_ns;
        // An interrupted run or handler continues, so it is not a new one, except for interrupts with the same number.
        let counts_each = matches!(kind, PartKind::HardInterrupt | PartKind::SoftInterrupt);
        if is_new || counts_each && !follows {
            part.count += 1;
        }
        if let Some(last) = self.segments.last_mut().filter(|_| follows) {
            last.duration_ns += duration_ns;
        } else if self.segments.len() < SEGMENTS {
            self.segments.push(Segment { at_ns, duration_ns, part: index });
        }
    }

    /// Returns the index of the part that receives all pieces of a kind when there are too many parts.
    fn remainder(&mut self, kind: PartKind, at_ns: u64) -> usize {
        let known = self.parts.iter().position(|(other, of, _)| *other == kind && *of == Subject::None);
        known.unwrap_or_else(|| {
            self.parts.push((kind, Subject::None, part(kind, at_ns)));
            self.parts.len() - 1
        })
    }

    fn explained(
        self,
        sample: LateSample,
        is_complete: bool,
        (decoder, threads): (&Decoder, &mut Threads),
    ) -> Explained {
        let mut order: Vec<usize> = (0..self.parts.len()).collect();
        order.sort_by_key(|&index| std::cmp::Reverse(self.parts[index].2.duration_ns));
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(new, &old)| place[old] = new);
        let parts = order.iter().map(|&index| {
            let (_, subject, part) = &self.parts[index];
            named(part.clone(), *subject, (decoder, &mut *threads))
        });
        let parts = parts.collect();
        let timeline =
            self.segments.into_iter().map(|segment| Segment { part: place[segment.part], ..segment }).collect();
        Explained { sample, cpu: None, is_complete, parts, timeline }
    }
}

const fn part(kind: PartKind, at_ns: u64) -> Part {
    Part {
        kind,
        name: None,
        pid: None,
        policy: None,
        priority: None,
        is_own: false,
        irq: None,
        idle_state: None,
        count: 0,
        at_ns,
        duration_ns: 0,
    }
}

/// Adds the name of the subject to a part.
fn named(mut part: Part, subject: Subject, (decoder, threads): (&Decoder, &mut Threads)) -> Part {
    match subject {
        Subject::None => {}
        Subject::Section(Section::Hard(irq)) => {
            part.name = decoder.handler_name(irq).map(|name| name.to_string());
            part.irq = Some(irq);
        }
        Subject::Section(Section::Vector(vector)) => {
            part.name = decoder.vector_name(vector).map(|name| name.to_string());
        }
        Subject::Section(Section::Soft(vector)) => part.name = Some(softirq_name(vector)),
        Subject::Section(Section::Timer) => part.name = Some("timer".to_owned()),
        Subject::Thread { pid, facts: None, .. } => (part.pid, part.is_own) = (Some(pid), threads.is_own(pid)),
        Subject::Thread { pid, facts: Some(ThreadFacts { priority, name }), .. } => {
            let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
            let name = printable(&name[..end]);
            part.policy = threads.policy(pid, &name);
            // The kernel's priorities 0 to 98 are the real-time priorities 99 to 1.
            part.priority =
                u8::try_from(priority).ok().and_then(|priority| 99_u8.checked_sub(priority)).filter(|&rt| rt > 0);
            part.name = Some(name);
            (part.pid, part.is_own) = (Some(pid), threads.is_own(pid));
        }
        Subject::Idle(state) => part.idle_state = state,
    }
    part
}

#[cfg(test)]
mod tests {
    use super::{Evidence, divide};
    use crate::{
        sys::signals::this_thread,
        trace::{
            events::{Decoder, Event, ThreadFacts, What},
            format::Layout,
            part::{LateSample, PartKind},
            threads::Threads,
        },
    };

    const T: i32 = 80;
    const HOG: i32 = 90;
    const OTHER: i32 = 7;
    const EVIDENCE: Evidence = Evidence {
        steal_rose: false,
        interrupts_off_ns: 20_000,
        is_blocking: true,
        host_unknown: false,
        waits_for_timer: true,
    };

    fn facts(name: &str, priority: i32) -> ThreadFacts {
        let mut bytes = [0; 16];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        ThreadFacts { priority, name: bytes }
    }

    fn switch(time: u64, previous: i32, stays_ready: bool, next: i32) -> Event {
        let facts = match next {
            0 => facts("swapper/1", 120),
            T => facts("hpt", 19),
            HOG => facts("hog", 9),
            _ => facts("other", 120),
        };
        Event { time, running: previous, what: What::Switch { previous, stays_ready, next, facts } }
    }

    fn event(time: u64, running: i32, what: What) -> Event {
        Event { time, running, what }
    }

    /// Divides a latency of `latency_us` with the deadline at one millisecond. Returns the kinds, names and microseconds.
    fn parts(latency_us: u64, evidence: Evidence, events: &[Event]) -> Vec<(PartKind, Option<String>, u64)> {
        let layout = Layout { big_endian: false, commit_size: 8, data_offset: 16, page_size: 4_096 };
        let events: Vec<_> = events.iter().map(|event| Event { time: event.time * 1_000, ..*event }).collect();
        let sample = LateSample::new((T, None), 1_000_000, latency_us * 1_000);
        let explained = divide(sample, events.iter(), evidence, (&Decoder::new(layout), &mut Threads::new(false)));
        let parts = explained.parts.into_iter();
        parts.map(|part| (part.kind, part.name, part.duration_ns / 1_000)).collect()
    }

    fn named(name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    #[test]
    fn an_idle_cpu_is_left_and_the_interrupt_wakes_the_thread() {
        let events = [
            switch(900, T, false, 0),
            event(901, 0, What::Idle(Some(2))),
            event(1_030, 0, What::HardBegins(27)),
            event(1_033, 0, What::Woken(T)),
            event(1_034, 0, What::HardEnds(27)),
            event(1_035, 0, What::Idle(None)),
            switch(1_040, 0, true, T),
        ];
        let expected = [
            (PartKind::IdleExit, None, 30),
            (PartKind::Scheduling, None, 6),
            (PartKind::Return, None, 5),
            (PartKind::HardInterrupt, None, 4),
        ];
        assert_eq!(parts(45, EVIDENCE, &events), expected);
        // Without the switch from the idle task, the end is not divided further.
        let unseen = &events[..6];
        assert_eq!(parts(45, EVIDENCE, unseen)[1], (PartKind::Scheduling, None, 11));
        // If the steal time rose, the long pause is the host's.
        let stolen = Evidence { steal_rose: true, ..EVIDENCE };
        let later: Vec<_> =
            events.iter().map(|e| Event { time: if e.time > 1_000 { e.time + 100 } else { e.time }, ..*e }).collect();
        assert_eq!(parts(145, stolen, &later)[0], (PartKind::Host, None, 130));
    }

    #[test]
    fn a_late_interrupt_means_disabled_interrupts_only_beyond_the_usual_delay() {
        let events = |late: u64| {
            [
                switch(900, T, false, OTHER),
                event(1_000 + late, OTHER, What::VectorBegins(0)),
                event(1_001 + late, OTHER, What::Woken(T)),
                event(1_002 + late, OTHER, What::VectorEnds(0)),
                switch(1_004 + late, OTHER, true, T),
            ]
        };
        assert_eq!(parts(205, EVIDENCE, &events(200))[0], (PartKind::InterruptsOff, named("other"), 200));
        assert_eq!(parts(20, EVIDENCE, &events(15))[0], (PartKind::TimerDelivery, None, 15));
        // Without the wake-up, no culprit is invented.
        let unseen: Vec<_> = events(200).into_iter().filter(|event| !matches!(event.what, What::Woken(_))).collect();
        assert_eq!(parts(205, EVIDENCE, &unseen)[0], (PartKind::Unexplained, None, 202));
    }

    #[test]
    fn a_pause_is_attributed_to_the_host_only_as_far_as_the_evidence_goes() {
        let events = |late: u64| {
            [
                switch(900, T, false, OTHER),
                event(1_000 + late, OTHER, What::VectorBegins(0)),
                event(1_001 + late, OTHER, What::Woken(T)),
                event(1_002 + late, OTHER, What::VectorEnds(0)),
                switch(1_004 + late, OTHER, true, T),
            ]
        };
        let other = || named("other");
        for (steal_rose, host_unknown, late, expected) in [
            (false, false, 200, (PartKind::InterruptsOff, other())),
            (false, true, 200, (PartKind::InterruptsOffOrHost, other())),
            (true, false, 200, (PartKind::Host, None)),
            (true, true, 200, (PartKind::Host, None)),
            // A short delay is that of the timer hardware.
            (false, false, 15, (PartKind::TimerDelivery, None)),
            (false, true, 15, (PartKind::TimerDelivery, None)),
            (true, false, 15, (PartKind::TimerDelivery, None)),
            (true, true, 15, (PartKind::TimerDelivery, None)),
            // Steal time has a resolution that is too coarse for a pause of this length.
            (true, false, 40, (PartKind::InterruptsOff, other())),
            (true, true, 40, (PartKind::InterruptsOffOrHost, other())),
        ] {
            let evidence = Evidence { steal_rose, host_unknown, ..EVIDENCE };
            let found = parts(late + 5, evidence, &events(late)).remove(0);
            assert_eq!((found.0, found.1), expected, "{steal_rose} {host_unknown} {late}");
            // Nothing but the wake-up proves that the thread waited for its timer.
            let unseen: Vec<_> =
                events(late).into_iter().filter(|event| !matches!(event.what, What::Woken(_))).collect();
            let found = parts(late + 5, evidence, &unseen).remove(0).0;
            let is_host = steal_rose && late > 50;
            assert_eq!(found, if is_host { PartKind::Host } else { PartKind::Unexplained });
        }
        // A thread that was ready waited for the other thread, with or without a host.
        let hog = [switch(900, T, true, HOG), switch(1_200, HOG, false, T)];
        let unknown = Evidence { host_unknown: true, ..EVIDENCE };
        assert_eq!(parts(205, unknown, &hog)[0], (PartKind::Thread, named("hog"), 200));
        let idle = [switch(900, T, false, 0), event(1_200, 0, What::Woken(T)), switch(1_203, 0, true, T)];
        assert_eq!(parts(205, unknown, &idle)[0], (PartKind::IdleExit, None, 200));
    }

    #[test]
    fn a_late_edge_is_not_attributed_to_disabled_interrupts() {
        let edge = Evidence { waits_for_timer: false, is_blocking: false, ..EVIDENCE };
        let of = |name: &str| {
            let mut events = [
                switch(900, 0, true, T),
                switch(1_010, T, false, OTHER),
                event(1_200, OTHER, What::Woken(T)),
                switch(1_204, OTHER, true, T),
            ];
            if let What::Switch { facts: thread, .. } = &mut events[1].what {
                *thread = facts(name, 49);
            }
            parts(210, edge, &events)
        };
        assert_eq!(of("other")[0], (PartKind::Unexplained, None, 190));
        assert_eq!(of("irq/55-gpio")[0], (PartKind::Thread, named("irq/55-gpio"), 190 + 4));
    }

    #[test]
    fn a_hog_is_one_part_although_interrupts_divide_it() {
        let events = [
            switch(900, T, false, 0),
            switch(950, 0, true, HOG),
            event(1_003, HOG, What::VectorBegins(0)),
            event(1_004, HOG, What::Woken(T)),
            event(1_005, HOG, What::VectorEnds(0)),
            event(3_000, HOG, What::HardBegins(24)),
            event(3_010, HOG, What::SoftBegins(3)),
            event(3_030, HOG, What::SoftEnds(3)),
            event(3_040, HOG, What::HardEnds(24)),
            switch(6_000, HOG, false, T),
        ];
        let expected = [
            (PartKind::Thread, named("hog"), 1_995 + 2_960),
            (PartKind::HardInterrupt, None, 20),
            (PartKind::SoftInterrupt, named("NET_RX"), 20),
            (PartKind::TimerDelivery, None, 3),
            (PartKind::Return, None, 2),
            (PartKind::HardInterrupt, None, 2),
        ];
        let found = parts(5_002, EVIDENCE, &events);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        assert!(expected.iter().all(|part| found.contains(part)), "{found:?}");
        // A kernel that records no switch from the idle task: the next event shows that the hog ran.
        let unseen: Vec<_> =
            events.iter().enumerate().filter(|&(index, _)| index != 1).map(|(_, event)| *event).collect();
        assert_eq!(parts(5_002, EVIDENCE, &unseen)[0].2, 1_995 + 2_960);
    }

    #[test]
    fn a_thread_of_this_process_is_marked_as_such() {
        let layout = Layout { big_endian: false, commit_size: 8, data_offset: 16, page_size: 4_096 };
        let mut threads = Threads::new(true);
        threads.add_own();
        // The first thread of the system belongs to another process.
        for (other, is_own) in [(this_thread(), true), (1, false)] {
            let events = [switch(900, T, true, other), switch(1_200, other, true, T)];
            let sample = LateSample::new((T, None), 1_000, 205);
            let explained = divide(sample, events.iter(), EVIDENCE, (&Decoder::new(layout), &mut threads));
            let first = &explained.parts[0];
            assert_eq!((first.kind, first.pid, first.is_own), (PartKind::Thread, Some(other), is_own));
        }
    }

    #[test]
    fn the_time_of_lost_events_is_unexplained() {
        let events = [
            switch(900, T, false, HOG),
            event(1_004, HOG, What::Woken(T)),
            event(2_000, -1, What::Lost),
            event(2_500, OTHER, What::HardBegins(24)),
            event(2_600, OTHER, What::HardEnds(24)),
            switch(2_700, OTHER, true, T),
        ];
        let found = parts(1_710, EVIDENCE, &events);
        assert_eq!(found[0], (PartKind::Unexplained, None, 996 + 500), "{found:?}");
    }

    #[test]
    fn a_blocking_thread_that_still_runs_at_its_deadline_is_late_by_its_own_work() {
        let events =
            [switch(900, 0, true, T), event(1_100, T, What::HardBegins(3)), event(1_101, T, What::HardEnds(3))];
        assert_eq!(parts(300, EVIDENCE, &events)[0], (PartKind::OwnWork, None, 299));
        let polling = Evidence { is_blocking: false, ..EVIDENCE };
        assert_eq!(parts(300, polling, &events)[0], (PartKind::Unexplained, None, 299));
    }

    #[test]
    fn without_events_everything_is_unexplained() {
        assert_eq!(parts(100, EVIDENCE, &[]), [(PartKind::Unexplained, None, 100)]);
    }
}
