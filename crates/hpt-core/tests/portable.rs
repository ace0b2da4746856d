//! The guarantees that hold on every target: what a program may rely on that was developed on one system and runs on
//! another. The tests that need files of Linux are in `it`.

#![allow(clippy::disallowed_methods, reason = "tests wait, and write files of their own")]

use std::{
    sync::mpsc,
    thread,
    time::{Duration, SystemTime},
};

#[cfg(target_has_atomic = "64")]
use hpt_core::clock::AtomicInstant;
use hpt_core::{
    Frequency, Host, Instant, Pacer, PosixClock, PosixId, Sleeper, Stopwatch, TimeSource, clock, pace::Overrun,
    sleep::Strategy, source,
};

const PERIOD: Duration = Duration::from_millis(2);

#[test]
fn readings_never_go_back() {
    let mut last = Instant::now();
    for _ in 0..100_000 {
        let now = Instant::now();
        assert!(now >= last, "{now} after {last}");
        last = now;
    }
    assert!(Instant::now_unordered().saturating_add(Duration::from_secs(1)) > last);
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "this target has no threads")]
fn readings_passed_between_threads_never_go_back() {
    let (there, from_here) = mpsc::sync_channel::<Instant>(1);
    let (back, from_there) = mpsc::sync_channel::<Instant>(1);
    let other = thread::spawn(move || {
        for received in from_here {
            let now = Instant::now();
            assert!(now >= received);
            back.send(now).expect("the first thread waits");
        }
    });
    for _ in 0..2_000 {
        let sent = Instant::now();
        there.send(sent).expect("the second thread waits");
        let answered = from_there.recv().expect("the second thread answers");
        assert!(answered >= sent && Instant::now() >= answered);
    }
    drop(there);
    other.join().expect("no reading went back");
}

#[test]
fn instants_and_those_of_the_standard_library_convert_to_each_other() {
    let now = Instant::now();
    let std = now.to_std().expect("the standard library represents the present");
    let again = Instant::from_std(std.instant).expect("so does this crate");
    let error = again.instant.duration_since(now).max(now.duration_since(again.instant));
    assert!(error <= std.uncertainty + again.uncertainty, "{error:?}");
    // The wall clock may be set meanwhile, but not to a time before the year 2020.
    assert!(now.to_system_time() > SystemTime::UNIX_EPOCH + Duration::from_secs(1_577_836_800));
}

#[test]
#[cfg(target_has_atomic = "64")]
fn a_shared_instant_keeps_the_latest() {
    use std::sync::atomic::Ordering;
    static LAST: AtomicInstant = AtomicInstant::new(Instant::MIN);
    let now = Instant::now();
    assert_eq!(LAST.fetch_max(now, Ordering::AcqRel), Instant::MIN);
    assert_eq!(LAST.fetch_max(Instant::EPOCH, Ordering::AcqRel), now);
}

#[test]
fn a_sleep_never_ends_early() {
    for strategy in [Strategy::Precise, Strategy::SpinOnly, Strategy::KernelOnly] {
        let mut sleeper = Sleeper::new().with_strategy(strategy);
        for _ in 0..5 {
            let deadline = Instant::now() + PERIOD;
            let woken = sleeper.sleep_until(deadline);
            assert!(woken.is_in_time() && Instant::now() >= deadline, "{strategy:?}: {woken:?}");
        }
        assert_eq!((sleeper.report().in_time, sleeper.report().interrupted), (5, 0), "{strategy:?}");
    }
}

#[test]
fn a_sleep_until_a_wall_clock_time_ends_after_it() {
    let deadline = SystemTime::now() + PERIOD;
    let woken = Sleeper::new().sleep_until_wall(deadline);
    assert!(woken.clock_was_set || SystemTime::now() >= deadline, "{woken:?}");
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "this target has no threads")]
fn another_thread_interrupts_a_sleep_of_any_strategy() {
    for strategy in [Strategy::Precise, Strategy::SpinOnly, Strategy::KernelOnly] {
        let (send, receive) = mpsc::channel();
        let sleeping = thread::spawn(move || {
            let mut sleeper = Sleeper::new().with_strategy(strategy);
            send.send(sleeper.waker()).expect("the test waits");
            sleeper.sleep(Duration::from_secs(100_000))
        });
        let waker = receive.recv().expect("the thread sends its waker");
        // Whether the thread already sleeps does not matter: an early interruption ends the next sleep.
        thread::sleep(PERIOD);
        waker.wake();
        let woken = sleeping.join().expect("the thread only sleeps");
        assert!(woken.interrupted.is_some_and(|left| left > Duration::from_secs(1_000)), "{strategy:?}");
    }
}

#[test]
fn an_interruption_before_a_sleep_ends_that_sleep_only() {
    let mut sleeper = Sleeper::new();
    sleeper.waker().wake();
    sleeper.waker().wake();
    assert!(!sleeper.sleep(Duration::from_secs(100_000)).is_in_time());
    assert!(sleeper.sleep(PERIOD).is_in_time());
    sleeper.waker().wake();
    sleeper.clear_interruption();
    assert!(sleeper.sleep(PERIOD).is_in_time());
}

#[test]
fn a_pacer_keeps_its_grid_and_counts() {
    let first = Instant::now() + PERIOD;
    let mut pacer = Pacer::new(PERIOD).with_start(first).with_overrun(Overrun::CatchUp);
    for number in 0..5_u32 {
        let tick = pacer.wait();
        assert_eq!(tick.deadline, first + number * PERIOD);
        assert!(Instant::now() >= tick.deadline);
    }
    assert_eq!((pacer.counts().ticks, pacer.counts().skipped), (5, 0));
    let mut pacer = Pacer::new(PERIOD);
    let _ = pacer.wait();
    Sleeper::new().sleep(4 * PERIOD).is_in_time().then_some(()).expect("there is no waker");
    assert!(pacer.wait().skipped >= 3);
    assert!(pacer.counts().overruns >= 1 && pacer.counts().ticks == 2);
}

#[test]
fn a_stopwatch_times_work_by_the_chosen_source() {
    let host = Host::live();
    let chosen = source::choose(&host).expect("every target has a clock");
    let stopwatch = Stopwatch::calibrated(&host, chosen.source).expect("the clock has a rate");
    let start = std::time::Instant::now();
    let ((), lap) = stopwatch.time(|| while start.elapsed() < PERIOD {});
    assert!(!lap.is_too_short() && lap.duration() > PERIOD / 2, "{lap}");
    let clock = PosixClock::open(&host, PosixId::Monotonic).expect("every target has it");
    let (before, after) = (clock.ticks(), clock.ticks());
    assert!(before <= after);
    assert!(Stopwatch::new(clock, Frequency::GIGAHERTZ).time(|| ()).1.own_cost() < Duration::from_secs(1));
}

#[test]
fn the_status_names_the_source_and_the_bound() {
    clock::prime();
    let status = clock::status();
    assert!(!status.reason.is_empty());
    assert_eq!(clock::source().id, status.source);
    assert!(source::names_on(&Host::live()).contains(&status.source));
    if cfg!(not(target_os = "linux")) {
        assert_eq!((status.source.as_str(), status.bound), ("monotonic", Duration::ZERO));
        assert!(status.reason.contains("operating system's clock"), "{}", status.reason);
    }
}

/// Executes RDTIME on every RISC-V system. Prints the counter that instants use, because that depends on the kernel.
#[test]
#[cfg(all(target_os = "linux", target_arch = "riscv64"))]
fn rdtime_counts_and_instants_use_it_if_the_kernel_offers_it() {
    let counter = hpt_core::RiscvTime::open(&Host::live()).expect("every 64-bit RISC-V processor has the counter");
    let start = std::time::Instant::now();
    let first = counter.ticks();
    let mut last = counter.ticks_start();
    while start.elapsed() < PERIOD {
        let (early, late) = (counter.ticks_start(), counter.ticks_end());
        assert!(last <= early && early <= late, "{last}, {early}, {late}");
        last = late;
    }
    let elapsed = start.elapsed();
    assert!(last > first, "the counter stands still at {first}");
    clock::prime();
    let sources = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    let sources = std::fs::read_to_string(sources).unwrap_or_default();
    let is_offered = sources.split_whitespace().any(|name| name == "riscv_clocksource");
    let used = clock::source().id;
    assert_eq!(used.as_str(), if is_offered { "riscv-time" } else { "monotonic" }, "{sources}");
    println!("RDTIME counted {} ticks in {elapsed:?}; Instant reads {used}", last - first);
}

#[test]
#[cfg(not(target_os = "linux"))]
fn only_the_clock_of_the_operating_system_is_accepted() {
    use hpt_core::clock::UseSourceError;
    let open = |name| source::open(&Host::live(), name).expect("both clocks can be read");
    assert_eq!(clock::use_source(open("monotonic")), Ok(()));
    assert_eq!(clock::use_source(open("realtime")), Err(UseSourceError::OnlyClock));
    assert!(source::open(&Host::live(), "tsc").is_err());
}

#[test]
fn the_debug_output_of_a_type_with_statistics_is_short() {
    let (mut sleeper, mut pacer) = (Sleeper::new(), Pacer::new(PERIOD));
    for _ in 0..40 {
        sleeper.sleep(Duration::from_micros(20));
        let _ = pacer.wait();
    }
    let texts = [
        format!("{sleeper:?}"),
        format!("{:?}", sleeper.report()),
        format!("{:?}", sleeper.waker()),
        format!("{pacer:?}"),
        format!("{:?}", pacer.wait()),
        format!("{:?}", hpt_core::clock::status()),
        clock::status().to_string(),
    ];
    for text in texts {
        assert!(text.len() < 400, "{}: {text}", text.len());
    }
}

#[test]
fn a_sleeper_and_a_pacer_continue_on_another_thread() {
    let (mut sleeper, mut pacer) = (Sleeper::new(), Pacer::new(PERIOD));
    for number in 1..=3 {
        let before = pacer.counts().ticks;
        (sleeper, pacer) = thread::spawn(move || {
            for _ in 0..20 {
                let deadline = Instant::now() + Duration::from_micros(200);
                assert!(sleeper.sleep_until(deadline).is_in_time() && Instant::now() >= deadline);
            }
            assert!(pacer.wait().interrupted.is_none());
            (sleeper, pacer)
        })
        .join()
        .expect("no sleep is early");
        assert_eq!((sleeper.report().in_time, pacer.counts().ticks), (20 * number, before + 1));
    }
}

#[test]
fn no_sleep_is_lost_when_a_sleeper_moves_between_threads_that_exist_at_the_same_time() {
    let mut sleeper = Sleeper::new();
    for slept in 1..=4 {
        assert!(sleeper.sleep(Duration::from_micros(200)).is_in_time());
        let other = thread::spawn(move || {
            assert!(sleeper.sleep(Duration::from_micros(200)).is_in_time());
            sleeper
        });
        sleeper = other.join().expect("the sleep is in time");
        assert_eq!(sleeper.report().in_time, 2 * slept);
    }
}
