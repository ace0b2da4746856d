//! Runs code every millisecond, and reports the wake-up latency.
#![forbid(unsafe_code)]

use std::time::Duration;

use hpt_core::Pacer;

fn main() {
    let mut pacer = Pacer::new(Duration::from_millis(1));
    for _ in 0..500 {
        let tick = pacer.wait();
        // The work of one period. Here it only reports skipped periods.
        if tick.skipped > 0 {
            let periods = if tick.skipped == 1 { "period was" } else { "periods were" };
            println!("{} {periods} skipped before the deadline at {} s", tick.skipped, tick.deadline);
        }
    }
    let (counts, report) = (pacer.counts(), pacer.sleeper().report());
    let misses = if counts.overruns == 1 { "deadline miss" } else { "deadline misses" };
    println!("{} periods, {} {misses}", counts.ticks, counts.overruns);
    if let Some(late) = report.late {
        println!("wake-up latency: p50 {:.0} ns, p99 {:.0} ns, max {:.0} ns", late.p50_ns, late.p99_ns, late.max_ns);
    }
    println!(
        "woken {:?} before each deadline; {:.1} % of the time spent spinning",
        report.margin,
        report.spinning_share * 100.0
    );
}
