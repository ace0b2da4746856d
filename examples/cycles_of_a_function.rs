//! Counts the cycles that a function takes, with the cycles that reading the counter takes beside it; without a cycle counter it says why, and measures time.
#![forbid(unsafe_code)]

use hpt_core::{ArmCycles, CycleStopwatch, Host, PerfCycles, Stopwatch, TimeSource, source};

/// The function: mixes a thousand numbers.
fn mix() -> u64 {
    (0..1_000_u64).map(|n| n ^ (n << 7)).fold(0, |sum, n| std::hint::black_box(sum.rotate_left(5) ^ n))
}

/// The least of many laps: the function itself, when nothing disturbed it.
fn count(source: impl TimeSource) -> Result<(), Box<dyn std::error::Error>> {
    let stopwatch = CycleStopwatch::new(source);
    let mut least = u64::MAX;
    let mut own_cost = 0;
    for _ in 0..1_000 {
        let (_, lap) = stopwatch.time(mix);
        let lap = lap?;
        least = least.min(lap.without_own_cost());
        own_cost = lap.own_cost();
    }
    let info = stopwatch.source().info();
    println!(
        "{least} cycles, the least of 1000 laps; {own_cost} for reading {} (by {}) are taken off",
        info.id,
        info.read_path.name()
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::live();
    // The core's own counter, where a kernel module opened it; else this thread's perf event.
    let not_open = match ArmCycles::open(&host) {
        Ok(cycles) => return count(cycles),
        Err(reason) => reason,
    };
    let no_event = match PerfCycles::open(&host) {
        Ok(cycles) => return count(cycles),
        Err(reason) => reason,
    };
    for (name, reason) in [("arm-cycles", not_open), ("perf-cycles", no_event)] {
        let remedy = reason.remedy().map(|remedy| format!("; what helps: {remedy}")).unwrap_or_default();
        println!("no {name}: {reason}{remedy}");
    }
    let (source, _) = source::choose(&host)?;
    let stopwatch = Stopwatch::calibrated(&host, source.as_dyn())?;
    let (_, lap) = stopwatch.time(mix);
    println!("no cycles can be counted here; in time: {lap}");
    Ok(())
}
