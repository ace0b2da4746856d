//! A short measurement that supports the findings: the read overhead, throttling of real-time threads, and wake-up
//! latency. Reaches no verdict; `diagnose` does.

use std::{fs, time::Duration};

use hpt_core::{
    Host, Instant, PosixClock, PosixId, TimeSource,
    diagnose::{Examined, Hole, Holes, MachineFacts, Verdict, prove},
    host::waited_ns,
    measure::{Lateness, Rouser, Waiting, wakes},
    realtime::{AwakeCpus, Fifo, Pinned},
    source::{ReadPath, self_test},
};
use hpt_document::doctor::DoctorMeasurement;

use crate::{
    context::Context,
    output::{progress::Progress, short_time},
};

/// Three whole periods of one second, wherever in a period it begins.
const LOOK: Duration = Duration::from_millis(4_300);
/// The interval between clock reads. A gap is as long as the latency of a deadline in it.
const STEP: Duration = Duration::from_micros(100);
/// Shorter gaps are negligible here: `hpt latency poll` counts all of them.
const HOLE: Duration = Duration::from_millis(5);
const WAKES: u32 = 500;
const PERIOD: Duration = Duration::from_millis(1);
/// Above ordinary threads, and below the kernel's own.
const PRIORITY: u8 = 40;

/// One result as a document row.
pub(super) fn measured(what: &str, rules: &[&str], result: String) -> DoctorMeasurement {
    let rules = rules.iter().map(|&rule| rule.to_owned()).collect();
    DoctorMeasurement { what: what.to_owned(), rules, result }
}

/// Measures for some seconds on the CPU of `pinned`, and confirms the findings that the result proves.
pub(super) fn measure(
    host: &Host,
    facts: &MachineFacts,
    examined: &mut [Examined],
    pinned: &Pinned,
    context: &Context,
) -> Vec<DoctorMeasurement> {
    let cpu = pinned.cpu();
    let mut found = Vec::new();
    let wakes = PERIOD * WAKES;
    let expected = LOOK + 2 * wakes;
    let progress = Progress::new(1, expected);
    progress.name("looking");
    found.extend(reading(host));
    let is_found = |rules: &[&str]| {
        examined.iter().any(|one| rules.contains(&one.rule.id) && matches!(one.verdict, Verdict::Found(_)))
    };
    // Without reserved time, a thread that never blocks would stop all others; and with a limit, hpt would be killed.
    let may_go_on = is_found(&["throttling", "fair-server"]) && !is_found(&["realtime-timeout"]);
    let fifo = if may_go_on { Fifo::at(PRIORITY).ok() } else { None };
    let by = if fifo.is_some() { format!("by SCHED_FIFO {PRIORITY}") } else { "as an ordinary thread".to_owned() };
    let holes = look(context);
    if fifo.is_some() && !context.interrupted() {
        prove(examined, facts, cpu, &holes);
    }
    let longest = holes.holes.iter().map(|hole| hole.length).max();
    let longest = longest.map_or_else(String::new, |longest| format!(", the longest of {}", time(longest)));
    found.push(measured(
        "times in which a thread that never waits did not run",
        &["throttling", "fair-server", "stolen-time", "isolated-cpus"],
        format!(
            "{} of {} and more in {} on CPU {cpu} {by}{longest}",
            holes.holes.len(),
            time(HOLE),
            time(holes.window)
        ),
    ));
    drop(fifo);
    progress.name("waking up");
    progress.at_fraction(LOOK.div_duration_f64(expected));
    // A blocking thread disturbs no other.
    let fifo = Fifo::at(PRIORITY).ok();
    let by = if fifo.is_some() { format!("by SCHED_FIFO {PRIORITY}") } else { "as an ordinary thread".to_owned() };
    found.extend(woken(context).map(|late| {
        measured(
            "how late a thread was woken",
            &["preemption", "governor", "idle-states", "interrupts", "kernel-threads"],
            format!("{late} on CPU {cpu} {by}"),
        )
    }));
    progress.at_fraction((LOOK + wakes).div_duration_f64(expected));
    if let Ok(_awake) = AwakeCpus::hold() {
        found.extend(woken(context).map(|late| {
            measured("the same with all CPUs kept awake", &["idle-states"], format!("{late} on CPU {cpu} {by}"))
        }));
    }
    found
}

fn time(duration: Duration) -> String {
    short_time(duration.as_secs_f64() * 1e9)
}

/// The read overhead of the kernel's clock, and what a read passes through.
fn reading(host: &Host) -> Option<DoctorMeasurement> {
    let clock = PosixClock::open(host, PosixId::Monotonic).ok()?;
    let reference = PosixClock::open(host, PosixId::MonotonicRaw).ok()?;
    let cost = self_test(&clock, &reference).ok()?.read_cost_ns;
    let path = if clock.info().read_path == ReadPath::Vdso { "by the vDSO" } else { "by system call" };
    Some(measured(
        "what a reading of CLOCK_MONOTONIC costs",
        &["clock-source", "clock-by-system-call"],
        format!("{}, {path}", short_time(cost)),
    ))
}

/// Returns how long this thread has waited for a CPU since it started; `None` if the kernel does not count that.
fn waited() -> Option<Duration> {
    waited_ns(&fs::read_to_string("/proc/thread-self/schedstat").ok()?).map(Duration::from_nanos)
}

/// Polls the clock.
fn look(context: &Context) -> Holes {
    let begun = Instant::now();
    let end = begun + LOOK;
    let mut holes = Vec::new();
    let mut waited_before = waited();
    wakes(
        begun + STEP,
        STEP,
        Waiting::Polling,
        &Rouser::default(),
        || !context.interrupted(),
        |wake| {
            let length = Duration::from_nanos(wake.late_ns);
            if length >= HOLE {
                let waited_by_now = waited();
                let waited = waited_by_now.zip(waited_before).map(|(now, before)| now.saturating_sub(before));
                waited_before = waited_by_now;
                let began = wake.deadline.saturating_duration_since(begun);
                holes.push(Hole { began, length, waited });
            }
            !context.interrupted() && wake.deadline < end
        },
    );
    Holes { holes, window: Instant::now().saturating_duration_since(begun) }
}

/// Sleeps repeatedly with the kernel's timer; `None` if nothing was measured.
fn woken(context: &Context) -> Option<String> {
    let mut lateness = Lateness::new();
    let mut left = WAKES;
    wakes(
        Instant::now() + PERIOD,
        PERIOD,
        Waiting::Parked,
        &Rouser::default(),
        || !context.interrupted(),
        |wake| {
            lateness.record(wake);
            left -= 1;
            left > 0 && !context.interrupted()
        },
    );
    let late = lateness.counts().spread(1.0)?;
    let [p50, p99, max] = [late.p50_ns, late.p99_ns, late.max_ns].map(short_time);
    Some(format!("p50 {p50}, p99 {p99}, max {max} of {} wake-ups", late.samples))
}
