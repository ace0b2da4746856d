//! Does something every millisecond, and says how punctual that was.
#![forbid(unsafe_code)]

use std::time::Duration;

use hpt_core::Pacer;

fn main() {
    let mut pacer = Pacer::every(Duration::from_millis(1));
    for _ in 0..500 {
        let tick = pacer.wait();
        // The work of a period: here, to see whether one was missed.
        if tick.skipped > 0 {
            println!("{} periods were left out before {}", tick.skipped, tick.deadline);
        }
    }
    let (counts, report) = (pacer.counts(), pacer.sleeper().report());
    println!("{} periods, {} begun after their deadline", counts.ticks, counts.overruns);
    if let Some(late) = report.late {
        println!("late by {:.0} ns (p50), {:.0} ns (p99), {:.0} ns at most", late.p50_ns, late.p99_ns, late.max_ns);
    }
    println!(
        "woken {:?} before each deadline; {:.1} % of the time spent spinning",
        report.reserve,
        report.spinning_share * 100.0
    );
}
