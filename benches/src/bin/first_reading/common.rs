//! Measures the first reading of a clock in a new process: its duration, and whether it was right.
//! Does not link any clock, because some run code before `main`.

#[path = "../../bare/call.rs"]
mod call;

use std::hint::black_box;

/// Takes the first reading. Prints the elapsed time, the CPU time of the thread and that of the
/// process so far, in nanoseconds. If `on_the_kernels_clock` returns a time, also prints its
/// distance from the two readings of `CLOCK_MONOTONIC` around it.
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
