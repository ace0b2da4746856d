//! Sources on this machine: order and bracketed readings only, never durations.

#[cfg(feature = "devices")]
mod devices;
#[cfg(feature = "devices")]
mod soc;

use std::{
    fs,
    io::{Read, Write},
    ops::ControlFlow,
    os::unix::net::UnixStream,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use hpt_core::{
    ArmCycles, CycleStopwatch, FixedRateClock, Frequency, FrequencyRange, Host, Instant, Opened, PerfCycles,
    PosixClock, PosixId, Scale, SourceError, SourceInfo, Stopwatch, TimeSource, Tsc,
    calibrate::{calibrate, calibrate_together},
    clock,
    source::{self, Quantity, ReadPath, Scope, SourceVerdict, StatedBy, self_test},
};
use hpt_sys::process::CpuSet;

use crate::support::unsafe_calls::{ChildEnd, in_a_child, with_the_counter_forbidden};

/// A process can open either perf events or the bare cycle counter, never both. Tests that require
/// one of them, and tests that open every available source, take turns.
static CYCLE_COUNTERS: Mutex<()> = Mutex::new(());

fn turn_with_cycle_counters() -> MutexGuard<'static, ()> {
    CYCLE_COUNTERS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn available() -> Vec<Opened> {
    let host = Host::live();
    let opened: Vec<Opened> =
        source::names_on(&host).into_iter().filter_map(|id| source::open(&host, id.as_str()).ok()).collect();
    assert!(opened.len() >= 10, "the kernel's own clocks are always there: {opened:?}");
    opened
}

fn allowed_cpus() -> Vec<usize> {
    CpuSet::of_this_thread().map(|set| set.cpus().collect()).unwrap_or_default()
}

#[test]
fn every_available_source_passes_its_self_test() {
    let _turn = turn_with_cycle_counters();
    let reference = PosixClock::open(&Host::live(), PosixId::MonotonicRaw).expect("every kernel has it");
    for opened in available() {
        let source = opened.as_dyn();
        let tested = self_test(source, &reference);
        assert!(tested.is_ok(), "{}: {tested:?}", source.info().id);
    }
}

#[test]
fn an_emulated_program_is_detected_only_under_an_emulator() {
    let is_run_by_one = std::env::var_os("HPT_TEST_RUNNER").is_some_and(|runner| !runner.is_empty());
    let expected = is_run_by_one.then(|| "qemu-user".to_owned());
    assert_eq!(Host::live().facts().translator, expected);
}

/// Returns the time in which a source may advance by half a wrap, in nanoseconds. Two readings that
/// are as far apart, because this thread or the whole machine was stopped, do not show a direction.
fn half_a_wrap_ns(info: &SourceInfo) -> u64 {
    // No core is faster than 10 GHz. Emulators may deviate by 2 % from the nominal rate.
    let hertz = info.nominal.map_or(10_000_000_000, |nominal| nominal.frequency.hertz().max(1));
    let nominal_ns = u128::from(info.width.mask() / 2) * 1_000_000_000 / u128::from(hertz);
    u64::try_from(nominal_ns - nominal_ns / 20).unwrap_or(u64::MAX)
}

/// Checks that no reading is smaller than the previous one, for two seconds at most.
fn never_steps_back(source: &dyn TimeSource, readings: u32) {
    let clock = PosixClock::open(&Host::live(), PosixId::MonotonicRaw).expect("every kernel has it");
    let (info, half_ns) = (source.info(), half_a_wrap_ns(source.info()));
    let begun_ns = clock.ticks_end();
    let mut last = source.ticks_end();
    // The times before and after the last reading.
    let (mut before_ns, mut after_ns) = (begun_ns, clock.ticks_end());
    for _ in 0..readings {
        let now = source.ticks_end();
        let now_ns = clock.ticks_end();
        let is_followed = now_ns - before_ns < half_ns;
        assert!(!is_followed || info.width.signed_difference(last, now) >= 0, "{}: {last} then {now}", info.id);
        last = now;
        (before_ns, after_ns) = (after_ns, now_ns);
        // Some sources are slow, especially in a virtual machine. At least one pair of readings is
        // compared, even if this thread is delayed.
        if is_followed && now_ns - begun_ns > 2_000_000_000 {
            break;
        }
    }
}

#[test]
fn constant_rate_sources_never_step_back() {
    let _turn = turn_with_cycle_counters();
    for opened in available() {
        let source = opened.as_dyn();
        if source.info().rate.is_steady() {
            never_steps_back(source, 100_000);
        }
    }
}

#[test]
fn the_chosen_source_is_constant_rate_system_wide_and_not_revocable() {
    let _turn = turn_with_cycle_counters();
    let chosen = source::choose(&Host::live()).expect("CLOCK_MONOTONIC is always there");
    let info = chosen.source.as_dyn().info();
    assert!(info.rate.is_steady() && info.scope == Scope::System && !info.revocable, "{info:?}");
    let names: Vec<_> = chosen.selection.verdicts().iter().map(|verdict| verdict.id.clone()).collect();
    assert_eq!(names, source::names_on(&Host::live()));
}

#[test]
fn a_source_that_cannot_be_opened_is_listed_as_unavailable() {
    let _turn = turn_with_cycle_counters();
    let host = Host::live();
    let chosen = source::choose(&host).expect("CLOCK_MONOTONIC is always there");
    for SourceVerdict { id, fitness, .. } in chosen.selection.verdicts() {
        let absent = source::open(&host, id.as_str()).err().is_some_and(|reason| reason.kind() == "no-device");
        let is_said = matches!(fitness, source::Fitness::Unavailable(_));
        // Only opening a device file shows whether there is a device.
        assert!(!absent || is_said || std::path::Path::new("/dev/hpet").exists(), "{id}: {fitness}");
    }
}

#[test]
fn the_kernels_clocks_tick_a_billion_times_a_second_within_the_bound() {
    let host = Host::live();
    let reference = PosixClock::open(&host, PosixId::MonotonicRaw).expect("every kernel has it");
    let boottime = PosixClock::open(&host, PosixId::Boottime).expect("every kernel has it");
    let calibration = calibrate(&boottime, &reference, Duration::from_millis(50)).expect("both run");
    let limits = calibration.limits.expect("it was measured");
    // A time daemon can slew the clock by up to 500 ppm, and the kernel's tick adjustment by up to
    // 10 %.
    assert!(limits.lowest.hertz_f64() < 1.1e9 && limits.highest.hertz_f64() > 0.9e9, "{calibration:?}");
    assert!(limits.contains(calibration.frequency));
}

/// Returns the rate at which the kernel itself runs a TSC of `khz`: it uses the multiplier with the
/// largest shift that allows ten minutes.
/// Linux, kernel/time/clocksource.c, `clocks_calc_mult_shift` and `__clocksource_update_freq_scale`.
fn kernels_own_rate(khz: u64) -> Frequency {
    const NS_PER_MS: u64 = 1_000_000;
    let mut bits_to_spare = 32;
    let mut longest = (600 * 1_000 * khz) >> 32;
    while longest > 0 {
        longest >>= 1;
        bits_to_spare -= 1;
    }
    let (mult, shift) = (1..=32)
        .rev()
        .map(|shift| (((NS_PER_MS << shift) + khz / 2) / khz, shift))
        .find(|(mult, _)| mult >> bits_to_spare == 0)
        .expect("some shift fits");
    // 2^shift ticks take mult nanoseconds.
    Frequency::from_ratio(1 << shift, mult).expect("a TSC's rate")
}

#[test]
fn the_kernels_rate_follows_from_its_multiplier() {
    // 2250 MHz: multiplier 7456540 and shift 24, as with the kernel's rule.
    assert_eq!(kernels_own_rate(2_250_000).hertz(), 2_250_000_134);
}

#[test]
fn the_limits_of_the_tsc_contain_the_rate_that_the_kernel_uses() {
    let host = Host::live();
    let tsc = match Tsc::open(&host) {
        Ok(tsc) => tsc,
        Err(reason) => return skipped!("no TSC: {reason}"),
    };
    if host.clock_sources().current.as_deref() != Some("tsc") || !host.cpu().has_flag("tsc_known_freq") {
        return skipped!("the kernel does not run on a TSC of known frequency, so its multiplier is not known");
    }
    let Some(nominal) = tsc.info().nominal.filter(|nominal| nominal.stated_by == StatedBy::BogoMips) else {
        return skipped!("the kernel's kHz cannot be told from BogoMIPS");
    };
    let stated_khz = nominal.frequency.hertz() / 1_000;
    let raw = PosixClock::open(&host, PosixId::MonotonicRaw).expect("every kernel has it");
    let calibration = calibrate(&tsc, &raw, Duration::from_millis(100)).expect("both run");
    let limits = calibration.limits.expect("it was measured");
    // BogoMIPS is truncated to 5 kHz: the kernel's kHz is one of five values.
    let contained = (stated_khz..stated_khz + 5).any(|khz| limits.contains(kernels_own_rate(khz)));
    assert!(contained, "{limits:?}");
}

#[test]
fn sources_are_calibrated_in_one_window_with_the_same_result() {
    let host = Host::live();
    let raw = PosixClock::open(&host, PosixId::MonotonicRaw).expect("every kernel has it");
    let monotonic = PosixClock::open(&host, PosixId::Monotonic).expect("every kernel has it");
    let sources: [&dyn TimeSource; 2] = [&monotonic, &raw];
    let results = calibrate_together(&sources, &raw, Duration::from_millis(30), || ControlFlow::Continue(()));
    for result in results {
        let limits = result.expect("both run").limits.expect("it was measured");
        assert!(limits.lowest <= limits.highest);
    }
}

#[test]
fn a_clock_and_the_kernels_agree_on_an_interval_within_their_brackets() {
    let host = Host::live();
    let chosen = source::choose(&host).expect("CLOCK_MONOTONIC is always there").source;
    let raw = PosixClock::open(&host, PosixId::MonotonicRaw).expect("every kernel has it");
    let calibration = calibrate(chosen.as_dyn(), &raw, Duration::from_millis(50)).expect("both run");
    let clock = FixedRateClock::with_anchor(chosen.as_dyn(), calibration.frequency, &raw).expect("64 bits");
    let (outer_start, start, inner_start) = (raw.ticks_end(), clock.now_end(), raw.ticks_end());
    std::thread::sleep(Duration::from_millis(5));
    let (inner_end, end, outer_end) = (raw.ticks_end(), clock.now_end(), raw.ticks_end());
    let shown = (end - start).as_nanos();
    // The interval is between the inner and the outer one, with twice a microsecond for the
    // granularity of the coarsest source. The rate has bounds, which are wide on a busy machine,
    // where a sleep is long.
    let FrequencyRange { lowest, highest } = calibration.limits.expect("it was measured");
    let wide =
        (highest.hertz_f64() / lowest.hertz_f64() - 1.0) * Duration::from_nanos(outer_end - outer_start).as_secs_f64();
    let slack = 2_000 + Duration::from_secs_f64(wide).as_nanos();
    assert!(shown + slack >= u128::from(inner_end - inner_start), "{shown}");
    assert!(shown <= u128::from(outer_end - outer_start) + slack, "{shown}");
    let scale: Scale = clock.scale();
    assert!(scale.tick_ns_f64() > 0.0);
}

/// Performs work of `steps` steps, which no compiler can shorten.
fn work(steps: u32) -> u32 {
    (0..steps).fold(1, |sum: u32, step| std::hint::black_box(sum.wrapping_mul(step | 1)))
}

/// Checks that work is counted, and that no reading is smaller than the previous one.
fn counts_work(source: &dyn TimeSource) {
    let clock = PosixClock::open(&Host::live(), PosixId::MonotonicRaw).expect("every kernel has it");
    let width = source.info().width;
    let begun_ns = clock.ticks_end();
    let start = source.ticks_start();
    std::hint::black_box(work(20_000));
    let middle = source.ticks_end();
    std::hint::black_box(work(20_000));
    let end = source.ticks_end();
    // Nested intervals: on an emulated machine, cycles are time, and two separate pieces of work
    // cannot be compared.
    let (part, whole) = (width.signed_difference(start, middle), width.signed_difference(start, end));
    let is_followed = clock.ticks_end() - begun_ns < half_a_wrap_ns(source.info());
    assert!(!is_followed || (0 < part && part < whole), "{}: {part} of {whole}", source.info().id);
    never_steps_back(source, 20_000);
}

#[test]
fn the_cycles_of_a_thread_are_counted_on_either_path_or_refused_with_a_fix() {
    let _turn = turn_with_cycle_counters();
    let host = Host::live();
    let cycles = match PerfCycles::open(&host) {
        Ok(cycles) => cycles,
        Err(reason) => {
            assert!(reason.remedy().is_some(), "{reason}");
            return skipped!("no perf-cycles: {reason}");
        }
    };
    counts_work(&cycles);
    let stopwatch = CycleStopwatch::new(&cycles);
    let (_, lap) = stopwatch.time(|| work(10_000));
    let lap = lap.expect("64 bits");
    assert!(lap.without_own_cost() <= lap.cycles());
    println!("perf-cycles: read by {}; {lap} of ten thousand steps", cycles.info().read_path.name());
    // Some cores have one counter for cycles, so release the first one.
    drop(cycles);
    let by_call = PerfCycles::open_by_system_call(&host).expect("as the other form");
    assert_eq!(by_call.info().read_path, ReadPath::SystemCall);
    counts_work(&by_call);
}

/// A child that is forked while the source is open has a copy of the event's file.
#[test]
fn a_dropped_source_of_cycles_releases_its_counter_while_a_child_holds_the_file() {
    let _turn = turn_with_cycle_counters();
    let host = Host::live();
    let cycles = match PerfCycles::open(&host) {
        Ok(cycles) => cycles,
        Err(reason) => return skipped!("no perf-cycles: {reason}"),
    };
    let (mut ours, mut theirs) = UnixStream::pair().expect("two descriptors");
    thread::scope(|scope| {
        let child = scope.spawn(move || {
            in_a_child(|| {
                let released = theirs.write_all(b"f").is_ok() && theirs.read_exact(&mut [0]).is_ok();
                u8::from(!released)
            })
        });
        ours.read_exact(&mut [0]).expect("the child is forked");
        drop(cycles);
        let again = PerfCycles::open(&host);
        ours.write_all(b"e").expect("the child waits");
        assert_eq!(child.join().expect("it only waits"), ChildEnd::Exited(0));
        counts_work(&again.expect("the counter is free again"));
    });
}

#[test]
fn each_thread_counts_its_own_cycles_and_a_forked_child_survives() {
    let _turn = turn_with_cycle_counters();
    let host = Host::live();
    let cycles = match PerfCycles::open(&host) {
        Ok(cycles) => cycles,
        Err(reason) => return skipped!("no perf-cycles: {reason}"),
    };
    // The work of another thread is not counted here.
    let start = cycles.ticks_start();
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let own = PerfCycles::open(&Host::live()).expect("as this thread's");
            let start = own.ticks_start();
            std::hint::black_box(work(20_000_000));
            own.ticks_end() - start
        });
        let theirs = other.join().expect("it only counts");
        let ours = cycles.ticks_end() - start;
        assert!(ours < theirs, "{ours} beside {theirs}");
    });
    // A child has neither the page nor an event for the counter.
    let end = in_a_child(|| {
        let _ = (cycles.ticks(), cycles.ticks_start(), cycles.ticks_end());
        drop(cycles);
        0
    });
    assert_eq!(end, ChildEnd::Exited(0));
}

#[test]
fn core_cycles_are_counted_or_refused_without_a_signal() {
    let _turn = turn_with_cycle_counters();
    let host = Host::live();
    let before = allowed_cpus();
    match ArmCycles::open(&host) {
        Ok(cycles) => {
            assert_eq!(allowed_cpus(), [cycles.cpu()]);
            counts_work(&cycles);
            println!("arm-cycles: {} bits on CPU {}", cycles.info().width, cycles.cpu());
        }
        Err(reason) => skipped!("no arm-cycles: {reason}"),
    }
    assert_eq!(allowed_cpus(), before);
}

/// For an emulated board (see boards/): changes the permissions of programs, and restores them.
#[test]
#[ignore = "sets kernel.perf_user_access, and needs root"]
fn the_cycles_of_a_thread_are_read_from_a_register_if_root_permits_it() {
    const KNOB: &str = "/proc/sys/kernel/perf_user_access";
    const OPENINGS: u32 = 20;
    let _turn = turn_with_cycle_counters();
    let host = Host::live();
    let before = fs::read_to_string(KNOB).expect("a 64-bit ARM kernel since 5.17");
    fs::write(KNOB, "0").expect("root may");
    let closed = PerfCycles::open(&host).expect("the kernel counts cycles");
    assert_eq!(closed.info().read_path, ReadPath::SystemCall);
    fs::write(KNOB, "1").expect("root may");
    // A source that was opened without the permission continues without it.
    counts_work(&closed);
    drop(closed);
    // Each source maps the page before the first system call reads the event. Otherwise, the count
    // of a 32-bit program usually jumps by 2^32 at a context switch.
    for _ in 0..OPENINGS {
        let open = PerfCycles::open(&host).expect("as before");
        let before = open.ticks_end();
        thread::sleep(Duration::from_micros(200));
        let after = open.ticks_end();
        assert!(after > before && after - before < 1 << 31, "{before} then {after}");
    }
    let open = PerfCycles::open(&host).expect("as before");
    assert_eq!(open.info().read_path, ReadPath::Register);
    counts_work(&open);
    // The only counter that programs can read is in use. The second source works without it, with
    // the same results.
    let second = PerfCycles::open(&host).expect("the core has more counters");
    assert_eq!(second.info().read_path, ReadPath::SystemCall);
    counts_work(&second);
    // The register and the system call count the same thread: between two readings of the one, the
    // other counted no more than around them.
    let (outer_start, inner_start) = (second.ticks_end(), open.ticks_end());
    std::hint::black_box(work(50_000));
    let (inner_end, outer_end) = (open.ticks_end(), second.ticks_end());
    assert!(
        inner_end - inner_start <= outer_end - outer_start,
        "{inner_start} {inner_end} in {outer_start} {outer_end}"
    );
    for _ in 0..200 {
        // The thread may be migrated to another CPU, and the kernel restores the counter.
        let before = open.ticks_end();
        thread::sleep(Duration::from_micros(200));
        let after = open.ticks_end();
        assert!(after > before && after - before < 1 << 31, "{before} then {after}");
    }
    let cost = |cycles: &PerfCycles| {
        let lap = CycleStopwatch::new(cycles);
        lap.time(|| ()).1.expect("64 bits").own_cost()
    };
    println!("perf-cycles by register: own cost {} cycles, by system call {}", cost(&open), cost(&second));
    drop((open, second));
    fs::write(KNOB, before.trim()).expect("root may");
}

/// Instants compared with the kernel's clock, which is read with a system call, in any thread.
struct Beside<'a> {
    kernel: &'a PosixClock,
    latest_ns: &'a AtomicU64,
    readings: u64,
    outside_ns: u64,
    back_ns: u64,
}

impl Beside<'_> {
    fn read(&mut self, readings: u64) {
        for _ in 0..readings {
            let latest_ns = self.latest_ns.load(Ordering::Acquire);
            let before_ns = self.kernel.ticks_end();
            let ns = Instant::now().nanos_since(Instant::EPOCH);
            let after_ns = self.kernel.ticks_end();
            self.latest_ns.fetch_max(ns, Ordering::Release);
            let outside_ns = before_ns.saturating_sub(ns).max(ns.saturating_sub(after_ns));
            self.outside_ns = self.outside_ns.max(outside_ns);
            self.back_ns = self.back_ns.max(latest_ns.saturating_sub(ns));
        }
        self.readings += readings;
    }
}

/// For an emulated board (see boards/): takes some seconds, and suspends the machine.
///
/// # References
///
/// Linux, Documentation/admin-guide/pm/sleep-states.rst, `/sys/power/state`;
/// Documentation/ABI/testing/sysfs-class-rtc, `wakealarm`.
#[test]
#[ignore = "suspends the machine to RAM, and needs root and an alarm clock that wakes it"]
fn instants_are_right_when_the_machine_wakes() {
    const ALARM: &str = "/sys/class/rtc/rtc0/wakealarm";
    const SLEEP: &str = "/sys/power/state";
    let host = Host::live();
    let by_system_call = |id| PosixClock::open_by_system_call(&host, id).expect("every kernel has it");
    let (kernel, boottime) = (by_system_call(PosixId::Monotonic), by_system_call(PosixId::Boottime));
    let (latest_ns, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let beside = || Beside { kernel: &kernel, latest_ns: &latest_ns, readings: 0, outside_ns: 0, back_ns: 0 };
    let stated_ns = || u64::try_from(clock::status().bound.as_nanos()).expect("far below 584 years");

    // The rate is learned over an eighth of a second, and the stated bound is smaller after that.
    let begun_ns = kernel.ticks_end();
    while kernel.ticks_end() - begun_ns < 300_000_000 {
        let _ = Instant::now();
    }
    let jumps = clock::status().jumps;
    // The code here must not panic, because the other thread reads until this one sets the flag.
    let (seen, slept, stated_ns, moved_ms, boottime_moved_ms) = thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut beside = beside();
            while !is_over.load(Ordering::Relaxed) {
                beside.read(1);
            }
            beside
        });
        let (mut before, mut first, mut after) = (beside(), beside(), beside());
        let mut most_stated_ns = stated_ns();
        before.read(4_000);

        let (begun_ns, begun_boottime_ns) = (kernel.ticks_end(), boottime.ticks_end());
        // Late enough that the machine is suspended before the alarm: an earlier alarm wakes
        // nothing. The host wakes an emulated machine before that.
        let slept = fs::write(ALARM, "+60").and_then(|()| fs::write(SLEEP, "mem"));
        first.read(1);
        let moved_ms = (kernel.ticks_end() - begun_ns) / 1_000_000;
        let boottime_moved_ms = (boottime.ticks_end() - begun_boottime_ns) / 1_000_000;
        for _ in 0..40 {
            after.read(100);
            most_stated_ns = most_stated_ns.max(stated_ns());
        }
        is_over.store(true, Ordering::Relaxed);
        (
            [first, before, after, other.join().expect("it only reads")],
            slept,
            most_stated_ns,
            moved_ms,
            boottime_moved_ms,
        )
    });

    slept.expect("root may set an alarm and suspend the machine");
    let worst = |of: fn(&Beside<'_>) -> u64| seen.iter().map(of).max().expect("four");
    let (outside_ns, back_ns) = (worst(|seen| seen.outside_ns), worst(|seen| seen.back_ns));
    let readings: u64 = seen.iter().map(|seen| seen.readings).sum();
    let status = clock::status();
    println!(
        "suspended: source {}, CLOCK_MONOTONIC {moved_ms} ms, CLOCK_BOOTTIME {boottime_moved_ms} ms; {readings} readings by two threads, \
         {outside_ns} ns outside, stated {stated_ns} ns, {back_ns} ns back; the first {} ns outside, {} jumps",
        status.source,
        seen[0].outside_ns,
        status.jumps.saturating_sub(jumps),
    );
    assert!(boottime_moved_ms > moved_ms + 1_000, "it did not sleep");
    assert!(outside_ns <= stated_ns, "a reading was {outside_ns} ns outside, stated {stated_ns} ns");
    assert_eq!(back_ns, 0, "time went back");
}

#[test]
fn a_stopwatch_measures_a_sleep_and_an_empty_lap() {
    let host = Host::live();
    let source = source::choose(&host).expect("CLOCK_MONOTONIC is always there").source;
    let raw = PosixClock::open(&host, PosixId::MonotonicRaw).expect("every kernel has it");
    let calibration = calibrate(source.as_dyn(), &raw, Duration::from_millis(10)).expect("it can be calibrated");
    let stopwatch = Stopwatch::new(source.as_dyn(), calibration.frequency);
    let before_ns = raw.ticks_end();
    let (inner_ns, slept) = stopwatch.time(|| {
        let begun_ns = raw.ticks_end();
        std::thread::sleep(Duration::from_millis(2));
        raw.ticks_end() - begun_ns
    });
    let outer_ns = raw.ticks_end() - before_ns;
    // The lap is between the inner and the outer interval of the reference, each at the rates that
    // the calibration allows.
    let exactly = FrequencyRange { lowest: calibration.frequency, highest: calibration.frequency };
    let FrequencyRange { lowest, highest } = calibration.limits.unwrap_or(exactly);
    let at = |ns: u64, rate: Frequency| {
        u128::from(ns) * u128::from(rate.hertz()) / u128::from(calibration.frequency.hertz())
    };
    let (least_ns, most_ns) = (at(inner_ns, lowest), at(outer_ns, highest));
    // One counter quantum at each end; and the kernel may begin to slew the source, by up to 500
    // ppm.
    let room_ns = 1_000 + outer_ns / 1_000;
    let lap_ns = slept.duration().as_nanos();
    assert!(
        lap_ns + u128::from(room_ns) >= least_ns && lap_ns <= most_ns + u128::from(room_ns),
        "{slept}: {least_ns} to {most_ns}"
    );
    assert!(!slept.is_too_short() && slept.without_own_cost() <= slept.duration());
}

#[test]
fn with_the_counter_disabled_the_library_uses_system_calls() {
    let _turn = turn_with_cycle_counters();
    let end = with_the_counter_forbidden(|| {
        let host = Host::live();
        if Tsc::open(&host).map(|_| ()) != Err(SourceError::ForbiddenByPrctl) && cfg!(target_arch = "x86_64") {
            return 1;
        }
        for opened in available() {
            let source = opened.as_dyn();
            // prctl(PR_SET_TSC) does not affect the cycle counter of a core, device registers and
            // I/O ports.
            let is_of_prctl = source.info().quantity != Quantity::Cycles
                && !matches!(source.info().read_path, ReadPath::Mmio | ReadPath::Port);
            if (is_of_prctl && source.info().read_path != ReadPath::SystemCall) || source.ticks_start() == 0 {
                return 2;
            }
        }
        match source::choose(&host) {
            Ok(chosen) if chosen.source.as_dyn().info().read_path == ReadPath::SystemCall => {}
            _ => return 3,
        }
        let raw = PosixClock::open(&host, PosixId::MonotonicRaw).expect("every kernel has it");
        let monotonic = PosixClock::open(&host, PosixId::Monotonic).expect("every kernel has it");
        if calibrate(&monotonic, &raw, Duration::from_millis(2)).is_err() {
            return 4;
        }
        match source::permit_counter() {
            Ok(true) if Tsc::open(&host).is_ok() || !cfg!(target_arch = "x86_64") => 0,
            _ => 5,
        }
    });
    match end {
        None => skipped!("this kernel does not know PR_SET_TSC"),
        Some(end) => assert_eq!(end, ChildEnd::Exited(0)),
    }
}
