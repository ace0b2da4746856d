//! One first reading of one clock in a fresh process: how long it took, and whether it was right.
//! Names no clock, and nothing that links one: some of them work before `main`.

#[path = "../../bare/call.rs"]
mod call;

use std::hint::black_box;

/// Takes the first reading; prints wall-clock time, CPU time of the thread and of the process so far in nanoseconds, and how far the reading was
/// outside of the two readings of `CLOCK_MONOTONIC` around it, where `on_the_kernels_clock` says that it shares the epoch.
pub(crate) fn first_reading<T>(read: impl FnOnce() -> T, on_the_kernels_clock: impl FnOnce(T) -> Option<u64>) {
    let cpu_before = call::thread_cpu_ns();
    let before = call::monotonic_ns();
    let reading = black_box(read());
    let after = call::monotonic_ns();
    let cpu_after = call::thread_cpu_ns();
    let process_cpu = call::process_cpu_ns();
    let off = on_the_kernels_clock(reading).map_or("-".to_owned(), |ns| {
        let ns = ns.cast_signed();
        (before - ns).max(ns - after).max(0).to_string()
    });
    println!("{} {} {process_cpu} {off}", after - before, cpu_after - cpu_before);
}
