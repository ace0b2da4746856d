//! Counts the CPU cycles that a function takes, excluding the cycles needed to read the counter. If no cycle counter is
//! available, the example prints the reason and measures time instead.
#![forbid(unsafe_code)]

use hpt_core::{ArmCycles, CycleStopwatch, Host, PerfCycles, Stopwatch, TimeSource, source};

/// The function to measure: mixes a thousand numbers.
fn mix() -> u64 {
    (0..1_000_u64).map(|n| n ^ (n << 7)).fold(0, |sum, n| std::hint::black_box(sum.rotate_left(5) ^ n))
}

/// Prints the shortest of many laps, which is the lap that was disturbed least.
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
        "{least} cycles in the shortest of 1000 laps, excluding {own_cost} cycles for reading {} (via {})",
        info.id,
        info.read_path.name()
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::live();
    // Use the core's own cycle counter if a kernel module made it accessible, otherwise a perf event of this thread.
    let not_open = match ArmCycles::open(&host) {
        Ok(cycles) => return count(cycles),
        Err(reason) => reason,
    };
    let no_event = match PerfCycles::open(&host) {
        Ok(cycles) => return count(cycles),
        Err(reason) => reason,
    };
    for (name, reason) in [("arm-cycles", not_open), ("perf-cycles", no_event)] {
        let remedy = reason.remedy().map(|remedy| format!("; to fix this: {remedy}")).unwrap_or_default();
        println!("no {name}: {reason}{remedy}");
    }
    let source = source::choose(&host)?.source;
    let stopwatch = Stopwatch::calibrated(&host, source)?;
    let (_, lap) = stopwatch.time(mix);
    println!("cycles cannot be counted here; the function takes {lap}");
    Ok(())
}
