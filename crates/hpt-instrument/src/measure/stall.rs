//! CPU stalls: periods in which a busy-polling thread did not run, detected as gaps between readings of a source in a
//! tight loop. This module reads counters with a function that the caller provides. It draws no conclusions about
//! causes; `diagnose` does.

use std::{fmt, ops::ControlFlow, time::Duration};

use hpt_core::{
    Scale,
    clock::{Clock, Instant, SystemClock},
    source::TimeSource,
    stats::{Histogram, median},
};
use hpt_sys::units::{Frequency, Width, saturating_nanos};

use super::{CounterDeltas, Latencies, Wake};

/// The default stall threshold.
const THRESHOLD: Duration = Duration::from_micros(10);
/// The interval at which the clock is read, in nanoseconds.
const STRETCH_NS: u64 = 1_000_000;
/// The number of reads after which the clock is read even if the source does not advance.
const READS: u32 = 1 << 16;
/// The minimum interval between two reads of the counters while no stall occurs, as a multiple of the time that it
/// usually takes to read and report them.
const SAMPLING_RATIO: u64 = 200;
/// The absolute minimum of that interval, in nanoseconds.
const SAMPLING_INTERVAL_NS: u64 = 20_000_000;
/// The minimum interval between two reads of the counters after a stall, as a multiple of the time that it usually
/// takes to read and report them. Even if stalls are frequent, reading and reporting take at most a fifth of the time.
const STALL_SAMPLING_RATIO: u64 = 4;
/// The maximum number of stalls that are kept until the counters are read.
const WAITING: usize = 32;
/// The maximum number of attempts to read the clock without a stall during the read.
const CLOCK_READS: u32 = 4;
/// The number of reads of the counters before the run, which determine the usual duration of a read.
const FIRST_SAMPLINGS: usize = 9;
/// The factor that identifies a stalled operation. An operation was stalled if it took longer than this multiple of its
/// usual duration plus the stall threshold.
const UNUSUAL: u64 = 3;
/// The number of most recent durations whose median is the usual duration.
const USUAL_OF: usize = 63;

/// A period in which the thread did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// The last time at which the thread is known to have been running.
    pub start: Instant,
    /// The time until the thread was running again, in nanoseconds.
    pub length_ns: u64,
    /// The amount by which the stall may have been shorter, in nanoseconds, because the thread was not polling at the
    /// time.
    pub uncertainty_ns: u64,
}

impl Stall {
    /// Creates a stall with no uncertainty in its length.
    #[must_use]
    pub const fn new(start: Instant, length_ns: u64) -> Self {
        Self { start, length_ns, uncertainty_ns: 0 }
    }

    /// Returns the first time at which the thread is known to have been running again.
    #[must_use]
    pub fn end(&self) -> Instant {
        self.start.saturating_add(Duration::from_nanos(self.length_ns))
    }
}

/// The period between two reads of the counters, with the stalls that were found in this period: usually none or one.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Window<'a> {
    /// The stalls that were found in this period. One during the first report is found after the second report.
    pub stalls: &'a [Stall],
    /// The increases of the counters in this period.
    pub deltas: &'a CounterDeltas,
}

impl<'a> Window<'a> {
    /// Creates a window, for tests of code that receives windows.
    #[must_use]
    pub const fn new(stalls: &'a [Stall], deltas: &'a CounterDeltas) -> Self {
        Self { stalls, deltas }
    }
}

/// Whether a callback that took far longer than usual counts as a stall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallbackTime {
    /// The callback did its usual work. If it took far longer than usual, the thread was stalled during the callback.
    #[default]
    Checked,
    /// The callback had more work than usual, so its time is not checked for stalls.
    Excluded,
}

/// Statistics about the time that a run spent on polling and on reading counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StallWatchStats {
    /// The time from the first reading to the last, in nanoseconds.
    pub elapsed_ns: u64,
    /// The time that was spent on reading and reporting counters, in nanoseconds.
    pub sampling_ns: u64,
    /// The number of times that the counters were read.
    pub samplings: u64,
    /// The longest duration of a read and its report, in nanoseconds.
    pub longest_sampling_ns: u64,
    /// The highest detection limit during any read of the counters, in nanoseconds. A shorter stall during a read may
    /// have gone undetected.
    pub blind_below_ns: u64,
    /// The number of times that the source went backward. A step backward is not a stall.
    pub backward_steps: u64,
}

/// A measurement of CPU stalls: reads a source as fast as possible. A gap between two readings that is longer than the
/// threshold is a stall.
///
/// The source must keep counting while the thread is not running. A clock is read once per millisecond to resolve wraps
/// of the source; it is [`SystemClock`], unless [`with_clock`](Self::with_clock) selects another clock. The threshold
/// is 10 µs, unless [`with_threshold`](Self::with_threshold) sets another value.
///
/// # Examples
///
/// ```
/// use std::{ops::ControlFlow, time::Duration};
/// use hpt_core::{Frequency, Host, Instant, PosixClock, PosixId};
/// use hpt_instrument::measure::{CallbackTime, StallWatch};
///
/// let clock = PosixClock::open(&Host::live(), PosixId::MonotonicRaw)?;
/// let (end, mut stalls) = (Instant::now() + Duration::from_millis(30), 0);
/// let watch = StallWatch::new(&clock, Frequency::GIGAHERTZ);
/// let watch = watch.with_check(|now| if now < end { ControlFlow::Continue(()) } else { ControlFlow::Break(()) });
/// let stats = watch.run(|window| {
///     stalls += window.stalls.len();
///     ControlFlow::Continue(CallbackTime::Checked)
/// });
/// println!("{stalls} stalls in {} ns", stats.elapsed_ns);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "it does nothing until it runs"]
pub struct StallWatch<'a, F = fn(Instant) -> ControlFlow<()>, D = fn() -> CounterDeltas> {
    source: &'a dyn TimeSource,
    frequency: Frequency,
    clock: &'a dyn Clock,
    threshold: Duration,
    check: F,
    read_counters: D,
}

impl<F, D> fmt::Debug for StallWatch<'_, F, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StallWatch")
            .field("frequency", &self.frequency)
            .field("threshold", &self.threshold)
            .finish_non_exhaustive()
    }
}

impl<'a> StallWatch<'a> {
    /// Creates a measurement that reads `source`, which ticks at `frequency`.
    pub fn new(source: &'a dyn TimeSource, frequency: Frequency) -> Self {
        let check: fn(Instant) -> ControlFlow<()> = |_| ControlFlow::Continue(());
        let read_counters: fn() -> CounterDeltas = CounterDeltas::default;
        Self { source, frequency, clock: &SystemClock, threshold: THRESHOLD, check, read_counters }
    }
}

impl<'a, F, D> StallWatch<'a, F, D>
where
    F: FnMut(Instant) -> ControlFlow<()>,
    D: FnMut() -> CounterDeltas,
{
    /// Sets the stall threshold. A longer gap is a stall. It must not be lower than [`PollCost::step_ns`].
    pub fn with_threshold(self, threshold: Duration) -> Self {
        Self { threshold, ..self }
    }

    /// Sets the clock that is read once per millisecond.
    pub fn with_clock(self, clock: &'a dyn Clock) -> Self {
        Self { clock, ..self }
    }

    /// Sets a check that can end the run. It is called once per millisecond with the current time.
    pub fn with_check<G: FnMut(Instant) -> ControlFlow<()>>(self, check: G) -> StallWatch<'a, G, D> {
        let Self { source, frequency, clock, threshold, check: _, read_counters } = self;
        StallWatch { source, frequency, clock, threshold, check, read_counters }
    }

    /// Sets a function that returns the increases of the kernel's counters since its last call, for example
    /// [`CpuCounters::read_deltas`](super::CpuCounters::read_deltas). Without this call, no counters are read, and the
    /// increases of every window are empty.
    pub fn with_counters<E: FnMut() -> CounterDeltas>(self, read_counters: E) -> StallWatch<'a, F, E> {
        let Self { source, frequency, clock, threshold, check, read_counters: _ } = self;
        StallWatch { source, frequency, clock, threshold, check, read_counters }
    }

    /// Blocks until the run ends. Passes the stalls to `on_window` in windows, together with the increases of the
    /// counters since the previous window. Also passes windows without a stall, for comparison. The run ends when
    /// `on_window` or the check returns [`ControlFlow::Break`].
    pub fn run(self, mut on_window: impl FnMut(Window<'_>) -> ControlFlow<(), CallbackTime>) -> StallWatchStats {
        let Self { source, frequency, clock, threshold, mut check, mut read_counters } = self;
        let (check, read_counters): (Check<'_>, ReadCounters<'_>) = (&mut check, &mut read_counters);
        StallWatch { source, frequency, clock, threshold, check, read_counters }.run_to_end(&mut on_window)
    }
}

type Check<'a> = &'a mut dyn FnMut(Instant) -> ControlFlow<()>;
type ReadCounters<'a> = &'a mut dyn FnMut() -> CounterDeltas;

impl StallWatch<'_, Check<'_>, ReadCounters<'_>> {
    /// Not generic, so that the program that measures does not compile it, perhaps without optimization.
    #[expect(clippy::too_many_lines, reason = "the loop that must not stall, with all that happens in it")]
    fn run_to_end(self, on_window: &mut dyn FnMut(Window<'_>) -> ControlFlow<(), CallbackTime>) -> StallWatchStats {
        let Self { source, frequency, clock, threshold, check, read_counters } = self;
        let above_ns = saturating_nanos(threshold);
        let mut loop_ = Loop::new(source, frequency, clock, above_ns);
        let (mut reading, mut reporting) = (Usual::new(), Usual::new());
        for _ in 0..FIRST_SAMPLINGS {
            let start = clock.now();
            read_counters();
            reading.record(clock.now().nanos_since(start));
        }
        let mut waiting: Vec<Stall> = Vec::with_capacity(WAITING);
        // The increases from a read that was itself stalled. They are added to the increases from the next read.
        let mut carried: Option<CounterDeltas> = None;
        let mut stats = StallWatchStats::default();
        // The usual duration of a report is not known before the second one, which follows soon and judges both.
        let mut first_report: Option<(Instant, Instant)> = None;
        let (begun, _) = loop_.restart();
        let mut sampled = begun;
        let ended = loop {
            waiting.extend(loop_.stretch());
            let now = loop_.clock_at;
            let is_last = check(now).is_break();
            let cost_ns = reading.ns() + reporting.ns();
            let least_ns = if waiting.is_empty() && first_report.is_none() {
                SAMPLING_INTERVAL_NS.max(cost_ns * SAMPLING_RATIO)
            } else {
                cost_ns * STALL_SAMPLING_RATIO
            };
            if !is_last && now.nanos_since(sampled) < least_ns && waiting.len() < WAITING {
                continue;
            }
            let mut deltas = read_counters();
            let reported_from = clock.now();
            if let Some(before) = carried.take() {
                deltas.add(&before);
            }
            let stalled = reading.judge(now, reported_from, above_ns);
            let mut answer = ControlFlow::Continue(CallbackTime::Checked);
            if stalled.is_some() && !is_last && waiting.len() < WAITING {
                carried = Some(deltas);
            } else {
                waiting.extend(stalled.filter(|_| is_last));
                answer = on_window(Window { stalls: &waiting, deltas: &deltas });
                waiting.clear();
            }
            let (end, between) = loop_.restart();
            waiting.extend(stalled.filter(|_| !is_last));
            if answer == ControlFlow::Continue(CallbackTime::Excluded) {
                // The usual duration of a rare operation is not known, so a stall during it cannot be detected.
                stats.blind_below_ns = stats.blind_below_ns.max(end.nanos_since(reported_from));
                waiting.extend(between);
            } else if reporting.count == 0 && first_report.is_none() && between.is_none() {
                first_report = Some((reported_from, end));
            } else {
                if let Some((start, end_of_first)) = first_report.take() {
                    let took_ns = end.nanos_since(reported_from);
                    reporting.record(took_ns.min(end_of_first.nanos_since(start)));
                    waiting.extend(reporting.judge(start, end_of_first, above_ns));
                }
                waiting.extend(reporting.judge(reported_from, end, above_ns).or(between));
            }
            let sampling_ns = end.nanos_since(now);
            stats.samplings += 1;
            stats.sampling_ns += sampling_ns;
            stats.longest_sampling_ns = stats.longest_sampling_ns.max(sampling_ns);
            let limit_ns = reading.limit_ns(above_ns).max(reporting.limit_ns(above_ns));
            stats.blind_below_ns = stats.blind_below_ns.max(limit_ns);
            if is_last || answer.is_break() {
                break end;
            }
            sampled = end;
        };
        if let Some((start, end)) = first_report {
            stats.blind_below_ns = stats.blind_below_ns.max(end.nanos_since(start));
        }
        stats.elapsed_ns = ended.nanos_since(begun);
        stats.backward_steps = loop_.backward_steps;
        stats
    }
}

/// The state of the tight loop.
struct Loop<'a> {
    source: &'a dyn TimeSource,
    clock: &'a dyn Clock,
    scale: Scale,
    width: Width,
    /// The stall threshold, in ticks. A longer gap is a stall.
    above_ticks: u64,
    stretch_ticks: u64,
    /// The time that the counter takes to wrap, in nanoseconds.
    wrap_ns: u128,
    last: u64,
    /// The latest reading of the clock, and the adjacent reading of the source.
    clock_at: Instant,
    clock_ticks: u64,
    backward_steps: u64,
    /// The usual duration of a clock read, in nanoseconds. A clock read that took longer than `clock_read_limit_ns`
    /// was stalled.
    clock_read_ns: u64,
    clock_read_limit_ns: u64,
}

impl<'a> Loop<'a> {
    fn new(source: &'a dyn TimeSource, frequency: Frequency, clock: &'a dyn Clock, above_ns: u64) -> Self {
        let ticks = |ns: u64| {
            // Ticks are rounded up, so that a gap exceeds a limit in ticks only if it exceeds the limit in nanoseconds.
            let ticks = (u128::from(ns) * u128::from(frequency.microhertz())).div_ceil(1_000_000_000_000_000);
            u64::try_from(ticks).unwrap_or(u64::MAX)
        };
        let width = source.info().width;
        let wrap_ticks = u128::from(width.mask()) + 1;
        let scale = Scale::of(frequency);
        let mut clock_reads = Usual::new();
        for _ in 0..USUAL_OF {
            let before = source.ticks();
            clock.now();
            clock_reads.record(scale.nanos(width.difference(before, source.ticks())));
        }
        Self {
            clock_read_ns: clock_reads.ns(),
            clock_read_limit_ns: clock_reads.limit_ns(above_ns),
            source,
            clock,
            scale,
            width,
            above_ticks: ticks(above_ns),
            stretch_ticks: ticks(STRETCH_NS),
            wrap_ns: wrap_ticks * 1_000_000_000_000_000 / u128::from(frequency.microhertz()),
            last: 0,
            clock_at: Instant::EPOCH,
            clock_ticks: 0,
            backward_steps: 0,
        }
    }

    /// Restarts the loop at the returned time. Time before that is not part of a gap, but a stall during the clock read
    /// is returned.
    fn restart(&mut self) -> (Instant, Option<Stall>) {
        let before = self.source.ticks();
        self.clock_at = self.clock.now();
        self.last = self.source.ticks();
        self.clock_ticks = self.last;
        let length_ns = self.scale.nanos(self.width.difference(before, self.last));
        let stall = Stall { start: self.clock_at, length_ns, uncertainty_ns: self.clock_read_ns };
        (self.clock_at, (length_ns > self.clock_read_limit_ns).then_some(stall))
    }

    /// Reads the source until a gap occurs or a millisecond has passed, and then reads the clock.
    fn stretch(&mut self) -> Option<Stall> {
        let (source, width, above) = (self.source, self.width, self.above_ticks);
        let (begun, long) = (self.last, self.stretch_ticks);
        let mut last = begun;
        let mut gap = None;
        for _ in 0..READS {
            let ticks = source.ticks();
            let step = width.difference(last, ticks);
            let before = last;
            last = ticks;
            if step > above {
                gap = Some((before, step));
                break;
            }
            if width.difference(begun, ticks) >= long {
                break;
            }
        }
        // The clock is read between two readings of the source. If the thread was stalled during the clock read, that
        // stall counts too, and the clock is read again. The usual duration of a clock read counts as
        // uncertainty.
        let (mut uncertainty_ns, mut now) = (0, (self.clock_at, last));
        for _ in 0..CLOCK_READS {
            now = (self.clock.now(), source.ticks());
            let step = width.difference(last, now.1);
            if self.scale.nanos(step) <= self.clock_read_limit_ns {
                break;
            }
            let begun = gap.map_or(last, |(before, _)| before);
            gap = Some((begun, width.difference(begun, now.1)));
            uncertainty_ns = self.clock_read_ns;
            last = now.1;
        }
        let back_ns = self.scale.nanos(width.difference(last, now.1));
        self.last = now.1;
        let passed_ns = now.0.nanos_since(self.clock_at);
        let counted_ns = self.scale.nanos(width.difference(self.clock_ticks, last)).saturating_add(back_ns);
        let wraps_ns = self.wraps_ns(passed_ns, counted_ns);
        self.clock_at = now.0;
        self.clock_ticks = last;
        let backwards = gap.is_some_and(|(before, _)| width.signed_difference(before, last) < 0);
        // Half of all gaps in a narrow counter look like backward steps. The clock resolves this ambiguity.
        if backwards && (width.bits() == 64 || passed_ns < self.scale.nanos(above)) {
            self.backward_steps += 1;
            return None;
        }
        let (length_ns, uncertainty_ns) = match (gap, wraps_ns) {
            (None, 0) => return None,
            // The counter wrapped to its previous value, so the stall was somewhere in this interval.
            (None, wraps_ns) => (passed_ns, passed_ns.saturating_sub(wraps_ns)),
            (Some((_, step)), wraps_ns) => (self.scale.nanos(step).saturating_add(wraps_ns), uncertainty_ns),
        };
        let end_ns = now.0.nanos_since(Instant::EPOCH).saturating_sub(back_ns);
        let start = crate::instant(end_ns.saturating_sub(length_ns));
        Some(Stall { start, length_ns, uncertainty_ns })
    }

    /// Returns the total duration of the complete wraps in the elapsed time, in nanoseconds. The counter alone does not
    /// show complete wraps.
    fn wraps_ns(&self, passed_ns: u64, counted_ns: u64) -> u64 {
        let hidden = u128::from(passed_ns.saturating_sub(counted_ns));
        let wraps = (hidden + self.wrap_ns / 2) / self.wrap_ns;
        u64::try_from(wraps * self.wrap_ns).unwrap_or(u64::MAX)
    }
}

/// The usual duration of an operation: the median of its latest durations.
struct Usual {
    newest_ns: [u64; USUAL_OF],
    count: usize,
    ns: u64,
}

impl Usual {
    const fn new() -> Self {
        Self { newest_ns: [0; USUAL_OF], count: 0, ns: 0 }
    }

    fn record(&mut self, ns: u64) {
        self.newest_ns[self.count % USUAL_OF] = ns;
        self.count += 1;
        let filled = self.count.min(USUAL_OF);
        let mut sorted = self.newest_ns;
        self.ns = median(&mut sorted[..filled]).unwrap_or(0);
    }

    const fn ns(&self) -> u64 {
        self.ns
    }

    const fn limit_ns(&self, above_ns: u64) -> u64 {
        self.ns.saturating_mul(UNUSUAL).saturating_add(above_ns)
    }

    /// Returns a stall if the operation took far longer than usual. In any case, records the duration, which then
    /// contributes to the usual duration.
    fn judge(&mut self, start: Instant, end: Instant, above_ns: u64) -> Option<Stall> {
        let took_ns = end.nanos_since(start);
        let (limit_ns, usual_ns) = (self.limit_ns(above_ns), self.ns);
        self.record(took_ns);
        (took_ns > limit_ns).then_some(Stall { start, length_ns: took_ns, uncertainty_ns: usual_ns })
    }
}

/// A stall that [`Stalls`] stores, and the caller's value for it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KeptStall<T> {
    /// The stall.
    pub stall: Stall,
    /// The caller's value.
    pub details: T,
}

/// The stalls of a thread, stored in bounded memory. All stalls are counted. The longest and the newest stalls are also
/// stored individually, each with a `T` from the caller.
#[derive(Clone)]
pub struct Stalls<T> {
    lengths: Latencies,
    kept: usize,
    longest: Vec<KeptStall<T>>,
    newest: std::collections::VecDeque<KeptStall<T>>,
    starts_ns: std::collections::VecDeque<u64>,
    stalled_ns: u64,
}

impl<T> fmt::Debug for Stalls<T> {
    /// Without the stalls themselves.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stalls")
            .field("lengths", &self.lengths)
            .field("stalled_ns", &self.stalled_ns)
            .finish_non_exhaustive()
    }
}

/// The number of newest stalls that are searched for a period.
const STARTS: usize = 1_024;

impl<T: Clone> Stalls<T> {
    /// Creates an empty collection that stores the `kept` longest and the `kept` newest stalls.
    #[must_use]
    pub fn new(kept: usize) -> Self {
        Self {
            lengths: Latencies::new(),
            kept,
            longest: Vec::with_capacity(kept + 1),
            newest: std::collections::VecDeque::with_capacity(kept + 1),
            starts_ns: std::collections::VecDeque::with_capacity(STARTS + 1),
            stalled_ns: 0,
        }
    }

    /// Adds a stall, together with the caller's value for it.
    pub fn record(&mut self, stall: Stall, details: T) {
        self.lengths.record(Wake::new(stall.start, stall.length_ns));
        self.stalled_ns = self.stalled_ns.saturating_add(stall.length_ns);
        self.starts_ns.push_back(stall.start.nanos_since(Instant::EPOCH));
        if self.starts_ns.len() > STARTS {
            self.starts_ns.pop_front();
        }
        if self.kept == 0 {
            return;
        }
        let place = self.longest.partition_point(|longer| longer.stall.length_ns >= stall.length_ns);
        if place < self.kept {
            self.longest.insert(place, KeptStall { stall, details: details.clone() });
            self.longest.truncate(self.kept);
        }
        // A stall can be recorded after a later one, because the first report is judged after the second.
        let place = self.newest.partition_point(|earlier| earlier.stall.start <= stall.start);
        self.newest.insert(place, KeptStall { stall, details });
        if self.newest.len() > self.kept {
            self.newest.pop_front();
        }
    }

    /// Returns the lengths of all stalls.
    #[must_use]
    pub const fn lengths(&self) -> &Latencies {
        &self.lengths
    }

    /// Returns the sum of all lengths, in nanoseconds.
    #[must_use]
    pub const fn stalled_ns(&self) -> u64 {
        self.stalled_ns
    }

    /// Returns the longest stalls, in descending order of length.
    #[must_use]
    pub fn longest(&self) -> &[KeptStall<T>] {
        &self.longest
    }

    /// Returns the newest stalls, in chronological order.
    pub fn newest(&self) -> impl Iterator<Item = &KeptStall<T>> {
        self.newest.iter()
    }

    /// Returns the period of the stalls, determined from about a thousand of the newest stalls; `None` if they are not
    /// periodic.
    #[must_use]
    pub fn recurrence(&self) -> Option<Recurrence> {
        recurrence(self.starts_ns.iter().copied().collect())
    }
}

/// The period of stalls: the time after which most stalls are followed by another stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recurrence {
    /// The period, in nanoseconds: the median of the intervals between such stalls.
    pub period_ns: u64,
    /// The 10th percentile of these intervals, in nanoseconds.
    pub p10_ns: u64,
    /// The 90th percentile of these intervals, in nanoseconds.
    pub p90_ns: u64,
    /// The number of stalls that were followed by another stall after one period.
    pub followed: u64,
    /// The number of stalls that began early enough to be followed by another stall after one period.
    pub eligible: u64,
}

/// The smallest number of followed stalls that establishes a period.
const FEWEST_FOLLOWERS: u64 = 8;
/// The number by which a period is divided to obtain its tolerance. An interval matches a period if the difference is
/// within the tolerance.
const LOOSE: u64 = 50;
/// The number of later stalls with which each stall is compared, because unrelated stalls can occur between two
/// periodic stalls.
const REACH: usize = 16;

/// Returns the period of stalls that began at these times, in any order; `None` if the stalls are not periodic. The
/// period is the shortest time after which stalls are followed by another stall in most cases, and far more often
/// than by chance.
#[must_use]
pub fn recurrence(mut starts_ns: Vec<u64>) -> Option<Recurrence> {
    starts_ns.sort_unstable();
    let last = *starts_ns.last()?;
    let span = last.checked_sub(starts_ns[0]).filter(|&span| span > 0)?;
    let mut distances: Vec<u64> = Vec::new();
    for (at, &start) in starts_ns.iter().enumerate() {
        distances.extend(starts_ns[at + 1..].iter().take(REACH).map(|&later| later.saturating_sub(start)));
    }
    distances.retain(|&distance| distance > 0);
    distances.sort_unstable();
    // The search begins with the shortest interval, because multiples of a period match too.
    let mut candidate = 0;
    while candidate < distances.len() {
        let from = distances[candidate];
        let to = from.saturating_add(from / LOOSE * 2);
        let cluster = &distances[candidate..];
        let cluster = &cluster[..cluster.partition_point(|&distance| distance <= to)];
        if cluster.len() as u64 >= FEWEST_FOLLOWERS {
            let found = followers(&starts_ns, cluster[cluster.len() / 2], last, span);
            if found.is_some() {
                return found;
            }
        }
        // The search continues with the next interval that is clearly different.
        let beyond = from.saturating_add(from / (LOOSE * 4));
        candidate += distances[candidate..].partition_point(|&distance| distance <= beyond).max(1);
    }
    None
}

/// Returns the exact period if stalls are followed by another stall after about `period` in most cases, and far more
/// often than by chance.
#[expect(clippy::cast_precision_loss, reason = "a probability")]
fn followers(starts_ns: &[u64], period: u64, last: u64, span: u64) -> Option<Recurrence> {
    let loose = period / LOOSE;
    let mut found = Vec::new();
    let mut of = 0;
    for &start in starts_ns {
        let due = start.saturating_add(period);
        if due.saturating_add(loose) > last {
            break;
        }
        of += 1;
        let from = starts_ns.partition_point(|&other| other < due - loose);
        let near = starts_ns[from..].iter().take_while(|&&other| other <= due + loose);
        found.extend(near.map(|&other| other - start).min_by_key(|distance| distance.abs_diff(period)));
    }
    let followed = found.len() as u64;
    // The probability of a stall near that time if stalls occurred at random.
    let by_chance = 1.0 - (-(2.0 * loose as f64) * (starts_ns.len() as f64 / span as f64)).exp();
    if followed < FEWEST_FOLLOWERS || followed * 2 < of || (followed as f64) < 3.0 * by_chance * of as f64 {
        return None;
    }
    found.sort_unstable();
    let part = |tenths: usize| found[(found.len() - 1) * tenths / 10];
    Some(Recurrence { period_ns: part(5), p10_ns: part(1), p90_ns: part(9), followed, eligible: of })
}

/// The properties of a source that is read continuously.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PollCost {
    /// The duration of a read, in nanoseconds. It is the median over blocks of reads, so that a stall in one block has
    /// no effect.
    pub read_ns: f64,
    /// The 90th percentile of the source's non-zero steps, in nanoseconds; `None` if the source did not advance. A
    /// stall threshold must not be lower.
    pub step_ns: Option<u64>,
}

/// Reads `source`, which ticks at `frequency`, continuously for at most 50 ms, as measured with `clock`.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a mean of a few nanoseconds")]
pub fn poll_cost(source: &dyn TimeSource, frequency: Frequency, clock: &dyn Clock) -> PollCost {
    /// The number of reads per block.
    const READS: usize = 64;
    const BLOCKS: usize = 320;
    const FEW: u64 = 8;
    const LONGEST: Duration = Duration::from_millis(50);
    let width = source.info().width;
    let mut steps = Histogram::new();
    let mut blocks_ns = Vec::with_capacity(BLOCKS);
    // The time between two back-to-back clock reads is subtracted from each block.
    let empty_ns = (0..USUAL_OF).map(|_| {
        let before = clock.now();
        clock.now().nanos_since(before)
    });
    let empty_ns = empty_ns.min().unwrap_or(0);
    // At least one reading follows the end time, so that a source that advances is seen to advance even if the thread
    // is stopped.
    let mut last = source.ticks();
    let end = clock.now().saturating_add(LONGEST);
    loop {
        let begun = clock.now();
        // All readings are taken before they are evaluated, because on 32-bit processors the evaluation takes longer
        // than a read.
        let read: [u64; READS] = std::array::from_fn(|_| source.ticks());
        let block_ns = clock.now().nanos_since(begun).saturating_sub(empty_ns);
        if blocks_ns.len() < BLOCKS {
            blocks_ns.push(block_ns);
        }
        for ticks in read {
            if width.signed_difference(last, ticks) > 0 {
                steps.record(width.difference(last, ticks));
            }
            last = ticks;
        }
        if (blocks_ns.len() >= BLOCKS && steps.samples() >= FEW) || begun > end {
            break;
        }
    }
    let step_ns = steps.quantile(0.9).map(|ticks| Scale::of(frequency).nanos(ticks));
    PollCost { read_ns: median(&mut blocks_ns).unwrap_or(0) as f64 / READS as f64, step_ns }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        ops::ControlFlow::{self, Break, Continue},
    };

    use proptest::{
        collection::vec,
        prelude::{prop_assert, prop_assert_eq, proptest},
    };

    use super::{
        CallbackTime::{Checked, Excluded},
        Stall, StallWatch, StallWatchStats, Stalls, poll_cost, recurrence,
    };
    use crate::measure::CounterDeltas;
    use hpt_core::{
        clock::{Clock, Instant},
        source::{SourceId, SourceInfo, TimeSource},
        testing::ManualSource,
    };
    use hpt_sys::units::{Frequency, Width};

    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;

    /// A scripted time that advances when it is read and jumps at given positions. It is used both as the source and as
    /// the clock.
    #[derive(Debug)]
    struct Scripted {
        now_ns: Cell<u64>,
        step_ns: u64,
        /// The positions of its jumps, in ascending order, and their sizes.
        jumps: Vec<(u64, u64)>,
        /// The number of past jumps.
        jumped: Cell<usize>,
        info: SourceInfo,
    }

    impl Scripted {
        fn new(step_ns: u64, jumps: &[(u64, u64)]) -> Self {
            let info = SourceInfo::new(SourceId::new("scripted"));
            Self { now_ns: Cell::new(MS), step_ns, jumps: jumps.to_vec(), jumped: Cell::new(0), info }
        }

        fn pass(&self, ns: u64) -> u64 {
            let after = self.now_ns.get() + ns;
            let to_come = &self.jumps[self.jumped.get()..];
            let due = to_come.iter().take_while(|&&(at, _)| at < after);
            self.jumped.update(|jumped| jumped + due.clone().count());
            self.now_ns.set(after + due.map(|(_, by)| by).sum::<u64>());
            self.now_ns.get()
        }
    }

    impl TimeSource for Scripted {
        fn ticks(&self) -> u64 {
            self.pass(self.step_ns) & self.info.width.mask()
        }

        fn info(&self) -> &SourceInfo {
            &self.info
        }
    }

    impl Clock for Scripted {
        fn now(&self) -> Instant {
            crate::instant(self.pass(self.step_ns))
        }
    }

    fn until(end_ns: u64) -> impl FnMut(Instant) -> ControlFlow<()> {
        move |now| if now < crate::instant(end_ns) { Continue(()) } else { Break(()) }
    }

    /// Simulates a read of the counters that takes this long.
    fn counters(time: &Scripted, reading_ns: u64) -> CounterDeltas {
        time.pass(reading_ns);
        CounterDeltas::default()
    }

    /// All stalls above 10 µs until `end_ns`; a read of the counters takes this long.
    fn stalls(time: &Scripted, end_ns: u64, reading_ns: u64) -> (Vec<Stall>, StallWatchStats) {
        let mut seen = Vec::new();
        let watch = StallWatch::new(time, Frequency::GIGAHERTZ).with_clock(time).with_check(until(end_ns));
        let watched = watch.with_counters(|| counters(time, reading_ns)).run(|window| {
            seen.extend_from_slice(window.stalls);
            Continue(Checked)
        });
        (seen, watched)
    }

    /// The stall is the jump, except for the readings around it and its stated uncertainty.
    #[track_caller]
    fn is_around(stall: &Stall, jump: (u64, u64), step_ns: u64) {
        assert!(fits(stall, jump, step_ns), "{stall:?} for {jump:?}");
    }

    fn fits(stall: &Stall, (at, by): (u64, u64), step_ns: u64) -> bool {
        let (start, end) = (stall.start.nanos_since(Instant::EPOCH), stall.end().nanos_since(Instant::EPOCH));
        // Where it coincides with a clock read, a few readings are in between.
        let (readings, slack) = (8 * step_ns, stall.uncertainty_ns + 8 * step_ns);
        start <= at + readings && start + slack >= at && end + readings >= at + by && end <= at + by + slack
    }

    #[test]
    fn a_gap_is_found_with_its_position_and_length() {
        let jumps = [(5 * MS, 40 * US), (9 * MS, 3 * MS), (20 * MS, 11 * US), (21 * MS, 9 * US)];
        let time = Scripted::new(20, &jumps);
        let (seen, watched) = stalls(&time, 40 * MS, 50 * US);
        assert_eq!(seen.len(), 3, "{seen:?}");
        seen.iter().zip(jumps).for_each(|(stall, jump)| is_around(stall, jump, 20));
        assert!(watched.samplings >= 4 && watched.sampling_ns >= 4 * 50 * US, "{watched:?}");
    }

    #[test]
    fn reading_counters_is_not_a_stall_but_a_stall_during_a_read_is() {
        let quiet = Scripted::new(500, &[]);
        let (seen, watched) = stalls(&quiet, 2_000 * MS, 50 * US);
        assert_eq!(seen, []);
        assert!(watched.sampling_ns * 150 < watched.elapsed_ns && watched.samplings > 10, "{watched:?}");
        // A read of the counters takes five milliseconds here, once per second, so some jump falls into one.
        let mut asked = 0;
        for at in (1_040 * MS..1_060 * MS).step_by(1_100_000) {
            let jump = (at, 50 * MS);
            let time = Scripted::new(US, &[jump]);
            let (seen, _) = stalls(&time, 1_200 * MS, 5 * MS);
            assert_eq!(seen.len(), 1, "{jump:?}: {seen:?}");
            is_around(&seen[0], jump, US);
            asked += u32::from(seen[0].uncertainty_ns > 0);
        }
        assert!(asked > 0, "no jump fell into a read of the counters");
    }

    #[test]
    fn a_stall_is_detected_at_any_time() {
        // Over two stretches with their clock reads, and a read of the counters between them.
        for at in (20 * MS..22 * MS + 500 * US).step_by(1_300) {
            let jump = (at, 5 * MS);
            let time = Scripted::new(US, &[jump]);
            let (seen, _) = stalls(&time, 32 * MS, 50 * US);
            assert_eq!(seen.len(), 1, "{jump:?}: {seen:?}");
            is_around(&seen[0], jump, US);
        }
    }

    #[test]
    fn a_slow_report_is_not_a_stall_not_even_the_first_one() {
        let time = Scripted::new(500, &[]);
        let mut seen = Vec::new();
        let watch = StallWatch::new(&time, Frequency::GIGAHERTZ).with_clock(&time).with_check(until(300 * MS));
        let watched = watch.run(|window| {
            seen.extend_from_slice(window.stalls);
            time.pass(200 * US);
            Continue(Checked)
        });
        assert_eq!(seen, []);
        assert!(watched.samplings > 3 && watched.blind_below_ns > 200 * US, "{watched:?}");
    }

    #[test]
    fn many_consecutive_stalls_are_found_although_counters_are_read_once_for_them() {
        let jumps: Vec<_> = (0..500).map(|number| (5 * MS + number * 40 * US, 15 * US)).collect();
        let time = Scripted::new(20, &jumps);
        let (seen, watched) = stalls(&time, 60 * MS, 50 * US);
        // During a read of the counters, stalls shorter than its usual duration are missed, as reported.
        let missed = 500 - seen.len() as u64;
        assert!(seen.len() > 300 && missed * 15 * US < watched.sampling_ns, "{} {watched:?}", seen.len());
        assert!(watched.blind_below_ns > 150 * US, "{watched:?}");
    }

    #[test]
    fn a_source_that_wraps_shows_gaps_of_any_length() {
        for bits in [24, 32] {
            let jumps =
                [(3 * MS, 5_000 * MS), (5_010 * MS, 10 * MS), (5_060 * MS, 16 * (1 << 24)), (5_600 * MS, 1 << 33)];
            let mut time = Scripted::new(US, &jumps);
            time.info.width = Width::new(bits).expect("a width");
            let (seen, _) = stalls(&time, 16_000 * MS, 50 * US);
            assert_eq!(seen.len(), 4, "{bits}: {seen:?}");
            for (stall, jump) in seen.iter().zip(jumps) {
                is_around(stall, jump, US);
            }
        }
    }

    #[test]
    fn a_backward_step_is_not_a_stall_and_a_stopped_clock_ends_the_measurement() {
        #[derive(Debug)]
        struct Unsteady(Cell<u64>, SourceInfo);
        impl TimeSource for Unsteady {
            fn ticks(&self) -> u64 {
                let reads = self.0.get() + 1;
                self.0.set(reads);
                if reads % 1_000 == 0 { reads * 20 - 5_000 } else { reads * 20 }
            }
            fn info(&self) -> &SourceInfo {
                &self.1
            }
        }
        let looks = Cell::new(0);
        let check = |_| {
            looks.set(looks.get() + 1);
            if looks.get() < 30 { Continue(()) } else { Break(()) }
        };
        let clock = ManualSource::new("clock").with_step(20);
        let watch = |source: &dyn TimeSource| {
            let mut stalls = 0;
            let watch = StallWatch::new(source, Frequency::GIGAHERTZ).with_clock(&clock).with_check(check);
            let watched = watch.run(|window| {
                stalls += window.stalls.len();
                Continue(Checked)
            });
            (stalls, watched.backward_steps)
        };
        let unsteady = Unsteady(Cell::new(300), SourceInfo::new(SourceId::new("unsteady")));
        let (stalls, backward_steps) = watch(&unsteady);
        assert!(stalls == 0 && backward_steps > 10, "{stalls} {backward_steps}");
        looks.set(0);
        assert_eq!(watch(&ManualSource::new("still")), (0, 0));
    }

    #[test]
    fn time_in_the_callback_is_a_stall_unless_the_callback_reports_that_it_was_busy() {
        for (busy, expected) in [(Excluded, 0), (Checked, 1)] {
            let time = Scripted::new(20, &[]);
            let (mut windows, mut seen) = (0, 0);
            let watch = StallWatch::new(&time, Frequency::GIGAHERTZ).with_clock(&time).with_check(until(300 * MS));
            let watched = watch.with_counters(|| counters(&time, 50 * US)).run(|window| {
                (windows, seen) = (windows + 1, seen + window.stalls.len());
                if windows != 5 {
                    return Continue(Checked);
                }
                time.pass(3 * MS);
                Continue(busy)
            });
            assert!(windows > 6 && seen == expected, "{busy:?}: {seen} in {windows}");
            assert_eq!(watched.blind_below_ns >= 3 * MS, busy == Excluded, "{watched:?}");
        }
    }

    #[test]
    fn the_callback_ends_the_measurement_after_pending_stalls_are_reported() {
        let time = Scripted::new(20, &[(5 * MS, MS), (5 * MS + 1_020 * US, MS), (500 * MS, MS)]);
        let mut seen = 0;
        let watch = StallWatch::new(&time, Frequency::GIGAHERTZ).with_clock(&time);
        watch.with_counters(|| counters(&time, 50 * US)).run(|window| {
            seen += window.stalls.len();
            if seen < 2 { Continue(Checked) } else { Break(()) }
        });
        assert_eq!((seen, time.now_ns.get() < 500 * MS), (2, true));
    }

    #[test]
    fn the_longest_and_the_newest_stalls_are_kept_and_all_are_counted() {
        let mut stalls = Stalls::new(3);
        for number in 0..1_000_u64 {
            stalls.record(Stall::new(crate::instant(number * MS), 10 + number * 7 % 1_000), number);
        }
        let longest: Vec<_> = stalls.longest().iter().map(|kept| kept.stall.length_ns).collect();
        let newest: Vec<_> = stalls.newest().map(|kept| kept.details).collect();
        assert_eq!((longest, newest), (vec![1_009, 1_008, 1_007], vec![997, 998, 999]));
        assert_eq!((stalls.lengths().histogram().samples(), stalls.stalled_ns()), (1_000, 10_000 + 499_500));
        assert_eq!(stalls.recurrence().map(|found| found.period_ns), Some(MS));
        // The stall of the first report is recorded after later ones.
        stalls.record(Stall::new(crate::instant(998 * MS + 1), 10), 0);
        assert_eq!(stalls.newest().map(|kept| kept.details).collect::<Vec<_>>(), [998, 0, 999]);
        assert_eq!(stalls.recurrence().map(|found| found.period_ns), Some(MS));
    }

    #[test]
    fn a_period_is_found_among_other_stalls_and_none_without_one() {
        let ticks: Vec<u64> = (0..200).map(|number| number * 4 * MS + number % 7 * 300).collect();
        let found = recurrence(ticks.clone()).expect("a period");
        let backward = recurrence(ticks.iter().rev().copied().collect());
        assert_eq!(backward.as_ref(), Some(&found));
        assert!(found.period_ns.abs_diff(4 * MS) < 3_000 && found.p10_ns <= found.p90_ns, "{found:?}");
        assert!(found.followed * 10 > found.eligible * 9, "{found:?}");
        // As many others at random times.
        let mut seed = 12_345_u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % (800 * MS)
        };
        let mixed = ticks.iter().copied().chain((0..150).map(|_| random())).collect();
        let found = recurrence(mixed).expect("a period among others");
        assert!(found.period_ns.abs_diff(4 * MS) < 80_000, "{found:?}");
        assert_eq!(recurrence((0..300).map(|_| random()).collect()), None);
        assert_eq!([vec![], vec![5], vec![5, 5, 5]].map(recurrence), [None; 3]);
    }

    #[test]
    fn the_cost_of_a_read_excludes_stalls_and_the_clock() {
        let time = Scripted::new(50, &[(MS + 100 * US, 20 * MS), (25 * MS, 5 * MS)]);
        let seen = poll_cost(&time, Frequency::GIGAHERTZ, &time);
        assert_eq!((seen.read_ns.to_bits(), seen.step_ns), (50_f64.to_bits(), Some(50)));
    }

    #[test]
    fn a_coarse_source_is_seen_to_advance_wherever_its_reader_is_stopped() {
        // A clock of 4 ms and a thread that is stopped for 60 ms, at each of the first readings.
        for stopped_at in 0..200 {
            let time = Scripted::new(50, &[(MS + stopped_at * 50, 60 * MS)]);
            let seen = poll_cost(&Coarse { time: &time, step_ns: 4 * MS }, Frequency::GIGAHERTZ, &time);
            assert!(seen.step_ns.is_some(), "stopped at {stopped_at}");
        }
    }

    /// A clock that advances in steps of this many nanoseconds.
    #[derive(Debug)]
    struct Coarse<'a> {
        time: &'a Scripted,
        step_ns: u64,
    }

    impl TimeSource for Coarse<'_> {
        fn ticks(&self) -> u64 {
            self.time.ticks() / self.step_ns * self.step_ns
        }

        fn info(&self) -> &SourceInfo {
            self.time.info()
        }
    }

    #[test]
    fn a_coarse_source_has_coarse_steps() {
        let clock = ManualSource::new("clock").with_step(640);
        let step_ns = |source: &ManualSource| poll_cost(source, Frequency::GIGAHERTZ, &clock).step_ns;
        assert_eq!(step_ns(&ManualSource::new("coarse").with_step(100)), Some(100));
        assert_eq!(step_ns(&ManualSource::new("still")), None);
    }

    proptest! {
        #[test]
        fn every_gap_above_the_reported_detection_limit_is_found_once(
            gaps in vec((300_000_u64..2_000_000, 1_000_u64..400_000), 1..20),
            step_ns in 50_u64..400,
        ) {
            // A read of the counters takes no time here except for the readings around it.
            let mut at = 2 * MS;
            let mut jumps = Vec::new();
            for (after, by) in gaps {
                at += after;
                jumps.push((at, by));
                at += by;
            }
            let time = Scripted::new(step_ns, &jumps);
            let (seen, watched) = stalls(&time, at + 2 * MS, 0);
            // A jump barely longer than the threshold, including the readings around it, may be found.
            let possible = jumps.iter().filter(|&&(_, by)| by + 8 * step_ns > 10 * US).count();
            prop_assert!(seen.len() <= possible, "{seen:?} {jumps:?}");
            for &jump in jumps.iter().filter(|&&(_, by)| by > watched.blind_below_ns) {
                prop_assert!(seen.iter().any(|stall| fits(stall, jump, step_ns)), "{jump:?} {seen:?}");
            }
            prop_assert!(watched.blind_below_ns < 10 * US + 20 * step_ns, "{watched:?}");
            prop_assert_eq!(watched.backward_steps, 0);
        }

        #[test]
        fn any_start_times_are_examined_without_a_panic(starts in vec(0_u64..1 << 50, 0..200)) {
            if let Some(found) = recurrence(starts) {
                prop_assert!(found.p10_ns <= found.period_ns && found.period_ns <= found.p90_ns && found.followed <= found.eligible);
            }
        }
    }
}
