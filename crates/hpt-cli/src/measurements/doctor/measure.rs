//! The short measurement of `hpt doctor --measure`: read overhead, throttling of real-time threads, and wake-up
//! latency. The verdicts come from `diagnose`.

use std::{
    fs,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use hpt_core::{
    Host, Instant, PosixClock, PosixId, TimeSource,
    source::{ReadPath, self_test},
};
use hpt_document::doctor::DoctorMeasurement;
use hpt_instrument::{
    diagnose::{Examined, Gap, Gaps, MachineFacts, Verdict, prove},
    measure::{Latencies, Waiting, Wakes},
};
use hpt_realtime::{AwakeCpus, Fifo, Pinned};
use hpt_sys::host::waited_ns;

use crate::{
    context::{Context, continue_if},
    output::{one_or_many, progress::Progress, short_time, tail},
};

/// The polling time. It spans at least three full periods of one second, regardless of when polling begins.
const POLL: Duration = Duration::from_millis(4_300);
/// The interval between the deadlines of the polling thread. The latency of the first deadline in a gap is the length
/// of the gap.
const STEP: Duration = Duration::from_micros(100);
/// The minimum length of a gap. This measurement ignores shorter gaps; `hpt latency poll` counts all gaps.
const GAP: Duration = Duration::from_millis(5);
/// The number of wake-ups, which are just enough for p99.
const WAKES: u32 = 1_000;
const PERIOD: Duration = Duration::from_millis(1);
/// The interval at which the progress bar is drawn.
const DRAWN_EVERY: Duration = Duration::from_millis(200);
/// The real-time priority, which is above ordinary threads and below the kernel's own real-time threads.
const PRIORITY: u8 = 40;

pub(super) fn measured(what: &str, rules: &[&str], result: String) -> DoctorMeasurement {
    let rules = rules.iter().map(|&rule| rule.to_owned()).collect();
    DoctorMeasurement { what: what.to_owned(), rules, result }
}

/// Measures for about six seconds on the CPU of `pinned`, and confirms the findings that the measurement proves. The
/// progress is drawn on the CPU `spare`.
pub(super) fn measure(
    host: &Host,
    facts: &MachineFacts,
    examined: &mut [Examined],
    (pinned, spare): (&Pinned, Option<usize>),
    context: &Context,
) -> Vec<DoctorMeasurement> {
    let expected = POLL + 2 * PERIOD * WAKES;
    let progress = Progress::new(1, expected);
    progress.name("polling");
    thread::scope(|scope| {
        let (end, ended) = mpsc::channel::<()>();
        // A measuring thread that drew the bar would see its own pauses. The thread is started here, because it would
        // otherwise inherit real-time priority.
        let shown = &progress;
        let draw = move |spare| {
            let _pinned = Pinned::new(spare);
            let begun = Instant::now();
            while ended.recv_timeout(DRAWN_EVERY) == Err(RecvTimeoutError::Timeout) {
                shown.at_fraction(begun.elapsed().div_duration_f64(expected));
            }
        };
        // If no other thread can be started, the bar does not move.
        let drawing = spare.map(|spare| thread::Builder::new().spawn_scoped(scope, move || draw(spare)));
        let found = on_this_thread(host, facts, examined, (pinned.cpu(), &progress), context);
        drop((end, drawing));
        found
    })
}

fn on_this_thread(
    host: &Host,
    facts: &MachineFacts,
    examined: &mut [Examined],
    (cpu, progress): (usize, &Progress),
    context: &Context,
) -> Vec<DoctorMeasurement> {
    let mut found = Vec::new();
    found.extend(reading(host));
    let is_found = |rules: &[&str]| {
        examined.iter().any(|one| rules.contains(&one.rule.id) && matches!(one.verdict, Verdict::Problem(_)))
    };
    // Without CPU time that is reserved for ordinary threads, a real-time thread that never blocks would stop them.
    // With a limit on the CPU time of real-time threads (RLIMIT_RTTIME), the kernel would end hpt.
    let may_preempt = is_found(&["throttling", "fair-server"]) && !is_found(&["realtime-timeout"]);
    let fifo = if may_preempt { Fifo::new(PRIORITY).ok() } else { None };
    let policy =
        if fifo.is_some() { format!("under SCHED_FIFO {PRIORITY}") } else { "as an ordinary thread".to_owned() };
    let gaps = poll(context);
    if fifo.is_some() && !context.interrupted() {
        prove(examined, facts, cpu, &gaps);
    }
    let longest = gaps.gaps.iter().map(|gap| gap.length).max();
    let longest = longest.map_or_else(String::new, |longest| format!(", the longest {}", time(longest)));
    found.push(measured(
        "pauses of a thread that never blocks",
        &["throttling", "fair-server", "stolen-time", "isolated-cpus"],
        format!("{} of {} or more in {} on CPU {cpu} {policy}{longest}", gaps.gaps.len(), time(GAP), time(gaps.window)),
    ));
    drop(fifo);
    progress.name("waking up");
    // A thread that blocks does not stop other threads, so real-time priority is safe here.
    let fifo = Fifo::new(PRIORITY).ok();
    let policy =
        if fifo.is_some() { format!("under SCHED_FIFO {PRIORITY}") } else { "as an ordinary thread".to_owned() };
    found.extend(woken(context).map(|late| {
        measured(
            "wake-up latency",
            &["preemption", "governor", "idle-states", "interrupts", "kernel-threads"],
            format!("{late} on CPU {cpu} {policy}"),
        )
    }));
    if let Ok(_awake) = AwakeCpus::new() {
        found.extend(woken(context).map(|late| {
            measured("wake-up latency without idle states", &["idle-states"], format!("{late} on CPU {cpu} {policy}"))
        }));
    }
    found
}

fn time(duration: Duration) -> String {
    short_time(duration.as_secs_f64() * 1e9)
}

/// Measures the read overhead of the kernel's clock, and reports how the clock is read.
fn reading(host: &Host) -> Option<DoctorMeasurement> {
    let clock = PosixClock::open(host, PosixId::Monotonic).ok()?;
    let reference = PosixClock::open(host, PosixId::MonotonicRaw).ok()?;
    let cost = self_test(&clock, &reference).ok()?.read_cost_ns;
    let path = if clock.info().read_path == ReadPath::Vdso { "through the vDSO" } else { "with a system call" };
    Some(measured(
        "read overhead of CLOCK_MONOTONIC",
        &["clock-source", "clock-by-system-call"],
        format!("{}, {path}", short_time(cost)),
    ))
}

/// Returns the time that this thread has waited for a CPU since it started, or `None` if the kernel does not record
/// this time.
fn waited() -> Option<Duration> {
    waited_ns(&fs::read_to_string("/proc/thread-self/schedstat").ok()?).map(Duration::from_nanos)
}

/// Polls the clock, and returns the gaps.
fn poll(context: &Context) -> Gaps {
    let begun = Instant::now();
    let end = begun + POLL;
    let mut gaps = Vec::new();
    let mut waited_before = waited();
    let wakes = Wakes::new(STEP).with_start(begun + STEP).with_waiting(Waiting::Polling).with_check(|| context.check());
    // A thread that polls makes no system call that can be refused.
    let _ = wakes.run(|wake| {
        let length = Duration::from_nanos(wake.latency_ns);
        if length >= GAP {
            let waited_by_now = waited();
            let waited = waited_by_now.zip(waited_before).map(|(now, before)| now.saturating_sub(before));
            waited_before = waited_by_now;
            let began = wake.deadline.saturating_duration_since(begun);
            gaps.push(Gap { began, length, waited });
        }
        continue_if(!context.interrupted() && wake.deadline < end)
    });
    Gaps { gaps, window: Instant::now().saturating_duration_since(begun) }
}

/// Sleeps repeatedly with the kernel's timer, and formats the wake-up latency. Returns `None` if nothing was measured.
fn woken(context: &Context) -> Option<String> {
    let mut latencies = Latencies::new();
    let waited = Wakes::new(PERIOD).with_count(WAKES.into()).with_check(|| context.check()).run(|wake| {
        latencies.record(wake);
        context.check()
    });
    waited.ok()?;
    let late = latencies.histogram().spread(1.0)?;
    let [p50, max] = [late.p50_ns, late.max_ns].map(short_time);
    let p99 = tail(late.samples, 0.99, late.p99_ns).map_or_else(|| "-".to_owned(), short_time);
    let noun = one_or_many(late.samples, "wake-up", "wake-ups");
    Some(format!("p50 {p50}, p99 {p99}, max {max} of {} {noun}", late.samples))
}
