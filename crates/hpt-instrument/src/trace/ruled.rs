//! Tests of the rules: each one explains a ring that contains its proof, and nothing once the proof is removed.

use super::{
    attribute::divide,
    events::{Decoder, Event, ThreadFacts, What, flags},
    format::Layout,
    part::{CauseKind, Doubt, Explained, LateSample},
    rules::{CAUSE_RULES, Pauses, Slack, TraceEvidence},
    threads::Threads,
};

const T: i32 = 80;
const X: i32 = 7;
const HOG: i32 = 90;
const HELPER: i32 = 55;
/// A thread on another CPU.
const OTHER: i32 = 91;
const IRQ: i32 = 27;
const DEADLINE_US: u64 = 100_000;
const RUNS: u8 = 0;
const SLEEPS: u8 = 1;
const BLOCKS: u8 = 2;
const STOPPED: u8 = 4;
const TRACED: u8 = 8;
/// The kernel's priorities of SCHED_FIFO 80, of an ordinary thread, of SCHED_FIFO 90 and of SCHED_DEADLINE.
const FIFO: i32 = 19;
const FAIR: i32 = 120;
const HIGHER: i32 = 9;
const DEADLINE: i32 = -1;

const EVIDENCE: TraceEvidence<'_> = TraceEvidence { idle_ns: &[0, 20_000], ..TraceEvidence::QUIET };

fn facts(name: &str, priority: i32) -> ThreadFacts {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    ThreadFacts { priority, name: bytes }
}

fn at(time_us: u64, running: i32, what: What) -> Event {
    Event { time: (DEADLINE_US - 1_000 + time_us) * 1_000, running, flags: 0, what }
}

fn to(time_us: u64, (previous, state): (i32, u8), (next, priority): (i32, i32)) -> Event {
    let name = match next {
        0 => "swapper/1",
        T => "hpt",
        HELPER => "irq/27-eth0",
        _ => "other",
    };
    at(time_us, previous, What::Switch { previous, state, next, facts: facts(name, priority) })
}

fn woken(time_us: u64, running: i32, (thread, priority): (i32, i32)) -> Event {
    at(time_us, running, What::Woken { thread, priority })
}

/// The timer interrupt of the CPU, which wakes the thread.
fn timer(time_us: u64, running: i32, priority: i32) -> [Event; 3] {
    let vector = [What::VectorBegins(0), What::VectorEnds(0)].map(|what| at(time_us, running, what));
    [vector[0], woken(time_us + 1, running, (T, priority)), Event { time: vector[1].time + 2_000, ..vector[1] }]
}

/// An interrupt of a device, which wakes nothing.
fn device(time_us: u64, running: i32, flags: u8) -> [Event; 2] {
    let hard = [(time_us, What::HardBegins(IRQ)), (time_us + 2, What::HardEnds(IRQ))];
    hard.map(|(time_us, what)| Event { flags, ..at(time_us, running, what) })
}

fn ring(parts: &[&[Event]]) -> Vec<Event> {
    let mut events: Vec<_> = parts.iter().flat_map(|part| part.iter().copied()).collect();
    events.sort_by_key(|event| event.time);
    events
}

/// Divides a latency with its deadline one millisecond after the beginning of the ring. The thread runs at its end.
fn explained(until_us: u64, evidence: TraceEvidence<'_>, events: &[Event]) -> Explained {
    let mut decoder = Decoder::new(Layout { big_endian: false, commit_size: 8, data_offset: 16, page_size: 4_096 });
    decoder.name(IRQ, "eth0", "local_timer", (HELPER, facts("irq/27-eth0", 49)));
    let sample = LateSample::new((T, Some(1)), DEADLINE_US * 1_000, (until_us - 1_000) * 1_000);
    let explained = divide(sample, (events.iter(), None), evidence, (&decoder, &mut Threads::new(false)));
    let sum: u64 = explained.parts.iter().map(|part| part.duration_ns).sum();
    assert_eq!(sum, explained.sample.latency_ns, "{explained:?}");
    explained
}

/// Asserts that the largest part has this kind.
#[track_caller]
fn assert_kind(kind: CauseKind, (until_us, evidence): (u64, TraceEvidence<'_>), events: &[Event]) -> Explained {
    let explained = explained(until_us, evidence, events);
    assert_eq!(explained.parts[0].kind, kind, "{:?}", explained.parts);
    explained
}

#[track_caller]
fn assert_doubt(doubt: Doubt, (until_us, evidence): (u64, TraceEvidence<'_>), events: &[Event]) {
    let first = explained(until_us, evidence, events).parts.remove(0);
    assert_eq!((first.kind, first.doubt), (CauseKind::Unexplained, Some(doubt)), "{first:?}");
    assert!(first.after.is_some() && first.longest_ns > 0, "{first:?}");
}

/// The thread sleeps, something wakes it after 30 ms, and it runs.
fn wait(state: u8, wakes: &[Event]) -> Vec<Event> {
    let begin = [to(0, (0, RUNS), (T, FIFO)), to(500, (T, state), (0, FAIR))];
    let served = device(5_000, 0, 0);
    ring(&[&begin, &served, wakes, &[to(31_010, (0, RUNS), (T, FIFO))]])
}

#[test]
fn the_state_of_a_thread_shows_a_stop_by_a_signal_or_a_tracer() {
    let until = (31_020, EVIDENCE);
    let wakes = [woken(31_000, X, (T, FIFO))];
    let stopped = assert_kind(CauseKind::Stopped, until, &wait(STOPPED, &wakes));
    // The whole time is one part, though the CPU served interrupts and ran others.
    assert_eq!((stopped.parts[0].duration_ns, stopped.parts[0].pid), (30_000_000, Some(X)));
    assert_kind(CauseKind::Traced, until, &wait(TRACED, &wakes));
    // In a state that is not known, the thread may have waited for anything.
    assert_doubt(Doubt::NoWakeUp, until, &wait(0x40, &wakes));
    assert_doubt(Doubt::NoWakeUp, until, &wait(SLEEPS, &[]));
}

#[test]
fn its_event_shows_a_page_fault() {
    let until = (31_020, EVIDENCE);
    let fault = at(499, T, What::Faults(0x1000));
    let wakes = [woken(31_000, X, (T, FIFO))];
    let with_fault = |state, fault: Event| ring(&[&wait(state, &wakes), &[fault]]);
    assert_kind(CauseKind::PageFault, until, &with_fault(BLOCKS, fault));
    assert_kind(CauseKind::PageFault, until, &with_fault(SLEEPS, fault));
    // Without the fault, and with one that was over long before.
    assert_kind(CauseKind::Blocked, until, &wait(BLOCKS, &wakes));
    assert_kind(CauseKind::Blocked, until, &with_fault(BLOCKS, at(1, T, What::Faults(0x1000))));
    // The fault of another thread.
    assert_kind(CauseKind::Blocked, until, &with_fault(BLOCKS, at(600, X, What::Faults(0x1000))));
    // A fault that needs no disk.
    let minor = [to(0, (0, RUNS), (T, FIFO)), at(999, T, What::Faults(0x1000))];
    assert_kind(CauseKind::PageFault, (1_400, EVIDENCE), &minor);
    assert_doubt(Doubt::Silent, (1_400, TraceEvidence { is_blocking: false, ..EVIDENCE }), &minor[..1]);
}

#[test]
fn a_thread_that_another_thread_wakes_did_not_wait_for_its_timer() {
    let until = (31_020, EVIDENCE);
    for state in [SLEEPS, BLOCKS] {
        let blocked = assert_kind(CauseKind::Blocked, until, &wait(state, &[woken(31_000, X, (T, FIFO))]));
        assert_eq!(blocked.parts[0].pid, Some(X));
        let elsewhere = at(31_000, X, What::WokenElsewhere { thread: T, priority: FIFO });
        assert_kind(CauseKind::Blocked, until, &wait(state, &[elsewhere]));
    }
    let by_interrupt =
        Event { flags: flags::HARD_INTERRUPT, ..at(31_000, X, What::WokenElsewhere { thread: T, priority: FIFO }) };
    assert_doubt(Doubt::OtherCpu, until, &wait(SLEEPS, &[by_interrupt]));
    assert_doubt(Doubt::NoWakeUp, until, &wait(SLEEPS, &[]));
    let edge = TraceEvidence { waits_for_timer: false, ..EVIDENCE };
    assert_kind(CauseKind::Unexplained, (31_020, edge), &wait(SLEEPS, &[woken(31_000, X, (T, FIFO))]));
}

/// The thread sleeps while `runs` runs, and its timer interrupt comes late.
fn late_timer(late_us: u64, runs: i32, others: &[Event]) -> Vec<Event> {
    let begin = [to(0, (0, RUNS), (T, FIFO)), to(500, (T, SLEEPS), (runs, FAIR)), at(501, runs, What::Idle(Some(1)))];
    let timer = timer(1_000 + late_us, runs, FIFO);
    ring(&[&begin, others, &timer, &[to(1_005 + late_us, (runs, RUNS), (T, FIFO))]])
}

#[test]
fn a_late_timer_is_no_cause_once_another_interrupt_was_served() {
    for (late_us, runs, kind, doubt) in [
        (300, X, CauseKind::InterruptsOff, Doubt::Served),
        (90, 0, CauseKind::IdleExit, Doubt::Served),
        (19, X, CauseKind::TimerDelivery, Doubt::Served),
    ] {
        let until = (1_010 + late_us, EVIDENCE);
        assert_kind(kind, until, &late_timer(late_us, runs, &[]));
        // What was served just before the timer does not refute it.
        if late_us > 20 {
            assert_kind(kind, until, &late_timer(late_us, runs, &device(1_000 + late_us - 5, runs, 0)));
        }
        // The wake-up is the proof.
        let unseen: Vec<_> = late_timer(late_us, runs, &[]);
        let unseen: Vec<_> = unseen.into_iter().filter(|event| !matches!(event.what, What::Woken { .. })).collect();
        assert_kind(CauseKind::Unexplained, until, &unseen);
        if late_us > 20 {
            assert_doubt(doubt, until, &late_timer(late_us, runs, &device(1_010, runs, 0)));
        }
    }
    // A delay of the timer hardware comes once.
    let often = ring(&[&device(1_010, X, 0), &device(1_025, X, 0), &device(1_040, X, 0)]);
    assert_doubt(Doubt::Served, (1_065, EVIDENCE), &late_timer(55, X, &often));
}

#[test]
fn an_idle_state_is_left_as_fast_as_its_driver_states() {
    // Three times 20 µs and 50 µs.
    assert_kind(CauseKind::IdleExit, (1_120, EVIDENCE), &late_timer(110, 0, &[]));
    assert_doubt(Doubt::Idle, (1_121, EVIDENCE), &late_timer(111, 0, &[]));
    assert_doubt(Doubt::Idle, (30_900, EVIDENCE), &late_timer(29_800, 0, &[]));
    let is_virtual = TraceEvidence { is_virtual: true, ..EVIDENCE };
    assert_kind(CauseKind::IdleExit, (1_270, is_virtual), &late_timer(260, 0, &[]));
    assert_doubt(Doubt::Idle, (1_271, is_virtual), &late_timer(261, 0, &[]));
}

#[test]
fn the_host_takes_no_more_than_was_counted() {
    let stolen = |steal_ms: u64| TraceEvidence { steal_ns: steal_ms * 1_000_000, is_virtual: true, ..EVIDENCE };
    assert_kind(CauseKind::Host, (20_100, stolen(20)), &late_timer(19_000, 0, &[]));
    assert_doubt(Doubt::Idle, (22_100, stolen(20)), &late_timer(21_000, 0, &[]));
    assert_doubt(Doubt::Idle, (20_100, stolen(0)), &late_timer(19_000, 0, &[]));
    assert_doubt(Doubt::Served, (20_100, stolen(20)), &late_timer(19_000, 0, &device(2_000, 0, 0)));
    // Two gaps in one sample share what was counted.
    let twice = [to(0, (0, RUNS), (T, FIFO)), at(13_000, T, What::HardBegins(IRQ)), at(13_001, T, What::HardEnds(IRQ))];
    let polls = TraceEvidence { is_blocking: false, ..stolen(20) };
    let parts = explained(25_001, polls, &twice).parts;
    assert_eq!((parts[0].kind, parts[0].duration_ns), (CauseKind::Host, 12_000_000));
    assert_eq!((parts[1].kind, parts[1].duration_ns), (CauseKind::Unexplained, 12_000_000));
    // A ready thread on an idle CPU.
    let idle = ready(0, FIFO, &[], 9_000);
    assert_kind(CauseKind::Host, (10_100, stolen(20)), &idle);
    assert_doubt(Doubt::Idle, (10_100, EVIDENCE), &idle);
}

/// The thread is woken by its timer while `runs` runs, and runs itself after `length_us`.
fn ready(runs: i32, own: i32, meanwhile: &[Event], length_us: u64) -> Vec<Event> {
    let begin = [to(0, (0, RUNS), (T, own)), to(500, (T, SLEEPS), (runs, FAIR))];
    let end = 1_000 + length_us;
    let last = meanwhile.iter().rev().find_map(|event| match event.what {
        What::Switch { next, .. } => Some(next),
        _ => None,
    });
    ring(&[&begin, &timer(1_001, runs, own), meanwhile, &[to(end, (last.unwrap_or(runs), RUNS), (T, own))]])
}

/// As `ready`, and the interrupt that wakes the thread shows at its end that the running thread is to be preempted.
fn pending(runs: i32, own: i32, length_us: u64) -> Vec<Event> {
    let mut events = ready(runs, own, &[], length_us);
    events[4].flags |= flags::RESCHEDULE;
    events
}

#[test]
fn a_thread_that_is_to_be_preempted_and_keeps_running_shows_a_kernel_that_could_not_be_preempted() {
    let until = (5_010, EVIDENCE);
    let first = assert_kind(CauseKind::NotPreemptible, until, &pending(X, FIFO, 4_000)).parts.remove(0);
    assert_eq!((first.name.as_deref(), first.pid), (Some("other"), Some(X)));
    assert_kind(CauseKind::NotPreemptible, until, &ready(X, FIFO, &device(1_500, X, flags::RESCHEDULE), 4_000));
    // The priority of a thread can change while it runs, without a switch.
    assert_doubt(Doubt::LessImportant, until, &ready(X, FIFO, &[], 4_000));
    assert_doubt(Doubt::LessImportant, until, &ready(X, FIFO, &device(3_000, X, 0), 4_000));
    // It was to be preempted only later.
    assert_doubt(Doubt::LessImportant, until, &ready(X, FIFO, &device(4_500, X, flags::RESCHEDULE), 4_000));
    // The host may have had the CPU.
    let stolen = TraceEvidence { steal_ns: 20_000_000, is_virtual: true, ..EVIDENCE };
    assert_doubt(Doubt::LessImportant, (5_010, stolen), &pending(X, FIFO, 4_000));
    // A hypervisor that does not report what it takes may have had it. A further interrupt after which the thread keeps
    // running proves that it did not, or not alone. One that came just before the switch does not: it may have arrived
    // during the pause.
    let unknown = TraceEvidence { host_unknown: true, is_virtual: true, ..EVIDENCE };
    assert_doubt(Doubt::LessImportant, (5_010, unknown), &pending(X, FIFO, 4_000));
    let served = |at_us| ring(&[&pending(X, FIFO, 4_000), &device(at_us, X, flags::RESCHEDULE)]);
    assert_kind(CauseKind::NotPreemptible, (5_010, unknown), &served(1_500));
    assert_doubt(Doubt::LessImportant, (5_010, unknown), &served(4_999));
    // Another CPU woke the thread, so its wake-up arrived here at an unknown time.
    let mut elsewhere = ready(X, FIFO, &[], 4_000);
    elsewhere[3].what = What::WokenElsewhere { thread: T, priority: FIFO };
    assert_doubt(Doubt::LessImportant, until, &elsewhere);
    // A thread that is not pinned may have waited for another CPU.
    let free = TraceEvidence { is_pinned: false, ..EVIDENCE };
    assert_doubt(Doubt::OtherCpu, (5_010, free), &elsewhere);
    let mut important = ready(X, FIFO, &[to(1_500, (X, RUNS), (HOG, HIGHER))], 4_000);
    important[3].what = What::WokenElsewhere { thread: T, priority: FIFO };
    assert_kind(CauseKind::Thread, until, &important);
    assert_doubt(Doubt::OtherCpu, (5_010, free), &important);
    // On a slow machine, the scheduler itself takes that long.
    let slow = TraceEvidence { scheduling_ns: 20_000, ..EVIDENCE };
    assert_kind(CauseKind::NotPreemptible, (1_060, EVIDENCE), &pending(X, FIFO, 40));
    assert_kind(CauseKind::Scheduling, (1_042, slow), &ready(X, FIFO, &[], 40));
    assert_kind(CauseKind::NotPreemptible, (1_060, slow), &pending(X, FIFO, 55));
    // A switch that takes longer than the usual one is no proof. An interrupt after which it is still missing is one.
    let usual = TraceEvidence { scheduling_ns: 10_000, ..EVIDENCE };
    assert_doubt(Doubt::LessImportant, (1_042, usual), &pending(X, FIFO, 35));
    assert_kind(CauseKind::NotPreemptible, (1_060, usual), &pending(X, FIFO, 45));
    let served = ready(X, FIFO, &device(1_005, X, flags::RESCHEDULE), 40);
    assert_kind(CauseKind::NotPreemptible, (1_060, usual), &served);
    // An ordinary thread has no precedence over another.
    assert_kind(CauseKind::Thread, until, &ready(X, FAIR, &[], 4_000));
}

#[test]
fn a_handler_is_divided_by_the_functions_that_it_calls() {
    let begin = [to(0, (0, RUNS), (T, FIFO)), to(500, (T, SLEEPS), (X, FAIR))];
    let calls = [
        at(1_001, X, What::VectorBegins(0)),
        at(1_002, X, What::Calls(0xa0)),
        at(1_302, X, What::Returns),
        at(1_303, X, What::Calls(0xb0)),
        woken(1_304, X, (T, FIFO)),
        at(1_305, X, What::Returns),
        at(1_306, X, What::VectorEnds(0)),
        to(1_308, (X, RUNS), (T, FIFO)),
    ];
    let parts = explained(1_310, EVIDENCE, &ring(&[&begin, &calls])).parts;
    let of_handler: Vec<_> = parts.iter().filter(|part| part.kind == CauseKind::HardInterrupt).collect();
    // A device interrupts the function, and again after the end of one was not recorded. It called none of them.
    let unended =
        [at(1_305, X, What::Calls(0xc0)), at(1_307, X, What::HardBegins(IRQ)), at(1_308, X, What::HardEnds(IRQ))];
    let nested = explained(1_310, EVIDENCE, &ring(&[&begin, &calls[..7], &device(1_100, X, 0), &unended, &calls[7..]]));
    let device: Vec<_> = nested.parts.iter().filter(|part| part.name.as_deref() == Some("eth0")).collect();
    assert_eq!(device.iter().map(|part| part.duration_ns).collect::<Vec<_>>(), [3_000], "{nested:?}");
    // One for each function, and the rest of the handler.
    assert_eq!(of_handler.iter().map(|part| part.duration_ns / 1_000).collect::<Vec<_>>(), [300, 3, 2]);
    assert!(of_handler.iter().all(|part| part.name.as_deref() == Some("local_timer")), "{of_handler:?}");
}

/// A lock, or its end, changes the priority of a thread.
fn inherits(time_us: u64, running: i32, (thread, priority): (i32, i32), is_raised: bool) -> Event {
    at(time_us, running, What::Inherits { thread, priority, is_raised })
}

#[test]
fn a_priority_that_it_inherits_makes_a_thread_important() {
    let until = (5_010, EVIDENCE);
    // A thread on another CPU waits for the running one, before the deadline or after it.
    for since in [900, 1_500] {
        let changes = [inherits(since, OTHER, (X, HIGHER), true)];
        let explained = assert_kind(CauseKind::Thread, until, &ring(&[&ready(X, FIFO, &[], 4_000), &changes]));
        let first = &explained.parts[0];
        assert_eq!((first.pid, first.priority), (Some(X), Some(90)));
        assert_eq!(first.inherits_from.as_deref(), Some("pid 91"));
        let expected = if since > 1_000 { 3_500_000 } else { 3_997_000 };
        assert!(first.duration_ns.abs_diff(expected) < 5_000, "{explained:?}");
    }
    // While another thread ran.
    let preempted = [to(700, (X, RUNS), (HELPER, 49)), to(900, (HELPER, SLEEPS), (X, HIGHER))];
    let events = ring(&[&ready(X, FIFO, &[], 4_000), &preempted, &[inherits(800, OTHER, (X, HIGHER), true)]]);
    let first = assert_kind(CauseKind::Thread, until, &events).parts.remove(0);
    assert_eq!((first.pid, first.inherits_from.as_deref()), (Some(X), Some("pid 91")));
    // Without the event, for another thread, and after the end of the inheritance.
    assert_doubt(Doubt::LessImportant, until, &ready(X, FIFO, &[], 4_000));
    for other in [inherits(900, OTHER, (HELPER, HIGHER), true), inherits(900, OTHER, (X, 50), true)] {
        assert_doubt(Doubt::LessImportant, until, &ring(&[&ready(X, FIFO, &[], 4_000), &[other]]));
    }
    let ended = [inherits(900, OTHER, (X, HIGHER), true), inherits(1_100, X, (X, FAIR), false)];
    assert_doubt(Doubt::LessImportant, until, &ring(&[&ready(X, FIFO, &[], 4_000), &ended]));
}

#[test]
fn the_chosen_thread_shows_a_pause_by_the_scheduler() {
    let until = (51_010, EVIDENCE);
    let chosen = |next, priority| [to(2_000, (X, SLEEPS), (next, priority))];
    for (own, kind) in [(FIFO, CauseKind::Paused), (DEADLINE, CauseKind::Budget)] {
        for (next, priority) in [(0, FAIR), (HOG, FAIR), (HOG, 50)] {
            let events = ready(X, own, &chosen(next, priority), 50_000);
            let explained = assert_kind(kind, until, &events);
            // All threads of that time are one cause.
            assert!(explained.parts[0].duration_ns > 49_900_000, "{explained:?}");
        }
    }
    let named = |evidence, next| {
        let parts = explained(51_010, evidence, &ready(X, FIFO, &chosen(next, FAIR), 50_000)).parts;
        parts[0].name.clone()
    };
    assert_eq!(named(EVIDENCE, HOG).as_deref(), Some("real-time throttling"));
    // The fair server never leaves the CPU idle.
    let with = |throttling, fair_server| TraceEvidence { pauses: Pauses { throttling, fair_server }, ..EVIDENCE };
    assert_eq!(
        (named(with(true, true), 0).as_deref(), named(with(true, true), HOG)),
        (Some("real-time throttling"), None)
    );
    assert_eq!(named(with(false, true), HOG).as_deref(), Some("the fair server"));
    // What is disabled pauses nothing.
    let paused = |next| ready(X, FIFO, &chosen(next, FAIR), 50_000);
    assert_doubt(Doubt::Idle, (51_010, with(false, true)), &paused(0));
    assert_kind(CauseKind::Unexplained, (51_010, with(false, false)), &paused(HOG));
    // A thread that is as important is a cause of its own, and so is one that is more important.
    for priority in [FIFO, HIGHER, DEADLINE] {
        let explained = assert_kind(CauseKind::Thread, until, &ready(X, FIFO, &chosen(HOG, priority), 50_000));
        assert_eq!(explained.parts[0].pid, Some(HOG));
    }
    // The stopper thread empties a CPU before it goes offline.
    let emptied = [to(1_500, (X, RUNS), (HOG, 0)), to(2_000, (HOG, SLEEPS), (0, FAIR))];
    assert_doubt(Doubt::Idle, until, &ready(X, FIFO, &emptied, 50_000));
    // The thread itself was switched away from while it was ready.
    let spins = [to(0, (0, RUNS), (T, FIFO)), to(900, (T, RUNS), (X, FAIR)), to(51_000, (X, RUNS), (T, FIFO))];
    assert_kind(CauseKind::Paused, until, &spins);
    // It used up its own time, and nothing else was to run.
    for (own, kind) in [(FIFO, CauseKind::Paused), (DEADLINE, CauseKind::Budget)] {
        let alone = [to(0, (0, RUNS), (T, own)), to(900, (T, RUNS), (0, FAIR)), to(51_000, (0, RUNS), (T, own))];
        assert_kind(kind, until, &alone);
    }
    // The thread that ran already was to be preempted, and then no longer: the scheduler chose it again.
    let again = [device(1_500, X, flags::RESCHEDULE), device(2_000, X, 0)].concat();
    assert_kind(CauseKind::Paused, until, &ready(X, FIFO, &again, 50_000));
    // As important.
    let mut equal = ready(X, FIFO, &again, 50_000);
    equal[1] = to(500, (T, SLEEPS), (X, FIFO));
    assert_kind(CauseKind::Thread, until, &equal);
    // Its timer woke it on an idle CPU, which then became idle again.
    for (own, kind) in [(FIFO, CauseKind::Paused), (DEADLINE, CauseKind::Budget)] {
        let again = [at(1_010, 0, What::Idle(Some(1)))];
        assert_kind(kind, until, &ready(0, own, &again, 50_000));
        assert_doubt(Doubt::Idle, until, &ready(0, own, &[], 50_000));
    }
    // It ran on another CPU afterwards.
    let mut moved = ready(X, FIFO, &chosen(HOG, FAIR), 50_000);
    moved.pop();
    assert_kind(CauseKind::Unexplained, until, &moved);
}

#[test]
fn the_throttled_time_of_its_group_shows_a_quota() {
    let counted = |throttled_ms: u64| TraceEvidence { throttled_ns: throttled_ms * 1_000_000, ..EVIDENCE };
    for runs in [0, X] {
        let events = ready(runs, FAIR, &[], 25_000);
        assert_kind(CauseKind::CpuQuota, (26_010, counted(27)), &events);
        let without = if runs == 0 { CauseKind::Unexplained } else { CauseKind::Thread };
        assert_kind(without, (26_010, counted(20)), &events);
    }
    // A thread of the same group cannot run while the group is paused, and quotas do not concern real-time threads.
    let sharing = TraceEvidence { sharing: &[X], ..counted(27) };
    assert_kind(CauseKind::Thread, (26_010, sharing), &ready(X, FAIR, &[], 25_000));
    let important = ready(X, FAIR, &[to(1_100, (X, RUNS), (HOG, HIGHER))], 25_000);
    assert_kind(CauseKind::Thread, (26_010, counted(27)), &important);
    assert_kind(CauseKind::Unexplained, (26_010, counted(27)), &ready(0, FIFO, &[], 25_000));
}

/// An ordinary thread sleeps, while `beside` runs or the CPU idles, until the timer interrupt.
fn ordinary(beside: i32, timer_us: u64, idle_at_us: Option<u64>) -> Vec<Event> {
    let begin = [to(0, (0, RUNS), (T, FAIR)), to(500, (T, SLEEPS), (beside, FAIR))];
    let idle: Vec<_> = idle_at_us.map(|time_us| at(time_us, 0, What::Idle(Some(1)))).into_iter().collect();
    ring(&[&begin, &idle, &timer(timer_us, beside, FAIR), &[to(timer_us + 5, (beside, RUNS), (T, FAIR))]])
}

#[test]
fn the_timer_slack_is_a_cause_if_the_timer_expires_at_its_end_and_else_refutes_others() {
    let slack = |us: u64| Slack { ns: us * 1_000, ends_ns: (DEADLINE_US + us) * 1_000 };
    let with = |us: u64| TraceEvidence { slack: slack(us), ..EVIDENCE };
    for beside in [X, 0] {
        let late = ordinary(beside, 1_400, Some(600).filter(|_| beside == 0));
        assert_kind(CauseKind::TimerSlack, (1_410, with(400)), &late);
        assert_kind(CauseKind::TimerSlack, (1_410, with(390)), &late);
        // It expired before the end of the slack, or long after it.
        assert_doubt(Doubt::Slack, (1_410, with(500)), &late);
        assert_doubt(Doubt::Slack, (1_410, with(300)), &late);
    }
    // The usual slack of a measured thread, and a thread with a real-time policy, for which it is ignored.
    assert_kind(CauseKind::InterruptsOff, (1_410, with(0)), &ordinary(X, 1_400, None));
    let realtime = [to(0, (0, RUNS), (T, FIFO)), to(500, (T, SLEEPS), (X, FAIR))];
    let realtime = ring(&[&realtime, &timer(1_400, X, FIFO), &[to(1_405, (X, RUNS), (T, FIFO))]]);
    assert_kind(CauseKind::InterruptsOff, (1_410, with(400)), &realtime);
}

#[test]
fn a_cpu_leaves_an_idle_state_only_if_it_may_have_reached_it() {
    let evidence = TraceEvidence { is_virtual: true, ..EVIDENCE };
    // The CPU entered the state 400 µs before the deadline, and 42 µs before it.
    assert_kind(CauseKind::IdleExit, (1_185, evidence), &ordinary(0, 1_180, Some(600)));
    assert_doubt(Doubt::Idle, (1_185, evidence), &ordinary(0, 1_180, Some(958)));
    assert_doubt(Doubt::Idle, (1_185, evidence), &ordinary(0, 1_180, None));
    // A short delay needs no event.
    assert_kind(CauseKind::IdleExit, (1_050, evidence), &ordinary(0, 1_045, Some(990)));
}

#[test]
fn a_non_maskable_interrupt_is_named_also_inside_a_handler() {
    const HANDLER: u64 = 0x4000;
    let nmi = |from_us, to_us| {
        [
            at(from_us, X, What::NmiBegins(HANDLER)),
            at(to_us, X, What::NmiEnds { handler: HANDLER, length_ns: (to_us - from_us) * 1_000 }),
        ]
    };
    let begin = [to(0, (0, RUNS), (T, FIFO)), to(500, (T, SLEEPS), (X, FAIR))];
    let end = [woken(3_050, X, (T, FIFO)), at(3_060, X, What::VectorEnds(0)), to(3_062, (X, RUNS), (T, FIFO))];
    let in_handler = ring(&[&begin, &[at(1_001, X, What::VectorBegins(0))], &nmi(1_010, 3_000), &end]);
    let explained = assert_kind(CauseKind::HardInterrupt, (3_070, EVIDENCE), &in_handler);
    assert_eq!((explained.parts[0].name.as_deref(), explained.parts[0].duration_ns), (Some("NMI"), 1_990_000));
    assert_eq!(explained.parts[0].addresses.function, Some(HANDLER));
    // While a thread has disabled interrupts, and without the event.
    let off = |nmi: &[Event]| ring(&[&begin, nmi, &[at(3_040, X, What::VectorBegins(0))], &end]);
    let explained = assert_kind(CauseKind::HardInterrupt, (3_070, EVIDENCE), &off(&nmi(1_010, 3_000)));
    assert_eq!(explained.parts[0].name.as_deref(), Some("NMI"));
    assert_kind(CauseKind::InterruptsOff, (3_070, EVIDENCE), &off(&[]));
}

#[test]
fn a_thread_that_passes_the_interrupt_on_is_delayed_by_one_that_is_as_important() {
    let begin = [to(0, (0, RUNS), (T, FIFO)), to(500, (T, SLEEPS), (HOG, HIGHER))];
    let end = [
        to(6_000, (HOG, SLEEPS), (HELPER, 49)),
        woken(6_005, HELPER, (T, FIFO)),
        to(6_007, (HELPER, SLEEPS), (T, FIFO)),
    ];
    let edge = TraceEvidence { waits_for_timer: false, is_blocking: false, ..EVIDENCE };
    let raised = [woken(990, HOG, (HELPER, 49))];
    let explained = assert_kind(CauseKind::Thread, (6_010, edge), &ring(&[&begin, &raised, &end]));
    assert_eq!(explained.parts[0].pid, Some(HOG));
    // Nothing shows that the interrupt had come.
    assert_kind(CauseKind::Unexplained, (6_010, edge), &ring(&[&begin, &end]));
}

#[test]
fn lost_events_are_marked_at_both_ends_of_the_gap() {
    let whole = ready(X, FIFO, &[to(2_000, (X, RUNS), (HOG, HIGHER))], 50_000);
    assert!(explained(51_010, EVIDENCE, &whole).is_complete);
    // Before the deadline, before the wake-up, and while the thread is ready: the events of the gap are gone.
    for (from, until) in [(400, 1_005), (900, 3_000), (1_500, 40_000)] {
        let lost = [from, until].map(|time| at(time, -1, What::Lost));
        let (from, until) = (lost[0].time, lost[1].time);
        let rest: Vec<_> = whole.iter().filter(|event| event.time < from || event.time > until).copied().collect();
        let explained = explained(51_010, EVIDENCE, &ring(&[&rest, &lost]));
        let known: u64 = explained.parts.iter().filter(|part| part.doubt.is_none()).map(|part| part.duration_ns).sum();
        assert!(!explained.is_complete && known < 1_000_000, "{from} {until}: {explained:?}");
    }
    // The events after a sample show that others before its end were lost.
    let lost = [at(2_500, -1, What::Lost)];
    let rest: Vec<_> = whole.iter().filter(|event| event.time < lost[0].time).copied().collect();
    assert!(!explained(51_010, EVIDENCE, &ring(&[&rest, &lost])).is_complete);
}

#[test]
fn what_exceeds_the_parts_is_a_named_remainder() {
    let mut events = ready(X, FAIR, &[], 50_000);
    let last = events.pop().expect("a switch");
    for index in 0..100 {
        let (previous, next) = (if index == 0 { X } else { 1_000 + index - 1 }, 1_000 + index);
        events.push(to(2_000 + u64::try_from(index).expect("small") * 100, (previous, RUNS), (next, FAIR)));
    }
    events.push(Event { running: 1_099, ..to(51_000, (1_099, RUNS), (T, FAIR)) });
    assert_eq!(events.last().map(|event| event.time), Some(last.time));
    let explained = explained(51_010, EVIDENCE, &events);
    let rest: Vec<_> = explained.parts.iter().filter(|part| part.name.as_deref() == Some("(others)")).collect();
    let [rest] = rest.as_slice() else { panic!("{explained:?}") };
    assert!(rest.kind == CauseKind::Thread && rest.count > 30 && rest.pid.is_none(), "{rest:?}");
}

#[test]
fn each_kind_except_unexplained_time_has_a_rule() {
    let with_a_rule = |kind| CAUSE_RULES.iter().any(|rule| rule.kind == kind);
    for kind in CauseKind::ALL {
        assert_eq!(with_a_rule(kind), kind != CauseKind::Unexplained, "{kind:?}");
    }
}

#[test]
fn the_page_in_the_docs_has_every_cause() {
    const BEGIN: &str =
        "<!-- causes:begin, by UPDATE_DOCS=1 cargo test -p hpt-instrument --all-features the_page_in_the_docs -->\n";
    const END: &str = "<!-- causes:end -->\n";
    let or_dash = |text: &'static str| if text.is_empty() { "-" } else { text };
    let mut expected = String::from("| kind | proof | refuted by | fix | needs |\n| --- | --- | --- | --- | --- |\n");
    for rule in &CAUSE_RULES {
        let (kind, proof, refutation) = (rule.kind.name(), rule.proof, rule.refutation);
        let (fix, needs) = (or_dash(rule.fix), or_dash(rule.needs));
        expected.push_str(&format!("| `{kind}` | {proof} | {refutation} | {fix} | {needs} |\n"));
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/causes.md");
    let text = std::fs::read_to_string(&path).expect("docs/causes.md is there");
    let (before, rest) = text.split_once(BEGIN).expect("the page has a section for the causes");
    let (now, after) = rest.split_once(END).expect("which ends");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{expected}{END}{after}")).expect("the checkout is ours");
    } else {
        assert!(now == expected, "docs/causes.md is out of date; run this test with UPDATE_DOCS=1");
    }
}
