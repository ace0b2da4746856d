//! Runs Criterion with the measurements of hpt-criterion, as a bench does.
#![allow(clippy::unwrap_used, reason = "a test may end with a panic")]

use std::{
    fs,
    hint::black_box,
    path::{Path, PathBuf},
    time::Duration,
};

use criterion::{BatchSize, Criterion, measurement::Measurement};
use hpt_core::{Frequency, Host, PosixClock, PosixId, SourceId, SourceInfo, source::StatedBy, testing::ManualSource};
use hpt_criterion::{Cycles, Instructions, Time};

/// Reports why a test, or part of a test, cannot run on this machine.
macro_rules! skipped {
    ($($why:tt)*) => {{
        use std::io::Write as _;
        // Directly to standard error, because the test harness captures the output of `eprintln!` in passing tests.
        std::io::stderr().write_all(format!("skipped: {}\n", format_args!($($why)*)).as_bytes()).expect("standard error is open")
    }};
}
/// Runs each way in which Criterion takes a measurement, and returns the directory of the results.
fn bench<M: Measurement + 'static>(measurement: M, advance: impl Fn() -> u64) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let mut criterion = Criterion::default()
        .without_plots()
        .sample_size(10)
        .nresamples(1001)
        .warm_up_time(Duration::from_millis(1))
        .measurement_time(Duration::from_millis(10))
        .output_directory(directory.path())
        .with_measurement(measurement);
    let mut group = criterion.benchmark_group("group");
    group.bench_function("iter", |bencher| bencher.iter(&advance));
    group.bench_function("batched", |bencher| bencher.iter_batched(|| (), |()| advance(), BatchSize::SmallInput));
    group.bench_function("each", |bencher| bencher.iter_batched(|| (), |()| advance(), BatchSize::PerIteration));
    group.bench_function("empty", |bencher| bencher.iter_batched(|| (), |()| (), BatchSize::PerIteration));
    group.finish();
    directory
}

fn results(directory: &Path, function: &str) -> PathBuf {
    directory.join("group").join(function).join("new")
}

/// Returns the mean of a benchmark, in the unit of its measurement.
fn mean(directory: &Path, function: &str) -> f64 {
    let path = results(directory, function).join("estimates.json");
    let json = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (_, mean) = json.split_once(r#""mean":"#).unwrap();
    let (_, point) = mean.split_once(r#""point_estimate":"#).unwrap();
    point.split([',', '}']).next().unwrap().parse().unwrap()
}

/// A source of microseconds that only its readers advance: each read by 3, and each call of the work by 50.
#[test]
fn every_way_to_measure_yields_the_time_of_the_work() {
    let megahertz = Frequency::from_hertz(1_000_000).unwrap();
    let info = SourceInfo::new(SourceId::new("manual")).with_nominal(megahertz, StatedBy::Definition);
    let source: &'static ManualSource = Box::leak(Box::new(ManualSource::with_info(info).with_step(3)));
    let directory = bench(Time::new(source).unwrap().without_output(), || {
        source.advance(50);
        0
    });
    for function in ["iter", "batched", "each"] {
        let found = mean(directory.path(), function);
        assert!((found - 50_000.0).abs() < 1e-3, "{function}: {found}");
    }
    // Zero, without being discarded by Criterion.
    let empty = mean(directory.path(), "empty");
    assert!(empty.abs() < 100.0, "{empty}");
}

/// The values of a real clock depend on the machine; that there are results does not.
#[test]
fn a_live_source_yields_results() {
    let clock = PosixClock::open(&Host::live(), PosixId::MonotonicRaw).unwrap();
    let directory = bench(Time::new(clock).unwrap().without_output(), || black_box(1) + 1);
    for function in ["iter", "batched", "each", "empty"] {
        assert!(mean(directory.path(), function).is_finite(), "{function}");
    }
}

/// This must not end the process on any machine, whether or not it has counters.
#[test]
fn cycles_and_instructions_yield_results_or_fall_back() {
    let cycles = Cycles::new().without_output();
    let directory = bench(cycles.clone(), || black_box(1) + 1);
    assert!(mean(directory.path(), "iter").is_finite());
    say("cycles", &cycles.name(), cycles.fallback());
    let instructions = Instructions::new().without_output();
    let directory = bench(instructions.clone(), || black_box(1) + 1);
    assert!(mean(directory.path(), "iter").is_finite());
    say("instructions", &instructions.name(), instructions.fallback());
}

fn say(event: &str, name: &str, fallback: Option<&hpt_criterion::CountError>) {
    match fallback {
        None => assert!(name.starts_with(event), "{name}"),
        Some(refused) => {
            assert!(name.starts_with("time by "), "{name}");
            assert!(!refused.reason.is_empty());
            skipped!("{event} are not counted on this machine: {refused}");
        }
    }
}

/// Instructions of a loop are the same in every run, so twice the loop takes twice as many.
#[test]
fn instructions_grow_with_the_work() {
    let instructions = match Instructions::open() {
        Ok(instructions) => instructions.without_output(),
        Err(refused) => return skipped!("instructions are not counted on this machine: {refused}"),
    };
    let count = |rounds: u64| {
        let start = instructions.start();
        let sum = (0..rounds).map(black_box).fold(0_u64, u64::wrapping_add);
        let lap = instructions.end(start);
        black_box(sum);
        instructions.to_f64(&lap)
    };
    let (once, ten_times) = (count(10_000), count(100_000));
    assert!(once > 10_000.0 && (8.0..12.0).contains(&(ten_times / once)), "{once} {ten_times}");
}

#[test]
fn the_best_source_measures_time() {
    let time = Time::best().unwrap().without_output();
    let lap = time.end(time.start());
    assert!(time.to_f64(&lap).is_finite());
    assert!(time.report().granularity_ns > 0.0, "{}", time.report());
    assert!(Time::open("no such source").is_err_and(|reason| reason.to_string().contains("no such source")));
}
