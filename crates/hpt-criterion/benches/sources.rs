//! Measures one function with several measurements, side by side: time by the processor's counter, time by the
//! kernel's clock, cycles and instructions. Also measures empty functions, whose result shows what remains of the
//! overhead.
#![forbid(unsafe_code)]

use std::{hint::black_box, time::Duration};

use criterion::{BatchSize, Criterion, measurement::Measurement};
use hpt_criterion::{Cycles, Instructions, Time};

fn fibonacci(n: u64) -> u64 {
    if n < 2 { n } else { fibonacci(n - 1) + fibonacci(n - 2) }
}

/// Measures the functions. The name of the measurement is the name of the group, because Criterion compares results
/// of the same name with the previous run.
fn measure<M: Measurement + 'static>(name: &str, measurement: M) {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args()
        .with_measurement(measurement);
    let mut group = criterion.benchmark_group(name);
    group.bench_function("empty, one interval for many calls", |bencher| bencher.iter(|| ()));
    // The overhead of each interval counts fully.
    group.bench_function("empty, one interval per call", |bencher| {
        bencher.iter_batched(|| (), |()| (), BatchSize::PerIteration);
    });
    group.bench_function("fibonacci of 15", |bencher| bencher.iter(|| fibonacci(black_box(15))));
    group.finish();
    criterion.final_summary();
}

fn main() {
    let counter = if cfg!(target_arch = "x86_64") { "tsc" } else { "arm-counter" };
    for source in [counter, "monotonic"] {
        match Time::open(source) {
            Ok(time) => measure(&time.name(), time.clone()),
            Err(reason) => eprintln!("not measured: time by {source}: {reason}"),
        }
    }
    // If the machine has no counter for these events, time is measured, and the name says so.
    let cycles = Cycles::new();
    measure(&format!("cycles ({})", cycles.name()), cycles.clone());
    let instructions = Instructions::new();
    measure(&format!("instructions ({})", instructions.name()), instructions.clone());
}
