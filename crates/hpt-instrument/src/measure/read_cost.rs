//! Read overhead: many back-to-back reads, in batches, determine the time per read, and single reads determine the
//! distribution. This module subtracts nothing; the overhead of timing a single read is reported with the result.

use std::{hint::black_box, ops::ControlFlow, time::Duration};

use hpt_core::{
    Scale,
    source::TimeSource,
    stats::{Histogram, Spread},
};
use hpt_sys::{process, units::Frequency};

/// The maximum number of back-to-back reads between two reads of the wall clock, and between two calls of `check`.
const BATCH: u32 = 10_000;
/// The largest number of timed single reads: enough for 100 samples above p99.9.
const MOST_SINGLES: u64 = 100_000;
/// The number of batches of each size before the measurement. The fastest determines the time of a read.
const FIRST_READS: u32 = 3;
/// The largest number of reads in such a batch, the factor between one size and the next, and the duration that is long
/// enough, in steps of the wall clock.
const FIRST_BATCH: u32 = 1_000_000;
const FIRST_BATCH_GROWTH: u32 = 4;
const FIRST_BATCH_STEPS: u128 = 20;
/// The number of batches to aim for, so that ten batches lie beyond each quartile.
const ENOUGH_BATCHES: u64 = 40;
/// The shortest batch, in steps of the wall clock. A batch includes one read of the wall clock and is rounded to its
/// granularity, so the time per read is too high by at most half a percent.
const SHORTEST_BATCH_STEPS: u128 = 200;
/// The largest duration of a batch, in nanoseconds, unless the wall clock needs a longer one. Other threads usually run
/// for milliseconds, so that most batches are not interrupted even if the thread often is.
const USUAL_BATCH_NS: u128 = 250_000;
/// The largest duration of any batch, in nanoseconds, so that a run can be ended quickly.
const LONGEST_BATCH_NS: u128 = 40_000_000;
/// The longest step of a wall clock that can time a batch, in nanoseconds.
const LONGEST_STEP_NS: u128 = LONGEST_BATCH_NS / SHORTEST_BATCH_STEPS;
/// The number of consecutive reads of the wall clock in which a clock that does not advance with the kernel's tick
/// advances.
const WALL_READS: u32 = 1_000;
/// The number of steps of the wall clock of which the smallest is used.
const WALL_STEPS: u32 = 16;
/// Picoseconds per nanosecond. Times per read are counted in picoseconds.
const PS: f64 = 1e3;
/// The shortest read time of a source that counts as slow. A million such reads take at least ten seconds; a million
/// reads of a real-time clock on a slow bus take hours.
const SLOW_READ: Duration = Duration::from_micros(10);
/// The longest time for which a slow source is read back to back. `LONGEST_SINGLES` is the limit for single reads.
const LONGEST_RUN: Duration = Duration::from_secs(2);
/// The smallest number of batches after which a source can count as slow. Fewer batches are not enough, because they
/// may have been interrupted.
const FEWEST_BATCHES: u32 = 3;
const LONGEST_SINGLES: Duration = Duration::from_secs(1);

/// The instruments that time the reads.
#[derive(Clone, Copy, Debug)]
pub struct Instruments<'a> {
    /// The source that times the back-to-back reads. It must tick at its nominal rate.
    pub wall: &'a dyn TimeSource,
    /// The source that times single reads.
    pub stopwatch: &'a dyn TimeSource,
    /// The frequency of the stopwatch.
    pub stopwatch_frequency: Frequency,
    /// The source that counts the cycles of the back-to-back reads, if there is such a source.
    pub cycles: Option<&'a dyn TimeSource>,
}

/// The time per read in the batches of back-to-back reads. If the thread loses its CPU, only the batches in which that
/// happens take longer, so the median is robust and the mean is not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadBatches {
    /// The number of batches.
    pub batches: u64,
    /// The median, in nanoseconds.
    pub p50_ns: f64,
    /// The 25th and the 75th percentile, in nanoseconds; `None` if there are fewer than 40 batches, so that fewer than
    /// ten lie beyond each of them.
    pub quartiles_ns: Option<(f64, f64)>,
    /// The fastest batch, in nanoseconds.
    pub min_ns: f64,
}

/// The read overhead of a source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadCost {
    /// The number of back-to-back reads.
    pub calls: u64,
    /// The total time of these reads.
    pub total: Duration,
    /// The time per read in each batch of these reads. `None` if there were no reads, or if the wall clock advances
    /// with the kernel's tick, so that it cannot time a batch.
    pub batches: Option<ReadBatches>,
    /// The CPU time of these reads in user mode; zero if the kernel does not report it.
    pub user: Duration,
    /// The CPU time of these reads in the kernel; zero if the kernel does not report it.
    pub system: Duration,
    /// The cycles of these reads; `None` if no source counts cycles, or if that source may have wrapped unnoticed.
    pub cycles: Option<u64>,
    /// The distribution of single reads. Each read is timed with the stopwatch and includes the stopwatch's overhead.
    /// `None` if there were no single reads.
    pub singles: Option<Spread>,
    /// The distribution of empty brackets, which contain no read. It shows the overhead of the stopwatch.
    pub empty: Option<Spread>,
    /// Whether all requested reads were made.
    pub complete: bool,
    /// Whether the number of back-to-back or single reads was reduced, because a read or the stopwatch took too long.
    pub cut_short: bool,
}

impl ReadCost {
    /// Returns the time per back-to-back read, in nanoseconds: the median of the batches, or the mean if the wall clock
    /// cannot time a batch. `None` if there were no such reads.
    #[must_use]
    pub fn per_read_ns(&self) -> Option<f64> {
        self.batches.map(|batches| batches.p50_ns).or_else(|| self.mean_ns())
    }

    /// Returns the mean time of a back-to-back read, in nanoseconds; `None` if there were no such reads. The mean
    /// includes times during which the thread did not run.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for statistics")]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.calls > 0).then(|| self.total.as_nanos() as f64 / self.calls as f64)
    }

    /// Returns the cycles per back-to-back read; `None` if there were no such reads or if no cycles were counted.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for statistics")]
    pub fn cycles_per_call(&self) -> Option<f64> {
        self.cycles.filter(|_| self.calls > 0).map(|cycles| cycles as f64 / self.calls as f64)
    }
}

/// Reads `source` `calls` times back to back, in batches, then one at a time. A batch has at most 10,000 reads and lasts
/// at most 250 µs, unless the wall clock needs longer batches. It has fewer reads if that is necessary for 40 batches,
/// but not so few that a read of the wall clock counts. If a read takes 10 µs or more, the back-to-back reads are
/// limited to about two seconds. If a single read takes 10 µs or more, including the overhead of the stopwatch, the
/// single reads are limited to about one second. [`ReadCost::cut_short`] reports whether a limit was reached.
/// `check` receives the number of reads made so far and is called between timed regions. If it returns
/// [`ControlFlow::Break`], returns the results so far.
#[expect(clippy::too_many_lines, reason = "the timed loop and all that happens between two batches")]
pub fn read_cost(
    source: &dyn TimeSource,
    instruments: Instruments<'_>,
    calls: u64,
    check: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> ReadCost {
    let Instruments { wall, stopwatch, stopwatch_frequency, cycles } = instruments;
    let wall_scale = wall.info().nominal_scale().unwrap_or(Scale::of(Frequency::GIGAHERTZ));
    let wall_width = wall.info().width;
    let cpu_time = || process::thread_cpu_time().unwrap_or_default();
    let mut cost = ReadCost {
        calls: 0,
        total: Duration::ZERO,
        batches: None,
        user: Duration::ZERO,
        system: Duration::ZERO,
        cycles: cycles.map(|_| 0),
        singles: None,
        empty: None,
        complete: true,
        cut_short: false,
    };
    let elapsed = |since| Duration::from_nanos(wall_scale.nanos(wall_width.difference(since, wall.ticks_end())));
    let wall_step_ns = smallest_step_ns(wall, wall_scale);
    let read_ns = read_time_ns(source, wall_step_ns.unwrap_or(LONGEST_STEP_NS), &elapsed, &|| wall.ticks_start());
    let longest = u32::try_from(LONGEST_BATCH_NS / read_ns).unwrap_or(BATCH).max(1);
    let shortest = wall_step_ns.map_or(u128::from(BATCH), |step_ns| (step_ns * SHORTEST_BATCH_STEPS).div_ceil(read_ns));
    let usual = (USUAL_BATCH_NS / read_ns).min(u128::from(BATCH));
    let wanted = u128::from(calls / ENOUGH_BATCHES).min(usual).max(shortest);
    let most = u32::try_from(wanted).unwrap_or(longest).min(longest).max(1);
    let most_untimed = longest.min(BATCH);
    let mut per_read_ps = Histogram::new();
    // The shortest mean time of a read in any batch. The mean of all batches also includes times in which the thread
    // did not run.
    let (mut batches, mut quickest_ns) = (0_u32, u128::MAX);
    // The first batch warms up caches and page tables and is discarded.
    source.ticks_repeated(u32::try_from(calls).unwrap_or(most_untimed).min(most_untimed));
    while cost.calls < calls {
        let batch = u32::try_from(calls - cost.calls).unwrap_or(most).min(most);
        let (user, system) = cpu_time();
        let cycles_start = cycles.map(TimeSource::ticks_start);
        let start = wall.ticks_start();
        source.ticks_repeated(batch);
        let ticks = wall_width.difference(start, wall.ticks_end());
        let cycles_end = cycles.map(TimeSource::ticks_end);
        let (user_after, system_after) = cpu_time();
        let took = Duration::from_nanos(wall_scale.nanos(ticks));
        cost.calls += u64::from(batch);
        cost.total += took;
        batches += 1;
        quickest_ns = quickest_ns.min(took.as_nanos() / u128::from(batch));
        // The last batch may have only a few reads, to which the read of the wall clock would count.
        if batch == most || batches == 1 {
            per_read_ps.record(u64::try_from(took.as_nanos() * 1_000 / u128::from(batch)).unwrap_or(u64::MAX));
        }
        cost.cycles =
            cycles.zip(cycles_start.zip(cycles_end)).zip(cost.cycles).and_then(|((source, (start, end)), sum)| {
                let info = source.info();
                let believed = info.longest_difference().is_none_or(|longest| took <= longest);
                believed.then(|| sum.wrapping_add(info.width.difference(start, end)))
            });
        cost.user += user_after.saturating_sub(user);
        cost.system += system_after.saturating_sub(system);
        if cost.calls < calls && check(cost.calls).is_break() {
            cost.complete = false;
            break;
        }
        if cost.calls < calls
            && batches >= FEWEST_BATCHES
            && quickest_ns >= SLOW_READ.as_nanos()
            && cost.total >= LONGEST_RUN
        {
            (cost.complete, cost.cut_short) = (false, true);
            break;
        }
    }
    cost.batches = wall_step_ns.and_then(|_| read_batches(&per_read_ps));
    let tick_ns = stopwatch_frequency.tick_ns_f64();
    let mut count = cost.calls.min(MOST_SINGLES);
    let single_ns = quickest_ns.saturating_add(around_ns(stopwatch, &elapsed, &|| wall.ticks_start()));
    if cost.calls > 0 && single_ns >= SLOW_READ.as_nanos() {
        let in_time = LONGEST_SINGLES.as_nanos() / single_ns;
        let fewer = count.min(u64::try_from(in_time).unwrap_or(u64::MAX).max(1));
        cost.cut_short |= fewer < count;
        count = fewer;
    }
    let (singles, empty) = single_reads(source, stopwatch, count, most_untimed, &mut || check(calls));
    cost.singles = singles.spread(tick_ns);
    cost.empty = empty.spread(tick_ns);
    cost
}

/// Returns the distribution of the time per read over the batches.
#[expect(clippy::cast_precision_loss, reason = "for statistics")]
fn read_batches(per_read_ps: &Histogram) -> Option<ReadBatches> {
    let quantile = |part| per_read_ps.quantile(part).map(|ps| ps as f64 / PS);
    let batches = per_read_ps.samples();
    Some(ReadBatches {
        batches,
        p50_ns: quantile(0.5)?,
        quartiles_ns: quantile(0.25).zip(quantile(0.75)).filter(|_| batches >= ENOUGH_BATCHES),
        min_ns: quantile(0.0)?,
    })
}

/// Returns the smallest step between two consecutive reads of the wall clock, in nanoseconds: its read overhead or its
/// granularity, whichever is larger. Returns `None` if the clock advances only with the kernel's tick, or in steps that
/// are as long.
fn smallest_step_ns(wall: &dyn TimeSource, scale: Scale) -> Option<u128> {
    let width = wall.info().width;
    let (mut smallest, mut steps) = (None, 0);
    for _ in 0..WALL_READS {
        let start = wall.ticks_start();
        let step_ns = u128::from(scale.nanos(width.difference(start, wall.ticks_end())));
        if step_ns > 0 {
            smallest = Some(smallest.map_or(step_ns, |smallest: u128| smallest.min(step_ns)));
            steps += 1;
        }
        if steps >= WALL_STEPS {
            break;
        }
    }
    // A tick that falls into these reads is no step that can time a batch.
    smallest.filter(|&step_ns| step_ns <= LONGEST_STEP_NS)
}

/// Returns the approximate time of a read, in nanoseconds. The batches that determine it grow until they last many steps
/// of the wall clock, so that neither a read of that clock nor its granularity counts.
fn read_time_ns(
    source: &dyn TimeSource,
    step_ns: u128,
    elapsed: &dyn Fn(u64) -> Duration,
    now: &dyn Fn() -> u64,
) -> u128 {
    let mut reads = 1;
    loop {
        let times = (0..FIRST_READS).map(|_| {
            let start = now();
            source.ticks_repeated(reads);
            elapsed(start).as_nanos()
        });
        let took_ns = times.min().unwrap_or_default();
        if took_ns >= step_ns * FIRST_BATCH_STEPS || reads >= FIRST_BATCH {
            return (took_ns / u128::from(reads)).max(1);
        }
        reads = (reads * FIRST_BATCH_GROWTH).min(FIRST_BATCH);
    }
}

/// Returns the overhead of a timed single read, in nanoseconds: the two readings of the stopwatch around the read, and
/// the two readings of the empty bracket that follows.
fn around_ns(stopwatch: &dyn TimeSource, elapsed: &dyn Fn(u64) -> Duration, now: &dyn Fn() -> u64) -> u128 {
    let quickest = (0..FIRST_READS).map(|_| {
        let start = now();
        for _ in 0..2 {
            black_box((stopwatch.ticks_start(), stopwatch.ticks_end()));
        }
        elapsed(start)
    });
    quickest.min().unwrap_or_default().as_nanos()
}

/// Times `count` single reads, each followed by an empty bracket.
fn single_reads(
    source: &dyn TimeSource,
    stopwatch: &dyn TimeSource,
    count: u64,
    batch: u32,
    check: &mut dyn FnMut() -> ControlFlow<()>,
) -> (Histogram, Histogram) {
    let width = stopwatch.info().width;
    let (mut singles, mut empty) = (Histogram::new(), Histogram::new());
    for done in 0..count {
        let start = stopwatch.ticks_start();
        black_box(source.ticks());
        let end = stopwatch.ticks_end();
        let empty_start = stopwatch.ticks_start();
        let empty_end = stopwatch.ticks_end();
        singles.record(width.difference(start, end));
        empty.record(width.difference(empty_start, empty_end));
        if done % u64::from(batch) == 0 && check().is_break() {
            break;
        }
    }
    (singles, empty)
}

#[cfg(test)]
mod tests {
    use std::{
        ops::ControlFlow::{Break, Continue},
        sync::atomic::{AtomicU32, Ordering},
        time::Duration,
    };

    use super::{Instruments, read_cost};
    use hpt_core::{
        source::{SourceInfo, TimeSource},
        testing::ManualSource,
    };
    use hpt_sys::units::Frequency;

    #[test]
    fn zero_calls_have_no_cost_and_no_spread() {
        let clock = ManualSource::new("clock").with_step(5);
        let instruments =
            Instruments { wall: &clock, stopwatch: &clock, stopwatch_frequency: Frequency::GIGAHERTZ, cycles: None };
        let cost = read_cost(&ManualSource::new("source"), instruments, 0, &mut |_| Continue(()));
        assert_eq!((cost.calls, cost.per_read_ns(), cost.singles, cost.complete), (0, None, None, true));
    }

    #[test]
    fn a_read_that_takes_40_ns_costs_40_ns() {
        // The source is the wall clock itself: each of its reads advances it by 40 ns.
        let clock = ManualSource::new("clock").with_step(40);
        let instruments =
            Instruments { wall: &clock, stopwatch: &clock, stopwatch_frequency: Frequency::GIGAHERTZ, cycles: None };
        let cost = read_cost(&clock, instruments, 25_000, &mut |_| Continue(()));
        // 40 batches, each with one more read that closes its bracket.
        assert_eq!((cost.calls, cost.total), (25_000, Duration::from_nanos(25_040 * 40)));
        let per_read_ns = 40.0 * 626.0 / 625.0;
        let batches = cost.batches.expect("25 000");
        assert_eq!((batches.batches, batches.min_ns), (40, per_read_ns));
        assert_eq!((cost.per_read_ns(), batches.quartiles_ns), (Some(per_read_ns), Some((per_read_ns, per_read_ns))));
        let (singles, empty) = (cost.singles.expect("25 000"), cost.empty.expect("25 000"));
        assert!((singles.p50_ns - 80.0).abs() < 0.1 && (empty.p50_ns - 40.0).abs() < 0.1, "{singles:?} {empty:?}");
    }

    #[test]
    fn cycles_are_counted_if_possible_and_refused_if_a_wrap_may_be_missed() {
        use hpt_core::source::{SourceId, SourceInfo};
        use hpt_sys::units::Width;
        let cost = |step_ns, width| {
            let clock = ManualSource::new("clock").with_step(step_ns);
            let mut info = SourceInfo::new(SourceId::new("cycles"));
            info.width = width;
            let cycles = ManualSource::with_info(info).with_step(7);
            let (wall, stopwatch) = (&clock, &clock);
            let instruments =
                Instruments { wall, stopwatch, stopwatch_frequency: Frequency::GIGAHERTZ, cycles: Some(&cycles) };
            read_cost(&clock, instruments, 20_000, &mut |_| Continue(())).cycles
        };
        // 40 batches. The source advances once during each.
        assert_eq!((cost(40, Width::BITS_32), cost(40, Width::BITS_64)), (Some(280), Some(280)));
        // One second per read, so that one read is a batch, and three make it slow: long enough for a fast core to wrap
        // 32 bits twice.
        let second_ns = 1_000_000_000;
        assert_eq!((cost(second_ns, Width::BITS_32), cost(second_ns, Width::BITS_64)), (None, Some(21)));
    }

    #[test]
    fn a_slow_source_is_read_fewer_times_and_that_is_reported() {
        let cost = |read_ns, calls| {
            let clock = ManualSource::new("clock").with_step(read_ns);
            let (wall, stopwatch) = (&clock, &clock);
            let instruments = Instruments { wall, stopwatch, stopwatch_frequency: Frequency::GIGAHERTZ, cycles: None };
            let mut looks = 0;
            let cost = read_cost(&clock, instruments, calls, &mut |_| {
                looks += 1;
                Continue(())
            });
            (cost, looks)
        };
        // One millisecond per read: two seconds back to back, in batches of a tenth of one, and one second one at a
        // time.
        let (slow, looks) = cost(1_000_000, 1_000_000);
        assert_eq!((slow.complete, slow.cut_short), (false, true));
        assert!((1_900..=2_100).contains(&slow.calls), "{slow:?}");
        assert!(looks >= 20, "{looks}");
        let singles = slow.singles.expect("five or six readings each").samples;
        assert!((160..=200).contains(&singles), "{singles}");
        // No more reads than requested, however long a read takes.
        let (few, _) = cost(1_000_000, 100);
        assert_eq!((few.calls, few.complete, few.cut_short), (100, true, false));
        // A fast source is read as often as requested, however long that takes; but if the stopwatch is slow, it is
        // read one at a time for only a second.
        let (quick, _) = cost(9_000, 1_000_000);
        assert_eq!((quick.calls, quick.complete, quick.cut_short), (1_000_000, true, true));
        let singles = quick.singles.expect("five or six readings each").samples;
        assert!((18_000..=23_000).contains(&singles), "{singles}");
        let (quicker, _) = cost(1_400, 200_000);
        assert_eq!((quicker.singles.expect("all").samples, quicker.cut_short), (100_000, false));
    }

    /// A source. During one of its readings, the thread loses its CPU for ten seconds.
    #[derive(Debug)]
    struct Stopped<'a> {
        clock: &'a ManualSource,
        readings: AtomicU32,
    }

    impl TimeSource for Stopped<'_> {
        fn ticks(&self) -> u64 {
            if self.readings.fetch_add(1, Ordering::Relaxed) == 50_000 {
                self.clock.advance(10_000_000_000);
            }
            self.clock.ticks()
        }

        fn info(&self) -> &SourceInfo {
            self.clock.info()
        }
    }

    #[test]
    fn a_preemption_does_not_make_a_source_slow() {
        let clock = ManualSource::new("clock").with_step(40);
        let source = Stopped { clock: &clock, readings: AtomicU32::new(0) };
        let (wall, stopwatch) = (&clock, &clock);
        let instruments = Instruments { wall, stopwatch, stopwatch_frequency: Frequency::GIGAHERTZ, cycles: None };
        let cost = read_cost(&source, instruments, 200_000, &mut |_| Continue(()));
        assert!(cost.total.as_secs() >= 10 && cost.mean_ns() > Some(50_000.0), "{cost:?}");
        // Only one batch contains the stall.
        let (p50_ns, quartiles) = (cost.per_read_ns().expect("reads"), cost.batches.expect("reads").quartiles_ns);
        assert!((40.0..40.1).contains(&p50_ns) && quartiles == Some((p50_ns, p50_ns)), "{cost:?}");
        assert_eq!((cost.calls, cost.complete, cost.cut_short), (200_000, true, false));
    }

    #[test]
    fn few_reads_are_read_in_few_batches_and_have_no_spread() {
        let batches = |calls| {
            let clock = ManualSource::new("clock").with_step(20);
            let (wall, stopwatch) = (&clock, &clock);
            let instruments = Instruments { wall, stopwatch, stopwatch_frequency: Frequency::GIGAHERTZ, cycles: None };
            let batches = read_cost(&clock, instruments, calls, &mut |_| Continue(())).batches.expect("reads");
            // The read of the wall clock adds at most half a percent if there are enough reads for a batch.
            assert!(calls < 200 || (20.0..=20.1).contains(&batches.p50_ns), "{calls}: {batches:?}");
            (batches.batches, batches.quartiles_ns.is_some())
        };
        assert_eq!([1, 100, 500, 7_999].map(batches), [(1, false), (1, false), (2, false), (39, false)]);
        assert_eq!([8_000, 20_000, 400_000, 1_000_000].map(batches), [(40, true), (40, true), (40, true), (100, true)]);
    }

    #[test]
    fn a_wall_clock_that_advances_with_the_tick_times_no_batch() {
        /// Shows the time of another clock in steps of 4 ms.
        #[derive(Debug)]
        struct Coarse<'a>(&'a ManualSource);
        impl TimeSource for Coarse<'_> {
            fn ticks(&self) -> u64 {
                self.0.ticks() / 4_000_000 * 4_000_000
            }

            fn info(&self) -> &SourceInfo {
                self.0.info()
            }
        }
        // A tick falls between the first reads of the wall clock, or none does.
        for before_tick_ns in [20_000, 4_000_000] {
            let clock = ManualSource::new("clock").with_step(40);
            clock.advance(4_000_000 - before_tick_ns);
            let wall = Coarse(&clock);
            let (wall, stopwatch) = (&wall, &clock);
            let instruments = Instruments { wall, stopwatch, stopwatch_frequency: Frequency::GIGAHERTZ, cycles: None };
            let cost = read_cost(&clock, instruments, 1_000_000, &mut |_| Continue(()));
            let per_read_ns = cost.per_read_ns().expect("reads");
            assert!(cost.batches.is_none() && (35.0..45.0).contains(&per_read_ns), "{cost:?}");
        }
    }

    #[test]
    fn a_slow_wall_clock_needs_longer_batches() {
        /// A wall clock whose read takes 10 µs.
        #[derive(Debug)]
        struct Slow<'a>(&'a ManualSource);
        impl TimeSource for Slow<'_> {
            fn ticks(&self) -> u64 {
                self.0.advance(10_000);
                self.0.ticks()
            }

            fn info(&self) -> &SourceInfo {
                self.0.info()
            }
        }
        let clock = ManualSource::new("clock").with_step(5);
        let wall = Slow(&clock);
        let (wall, stopwatch) = (&wall, &clock);
        let instruments = Instruments { wall, stopwatch, stopwatch_frequency: Frequency::GIGAHERTZ, cycles: None };
        let cost = read_cost(&clock, instruments, 20_000_000, &mut |_| Continue(()));
        let per_read_ns = cost.per_read_ns().expect("reads");
        assert!((5.0..5.05).contains(&per_read_ns), "a read of the wall clock adds at most half a percent: {cost:?}");
    }

    #[test]
    fn an_interrupted_run_keeps_its_samples() {
        let clock = ManualSource::new("clock").with_step(1);
        let instruments =
            Instruments { wall: &clock, stopwatch: &clock, stopwatch_frequency: Frequency::GIGAHERTZ, cycles: None };
        let cost =
            read_cost(&clock, instruments, 1_000_000, &mut |done| if done < 20_000 { Continue(()) } else { Break(()) });
        assert_eq!((cost.calls, cost.complete), (20_000, false));
        assert!(cost.singles.is_some());
    }
}
