//! Measures the cost of converting ticks to nanoseconds: with the 64.64 scale, a division, the
//! kernel's multiply and shift, and floating point.
//! Reads no counter, and measures speed only.

mod common;

use std::hint::black_box;

use criterion::{Criterion, measurement::Measurement};
use hpt_core::{Frequency, Scale};

use self::common::KernelTime;

/// A rate at which no conversion is trivial.
const HERTZ: u64 = 2_596_104_000;
/// A little more than a second of ticks, within the range of all four methods.
const TICKS: u64 = HERTZ + 12_345;
/// The time for which the kernel's multiplier and shift do not overflow. Linux,
/// kernel/time/clocksource.c, `clocks_calc_mult_shift`.
const KERNEL_RANGE_S: u64 = 600;

fn main() {
    let Some(time) = common::clock() else { return };
    let mut criterion = common::criterion(&time);
    let _pinned = common::or_say("pinned to one CPU", hpt_benches::pin());
    let scale = black_box(Scale::of(Frequency::from_hertz(HERTZ).expect("not zero")));
    compare(&mut criterion, &time, "hpt Scale", |ticks| scale.nanos(ticks));
    let hertz = black_box(u128::from(HERTZ));
    // Exact. The quotient fits for 584 years of ticks.
    #[expect(clippy::cast_possible_truncation, reason = "a second of ticks is a second")]
    compare(&mut criterion, &time, "u128 division", |ticks| (u128::from(ticks) * 1_000_000_000 / hertz) as u64);
    let (multiplier, shift) = black_box(kernel_scale());
    // Accurate to about 1e-7, for at most ten minutes of ticks.
    compare(&mut criterion, &time, "kernel multiply and shift", |ticks| (ticks * multiplier) >> shift);
    let tick_ns = black_box(1e9 / HERTZ as f64);
    // Accurate to 53 bits: 1 ns after 104 days.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a second of ticks is a second")]
    compare(&mut criterion, &time, "f64 multiplication", |ticks| (ticks as f64 * tick_ns) as u64);
    criterion.final_summary();
}

/// Times independent conversions, and conversions that each depend on the previous one.
fn compare(criterion: &mut Criterion<KernelTime>, time: &KernelTime, name: &str, convert: impl Fn(u64) -> u64) {
    criterion.benchmark_group("conversion, apart").bench_function(name, |bencher| {
        bencher.iter(|| convert(black_box(TICKS)));
    });
    criterion.benchmark_group("conversion, chained").bench_function(name, |bencher| {
        bencher.iter_custom(|times| {
            let ticks = black_box(TICKS);
            let start = time.start();
            let last = (0..times).fold(ticks, |last, _| ticks + (convert(last) & 1));
            let elapsed = time.end(start);
            black_box(last);
            elapsed
        });
    });
}

/// Returns the finest multiplier and shift whose product stays below 2^64 for ten minutes of ticks.
fn kernel_scale() -> (u64, u32) {
    let multiplier = |shift: u32| (1_000_000_000_u64 << shift) / HERTZ;
    let shift = (0..=32)
        .rev()
        .find(|&shift| (KERNEL_RANGE_S * HERTZ).checked_mul(multiplier(shift)).is_some())
        .expect("a shift of zero multiplies by zero");
    (multiplier(shift), shift)
}
