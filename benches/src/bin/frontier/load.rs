//! The margin and the overshoot of one sleeper while a load starts and stops.

use std::time::Duration;

use hpt_benches::programs::Interrupt;
use hpt_core::{Instant, Sleeper};
use serde::Serialize;

use crate::busy::beside;

/// The time of each point in the picture.
const STEP: Duration = Duration::from_millis(100);
/// The lowest priority of an ordinary thread.
const LOWEST: i32 = 19;

/// The loads on the measured CPU, one after the other.
const PHASES: [Phase; 5] = [
    Phase { name: "idle", threads: 0, nice: 0 },
    // The CPU never enters an idle state, so that wake-ups take less time.
    Phase { name: "one busy thread, nice 19", threads: 1, nice: LOWEST },
    Phase { name: "idle", threads: 0, nice: 0 },
    // The sleeper must wait for its share of the CPU.
    Phase { name: "four busy threads", threads: 4, nice: 0 },
    Phase { name: "idle", threads: 0, nice: 0 },
];

struct Phase {
    name: &'static str,
    threads: usize,
    nice: i32,
}

/// The sleeps of one step.
#[derive(Debug, Serialize)]
pub(crate) struct Step {
    pub(crate) phase: &'static str,
    /// The end of the step, since the start of the run.
    pub(crate) at_s: f64,
    pub(crate) sleeps: usize,
    /// The margin of the last sleep.
    pub(crate) margin_ns: u64,
    pub(crate) p50_ns: u64,
    pub(crate) p90_ns: u64,
    /// The number of sleeps that kept a short margin, because other threads needed the CPU.
    pub(crate) contended: u64,
}

/// Sleeps for `length` again and again, in phases of `seconds`.
pub(crate) fn load(length: Duration, seconds: u32, interrupt: &Interrupt) -> Vec<Step> {
    let mut sleeper = Sleeper::new();
    let (start, mut steps) = (Instant::now(), Vec::new());
    for phase in &PHASES {
        beside(phase.threads, phase.nice, || {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(seconds.into()) && !interrupt.came() {
                steps.push(step(&mut sleeper, length, phase.name, start));
            }
        });
    }
    steps
}

fn step(sleeper: &mut Sleeper, length: Duration, phase: &'static str, start: Instant) -> Step {
    let (begun, contended) = (Instant::now(), sleeper.report().contended);
    let mut late_ns = Vec::new();
    while begun.elapsed() < STEP {
        let deadline = Instant::now() + length;
        let _ = sleeper.sleep_until(deadline);
        late_ns.push(Instant::now().nanos_since(deadline));
    }
    late_ns.sort_unstable();
    let report = sleeper.report();
    Step {
        phase,
        at_s: start.elapsed().as_secs_f64(),
        sleeps: late_ns.len(),
        margin_ns: u64::try_from(report.margin.as_nanos()).unwrap_or(u64::MAX),
        p50_ns: late_ns[late_ns.len() / 2],
        p90_ns: late_ns[late_ns.len() * 9 / 10],
        contended: report.contended - contended,
    }
}
