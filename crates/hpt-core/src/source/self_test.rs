//! Tests whether an opened source behaves like a counter: it must advance, run forward, and have its nominal rate. The
//! test does not judge quality: a slow or coarse source passes.

use std::time::Duration;

use hpt_sys::units::{Frequency, FrequencyRange, Spaced};

use super::{Pair, Reference, Scope, SourceInfo, TimeSource};
use crate::{scale::Scale, stats::Steps};

/// The number of reads per timing, and the number of timings. The fastest timing is used.
const READS: u32 = 64;
const ROUNDS: usize = 20;
const EMPTY_ROUNDS: usize = 5;
/// The time per read above which a source is timed with fewer reads, in nanoseconds. Such a read is a device read, and
/// the usual number of reads would take too long.
const SLOW_READ_NS: u64 = 10_000;
const SLOW_READS: u32 = 4;
const SLOW_ROUNDS: usize = 3;
/// The shortest time over which the rate is determined, in nanoseconds.
const SHORTEST_WINDOW_NS: u64 = 1_000_000;
/// The longest time for which a source that advances is tested, in nanoseconds.
const LONGEST_WINDOW_NS: u64 = 50_000_000;
/// The time after which a source that has not advanced twice counts as stopped, in nanoseconds.
const PATIENCE_NS: u64 = 250_000_000;
/// The time after which a source that advances with the kernel's tick counts as stopped, in nanoseconds. On a busy
/// host, ticks can be late by tens of milliseconds. In a virtual machine, where timers and processors can be
/// stopped separately, ticks can be late by seconds.
const PATIENCE_WITH_TICKS_NS: u64 = 10_000_000_000;
/// The minimum number of checks of a source, regardless of their duration, because a thread does not observe the source
/// while it is preempted.
const FEWEST_LOOKS: u32 = 16;
const FEWEST_STEPS: u64 = 2;
/// The number of consecutive pairs after which a reference that does not advance counts as stopped. The source is read
/// many times between two pairs.
const REFERENCE_STANDS_STILL: u32 = 50_000;
/// The duration of the test as a multiple of the stated resolution, chosen so that a coarse source advances at least
/// twice.
const RESOLUTIONS_TO_WATCH: u64 = 3;
/// The largest accepted deviation from the nominal rate in either direction, as a fraction. A rate with a larger
/// deviation belongs to another counter, or to no counter.
const RATE_TOLERANCE: f64 = 0.05;
/// The highest rate assumed for a source without a nominal rate. No core has a higher rate.
const FASTEST: Frequency = Frequency::from_hertz(10_000_000_000).expect("not zero");
/// The maximum number of restarts of the comparison. Without a limit, the test of a counter that wraps between any two
/// readings would not end.
const MOST_RESTARTS: u32 = 16;

/// The results of a self-test that a source passed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SelfTest {
    /// The time per read in the fastest of a few short runs, in nanoseconds.
    pub read_cost_ns: f64,
    /// The steps between consecutive readings, in ticks.
    pub steps: Steps,
    /// The range of possible rates, measured against the reference.
    pub rate: FrequencyRange,
}

/// The reason why a source failed the self-test.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum SelfTestError {
    /// Every reading was the same.
    StandsStill {
        /// The unchanged reading.
        at_ticks: u64,
        /// The time for which the source was observed.
        watched: Duration,
    },
    /// The reference for the test does not advance.
    ReferenceStandsStill,
    /// A later reading was lower than an earlier one.
    RunsBackwards {
        /// The earlier, larger reading.
        from_ticks: u64,
        /// The later, lower reading.
        to_ticks: u64,
    },
    /// The source advances, but not at its nominal rate.
    WrongRate {
        /// The nominal rate.
        stated: Frequency,
        /// The range of possible rates.
        measured: FrequencyRange,
    },
    /// The source should count the cycles of a core, but no core has such a rate.
    NoCoresRate {
        /// The measured rate.
        rate: Frequency,
    },
}

impl std::fmt::Display for SelfTestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::StandsStill { at_ticks, watched } => {
                write!(f, "the count did not advance from {at_ticks} within {}", Spaced(*watched))
            }
            Self::ReferenceStandsStill => f.write_str("the reference clock for the self-test does not advance"),
            Self::RunsBackwards { from_ticks, to_ticks } => {
                write!(f, "the count ran backwards, from {from_ticks} to {to_ticks}")
            }
            Self::WrongRate { stated, measured } => write!(
                f,
                "the measured frequency is {:.3} to {:.3}, but the stated frequency is {stated:.3}",
                measured.lowest, measured.highest
            ),
            Self::NoCoresRate { rate } => {
                write!(f, "the measured frequency is {rate:.3}, which is implausible for a core")
            }
        }
    }
}

impl std::error::Error for SelfTestError {}

impl SelfTestError {
    /// Returns the fix, if there is one.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{Host, PosixClock, PosixId, source, testing::ManualSource};
    ///
    /// let clock = PosixClock::open(&Host::live(), PosixId::Monotonic)?;
    /// if let Err(failure) = source::self_test(&ManualSource::new("still"), &clock) {
    ///     println!("{failure}; {}", failure.remedy().unwrap_or("no fix is known"));
    /// }
    /// # }
    /// # Ok::<(), hpt_core::SourceError>(())
    /// ```
    #[must_use]
    pub const fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::StandsStill { .. } => Some("choose another source; another program may have stopped the counter"),
            Self::ReferenceStandsStill => Some("check for a seccomp filter or a sandbox around this process"),
            Self::NoCoresRate { .. } => {
                Some("stop any program that may have configured the counter for itself, or choose another source")
            }
            Self::RunsBackwards { .. } | Self::WrongRate { .. } => {
                Some("choose another source; in a virtual machine the counter may be emulated incorrectly")
            }
        }
    }
}

/// Tests `source` against `reference`, whose ticks must advance at its nominal rate. Takes one millisecond or three
/// times the stated resolution, whichever is longer, but at most 50 ms. A source with a coarser resolution (a clock
/// that counts whole seconds) may stay unchanged for that time, but must not run backwards or too fast. A clock that
/// advances with the kernel's tick is observed for at most ten seconds before it fails, because its tick may be late.
///
/// If this thread or the whole machine is stopped for half a wrap of the source or more, the comparison starts again,
/// because two readings so far apart do not show whether the source ran forward.
///
/// # Errors
///
/// Returns [`SelfTestError`] if the source does not advance, runs backwards or has the wrong rate, or if the
/// reference does not advance.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "testing")] {
/// use hpt_core::{Host, PosixClock, PosixId, source::{self, SelfTestError}, testing::ManualSource};
///
/// let clock = PosixClock::open(&Host::live(), PosixId::Monotonic)?;
/// let still = source::self_test(&ManualSource::new("still"), &clock);
/// assert!(matches!(still, Err(SelfTestError::StandsStill { at_ticks: 0, .. })));
/// # }
/// # Ok::<(), hpt_core::SourceError>(())
/// ```
pub fn self_test<S, R>(source: &S, reference: &R) -> Result<SelfTest, SelfTestError>
where
    S: TimeSource + ?Sized,
    R: TimeSource + ?Sized,
{
    let info = source.info();
    let window_ns = info
        .claimed_resolution_ns
        .map_or(SHORTEST_WINDOW_NS, |claimed| claimed.saturating_mul(RESOLUTIONS_TO_WATCH))
        .clamp(SHORTEST_WINDOW_NS, LONGEST_WINDOW_NS);
    let read_cost_ns = quickest_read_ns(source, reference);
    let reads = if is_slow(read_cost_ns) { SLOW_READS } else { READS } as usize;
    let mut read = [0; READS as usize];

    let mut reference = Reference::new(reference);
    let half_a_wrap_ns = half_a_wrap_ns(info);
    let mut first = reference.pair(source);
    let mut steps = Steps::default();
    let mut last = first;
    let (mut looks, mut restarts) = (0_u32, 0_u32);
    let patience_ns = if info.is_moved_by_the_tick() { PATIENCE_WITH_TICKS_NS } else { PATIENCE_NS };
    let rate = loop {
        // Only the time that certainly passed between the two readings counts: while this thread is preempted within a
        // bracket, it does not observe the source.
        let watched_ns = last.before_ns.saturating_sub(first.after_ns);
        let is_patient = watched_ns < patience_ns || looks < FEWEST_LOOKS;
        let has_moved = steps.count() >= FEWEST_STEPS || !must_move(info);
        if (watched_ns >= window_ns && has_moved) || !is_patient {
            match judge(info, &first, &last, &steps) {
                // If the kernel's tick is late, the clock appears slow until the tick arrives.
                Err(_) if is_patient && info.is_moved_by_the_tick() => {}
                verdict => break verdict?,
            }
        }
        if reference.stood_still_for(REFERENCE_STANDS_STILL) {
            return Err(SelfTestError::ReferenceStandsStill);
        }
        // All readings are taken before they are evaluated, because on 32-bit processors the evaluation takes longer
        // than a read.
        read[..reads].fill_with(|| source.ticks_end());
        let next = reference.pair(source);
        if next.after_ns.saturating_sub(last.before_ns) >= half_a_wrap_ns && restarts < MOST_RESTARTS {
            restarts += 1;
            first = reference.pair(source);
            (last, steps) = (first, Steps::default());
            continue;
        }
        let mut previous = last.ticks;
        for &ticks in &read[..reads] {
            record(info, previous, ticks, &mut steps)?;
            previous = ticks;
        }
        // The reading in the pair is newer than the last reading in the loop. A clock that advances with the kernel's
        // tick may have advanced between the two, for example while this thread was preempted.
        record(info, previous, next.ticks, &mut steps)?;
        last = next;
        looks += 1;
    };
    Ok(SelfTest { read_cost_ns, steps, rate })
}

/// Returns the time in which a source with the highest accepted rate advances by half a wrap.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a positive limit that need not be exact; for a wide counter it is the longest time"
)]
fn half_a_wrap_ns(info: &SourceInfo) -> u64 {
    let rate = info.nominal.map_or(FASTEST, |nominal| nominal.frequency);
    ((info.width.mask() / 2) as f64 * rate.tick_ns_f64() / (1.0 + RATE_TOLERANCE)) as u64
}

/// Records the step between two consecutive readings.
fn record(info: &SourceInfo, from_ticks: u64, to_ticks: u64, steps: &mut Steps) -> Result<(), SelfTestError> {
    // A clock that can be stepped can go backwards; a counter must not.
    if info.rate.is_steady() && info.width.signed_difference(from_ticks, to_ticks) < 0 {
        return Err(SelfTestError::RunsBackwards { from_ticks, to_ticks });
    }
    steps.record(info.width.difference(from_ticks, to_ticks));
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a few microseconds, for statistics")]
fn quickest_read_ns<S, R>(source: &S, reference: &R) -> f64
where
    S: TimeSource + ?Sized,
    R: TimeSource + ?Sized,
{
    let reference_scale = reference.info().nominal_scale().unwrap_or(Scale::of(Frequency::GIGAHERTZ));
    let time = |reads| {
        let start = reference.ticks_end();
        source.ticks_repeated(reads);
        reference_scale.nanos(reference.info().width.difference(start, reference.ticks_end()))
    };
    let quickest_ns = |rounds, reads| (0..rounds).map(|_| time(reads)).min().unwrap_or(0);
    // The two readings of the reference are not part of the measured time: a read of a kernel clock may take longer
    // than many reads of a counter.
    let empty_ns = quickest_ns(EMPTY_ROUNDS, 0);
    let quickest = |rounds, reads| {
        let taken_ns = quickest_ns(rounds, reads).saturating_sub(empty_ns);
        taken_ns as f64 / f64::from(reads)
    };
    if is_slow(quickest(SLOW_ROUNDS, 1)) { quickest(SLOW_ROUNDS, SLOW_READS) } else { quickest(ROUNDS, READS) }
}

#[expect(clippy::cast_precision_loss, reason = "ten microseconds")]
fn is_slow(read_ns: f64) -> bool {
    read_ns > SLOW_READ_NS as f64
}

/// Returns whether the stated resolution is fine enough for the source to change during the test.
fn must_move(info: &SourceInfo) -> bool {
    info.claimed_resolution_ns.is_none_or(|claimed_ns| claimed_ns <= LONGEST_WINDOW_NS)
}

/// Returns the limits of the rate between two pairs, or the reason why the test fails.
fn judge(info: &SourceInfo, first: &Pair, last: &Pair, steps: &Steps) -> Result<FrequencyRange, SelfTestError> {
    let still = SelfTestError::StandsStill {
        at_ticks: first.ticks,
        watched: Duration::from_nanos(last.before_ns.saturating_sub(first.after_ns)),
    };
    let moved = info.width.difference(first.ticks, last.ticks);
    let step = match steps.smallest_ticks().filter(|_| moved > 0) {
        Some(step) => step,
        None if must_move(info) => return Err(still),
        None => info.claimed_resolution_ticks().max(1),
    };
    // The reading at each end may be late by one step, and may have been taken anywhere in its bracket. A correct
    // counter therefore cannot exceed these limits, no matter how often this thread is preempted.
    let shortest_ns = last.before_ns.saturating_sub(first.after_ns).max(1);
    let longest_ns = last.after_ns.wrapping_sub(first.before_ns).max(1);
    // A source that advances with the kernel's tick lags by the lateness of the tick. The tick that is due at the end
    // may be as late as the latest tick observed.
    let step = if info.is_moved_by_the_tick() {
        steps.largest_ticks().unwrap_or(0).max(info.claimed_resolution_ticks()).saturating_mul(2)
    } else {
        step
    };
    let lowest = match moved.saturating_sub(step) {
        0 => Frequency::from_microhertz(1),
        surely => Frequency::from_ratio(surely, longest_ns),
    };
    let highest = Frequency::from_ratio(moved.saturating_add(step), shortest_ns);
    let (Some(lowest), Some(highest)) = (lowest, highest) else {
        return Err(still);
    };
    let measured = FrequencyRange { lowest, highest };
    match info.nominal {
        // CPU-time clocks run at the rate of the running threads, and a clock that can be stepped may be stepped during
        // the test.
        Some(nominal) if info.scope == Scope::System && info.rate.is_steady() => {
            let stated = nominal.frequency;
            let low = stated.hertz_f64() * (1.0 - RATE_TOLERANCE);
            let high = stated.hertz_f64() * (1.0 + RATE_TOLERANCE);
            if highest.hertz_f64() < low || lowest.hertz_f64() > high {
                return Err(SelfTestError::WrongRate { stated, measured });
            }
            Ok(measured)
        }
        _ => Ok(measured),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::{Pair, SelfTestError, judge, self_test};
    use crate::{
        source::{Nominal, RateKind, SourceId, SourceInfo, StatedBy, TimeSource},
        stats::Steps,
        testing::ManualSource,
    };
    use hpt_sys::units::{Frequency, Width};

    fn steady(nominal_hertz: u64) -> SourceInfo {
        let mut info = SourceInfo::new(SourceId::new("scripted"));
        info.rate = RateKind::Constant;
        info.nominal =
            Frequency::from_hertz(nominal_hertz).map(|frequency| Nominal { frequency, stated_by: StatedBy::Program });
        info
    }

    fn one_tick_steps() -> Steps {
        let mut steps = Steps::default();
        steps.record(1);
        steps
    }

    fn pair(before_ns: u64, ticks: u64, after_ns: u64) -> Pair {
        Pair { before_ns, ticks, after_ns }
    }

    #[test]
    fn a_wrong_device_page_is_detected_by_its_rate() {
        let verdict =
            judge(&steady(1_000_000), &pair(0, 0, 100), &pair(1_000_000, 40_000, 1_000_100), &one_tick_steps());
        assert!(matches!(verdict, Err(SelfTestError::WrongRate { .. })), "{verdict:?}");
    }

    #[test]
    fn a_bracket_widened_by_the_host_is_not_a_fault_of_the_source() {
        let torn = pair(0, 0, 10_000_000);
        let verdict = judge(&steady(1_000_000), &torn, &pair(10_000_100, 10_000, 10_000_200), &one_tick_steps());
        assert!(verdict.is_ok(), "{verdict:?}");
    }

    #[test]
    fn a_wrap_is_not_a_backward_step() {
        let mut info = steady(1_000_000);
        info.width = Width::BITS_32;
        let verdict =
            judge(&info, &pair(0, u64::from(u32::MAX) - 499, 0), &pair(1_000_000, 500, 1_000_000), &one_tick_steps());
        assert!(verdict.is_ok(), "{verdict:?}");
    }

    #[test]
    fn a_coarse_clock_whose_tick_is_late_is_not_accused() {
        let mut info = steady(1_000_000_000);
        info.claimed_resolution_ns = Some(4_000_000);
        let mut late = Steps::default();
        late.record(24_000_000);
        let verdict = judge(&info, &pair(0, 0, 100), &pair(25_000_000, 24_000_000, 25_000_100), &late);
        assert!(verdict.is_ok(), "{verdict:?}");
    }

    #[test]
    fn a_coarse_clock_whose_tick_is_due_at_the_end_is_not_accused() {
        let mut info = steady(1_000_000_000);
        info.claimed_resolution_ns = Some(4_000_000);
        let mut two = Steps::default();
        (0..2).for_each(|_| two.record(4_000_000));
        let verdict = judge(&info, &pair(0, 0, 100), &pair(12_900_000, 8_000_000, 12_900_100), &two);
        assert!(verdict.is_ok(), "{verdict:?}");
    }

    /// A clock that advances with a tick of 4 ms. Just before the window ends, the thread and the ticks are stopped for
    /// 300 ms, and the ticks for 50 ms more.
    #[derive(Debug)]
    struct LateTicks<'a> {
        clock: &'a ManualSource,
        was_stopped: AtomicBool,
        info: SourceInfo,
    }

    impl TimeSource for LateTicks<'_> {
        fn ticks(&self) -> u64 {
            const MS: u64 = 1_000_000;
            let now_ns = self.clock.ticks();
            if now_ns > 12 * MS - 200 && !self.was_stopped.swap(true, Ordering::Relaxed) {
                self.clock.advance(300 * MS);
            }
            let ticked_ns = if (12 * MS..350 * MS).contains(&now_ns) { 8 * MS } else { now_ns };
            ticked_ns / (4 * MS) * (4 * MS)
        }

        fn info(&self) -> &SourceInfo {
            &self.info
        }
    }

    #[test]
    fn a_coarse_clock_is_refused_only_when_no_tick_can_still_be_pending() {
        let clock = ManualSource::new("reference").with_step(100);
        let mut info = steady(1_000_000_000);
        info.claimed_resolution_ns = Some(4_000_000);
        let late = LateTicks { clock: &clock, was_stopped: AtomicBool::new(false), info: info.clone() };
        let tested = self_test(&late, &clock);
        assert!(tested.is_ok() && clock.ticks() >= 350_000_000, "{tested:?}");
        let clock = ManualSource::new("reference").with_step(1_000_000);
        let stuck = ManualSource::with_info(info);
        let refused = self_test(&stuck, &clock);
        let Err(SelfTestError::StandsStill { watched, .. }) = refused else { panic!("{refused:?}") };
        assert!(watched >= std::time::Duration::from_secs(10), "{watched:?}");
    }

    #[test]
    fn a_clock_with_whole_seconds_may_pause_during_the_test_but_not_race() {
        let mut info = steady(1);
        info.claimed_resolution_ns = Some(1_000_000_000);
        let watched = |first: u64, last: u64| {
            judge(&info, &pair(0, first, 100), &pair(50_000_000, last, 50_000_100), &Steps::default())
        };
        let rate = watched(5, 5).expect("a coarse clock need not advance");
        assert!(rate.lowest.hertz_f64() < 1.0 && rate.highest.hertz_f64() > 1.0, "{rate:?}");
        let mut stepped = one_tick_steps();
        let verdict = judge(&info, &pair(0, 5, 100), &pair(50_000_000, 6, 50_000_100), &stepped);
        assert!(verdict.is_ok_and(|rate| rate.lowest.hertz_f64() < 1.0), "{verdict:?}");
        stepped.record(1);
        let races = judge(&info, &pair(0, 5, 100), &pair(50_000_000, 7, 50_000_100), &stepped);
        assert!(matches!(races, Err(SelfTestError::WrongRate { .. })), "{races:?}");
    }

    /// One timeline, read as two clocks: each read takes 5 µs, and the read with number `stop_at` starts 300 ms late.
    #[derive(Debug)]
    struct Stopped<'a> {
        reads: &'a AtomicU64,
        stop_at: u64,
        step_ns: u64,
        info: SourceInfo,
    }

    impl TimeSource for Stopped<'_> {
        fn ticks(&self) -> u64 {
            let read = self.reads.fetch_add(1, Ordering::Relaxed);
            let stopped_ns = if read >= self.stop_at { 300_000_000 } else { 0 };
            (read * 5_000 + stopped_ns) / self.step_ns * self.step_ns
        }

        fn info(&self) -> &SourceInfo {
            &self.info
        }
    }

    /// One timeline, read as two counters: each read takes 5 µs, and the read with number `stop_at` starts `stopped_ns`
    /// late.
    #[derive(Debug)]
    struct Halted<'a> {
        reads: &'a AtomicU64,
        stop_at: u64,
        stopped_ns: u64,
        info: SourceInfo,
    }

    impl TimeSource for Halted<'_> {
        fn ticks(&self) -> u64 {
            let read = self.reads.fetch_add(1, Ordering::Relaxed);
            let now_ns = read * 5_000 + if read >= self.stop_at { self.stopped_ns } else { 0 };
            let hertz = self.info.nominal.map_or(0, |nominal| nominal.frequency.hertz());
            let ticks = u128::from(now_ns) * u128::from(hertz) / 1_000_000_000;
            u64::try_from(ticks & u128::from(self.info.width.mask())).expect("masked")
        }

        fn info(&self) -> &SourceInfo {
            &self.info
        }
    }

    #[test]
    fn a_narrow_counter_passes_wherever_and_however_long_its_reader_is_stopped() {
        // A 24-bit timer wraps in 4.7 s. From before the first pair until well after the last one.
        for stopped_ms in [2_200, 2_340, 2_400, 3_000, 4_600, 4_700, 8_000] {
            for stop_at in 1_300..1_800 {
                let reads = AtomicU64::new(0);
                let counter = |hertz, width| {
                    let mut info = steady(hertz);
                    info.width = width;
                    Halted { reads: &reads, stop_at, stopped_ns: stopped_ms * 1_000_000, info }
                };
                let narrow = counter(3_579_545, Width::new(24).expect("24 bits"));
                let tested = self_test(&narrow, &counter(1_000_000_000, Width::BITS_64));
                assert!(tested.is_ok(), "stopped for {stopped_ms} ms before read {stop_at}: {tested:?}");
            }
        }
    }

    #[test]
    fn a_counter_that_wraps_between_any_two_looks_is_not_tested_forever() {
        let reference = ManualSource::new("reference").with_step(100);
        let mut info = steady(1_000_000_000);
        info.width = Width::new(8).expect("eight bits");
        let narrow = ManualSource::with_info(info.clone()).with_step(u64::MAX);
        let tested = self_test(&narrow, &reference);
        assert!(matches!(tested, Err(SelfTestError::RunsBackwards { .. })), "{tested:?}");
        info.width = Width::new(24).expect("24 bits");
        let followed = ManualSource::with_info(info).with_step(u64::MAX);
        let tested = self_test(&followed, &reference);
        assert!(matches!(tested, Err(SelfTestError::RunsBackwards { .. })), "{tested:?}");
    }

    /// One timeline, read as two clocks with a cost each.
    #[derive(Debug)]
    struct Costly<'a> {
        now_ns: &'a AtomicU64,
        cost_ns: u64,
        info: SourceInfo,
    }

    impl TimeSource for Costly<'_> {
        fn ticks(&self) -> u64 {
            self.now_ns.fetch_add(self.cost_ns, Ordering::Relaxed)
        }

        fn info(&self) -> &SourceInfo {
            &self.info
        }
    }

    #[test]
    fn the_cost_of_a_read_excludes_the_cost_of_the_reference() {
        let now_ns = AtomicU64::new(0);
        let clock = |cost_ns| Costly { now_ns: &now_ns, cost_ns, info: steady(1_000_000_000) };
        for (cost_ns, reference_ns) in [(100, 12_000), (100, 1_500), (12_000, 100), (12_000, 12_000)] {
            let tested = self_test(&clock(cost_ns), &clock(reference_ns)).expect("both read the same timeline");
            assert_eq!(tested.read_cost_ns.to_bits(), (cost_ns as f64).to_bits(), "reference {reference_ns} ns");
        }
    }

    #[test]
    fn a_coarse_clock_passes_wherever_its_reader_is_stopped() {
        // From before the first pair, after 1341 reads that time a read, until well after it.
        for stop_at in 1_300..1_500 {
            let reads = AtomicU64::new(0);
            let clock = |step_ns| {
                let mut info = steady(1_000_000_000);
                info.claimed_resolution_ns = Some(step_ns);
                Stopped { reads: &reads, stop_at, step_ns, info }
            };
            let tested = self_test(&clock(4_000_000), &clock(1));
            assert!(tested.is_ok(), "stopped before read {stop_at}: {tested:?}");
        }
    }

    #[test]
    fn a_stopped_reference_ends_the_test() {
        let source = ManualSource::new("source").with_step(1);
        let still = ManualSource::new("still");
        assert_eq!(self_test(&source, &still), Err(SelfTestError::ReferenceStandsStill));
    }

    #[test]
    fn a_stuck_counter_is_refused() {
        let reference = ManualSource::new("reference").with_step(100);
        let stuck = ManualSource::new("stuck");
        assert!(matches!(self_test(&stuck, &reference), Err(SelfTestError::StandsStill { at_ticks: 0, .. })));
    }

    #[test]
    fn a_counter_that_runs_backwards_is_refused() {
        let reference = ManualSource::new("reference").with_step(100);
        let backwards = ManualSource::new("backwards").with_step(u64::MAX);
        assert!(matches!(self_test(&backwards, &reference), Err(SelfTestError::RunsBackwards { .. })));
    }
}
