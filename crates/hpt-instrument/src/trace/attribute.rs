//! Divides the latency of one sample into parts, from the events of its CPU. Pure: reads no trace and no clock.

use super::{
    events::{Decoder, Event, ThreadFacts, What, printable, softirq_name},
    part::{Addresses, CauseKind, Doubt, Explained, LateSample, Part, Segment},
    rules::{self, Case, TraceEvidence},
    threads::Threads,
    track::{Piece, Running, Section, Span, Waker, follow},
};

/// The number of runs of other threads that have a part each. Further runs are added up for each thread.
const RUNS: u32 = 32;
/// The maximum number of parts, and of pieces on the timeline.
const PARTS: usize = 64;
const SEGMENTS: usize = 400;
/// The name of the part to which all further parts of a kind are added.
const FURTHER: &str = "(others)";

/// The subject of a part: parts with the same subject are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartSubject {
    None,
    Section(Section, Option<u64>),
    Thread {
        pid: i32,
        facts: Option<ThreadFacts>,
        inherits_from: Option<i32>,
        run: Option<u32>,
    },
    Idle(Option<u32>),
    Page(u64),
    Pause(&'static str),
    Doubt(Doubt),
    /// All further parts of the kind.
    Further,
}

/// Divides a sample. `events` are those of the CPU on which the thread ran, up to the end of the latency, and the first one
/// after it.
pub(super) fn divide<'a>(
    sample: LateSample,
    (events, next): (impl Iterator<Item = &'a Event> + Clone, Option<&'a Event>),
    mut evidence: TraceEvidence<'_>,
    (decoder, threads): (&Decoder, &mut Threads),
) -> Explained {
    let helper = helper(sample.thread, events.clone(), decoder);
    let track = follow(sample, events, next, (decoder, helper));
    let mut parts = Parts { begin: sample.deadline_ns, parts: Vec::new(), stacks: Vec::new(), segments: Vec::new() };
    let mut is_complete = !track.pieces.is_empty() || sample.latency_ns == 0;
    let last = track.pieces.len().saturating_sub(1);
    for (index, piece) in track.pieces.iter().enumerate() {
        let case = Case { piece, span: &track.spans[piece.span], evidence };
        let kind = if index == last { last_kind(case, sample.thread) } else { rules::kind(case) };
        match kind {
            CauseKind::Host => evidence.steal_ns -= piece.length(),
            CauseKind::CpuQuota => evidence.throttled_ns -= piece.length(),
            _ => {}
        }
        is_complete &= piece.is_complete;
        parts.add(case, (kind, subject(kind, case, decoder)), decoder);
    }
    parts.explained(sample, is_complete, (decoder, threads))
}

/// Returns the thread that passes interrupts or timers on to the sampled thread, if its name says so.
fn helper<'a>(thread: i32, events: impl Iterator<Item = &'a Event>, decoder: &Decoder) -> Option<Running> {
    let wakes = |event: &&Event| matches!(event.what, What::Woken { thread: woken, .. } if woken == thread);
    let wakers = events.filter(wakes).filter_map(|event| Some((event.running, decoder.thread(event.running)?)));
    let passes_on = |facts: &ThreadFacts| [&b"irq/"[..], b"ktimer"].iter().any(|start| facts.name.starts_with(start));
    let (pid, facts) = wakers.filter(|(_, facts)| passes_on(facts)).last()?;
    Some(Running { pid, facts: Some(facts), run: 0, since: 0, inherits_from: None })
}

/// Returns the kind of the last piece. At its end the sampled thread runs, so if another one runs at its beginning, the
/// switch was not recorded.
fn last_kind(case: Case<'_>, thread: i32) -> CauseKind {
    let is_own = case.piece.current.is_some_and(|current| current.pid == thread);
    match rules::kind(case) {
        kind if is_own || case.piece.section.is_some() => kind,
        _ if case.is_switched_unseen() => CauseKind::Scheduling,
        _ => CauseKind::Unexplained,
    }
}

/// Returns the subject of a piece of this kind.
fn subject(kind: CauseKind, case: Case<'_>, decoder: &Decoder) -> PartSubject {
    let of = |Running { pid, facts, run, inherits_from, .. }: Running| PartSubject::Thread {
        pid,
        facts,
        inherits_from,
        run: (run <= RUNS).then_some(run),
    };
    let (piece, span): (&Piece, &Span) = (case.piece, case.span);
    match kind {
        CauseKind::HardInterrupt | CauseKind::SoftInterrupt => {
            piece.section.map_or(PartSubject::None, |section| PartSubject::Section(section, piece.function))
        }
        CauseKind::InterruptsOff | CauseKind::InterruptsOffOrHost | CauseKind::Thread | CauseKind::NotPreemptible => {
            piece.current.map_or(PartSubject::None, of)
        }
        CauseKind::IdleExit => PartSubject::Idle(piece.idle),
        CauseKind::Stopped | CauseKind::Traced | CauseKind::Blocked => match span.waker {
            Some(Waker::Thread(pid) | Waker::Elsewhere { pid, is_interrupt: false }) if pid > 0 => {
                PartSubject::Thread { pid, facts: decoder.thread(pid), inherits_from: None, run: Some(0) }
            }
            Some(Waker::Handler(Some(section))) => PartSubject::Section(section, None),
            _ => PartSubject::None,
        },
        CauseKind::PageFault => span.fault.or_else(|| case.page()).map_or(PartSubject::None, PartSubject::Page),
        CauseKind::Paused => case.pause().map_or(PartSubject::None, PartSubject::Pause),
        CauseKind::Unexplained => PartSubject::Doubt(rules::doubt(case)),
        _ => PartSubject::None,
    }
}

/// Returns the stack that tells more about a piece of this kind.
fn stack(kind: CauseKind, case: Case<'_>) -> Option<u32> {
    match kind {
        CauseKind::InterruptsOff | CauseKind::InterruptsOffOrHost | CauseKind::Thread | CauseKind::NotPreemptible => {
            case.piece.stack
        }
        CauseKind::Blocked | CauseKind::PageFault => case.span.stack,
        _ => None,
    }
}

/// The parts of a latency so far.
struct Parts {
    begin: u64,
    parts: Vec<(PartSubject, Part)>,
    /// For each part, its longest piece with a stack: the length and the number of the stack.
    stacks: Vec<(u64, Option<u32>)>,
    segments: Vec<Segment>,
}

impl Parts {
    fn add(&mut self, case: Case<'_>, (kind, subject): (CauseKind, PartSubject), decoder: &Decoder) {
        let (at_ns, duration_ns) = (case.piece.from - self.begin, case.piece.length());
        let known = self.parts.iter().position(|(of, part)| (part.kind, *of) == (kind, subject));
        let (index, is_new) = match known {
            Some(index) => (index, false),
            None if self.parts.len() < PARTS => {
                self.parts.push((subject, part(kind, at_ns)));
                (self.parts.len() - 1, true)
            }
            None => (self.further((kind, subject), at_ns), true),
        };
        let follows =
            self.segments.last().is_some_and(|last| last.part == index && last.at_ns + last.duration_ns == at_ns);
        let part = &mut self.parts[index].1;
        part.duration_ns += duration_ns;
        self.stacks.resize(self.parts.len(), (0, None));
        let stack = stack(kind, case);
        if stack.is_some() && duration_ns > self.stacks[index].0 {
            self.stacks[index] = (duration_ns, stack);
        }
        let part = &mut self.parts[index].1;
        if kind == CauseKind::Unexplained && duration_ns > part.longest_ns {
            part.longest_ns = duration_ns;
            part.after = case.piece.after.map(|event| words(event, decoder));
        }
        // An interrupted run or handler continues, so it is not a new one, except for interrupts with the same number.
        let counts_each = matches!(kind, CauseKind::HardInterrupt | CauseKind::SoftInterrupt);
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
    fn further(&mut self, (kind, subject): (CauseKind, PartSubject), at_ns: u64) -> usize {
        let all = if subject == PartSubject::None { subject } else { PartSubject::Further };
        let known = self.parts.iter().position(|(of, part)| (part.kind, *of) == (kind, all));
        known.unwrap_or_else(|| {
            self.parts.push((all, part(kind, at_ns)));
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
        order.sort_by_key(|&index| std::cmp::Reverse(self.parts[index].1.duration_ns));
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(new, &old)| place[old] = new);
        let parts = order.iter().map(|&index| {
            let (subject, part) = &self.parts[index];
            let stack = self.stacks[index].1.map_or(&[][..], |stack| decoder.stack(stack));
            let mut part = named(part.clone(), *subject, (decoder, &mut *threads));
            // A program, unlike a thread of the kernel, can be preempted wherever the interrupt finds it.
            if part.kind != CauseKind::Thread || part.is_kernel == Some(true) {
                part.addresses.stacks.extend((!stack.is_empty()).then(|| stack.to_vec()));
            }
            part
        });
        let parts = parts.collect();
        let timeline =
            self.segments.into_iter().map(|segment| Segment { part: place[segment.part], ..segment }).collect();
        Explained { sample, cpu: None, is_complete, parts, timeline }
    }
}

/// Returns an empty part.
pub(super) const fn part(kind: CauseKind, at_ns: u64) -> Part {
    Part {
        kind,
        name: None,
        pid: None,
        is_kernel: None,
        is_boosted: false,
        inherits_from: None,
        doubt: None,
        after: None,
        policy: None,
        priority: None,
        is_own: false,
        irq: None,
        function: None,
        stack: Vec::new(),
        idle_state: None,
        count: 0,
        at_ns,
        duration_ns: 0,
        longest_ns: 0,
        addresses: Addresses { function: None, stacks: Vec::new() },
    }
}

/// Adds the name of the subject to a part.
fn named(mut part: Part, subject: PartSubject, (decoder, threads): (&Decoder, &mut Threads)) -> Part {
    match subject {
        PartSubject::None => {}
        PartSubject::Further => part.name = Some(FURTHER.to_owned()),
        PartSubject::Section(section, function) => {
            part.addresses.function = function;
            part.name = section_name(section, decoder);
            if let Section::Hard(irq) = section {
                part.irq = Some(irq);
            }
        }
        PartSubject::Thread { pid, facts, inherits_from, .. } => {
            (part.pid, part.is_own) = (Some(pid), threads.is_own(pid));
            part.inherits_from = inherits_from.map(|waits| match (decoder.thread(waits), threads.name(waits)) {
                (None, Some(name)) => format!("{name} (pid {waits})"),
                _ => thread_words(waits, decoder),
            });
            match facts {
                Some(facts) => name_thread(&mut part, (pid, facts), threads),
                None => part.name = threads.name(pid),
            }
        }
        PartSubject::Idle(state) => part.idle_state = state,
        PartSubject::Page(address) => part.name = threads.mapping(address),
        PartSubject::Pause(by) => part.name = Some(by.to_owned()),
        PartSubject::Doubt(doubt) => part.doubt = Some(doubt),
    }
    part
}

fn name_thread(part: &mut Part, (pid, ThreadFacts { priority, name }): (i32, ThreadFacts), threads: &mut Threads) {
    let name = thread_name(&name);
    let stated = threads.stated(pid, &name);
    part.is_kernel = stated.map(|stated| stated.is_kernel);
    part.policy = stated.map(|stated| stated.policy);
    // The kernel's priorities 0 to 98 are the real-time priorities 99 to 1, and negative ones belong to SCHED_DEADLINE.
    part.priority = u8::try_from(priority).ok().and_then(|priority| 99_u8.checked_sub(priority)).filter(|&rt| rt > 0);
    if priority < 0 {
        part.is_boosted = stated.is_some_and(|stated| stated.policy != "deadline");
        part.policy = Some("deadline").filter(|_| !part.is_boosted).or(part.policy);
    } else {
        part.is_boosted = part.priority.zip(stated).is_some_and(|(priority, stated)| stated.priority < priority);
    }
    part.name = Some(name);
}

fn thread_name(name: &[u8]) -> String {
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    printable(&name[..end])
}

fn section_name(section: Section, decoder: &Decoder) -> Option<String> {
    match section {
        Section::Hard(irq) => decoder.handler_name(irq).map(|name| name.to_string()),
        Section::Vector(vector) => decoder.vector_name(vector).map(|name| name.to_string()),
        Section::Soft(vector) => Some(softirq_name(vector)),
        Section::Timer => Some("timer".to_owned()),
        Section::Nmi => Some("NMI".to_owned()),
    }
}

fn thread_words(pid: i32, decoder: &Decoder) -> String {
    match decoder.thread(pid) {
        _ if pid == 0 => "idle".to_owned(),
        Some(facts) => format!("{} (pid {pid})", thread_name(&facts.name)),
        None => format!("pid {pid}"),
    }
}

/// Returns an event in a few words.
fn words(event: Event, decoder: &Decoder) -> String {
    let thread = |pid| thread_words(pid, decoder);
    let handler = |section| section_name(section, decoder).unwrap_or_else(|| "unknown".to_owned());
    match event.what {
        What::Switch { next, .. } => format!("switch to {}", thread(next)),
        What::Woken { thread: woken, .. } | What::WokenElsewhere { thread: woken, .. } => {
            format!("wake-up of {}", thread(woken))
        }
        What::Inherits { thread: inherits, .. } => format!("priority of {}", thread(inherits)),
        What::Faults(_) => format!("page fault of {}", thread(event.running)),
        What::HardBegins(irq) => format!("begin of interrupt {}", handler(Section::Hard(irq))),
        What::HardEnds(irq) => format!("end of interrupt {}", handler(Section::Hard(irq))),
        What::VectorBegins(vector) => format!("begin of interrupt {}", handler(Section::Vector(vector))),
        What::VectorEnds(vector) => format!("end of interrupt {}", handler(Section::Vector(vector))),
        What::SoftBegins(vector) => format!("begin of softirq {}", handler(Section::Soft(vector))),
        What::SoftEnds(vector) => format!("end of softirq {}", handler(Section::Soft(vector))),
        What::TimerBegins => "begin of a timer's handler".to_owned(),
        What::TimerEnds => "end of a timer's handler".to_owned(),
        What::NmiBegins(_) => "begin of an NMI".to_owned(),
        What::NmiEnds { .. } => "end of an NMI".to_owned(),
        What::Calls(_) => "call of a handler's function".to_owned(),
        What::Returns => "end of a handler's function".to_owned(),
        What::Stack(_) => "stack".to_owned(),
        What::Idle(Some(state)) => format!("begin of idle state {state}"),
        What::Idle(None) => "end of the idle state".to_owned(),
        What::Lost => "lost events".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{TraceEvidence, divide};
    use crate::trace::{
        events::{Decoder, Event, ThreadFacts, What},
        format::Layout,
        part::{CauseKind, LateSample},
        threads::Threads,
        track::follow,
    };
    use hpt_sys::signals::this_thread;

    const T: i32 = 80;
    const HOG: i32 = 90;
    const OTHER: i32 = 7;
    const READY: u8 = 0;
    const SLEEPS: u8 = 1;
    const EVIDENCE: TraceEvidence<'_> = TraceEvidence::QUIET;

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
        let state = if stays_ready { READY } else { SLEEPS };
        Event { time, running: previous, flags: 0, what: What::Switch { previous, state, next, facts } }
    }

    fn event(time: u64, running: i32, what: What) -> Event {
        Event { time, running, flags: 0, what }
    }

    /// Divides a latency of `latency_us` with the deadline at one millisecond. Returns the kinds, names and microseconds.
    fn parts(latency_us: u64, evidence: TraceEvidence<'_>, events: &[Event]) -> Vec<(CauseKind, Option<String>, u64)> {
        parts_with(latency_us, evidence, events, &decoder("other"))
    }

    fn parts_with(
        latency_us: u64,
        evidence: TraceEvidence<'_>,
        events: &[Event],
        decoder: &Decoder,
    ) -> Vec<(CauseKind, Option<String>, u64)> {
        let events: Vec<_> = events.iter().map(|event| Event { time: event.time * 1_000, ..*event }).collect();
        let sample = LateSample::new((T, None), 1_000_000, latency_us * 1_000);
        let explained = divide(sample, (events.iter(), None), evidence, (decoder, &mut Threads::new(false)));
        let parts = explained.parts.into_iter();
        parts.map(|part| (part.kind, part.name, part.duration_ns / 1_000)).collect()
    }

    /// Returns a decoder that knows the names of the handlers in these tests, and a thread that serves an interrupt.
    fn decoder(other: &str) -> Decoder {
        let mut decoder = Decoder::new(Layout { big_endian: false, commit_size: 8, data_offset: 16, page_size: 4_096 });
        decoder.name(27, "arch_timer", "local_timer", (OTHER, facts(other, 49)));
        decoder
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
            event(1_033, 0, What::Woken { thread: T, priority: 19 }),
            event(1_034, 0, What::HardEnds(27)),
            event(1_035, 0, What::Idle(None)),
            switch(1_040, 0, true, T),
        ];
        let expected = [
            (CauseKind::IdleExit, None, 30),
            (CauseKind::Scheduling, None, 6),
            (CauseKind::Return, None, 5),
            (CauseKind::HardInterrupt, named("arch_timer"), 4),
        ];
        assert_eq!(parts(45, EVIDENCE, &events), expected);
        // Without the switch from the idle task, the end is not divided further.
        let unseen = &events[..6];
        assert_eq!(parts(45, EVIDENCE, unseen)[1], (CauseKind::Scheduling, None, 11));
        // If the steal time rose, the long pause is the host's.
        let stolen = TraceEvidence { steal_ns: 20_000_000, ..EVIDENCE };
        let later: Vec<_> =
            events.iter().map(|e| Event { time: if e.time > 1_000 { e.time + 100 } else { e.time }, ..*e }).collect();
        assert_eq!(parts(145, stolen, &later)[0], (CauseKind::Host, None, 130));
    }

    #[test]
    fn a_late_interrupt_means_disabled_interrupts_only_beyond_the_usual_delay() {
        let events = |late: u64| {
            [
                switch(900, T, false, OTHER),
                event(1_000 + late, OTHER, What::VectorBegins(0)),
                event(1_001 + late, OTHER, What::Woken { thread: T, priority: 19 }),
                event(1_002 + late, OTHER, What::VectorEnds(0)),
                switch(1_004 + late, OTHER, true, T),
            ]
        };
        assert_eq!(parts(205, EVIDENCE, &events(200))[0], (CauseKind::InterruptsOff, named("other"), 200));
        assert_eq!(parts(20, EVIDENCE, &events(15))[0], (CauseKind::TimerDelivery, None, 15));
        // Without the wake-up, no culprit is invented.
        let unseen: Vec<_> =
            events(200).into_iter().filter(|event| !matches!(event.what, What::Woken { .. })).collect();
        assert_eq!(parts(205, EVIDENCE, &unseen)[0], (CauseKind::Unexplained, None, 204));
    }

    #[test]
    fn a_pause_is_attributed_to_the_host_only_as_far_as_the_evidence_goes() {
        let events = |late: u64| {
            [
                switch(900, T, false, OTHER),
                event(1_000 + late, OTHER, What::VectorBegins(0)),
                event(1_001 + late, OTHER, What::Woken { thread: T, priority: 19 }),
                event(1_002 + late, OTHER, What::VectorEnds(0)),
                switch(1_004 + late, OTHER, true, T),
            ]
        };
        let either = CauseKind::InterruptsOffOrHost;
        for (steal_ms, (is_virtual, host_unknown), late, expected) in [
            (0, (false, false), 200, CauseKind::InterruptsOff),
            (0, (true, true), 200, either),
            // The resolution of the steal time is a tick of 10 ms.
            (0, (true, false), 200, either),
            // Not everything that a hypervisor does counts as steal time.
            (0, (true, false), 10_000, either),
            (10, (true, false), 200, either),
            (10, (true, false), 5_000, CauseKind::Host),
            // More than was counted, and one tick.
            (20, (true, false), 20_001, either),
            // A short delay is that of the timer hardware.
            (0, (false, false), 15, CauseKind::TimerDelivery),
            (20, (true, true), 15, CauseKind::TimerDelivery),
        ] {
            let evidence = TraceEvidence { steal_ns: steal_ms * 1_000_000, is_virtual, host_unknown, ..EVIDENCE };
            let found = parts(late + 5, evidence, &events(late)).remove(0);
            assert_eq!(found.0, expected, "{steal_ms} {is_virtual} {host_unknown} {late}");
            // Nothing but the wake-up proves that the thread waited for its timer.
            let unseen: Vec<_> =
                events(late).into_iter().filter(|event| !matches!(event.what, What::Woken { .. })).collect();
            assert_eq!(parts(late + 5, evidence, &unseen).remove(0).0, CauseKind::Unexplained);
        }
        // A thread that was ready waited for the other thread, with or without a host.
        let hog = [switch(900, T, true, HOG), switch(1_200, HOG, false, T)];
        let unknown = TraceEvidence { is_virtual: true, host_unknown: true, ..EVIDENCE };
        assert_eq!(parts(205, unknown, &hog)[0], (CauseKind::Thread, named("hog"), 200));
    }

    /// Returns the stacks of the pieces, and that with which the thread waits.
    fn stacks(events: &[Event]) -> (Vec<Option<u32>>, Option<u32>) {
        let sample = LateSample::new((T, None), 1_000, 1_000);
        let track = follow(sample, events.iter(), None, (&decoder("other"), None));
        let waits = track.spans.iter().find_map(|span| span.stack);
        (track.pieces.iter().map(|piece| piece.stack).collect(), waits)
    }

    #[test]
    fn a_stack_at_an_interrupt_is_that_of_the_thread_that_it_interrupts() {
        let other = switch(900, T, false, OTHER);
        let tick = |time, number| {
            [
                event(time, OTHER, What::VectorBegins(0)),
                event(time + 2, OTHER, What::Stack(number)),
                event(time + 5, OTHER, What::VectorEnds(0)),
            ]
        };
        // The first interrupt shows what ran before it, also in the piece that it ends.
        let one = [&[other][..], &tick(1_400, 4), &[switch(1_500, OTHER, true, HOG)]].concat();
        let four = Some(4);
        assert_eq!(stacks(&one), (vec![four, four, four, None], None));
        // The second one shows what ran since the first one.
        let two = [&[other][..], &tick(1_400, 4), &tick(1_600, 5)].concat();
        let five = Some(5);
        assert_eq!(stacks(&two), (vec![four, four, five, five, five], None));
        // Not that of a thread that ran before.
        let before = [&[switch(800, T, false, OTHER)][..], &tick(900, 4), &[switch(950, OTHER, true, HOG)]].concat();
        assert_eq!(stacks(&before), (vec![None], None));
        // Nor one whose interrupt is unknown, as after lost events.
        assert_eq!(stacks(&[other, event(1_300, OTHER, What::Stack(4))]), (vec![None], None));
    }

    #[test]
    fn a_stack_at_a_switch_is_that_of_the_thread_that_waits() {
        let waits = [switch(900, T, false, 0), event(902, T, What::Stack(7)), event(1_900, 0, What::VectorBegins(0))];
        assert_eq!(stacks(&waits), (vec![None, None], Some(7)));
        // The stack after a switch of another thread is not that of the sampled one.
        let other = [switch(900, T, false, OTHER), switch(950, OTHER, false, 0), event(952, OTHER, What::Stack(7))];
        assert_eq!(stacks(&other), (vec![None], None));
        // It changes nothing else: the thread does not run again.
        let with = parts(1_000, EVIDENCE, &waits);
        assert_eq!(with, parts(1_000, EVIDENCE, &[waits[0], waits[2]]));
    }

    #[test]
    fn a_late_edge_is_not_attributed_to_disabled_interrupts() {
        let edge = TraceEvidence { waits_for_timer: false, is_blocking: false, ..EVIDENCE };
        let of = |name: &str| {
            let mut events = [
                switch(900, 0, true, T),
                switch(1_010, T, false, OTHER),
                event(1_200, OTHER, What::Woken { thread: T, priority: 19 }),
                switch(1_204, OTHER, true, T),
            ];
            if let What::Switch { facts: thread, .. } = &mut events[1].what {
                *thread = facts(name, 49);
            }
            parts_with(210, edge, &events, &decoder(name))
        };
        assert_eq!(of("other")[0], (CauseKind::Unexplained, None, 190));
        assert_eq!(of("irq/55-gpio")[0], (CauseKind::Thread, named("irq/55-gpio"), 190 + 4));
    }

    #[test]
    fn a_hog_is_one_part_although_interrupts_divide_it() {
        let events = [
            switch(900, T, false, 0),
            switch(950, 0, true, HOG),
            event(1_003, HOG, What::VectorBegins(0)),
            event(1_004, HOG, What::Woken { thread: T, priority: 19 }),
            event(1_005, HOG, What::VectorEnds(0)),
            event(3_000, HOG, What::HardBegins(24)),
            event(3_010, HOG, What::SoftBegins(3)),
            event(3_030, HOG, What::SoftEnds(3)),
            event(3_040, HOG, What::HardEnds(24)),
            switch(6_000, HOG, false, T),
        ];
        let expected = [
            (CauseKind::Thread, named("hog"), 1_995 + 2_960),
            (CauseKind::HardInterrupt, None, 20),
            (CauseKind::SoftInterrupt, named("NET_RX"), 20),
            (CauseKind::TimerDelivery, None, 3),
            (CauseKind::Return, None, 2),
            (CauseKind::HardInterrupt, named("local_timer"), 2),
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
        let mut threads = Threads::new(true);
        threads.add_own();
        // The first thread of the system belongs to another process.
        for (other, is_own) in [(this_thread(), true), (1, false)] {
            let important = facts("other", 9);
            let to_other = What::Switch { previous: T, state: READY, next: other, facts: important };
            let events = [event(900, T, to_other), switch(1_200, other, true, T)];
            let sample = LateSample::new((T, None), 1_000, 205);
            let explained = divide(sample, (events.iter(), None), EVIDENCE, (&decoder("other"), &mut threads));
            let first = &explained.parts[0];
            assert_eq!((first.kind, first.pid, first.is_own), (CauseKind::Thread, Some(other), is_own));
        }
    }

    #[test]
    fn the_time_of_lost_events_is_unexplained() {
        let events = [
            switch(900, T, false, HOG),
            event(1_004, HOG, What::Woken { thread: T, priority: 19 }),
            event(2_000, -1, What::Lost),
            event(2_500, OTHER, What::HardBegins(24)),
            event(2_600, OTHER, What::HardEnds(24)),
            switch(2_700, OTHER, true, T),
        ];
        let found = parts(1_710, EVIDENCE, &events);
        assert_eq!(found[0], (CauseKind::Unexplained, None, 996 + 500), "{found:?}");
    }

    #[test]
    fn a_blocking_thread_that_still_runs_at_its_deadline_is_late_by_its_own_work() {
        let events =
            [switch(900, 0, true, T), event(1_100, T, What::HardBegins(3)), event(1_101, T, What::HardEnds(3))];
        assert_eq!(parts(300, EVIDENCE, &events)[0], (CauseKind::OwnWork, None, 299));
        // The host may have paused it.
        let unknown = TraceEvidence { host_unknown: true, is_virtual: true, ..EVIDENCE };
        let stolen = TraceEvidence { steal_ns: 10_000, is_virtual: true, ..EVIDENCE };
        let quiet = TraceEvidence { is_virtual: true, ..EVIDENCE };
        assert_eq!(parts(300, unknown, &events)[0], (CauseKind::Unexplained, None, 299));
        assert_eq!(parts(300, stolen, &events)[0], (CauseKind::Unexplained, None, 299));
        assert_eq!(parts(300, quiet, &events)[0], (CauseKind::OwnWork, None, 299));
        let polling = TraceEvidence { is_blocking: false, ..EVIDENCE };
        assert_eq!(parts(300, polling, &events)[0], (CauseKind::Unexplained, None, 299));
    }

    #[test]
    fn without_events_everything_is_unexplained() {
        assert_eq!(parts(100, EVIDENCE, &[]), [(CauseKind::Unexplained, None, 100)]);
    }
}
