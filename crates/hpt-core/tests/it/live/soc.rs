//! Counters of ARM systems on a chip on this machine, beside the kernel's clock.

use std::{
    thread,
    time::{Duration, Instant as StdInstant},
};

use hpt_core::{
    Frequency, Host, Instant, Opened, PosixClock, PosixId, SourceError, TimeSource, Widened,
    clock::{self, UseSourceError},
    source,
};
use hpt_sys::host::SOC_COUNTERS;

/// Returns the counters that this process may read.
fn counters() -> Vec<Opened> {
    let host = Host::live();
    let opened = SOC_COUNTERS.iter().map(|kind| source::open(&host, kind.id));
    opened.filter_map(Result::ok).collect()
}

fn kernel(id: PosixId) -> PosixClock {
    PosixClock::open(&Host::live(), id).expect("every kernel has it")
}

/// Returns the stated rate, or the rate in a third of a second.
fn rate(counter: &dyn TimeSource) -> Frequency {
    let clock = kernel(PosixId::MonotonicRaw);
    counter.info().nominal.map_or_else(
        || {
            let (start_ns, start) = (clock.ticks_end(), counter.ticks_end());
            thread::sleep(Duration::from_millis(300));
            let (end_ns, end) = (clock.ticks_end(), counter.ticks_end());
            Frequency::from_ratio(counter.info().width.difference(start, end), end_ns - start_ns).expect("it moves")
        },
        |nominal| nominal.frequency,
    )
}

#[test]
fn a_counter_that_the_device_tree_does_not_have_is_refused_by_its_name() {
    for kind in SOC_COUNTERS {
        match source::open(&Host::live(), kind.id) {
            Ok(opened) => assert_eq!(opened.as_dyn().info().id.as_str(), kind.id),
            Err(SourceError::Unknown { .. }) if cfg!(feature = "devices") => panic!("{} is known", kind.id),
            Err(reason) => assert!(!reason.to_string().is_empty()),
        }
    }
}

/// On an emulated board that skips idle time (see boards/), minutes pass in seconds.
#[test]
#[ignore = "waits for each 32-bit counter to wrap: up to 72 minutes"]
fn the_counters_of_the_soc_wrap() {
    const MARGIN_MS: u64 = 20;
    let narrow: Vec<Opened> = counters().into_iter().filter(|counter| counter.info().width.bits() == 32).collect();
    if narrow.is_empty() {
        return skipped!("no counter of 32 bits");
    }
    for counter in narrow {
        let (counter, clock) = (counter.as_dyn(), kernel(PosixId::Monotonic));
        let (id, width, rate) = (&counter.info().id, counter.info().width, rate(counter));
        let wide = Widened::by_at_rate(counter, &clock, rate).expect("it is constant-rate");
        let ticks_of = |ms: u64| ms * rate.hertz() / 1_000;
        println!("{id}: {:.0} Hz, {:#x} of {:#x}", rate.hertz_f64(), counter.ticks(), width.mask());
        // Sleeps in parts: the rate that was measured is not exact.
        while width.mask() - counter.ticks() > ticks_of(2 * MARGIN_MS) {
            let left_ticks = width.mask() - counter.ticks() - ticks_of(MARGIN_MS);
            thread::sleep(Duration::from_nanos(left_ticks * 999_000_000 / rate.hertz()));
        }
        let start = wide.ticks_end();
        let (mut last, mut last_wide) = (counter.ticks_end(), start);
        let (mut readings, mut wraps) = (0_u32, 0);
        while last_wide - start < ticks_of(4 * MARGIN_MS) {
            let (now, now_wide) = (counter.ticks_end(), wide.ticks_end());
            assert!(width.signed_difference(last, now) >= 0, "{id}: from {last:#x} to {now:#x}");
            assert!(now_wide >= last_wide, "{id}: from {last_wide:#x} to {now_wide:#x}");
            wraps += u32::from(now < last);
            (readings, last, last_wide) = (readings + 1, now, now_wide);
        }
        assert_eq!((wraps, wide.guesses()), (1, 0), "{id}");
        println!("wrapped: {id}, {:.0} Hz, {readings} readings, none went back", rate.hertz_f64());
    }
}

/// A counter of 64 bits serves `Instant`. One of 32 bits is refused, and the kernel's clock serves it.
#[test]
#[ignore = "takes a minute"]
fn an_instant_stays_within_its_bound_for_a_minute() {
    let host = Host::live();
    for kind in SOC_COUNTERS {
        let Ok(opened) = source::open(&host, kind.id) else { continue };
        let is_wide = opened.as_dyn().info().width.bits() == 64;
        match clock::use_source(opened) {
            Ok(()) => assert!(is_wide, "{}", kind.id),
            Err(refused) => {
                assert!(!is_wide, "{}: {refused}", kind.id);
                assert!(matches!(refused, UseSourceError::NoRate(_) | UseSourceError::TooCoarse(_)), "{refused}");
                println!("refused: {refused}");
            }
        }
    }
    clock::prime();
    let (kernel, begun) = (kernel(PosixId::Monotonic), StdInstant::now());
    let (mut last, mut worst_ns, mut bound, mut readings) = (Instant::now(), 0, Duration::ZERO, 0_u64);
    while begun.elapsed() < Duration::from_secs(60) {
        let before = clock::status();
        for _ in 0..100 {
            let before_ns = kernel.ticks_end();
            let now = Instant::now();
            let after_ns = kernel.ticks_end();
            assert!(now >= last, "{last}, then {now}");
            let ns = now.nanos_since(Instant::EPOCH);
            worst_ns = worst_ns.max(before_ns.saturating_sub(ns)).max(ns.saturating_sub(after_ns));
            (last, readings) = (now, readings + 1);
        }
        bound = bound.max(before.bound).max(clock::status().bound);
        thread::sleep(Duration::from_millis(5));
    }
    let status = clock::status();
    assert!(Duration::from_nanos(worst_ns) <= bound, "{worst_ns} ns, stated {bound:?}");
    println!(
        "instants: {}, {readings} readings, at most {worst_ns} ns outside of two readings of the kernel, stated {} ns, {} segments",
        status.source,
        bound.as_nanos(),
        status.anchorings
    );
}
