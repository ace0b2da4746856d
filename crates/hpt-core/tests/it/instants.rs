//! Instants on this machine: never backwards, and within the stated bound of the kernel's clock.
//! Never tests durations.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use hpt_core::{
    Frequency, Host, Instant, Opened, PosixClock, PosixId, SourceId, SourceInfo, TimeSource, Width,
    clock::{self, UseSourceError},
    source::{self, Nominal, RateKind, Scope, StatedBy},
};

use crate::support::{
    alone_to_change_the_source, is_alone, times,
    unsafe_calls::{ChildEnd, in_a_child, interrupt_every, with_the_counter_forbidden},
};

/// The bound while the rate is learned: two brackets of the maximum accepted width (20 µs), over
/// the shortest baseline, along the shortest segment; half of one; and as much again for a segment
/// that began above a slow answer.
const WHILE_LEARNING_NS: u128 = 80_000;

fn readings() -> u32 {
    times(200_000, 8_000)
}

fn rounds() -> u32 {
    times(2_000, 100)
}

fn kernel() -> PosixClock {
    PosixClock::open(&Host::live(), PosixId::Monotonic).expect("every kernel has it")
}

/// Returns the distance of an instant in nanoseconds from the kernel's readings around it.
fn outside(kernel: &PosixClock, read: impl Fn() -> Instant) -> u64 {
    let before_ns = kernel.ticks_end();
    let ns = read().nanos_since(Instant::EPOCH);
    let after_ns = kernel.ticks_end();
    before_ns.saturating_sub(ns).max(ns.saturating_sub(after_ns))
}

/// A source that never advances. `testing::ManualSource` is not used, because emulated boards run these tests in a
/// build with the default features.
#[derive(Debug)]
struct Still {
    info: SourceInfo,
}

impl TimeSource for Still {
    fn ticks(&self) -> u64 {
        0
    }

    fn info(&self) -> &SourceInfo {
        &self.info
    }
}

#[test]
fn every_reading_including_the_first_is_within_the_stated_bound() {
    let kernel = kernel();
    for round in 0..20 {
        let outside_ns = (0..rounds()).map(|_| outside(&kernel, Instant::now)).max().expect("some");
        // The error of the first segments while another test changes the source. The stated bound
        // is smaller.
        let bound = clock::status().bound.as_nanos().max(WHILE_LEARNING_NS);
        assert!(u128::from(outside_ns) <= bound, "{outside_ns} ns, stated {bound}");
        // Pauses longer than any segment.
        thread::sleep(Duration::from_millis(round));
    }
    let unordered_ns = u128::from(outside(&kernel, Instant::now_unordered));
    let bound = clock::status().bound.as_nanos().max(WHILE_LEARNING_NS);
    assert!(unordered_ns <= bound + 2_000, "{unordered_ns} ns, stated {bound}");
}

/// Passes readings between threads as fast as possible.
fn hand_over(threads: usize, readings: u32, meanwhile: impl FnOnce()) {
    let last_ns = AtomicU64::new(0);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..readings {
                        let handed_ns = last_ns.load(Ordering::Acquire);
                        let now_ns = Instant::now().nanos_since(Instant::EPOCH);
                        assert!(now_ns >= handed_ns, "{handed_ns} was handed over, then {now_ns} was read");
                        last_ns.fetch_max(now_ns, Ordering::Release);
                    }
                })
            })
            .collect();
        meanwhile();
        for worker in workers {
            worker.join().expect("no reading went back");
        }
    });
}

#[test]
fn time_never_goes_back_across_eight_threads() {
    hand_over(8, readings() / 4, || ());
}

#[test]
fn time_does_not_go_back_while_its_source_changes() {
    let _alone = alone_to_change_the_source();
    let host = Host::live();
    let before = clock::source().id;
    hand_over(3, readings(), || {
        for name in ["monotonic", before.as_str(), "monotonic", before.as_str()] {
            let opened = source::open(&host, name).expect("it was used before");
            match clock::use_source(opened) {
                Ok(()) => assert_eq!(clock::source().id.as_str(), name),
                // A reader that was creating a segment may have been preempted for longer than the
                // wait.
                Err(UseSourceError::Busy) => {}
                Err(refused) => panic!("{name}: {refused}"),
            }
            thread::sleep(Duration::from_millis(5));
        }
    });
    let outside_ns = outside(&kernel(), Instant::now);
    assert!(u128::from(outside_ns) <= WHILE_LEARNING_NS, "{outside_ns}");
}

#[test]
fn a_source_that_is_not_a_clock_is_refused_and_changes_nothing() {
    let _alone = alone_to_change_the_source();
    let host = Host::live();
    let refused = |name| {
        let opened = source::open(&host, name).expect("every kernel has it");
        clock::use_source(opened).expect_err("it cannot tell the time")
    };
    assert!(matches!(refused("realtime"), UseSourceError::NotSteady(_)));
    assert!(matches!(refused("thread-cpu"), UseSourceError::ThreadBound(_)));
    assert!(matches!(refused("process-cpu"), UseSourceError::NotSystemWide { .. }));
    // Each core has its own, and only the thread that opened it may read it. The first reason is
    // reported.
    let mut info = SourceInfo::new(SourceId::new("cycles-of-cores"));
    info.scope = Scope::Core;
    let of_cores = Opened::ThreadBound(Box::new(Still { info }));
    assert!(matches!(clock::use_source(of_cores), Err(UseSourceError::NotSystemWide { scope: Scope::Core, .. })));
    assert!(matches!(refused("monotonic-coarse"), UseSourceError::TooCoarse(_)));
    let coarser_than_it_says = Own::with_stated_rate(1_000_000, 1_000_000_000);
    assert!(matches!(clock::use_source(coarser_than_it_says), Err(UseSourceError::TooCoarse(_))));
    let info = SourceInfo::new(SourceId::new("still"))
        .with_rate(RateKind::Constant)
        .with_nominal(Frequency::GIGAHERTZ, StatedBy::Program);
    let still = Opened::Shared(Box::new(Still { info }));
    assert!(matches!(clock::use_source(still), Err(UseSourceError::SelfTest { .. })));
    assert_ne!(clock::source().id, SourceId::new("still"));
}

#[test]
fn a_forked_child_keeps_a_working_clock() {
    let kernel = kernel();
    for _ in 0..5 {
        let _ = Instant::now();
        let end = in_a_child(|| {
            let mut last = Instant::EPOCH;
            for _ in 0..rounds() {
                let now = Instant::now();
                // Another test may have been changing the source when this one forked.
                if now < last || u128::from(outside(&kernel, Instant::now)) > WHILE_LEARNING_NS {
                    return 1;
                }
                last = now;
            }
            0
        });
        assert_eq!(end, ChildEnd::Exited(0));
    }
}

static LATEST_NS: AtomicU64 = AtomicU64::new(0);
static IN_HANDLER: AtomicU64 = AtomicU64::new(0);
static WENT_BACK: AtomicBool = AtomicBool::new(false);

extern "C" fn read_in_a_handler(_signal: libc::c_int) {
    let latest_ns = LATEST_NS.load(Ordering::Acquire);
    let now_ns = Instant::now().nanos_since(Instant::EPOCH);
    if now_ns < latest_ns {
        WENT_BACK.store(true, Ordering::Relaxed);
    }
    LATEST_NS.fetch_max(now_ns, Ordering::Release);
    IN_HANDLER.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_signal_handler_may_read_the_clock() {
    // In a child, which has one thread: the handler interrupts the reading itself.
    let end = in_a_child(|| {
        interrupt_every(Duration::from_micros(50), read_in_a_handler);
        while IN_HANDLER.load(Ordering::Relaxed) < 500 {
            let latest_ns = LATEST_NS.load(Ordering::Acquire);
            let now_ns = Instant::now().nanos_since(Instant::EPOCH);
            if now_ns < latest_ns || WENT_BACK.load(Ordering::Relaxed) {
                return 1;
            }
            LATEST_NS.fetch_max(now_ns, Ordering::Release);
        }
        0
    });
    assert_eq!(end, ChildEnd::Exited(0));
}

#[test]
fn with_the_counter_disabled_an_instant_is_the_kernels_clock() {
    if !is_alone("instants::with_the_counter_disabled_an_instant_is_the_kernels_clock") {
        return;
    }
    let end = with_the_counter_forbidden(|| {
        let first = Instant::now();
        let second = Instant::now();
        u8::from(clock::source().id.as_str() != "monotonic" || second < first || first.nanos_since(Instant::EPOCH) == 0)
    });
    match end {
        None => skipped!("this kernel does not know PR_SET_TSC"),
        Some(end) => assert_eq!(end, ChildEnd::Exited(0)),
    }
}

/// A counter of this program: the kernel's clock in ticks of `tick_ns` nanoseconds. Panics on
/// request.
#[derive(Debug)]
struct Own {
    kernel: PosixClock,
    tick_ns: u64,
    info: SourceInfo,
}

static PANICS: AtomicBool = AtomicBool::new(false);

impl Own {
    fn opened(tick_ns: u64) -> Opened {
        Self::with_stated_rate(tick_ns, 1_000_000_000 / tick_ns)
    }

    fn with_stated_rate(tick_ns: u64, hertz: u64) -> Opened {
        let mut info = SourceInfo::new(SourceId::new("own"));
        info.rate = RateKind::Constant;
        info.nominal =
            Frequency::from_hertz(hertz).map(|frequency| Nominal { frequency, stated_by: StatedBy::Program });
        Opened::Shared(Box::new(Self { kernel: kernel(), tick_ns, info }))
    }
}

impl TimeSource for Own {
    fn ticks(&self) -> u64 {
        assert!(!PANICS.load(Ordering::Relaxed), "as it was told to");
        // In stated ticks, regardless of the granularity.
        let stated_ns = self.info.nominal.map_or(1, |nominal| 1_000_000_000 / nominal.frequency.hertz());
        self.kernel.ticks() / self.tick_ns * (self.tick_ns / stated_ns)
    }

    fn info(&self) -> &SourceInfo {
        &self.info
    }
}

#[test]
fn a_source_that_panics_leaves_the_clock_unchanged() {
    if !is_alone("instants::a_source_that_panics_leaves_the_clock_unchanged") {
        return;
    }
    clock::use_source(Own::opened(1)).expect("a sound source passes on a busy machine, too");
    clock::prime();
    let mut last = Instant::now();
    for _ in 0..3 {
        // Also at the end of a segment, when the next one is created.
        PANICS.store(true, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(2));
        std::panic::catch_unwind(Instant::now).expect_err("it panics");
        std::panic::catch_unwind(|| clock::use_source(Own::opened(1))).expect_err("it panics in the self-test");
        PANICS.store(false, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(2));
        let now = Instant::now();
        assert!(now > last);
        last = now;
    }
    // A source that keeps panicking can still be replaced.
    PANICS.store(true, Ordering::Relaxed);
    let kernels = source::open(&Host::live(), "monotonic").expect("every kernel has it");
    clock::use_source(kernels).expect("it is sound, and only the old source panics");
    assert!(Instant::now() > last);
}

/// Like the first test, but after the rate was learned, without changes of the source, and with the
/// stated bound only.
#[test]
fn a_learned_clock_keeps_its_stated_bound() {
    if !is_alone("instants::a_learned_clock_keeps_its_stated_bound") {
        return;
    }
    clock::prime();
    let learned = Instant::now() + Duration::from_millis(300);
    while Instant::now() < learned {}
    let kernel = kernel();
    let judged = (0..rounds()).filter(|_| is_judged_by_its_stated_bound(&kernel)).count();
    if judged == 0 {
        skipped!("two statuses take longer here than segments last, so that the bound of no reading is known");
    }
}

/// Reads once, and compares the reading with its stated bound. Returns false if that bound is not
/// known.
fn is_judged_by_its_stated_bound(kernel: &PosixClock) -> bool {
    let before = clock::status();
    let outside_ns = outside(kernel, Instant::now);
    let after = clock::status();
    // The reading belongs to one of the two segments whose bounds are stated. If this thread was
    // preempted, there may have been another segment in between.
    let is_known = after.anchorings <= before.anchorings + 1;
    if is_known {
        let bound = before.bound.max(after.bound);
        assert!(Duration::from_nanos(outside_ns) <= bound, "{outside_ns} ns, stated {bound:?}");
    }
    is_known
}

#[test]
fn a_1_mhz_counter_stays_within_its_bound() {
    if !is_alone("instants::a_1_mhz_counter_stays_within_its_bound") {
        return;
    }
    clock::use_source(Own::opened(1_000)).expect("a sound source passes on a busy machine, too");
    clock::prime();
    let (kernel, mut last) = (kernel(), Instant::now());
    let mut judged = 0;
    for _ in 0..20 {
        for _ in 0..20 {
            judged += u32::from(is_judged_by_its_stated_bound(&kernel));
            let now = Instant::now();
            assert!(now >= last, "{last}, then {now}");
            last = now;
        }
        thread::sleep(Duration::from_millis(3));
    }
    let status = clock::status();
    assert_eq!(status.source.as_str(), "own");
    if status.anchorings == 0 && status.refused_brackets > 0 {
        return skipped!("the kernel's clock takes too long here to be bracketed, and answers itself");
    }
    assert!(status.bound >= Duration::from_micros(1), "a tick at least: {status:?}");
    if judged == 0 {
        skipped!("two statuses take longer here than segments last, so that the bound of no reading is known");
    }
}

#[test]
fn a_wide_counter_is_followed_without_a_stated_rate_and_a_narrow_one_is_not() {
    if !is_alone("instants::a_wide_counter_is_followed_without_a_stated_rate_and_a_narrow_one_is_not") {
        return;
    }
    let of_bits = |bits| {
        let info = SourceInfo::new(SourceId::new("own")).with_rate(RateKind::Constant);
        let info = info.with_width(Width::new(bits).expect("at most 64"));
        clock::use_source(Opened::Shared(Box::new(Own { kernel: kernel(), tick_ns: 1, info })))
    };
    assert!(matches!(of_bits(32), Err(UseSourceError::NoRate(_))));
    of_bits(64).expect("a sound source passes on a busy machine, too");
    clock::prime();
    let kernel = kernel();
    for _ in 0..20 {
        let _ = is_judged_by_its_stated_bound(&kernel);
    }
    assert_eq!(clock::status().source.as_str(), "own");
}

#[test]
fn a_forked_child_can_change_the_source_at_any_time() {
    if !is_alone("instants::a_forked_child_can_change_the_source_at_any_time") {
        return;
    }
    if std::env::var_os("HPT_TEST_RUNNER").is_some() {
        return skipped!("the emulator's own locks do not survive the fork of a process with threads");
    }
    let host = Host::live();
    // A fault would be that the change is refused as busy.
    let changes = |name: &str| {
        let opened = source::open(&host, name).expect("it was used before");
        match clock::use_source(opened) {
            Err(refused) => {
                println!("{name}: {refused}");
                false
            }
            Ok(()) => true,
        }
    };
    let before = clock::source().id;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert!(changes("monotonic") && changes(before.as_str()), "no other thread changes it here");
            }
        });
        for _ in 0..20 {
            let end = in_a_child(|| u8::from(!(changes("monotonic") && changes(before.as_str()))));
            assert_eq!(end, ChildEnd::Exited(0));
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn the_status_reports_the_reason_and_the_bound() {
    clock::prime();
    for _ in 0..3 {
        let _ = Instant::now();
        thread::sleep(Duration::from_millis(3));
    }
    let status = clock::status();
    assert!(!status.reason.is_empty());
    // Another test may be changing the source at the same time.
    if status.anchorings > 0 {
        assert!(status.bound > Duration::ZERO && status.last_bracket.is_some(), "{status:?}");
    }
}
