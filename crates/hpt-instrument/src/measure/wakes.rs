//! Wake-up latency: the time from a deadline until the thread that waits for it runs. Until the deadline, the thread is
//! blocked in the kernel or polls the clock. This module does not pin the thread; the caller does.

use std::{
    fmt, io,
    ops::ControlFlow,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use hpt_core::{
    clock::Instant,
    sleep::{Sleeper, Strategy, Waker, WallOffset},
    stats::{Histogram, Spread, median},
};
use hpt_sys::{
    signals::{self, SignalSet},
    slack::NoSlack,
    units::saturating_nanos,
    wait::{self, Till},
};

/// The interval at which a busy-polling thread calls its check.
const PIECE: Duration = Duration::from_millis(100);
/// The latency, in microseconds, below which each whole microsecond has a count of its own.
const MICROSECONDS: usize = 10_000;
/// The latency up to which memory is prepared.
const USUAL_NS: u64 = 10_000_000_000;
/// The number of readings that determine the read overhead.
const READINGS: usize = 1_001;

/// The method by which a thread waits for a deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// Blocking in `clock_nanosleep` until the deadline, with a timer slack of 1 ns.
    #[default]
    Blocking,
    /// Busy-polling the clock.
    Polling,
    /// Using a [`Sleeper`]: blocking until a learned margin before the deadline, then busy-polling the clock.
    Precise,
}

/// A wake-up, in which a thread detected its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wake {
    /// The deadline.
    pub deadline: Instant,
    /// The wake-up latency, in nanoseconds.
    pub latency_ns: u64,
    /// The number of later deadlines that had already passed and were skipped.
    pub missed: u64,
    /// The time between deadlines, in nanoseconds. Zero means that the skipped deadlines have no latency: [`Latencies`]
    /// then only counts them.
    pub period_ns: u64,
    /// Whether the wall clock, if it is the time source, was set since the previous wake-up. In that case, the latency
    /// does not describe the thread, and `missed` is zero.
    pub clock_was_set: bool,
}

impl Wake {
    /// Creates a wake-up with this latency and no skipped deadlines.
    #[must_use]
    pub const fn new(deadline: Instant, latency_ns: u64) -> Self {
        Self { deadline, latency_ns, missed: 0, period_ns: 0, clock_was_set: false }
    }

    /// Returns the number of skipped deadlines that have a latency. The latency of each is one period shorter than that
    /// of the deadline before it.
    #[must_use]
    pub fn missed_with_latency(&self) -> u64 {
        self.latency_ns.checked_div(self.period_ns).map_or(0, |passed| passed.min(self.missed))
    }
}

/// A handle that makes a thread in [`Wakes::run`] call its check at once, even while the thread sleeps.
///
/// The handle sends SIGURG to the thread. A handler that does nothing is installed, unless the program has a handler of
/// its own.
///
/// # Examples
///
/// ```
/// use std::{ops::ControlFlow, sync::atomic::{AtomicBool, Ordering}, thread, time::Duration};
/// use hpt_core::Instant;
/// use hpt_instrument::measure::{Interrupter, Wakes};
///
/// let (interrupter, ends) = (Interrupter::default(), AtomicBool::new(false));
/// let tomorrow = Instant::now() + Duration::from_secs(86_400);
/// let wakes = Wakes::new(Duration::from_secs(1)).with_start(tomorrow).with_interrupter(&interrupter);
/// let wakes = wakes.with_check(|| match ends.load(Ordering::Relaxed) {
///     true => ControlFlow::Break(()),
///     false => ControlFlow::Continue(()),
/// });
/// thread::scope(|scope| {
///     let sleeping = scope.spawn(|| wakes.run(|_| ControlFlow::Continue(())));
///     ends.store(true, Ordering::Relaxed);
///     while !sleeping.is_finished() {
///         interrupter.interrupt();
///         thread::sleep(Duration::from_millis(1));
///     }
/// });
/// ```
#[derive(Debug, Default)]
pub struct Interrupter(Mutex<Option<Target>>);

#[derive(Debug)]
struct Target {
    thread: i32,
    waker: Waker,
}

/// A guard that allows the thread to be interrupted until the guard is dropped.
struct Interruptible<'a> {
    interrupter: &'a Interrupter,
    held_back: Option<SignalSet>,
}

impl Interrupter {
    /// Interrupts the thread. A call just before the thread goes to sleep has no effect, so repeat the call until the
    /// thread has ended.
    pub fn interrupt(&self) {
        if let Some(target) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            target.waker.wake();
            signals::interrupt(target.thread);
        }
    }

    fn set(&self, target: Option<Target>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    fn interrupts(&self, sleeper: &Sleeper) -> Interruptible<'_> {
        let held_back = signals::allow_interrupts().ok();
        self.set(Some(Target { thread: signals::this_thread(), waker: sleeper.waker() }));
        Interruptible { interrupter: self, held_back }
    }
}

impl Drop for Interruptible<'_> {
    fn drop(&mut self) {
        self.interrupter.set(None);
        let _ = self.held_back.map(|before| before.apply());
    }
}

/// A measurement of wake-up latency: waits for one deadline per period, and passes every wake-up to a callback.
///
/// The first deadline is one period after the start, unless [`with_start`](Self::with_start) or
/// [`with_wall_start`](Self::with_wall_start) sets it. The thread blocks between deadlines, unless
/// [`with_waiting`](Self::with_waiting) selects another method.
///
/// # Examples
///
/// ```
/// use std::{ops::ControlFlow, time::Duration};
/// use hpt_instrument::measure::{Latencies, Wakes};
///
/// let mut latencies = Latencies::new();
/// Wakes::new(Duration::from_millis(1)).with_count(10).run(|wake| ControlFlow::Continue(latencies.record(wake)));
/// let spread = latencies.spread().expect("ten wake-ups");
/// println!("wake-up latency: p50 {} ns, p99 {} ns, max {} ns", spread.p50_ns, spread.p99_ns, spread.max_ns);
/// ```
#[must_use = "it does nothing until it runs"]
#[derive(Clone, Copy)]
pub struct Wakes<'a, F = fn() -> ControlFlow<()>> {
    period: Duration,
    start: Start,
    waiting: Waiting,
    count: u64,
    interrupter: Option<&'a Interrupter>,
    check: F,
}

/// The first deadline.
#[derive(Clone, Copy, Debug)]
enum Start {
    AfterOnePeriod,
    At(Instant),
    AtWall(SystemTime),
}

impl<F> fmt::Debug for Wakes<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wakes")
            .field("period", &self.period)
            .field("start", &self.start)
            .field("waiting", &self.waiting)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl Wakes<'_> {
    /// Creates a measurement with one deadline per `period`. A period below one microsecond counts as one microsecond.
    pub fn new(period: Duration) -> Self {
        let check: fn() -> ControlFlow<()> = || ControlFlow::Continue(());
        Self {
            period: period.max(Duration::from_micros(1)),
            start: Start::AfterOnePeriod,
            waiting: Waiting::default(),
            count: u64::MAX,
            interrupter: None,
            check,
        }
    }
}

impl<'a, F: Fn() -> ControlFlow<()>> Wakes<'a, F> {
    /// Sets the first deadline.
    pub fn with_start(self, first: Instant) -> Self {
        Self { start: Start::At(first), ..self }
    }

    /// Measures against the wall clock, and sets the first deadline. Deadlines are times of day, and `CLOCK_REALTIME`
    /// determines both when they are due and how late each wake-up is. If the clock is set during the run, the next
    /// wake-up reports this.
    ///
    /// The first deadline is the time of day `first`, even if the clock is set before then. If the clock is set back,
    /// the wait is longer; if it is set past `first`, the wait ends at once. Later deadlines keep their times of day.
    /// If the clock is set forward, skipped deadlines are not reported later. When a blocked thread wakes or is
    /// interrupted, it checks whether the clock was set. Until then, it waits for its deadline.
    pub fn with_wall_start(self, first: SystemTime) -> Self {
        Self { start: Start::AtWall(first), ..self }
    }

    /// Sets the method by which the thread waits.
    pub fn with_waiting(self, waiting: Waiting) -> Self {
        Self { waiting, ..self }
    }

    /// Ends the run after this number of wake-ups. Without this call, the number is unlimited.
    pub fn with_count(self, count: u64) -> Self {
        Self { count, ..self }
    }

    /// Lets `interrupter` interrupt the thread while it waits.
    pub fn with_interrupter(self, interrupter: &'a Interrupter) -> Self {
        Self { interrupter: Some(interrupter), ..self }
    }

    /// Sets a check that can end the run before the next deadline. A blocked thread calls it if it is interrupted
    /// before its deadline. A busy-polling thread calls it every tenth of a second.
    pub fn with_check<G: Fn() -> ControlFlow<()>>(self, check: G) -> Wakes<'a, G> {
        let Self { period, start, waiting, count, interrupter, check: _ } = self;
        Wakes { period, start, waiting, count, interrupter, check }
    }

    /// Blocks until the run ends, and passes every wake-up to `on_wake`. The run ends when `on_wake` or the check
    /// returns [`ControlFlow::Break`], or after the set number of wake-ups.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error if it refuses clock_nanosleep(2), as in a sandbox. Only [`Waiting::Blocking`] makes this
    /// system call.
    pub fn run(self, mut on_wake: impl FnMut(Wake) -> ControlFlow<()>) -> Result<(), io::Error> {
        let Self { period, start, waiting, count, interrupter, check } = self;
        Wakes { period, start, waiting, count, interrupter, check: &check as Check<'_> }.run_to_end(&mut on_wake)
    }
}

type Check<'a> = &'a dyn Fn() -> ControlFlow<()>;

impl Wakes<'_, Check<'_>> {
    /// Not generic, so that the program that measures does not compile it, perhaps without optimization.
    fn run_to_end(self, on_wake: &mut dyn FnMut(Wake) -> ControlFlow<()>) -> Result<(), io::Error> {
        let Self { period, start, waiting, count: mut left, interrupter, check } = self;
        if left == 0 {
            return Ok(());
        }
        let mut on_wake = |wake| {
            on_wake(wake)?;
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let sleeper = sleeper(waiting);
        let _interruptible = interrupter.map(|interrupter| interrupter.interrupts(&sleeper));
        let _slack = NoSlack::hold();
        match start {
            Start::AfterOnePeriod => monotonic_deadlines(
                Instant::now().saturating_add(period),
                period,
                (waiting, sleeper),
                check,
                &mut on_wake,
            ),
            Start::At(first) => monotonic_deadlines(first, period, (waiting, sleeper), check, &mut on_wake),
            Start::AtWall(first) => {
                let mut day = LiveDay { waiting, sleeper, offset: WallOffset::now() };
                deadlines_of_the_day(&mut day, (first, period), check, &mut on_wake)
            }
        }
    }
}

fn monotonic_deadlines(
    first: Instant,
    period: Duration,
    (waiting, mut sleeper): (Waiting, Sleeper),
    check: Check<'_>,
    on_wake: &mut dyn FnMut(Wake) -> ControlFlow<()>,
) -> Result<(), io::Error> {
    let period_ns = saturating_nanos(period);
    let mut deadline = first;
    loop {
        let now = loop {
            let woken = match waiting {
                Waiting::Blocking => {
                    let moment = Duration::from_nanos(deadline.nanos_since(Instant::EPOCH));
                    wait::sleep_once(Till::Monotonic, moment)?.then(Instant::now)
                }
                Waiting::Polling => poll_for_a_piece(deadline),
                Waiting::Precise => sleeper.sleep_until(deadline).is_in_time().then(Instant::now),
            };
            if let Some(now) = woken {
                break now;
            }
            if check().is_break() {
                return Ok(());
            }
        };
        // The kernel uses its own clock, and `Instant` may lag behind that clock by as much as its error bound. The
        // latency of a deadline that is detected early is therefore zero.
        let latency_ns = now.nanos_since(deadline);
        let missed = latency_ns / period_ns;
        if on_wake(Wake { missed, period_ns, ..Wake::new(deadline, latency_ns) }).is_break() {
            return Ok(());
        }
        deadline = deadline.saturating_add(period.saturating_mul(u32::try_from(missed).unwrap_or(u32::MAX)));
        deadline = deadline.saturating_add(period);
    }
}

/// The wall clock, and the operation that waits for a time on it.
trait Day {
    fn wall(&self) -> SystemTime;
    fn instant(&self) -> Instant;
    /// Returns whether the clock was set since the last call.
    fn was_set(&mut self) -> bool;
    /// Waits until the clock reaches `moment`; can return earlier.
    fn wait_for(&mut self, moment: SystemTime) -> io::Result<()>;
}

struct LiveDay {
    waiting: Waiting,
    sleeper: Sleeper,
    offset: WallOffset,
}

impl Day for LiveDay {
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }

    fn was_set(&mut self) -> bool {
        let now = WallOffset::now();
        std::mem::replace(&mut self.offset, now).differs_from(now)
    }

    fn wait_for(&mut self, moment: SystemTime) -> io::Result<()> {
        match self.waiting {
            Waiting::Blocking => {
                let since = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                wait::sleep_once(Till::Realtime, since)?;
            }
            Waiting::Polling => {
                let begun = SystemTime::now();
                let mut now = begun;
                // Polls until the clock reaches `until` or is set to a time before `begun`.
                let until = moment.min(begun + PIECE);
                while now >= begun && now < until {
                    now = SystemTime::now();
                }
            }
            Waiting::Precise => {
                let _ = self.sleeper.sleep_until_wall(moment);
            }
        }
        Ok(())
    }
}

fn deadlines_of_the_day(
    day: &mut dyn Day,
    (first, period): (SystemTime, Duration),
    check: Check<'_>,
    on_wake: &mut dyn FnMut(Wake) -> ControlFlow<()>,
) -> Result<(), io::Error> {
    let period_ns = saturating_nanos(period);
    let (mut deadline, mut has_begun) = (first, false);
    loop {
        let mut clock_was_set = false;
        let (woken, now) = loop {
            day.wait_for(deadline)?;
            let (woken, now) = (day.wall(), day.instant());
            let is_another_day = day.was_set();
            clock_was_set |= is_another_day;
            if woken >= deadline {
                break (woken, now);
            }
            if check().is_break() {
                return Ok(());
            }
            if is_another_day && has_begun {
                deadline = on_the_grid(first, period, woken);
            }
        };
        has_begun = true;
        let late = woken.duration_since(deadline).unwrap_or_default();
        let latency_ns = saturating_nanos(late);
        let missed = if clock_was_set { 0 } else { latency_ns / period_ns };
        let due = now.saturating_sub(Duration::from_nanos(latency_ns));
        if on_wake(Wake { missed, period_ns, clock_was_set, ..Wake::new(due, latency_ns) }).is_break() {
            return Ok(());
        }
        deadline = if clock_was_set {
            on_the_grid(first, period, woken)
        } else {
            let passed = u32::try_from(missed).unwrap_or(u32::MAX);
            later(deadline, period.saturating_mul(passed).saturating_add(period))
        };
    }
}

/// Returns the time `by` after `moment`, or the latest time that can be represented.
fn later(moment: SystemTime, by: Duration) -> SystemTime {
    const LAST: Duration = Duration::from_secs(i64::MAX.unsigned_abs());
    moment.checked_add(by).unwrap_or(SystemTime::UNIX_EPOCH + LAST)
}

/// Returns the first time after `now` that is a whole number of periods from `first`.
fn on_the_grid(first: SystemTime, period: Duration, now: SystemTime) -> SystemTime {
    let period_ns = period.as_nanos().max(1);
    let part = |ns: u128| Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX));
    match now.duration_since(first) {
        Ok(since) => later(now, part(period_ns - since.as_nanos() % period_ns)),
        Err(until) => {
            let left = until.duration().as_nanos() % period_ns;
            later(now, part(if left == 0 { period_ns } else { left }))
        }
    }
}

fn sleeper(waiting: Waiting) -> Sleeper {
    Sleeper::new().with_strategy(match waiting {
        Waiting::Precise => Strategy::Precise,
        Waiting::Blocking | Waiting::Polling => Strategy::SpinOnly,
    })
}

/// Polls the clock until `deadline`, and returns the time of the last reading; `None` if the deadline has not been
/// reached after a tenth of a second.
fn poll_for_a_piece(deadline: Instant) -> Option<Instant> {
    let until = deadline.min(Instant::now() + PIECE);
    loop {
        let now = Instant::now();
        if now >= until {
            return (now >= deadline).then_some(now);
        }
        std::hint::spin_loop();
    }
}

/// The latencies of many wake-ups, in bounded memory.
#[derive(Clone, PartialEq)]
pub struct Latencies {
    clock_was_set: u64,
    histogram: Histogram,
    microseconds: Vec<u64>,
    overflows: u64,
    missed: u64,
    sum_ns: u128,
    worst: Option<Wake>,
}

impl fmt::Debug for Latencies {
    /// Without the counts of each microsecond.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latencies")
            .field("histogram", &self.histogram)
            .field("missed", &self.missed)
            .finish_non_exhaustive()
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    /// Creates an empty collection. Its memory for latencies of up to ten seconds is faulted in, so that recording them
    /// waits neither for an allocation nor for a page fault.
    #[must_use]
    pub fn new() -> Self {
        // An allocation of zeros would not touch the memory.
        let mut microseconds = vec![1; MICROSECONDS];
        microseconds.fill(std::hint::black_box(0));
        Self {
            clock_was_set: 0,
            histogram: Histogram::with_room(USUAL_NS),
            microseconds,
            overflows: 0,
            missed: 0,
            sum_ns: 0,
            worst: None,
        }
    }

    /// Adds a wake-up, and the deadlines that it missed, each with its own latency: the time from that deadline until the
    /// thread ran. Without them, a long delay would count as a single late deadline (coordinated omission). If
    /// [`Wake::period_ns`] is zero, missed deadlines are counted, but have no latency.
    ///
    /// If the wall clock was set, the wake-up is counted, but its latency is not recorded.
    pub fn record(&mut self, wake: Wake) {
        if wake.clock_was_set {
            self.clock_was_set += 1;
            return;
        }
        let (missed, period_ns) = (wake.missed_with_latency(), wake.period_ns);
        self.histogram.record_descending(wake.latency_ns, period_ns, missed + 1);
        let above_ns = wake.latency_ns.saturating_sub(MICROSECONDS as u64 * 1_000 - 1);
        let overflows = above_ns.div_ceil(period_ns.max(1)).min(missed + 1);
        self.overflows += overflows;
        for place in overflows..=missed {
            // The latency is less than 10 ms.
            let us = usize::try_from((wake.latency_ns - place * period_ns) / 1_000).unwrap_or(usize::MAX);
            self.microseconds[us] += 1;
        }
        self.missed += wake.missed;
        let all = u128::from(missed) + 1;
        self.sum_ns += u128::from(wake.latency_ns) * all - u128::from(period_ns) * (all * (all - 1) / 2);
        if self.worst.is_none_or(|worst| wake.latency_ns > worst.latency_ns) {
            self.worst = Some(wake);
        }
    }

    /// Adds the latencies that another thread has collected.
    pub fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram);
        for (count, others) in self.microseconds.iter_mut().zip(&other.microseconds) {
            *count += others;
        }
        self.clock_was_set += other.clock_was_set;
        self.overflows += other.overflows;
        self.missed += other.missed;
        self.sum_ns += other.sum_ns;
        if other.worst.map(|wake| wake.latency_ns) > self.worst.map(|wake| wake.latency_ns) {
            self.worst = other.worst;
        }
    }

    /// Returns all latencies, in nanoseconds, accurate to three significant digits.
    #[must_use]
    pub const fn histogram(&self) -> &Histogram {
        &self.histogram
    }

    /// Returns the distribution of the latencies; `None` if there are none.
    #[must_use]
    pub fn spread(&self) -> Option<Spread> {
        self.histogram.spread(1.0)
    }

    /// Returns the exact number of deadlines with a latency of 0, 1, 2, … microseconds. Latencies are truncated to whole
    /// microseconds, as in cyclictest.
    #[must_use]
    pub fn microseconds(&self) -> &[u64] {
        &self.microseconds
    }

    /// Returns the number of deadlines whose latency exceeds the range of [`microseconds`](Self::microseconds).
    #[must_use]
    pub const fn overflows(&self) -> u64 {
        self.overflows
    }

    /// Returns the mean of all latencies, in nanoseconds; `None` if there were no wake-ups.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for statistics")]
    pub fn mean_ns(&self) -> Option<f64> {
        let samples = self.histogram.samples();
        (samples > 0).then(|| self.sum_ns as f64 / samples as f64)
    }

    /// Returns the number of deadlines that were skipped because they had already passed.
    #[must_use]
    pub const fn missed(&self) -> u64 {
        self.missed
    }

    /// Returns the number of wake-ups at which the wall clock had been set. They are not part of the other statistics.
    #[must_use]
    pub const fn clock_was_set(&self) -> u64 {
        self.clock_was_set
    }

    /// Returns the wake-up with the highest latency.
    #[must_use]
    pub const fn worst(&self) -> Option<Wake> {
        self.worst
    }
}

/// The read overhead and the granularity of a clock. Both contribute to every measured value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOverhead {
    /// The median difference between back-to-back readings, in nanoseconds.
    pub overhead_ns: u64,
    /// The smallest observed step, in nanoseconds; `None` if the clock did not advance.
    pub granularity_ns: Option<u64>,
}

/// Measures the overhead that reading [`Instant`] adds to every measured value.
#[must_use]
pub fn clock_read_overhead() -> ReadOverhead {
    read_overhead(Instant::now, |earlier, later| later.nanos_since(earlier))
}

/// Measures the read overhead of the wall clock, which [`Wakes::with_wall_start`] uses.
#[must_use]
pub fn wall_clock_read_overhead() -> ReadOverhead {
    read_overhead(SystemTime::now, |earlier, later| {
        let difference = later.duration_since(earlier).unwrap_or_default();
        saturating_nanos(difference)
    })
}

/// Measures the read overhead of the clock that `read` reads.
pub(super) fn read_overhead<T: Copy>(mut read: impl FnMut() -> T, difference: impl Fn(T, T) -> u64) -> ReadOverhead {
    let mut readings = [read(); READINGS];
    readings.fill_with(read);
    let mut differences: Vec<_> = readings.windows(2).map(|two| difference(two[0], two[1])).collect();
    let granularity_ns = differences.iter().copied().filter(|&difference| difference > 0).min();
    ReadOverhead { overhead_ns: median(&mut differences).unwrap_or(0), granularity_ns }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        collections::VecDeque,
        io,
        ops::ControlFlow::{Break, Continue},
        rc::Rc,
        sync::atomic::{AtomicU32, Ordering},
        time::{Duration, SystemTime},
    };

    use proptest::prelude::*;

    use super::{
        Day, Interrupter, Latencies, MICROSECONDS, Waiting, Wake, Wakes, clock_read_overhead, deadlines_of_the_day,
        on_the_grid, wall_clock_read_overhead,
    };
    use hpt_core::clock::Instant;

    fn wake(latency_ns: u64, missed: u64) -> Wake {
        Wake { missed, ..Wake::new(crate::instant(latency_ns), latency_ns) }
    }

    #[test]
    fn the_debug_output_is_short() {
        let mut latencies = Latencies::new();
        (0..5_000).for_each(|us| latencies.record(Wake::new(Instant::EPOCH, us * 1_000)));
        let debug = format!("{latencies:?}");
        assert!(debug.len() < 400 && debug.contains("samples: 5000"), "{debug}");
    }

    #[test]
    fn deadlines_are_a_period_apart_and_no_wake_up_is_early() {
        for waiting in [Waiting::Blocking, Waiting::Polling, Waiting::Precise] {
            let period = Duration::from_micros(300);
            let first = Instant::now() + Duration::from_millis(1);
            let mut seen = Vec::new();
            let waited = Wakes::new(period).with_start(first).with_waiting(waiting).run(|wake| {
                seen.push(wake);
                if seen.len() < 20 { Continue(()) } else { Break(()) }
            });
            waited.expect("no sandbox");
            let mut due = first;
            for wake in seen {
                assert_eq!(wake.deadline, due, "{waiting:?}");
                assert_eq!(wake.missed, wake.latency_ns / 300_000);
                due += period * u32::try_from(wake.missed + 1).expect("few");
            }
        }
    }

    /// A deadline that had passed long before: all deadlines in between are skipped.
    #[test]
    fn missed_deadlines_are_skipped_and_counted() {
        let first = Instant::now();
        std::thread::sleep(Duration::from_millis(10));
        let mut seen = Vec::new();
        let waited = Wakes::new(Duration::from_millis(1)).with_start(first).with_count(2).run(|wake| {
            seen.push(wake);
            Continue(())
        });
        waited.expect("no sandbox");
        assert_eq!(seen.len(), 2);
        assert!(seen[0].missed >= 10, "{seen:?}");
        assert!(seen[1].deadline > first + Duration::from_millis(10));
    }

    #[test]
    fn wall_clock_deadlines_are_a_period_apart_and_no_wake_up_is_early() {
        for waiting in [Waiting::Blocking, Waiting::Polling, Waiting::Precise] {
            let period = Duration::from_millis(2);
            let first = SystemTime::now() + Duration::from_millis(3);
            let (mut seen, mut clock_was_set) = (Vec::new(), false);
            let waited = Wakes::new(period).with_wall_start(first).with_waiting(waiting).run(|wake| {
                clock_was_set |= wake.clock_was_set;
                seen.push((wake, SystemTime::now()));
                if seen.len() < 10 { Continue(()) } else { Break(()) }
            });
            waited.expect("no sandbox");
            if clock_was_set {
                skipped!("the wall clock was set during the test");
                continue;
            }
            let mut due = first;
            for (wake, knew) in seen {
                let woken = due + Duration::from_nanos(wake.latency_ns);
                assert!(due <= knew && woken <= knew, "{waiting:?}: {wake:?} was detected at {knew:?}, due at {due:?}");
                assert_eq!(wake.missed, wake.latency_ns / 2_000_000);
                due += period * u32::try_from(wake.missed + 1).expect("few");
            }
        }
    }

    /// Checks that a thread that waits on either clock for a deadline that does not come calls its check once for each
    /// interruption, and ends.
    fn is_ended(wakes: Wakes<'_>) {
        let (interrupter, asked) = (Interrupter::default(), AtomicU32::new(0));
        let check = || if asked.fetch_add(1, Ordering::Relaxed) == 0 { Continue(()) } else { Break(()) };
        let described = format!("{wakes:?}");
        let wakes = wakes.with_interrupter(&interrupter).with_check(check);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| wakes.run(|_| panic!("it did not come")));
            while !waits.is_finished() {
                interrupter.interrupt();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        assert_eq!(asked.load(Ordering::Relaxed), 2, "{described}");
    }

    #[test]
    fn a_long_sleep_is_a_single_sleep_and_can_be_interrupted() {
        for waiting in [Waiting::Blocking, Waiting::Polling, Waiting::Precise] {
            let (never, tomorrow) = (Instant::MAX, SystemTime::now() + Duration::from_secs(86_400));
            let wakes = Wakes::new(Duration::from_secs(1)).with_waiting(waiting);
            is_ended(wakes.with_start(never));
            is_ended(wakes.with_wall_start(tomorrow));
        }
    }

    #[test]
    fn the_callback_is_not_called_during_an_undisturbed_sleep() {
        for waiting in [Waiting::Blocking, Waiting::Precise] {
            let moment = Duration::from_millis(300);
            let asked = || panic!("it was woken before");
            Wakes::new(moment).with_waiting(waiting).with_check(asked).run(|_| Break(())).expect("no sandbox");
        }
    }

    #[test]
    fn a_thread_that_no_longer_waits_is_not_woken() {
        let interrupter = Interrupter::default();
        let wakes = Wakes::new(Duration::from_secs(1)).with_start(Instant::now());
        wakes.with_interrupter(&interrupter).run(|_| Break(())).expect("no sandbox");
        interrupter.interrupt();
        assert!(interrupter.0.lock().expect("no thread panicked").is_none());
    }

    #[test]
    fn a_run_of_no_wake_ups_ends_at_once() {
        Wakes::new(Duration::from_secs(3_600))
            .with_count(0)
            .run(|_| panic!("it was not requested"))
            .expect("no sandbox");
    }

    const NOON_S: u64 = 43_200;
    const HOUR: u64 = 3_600;

    fn at_s(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// A scripted wall clock: at given numbers of seconds after the start, it is set to given times. A thread that
    /// waits on it is late by one microsecond.
    struct ScriptedDay {
        /// Since the start, and on the wall clock.
        now: Rc<Cell<(Duration, SystemTime)>>,
        sets: VecDeque<(u64, SystemTime)>,
        interrupts: bool,
        was_set: bool,
    }

    impl ScriptedDay {
        fn new(sets: &[(u64, u64)], interrupts: bool) -> Self {
            let sets = sets.iter().map(|&(after_s, to_s)| (after_s, at_s(to_s))).collect();
            Self { now: Rc::new(Cell::new((Duration::ZERO, at_s(NOON_S)))), sets, interrupts, was_set: false }
        }

        /// Deadlines every ten seconds from ten past twelve on: for each, the seconds since the start and the time of
        /// day, and whether it counts.
        fn moments(mut self, how_many: usize) -> Vec<(u64, u64, bool)> {
            let (mut seen, now) = (Vec::new(), Rc::clone(&self.now));
            let when = (at_s(NOON_S + 600), Duration::from_secs(10));
            deadlines_of_the_day(&mut self, when, &|| Continue(()), &mut |wake: Wake| {
                let (since, wall) = now.get();
                assert!(wake.clock_was_set || wake.latency_ns == 1_000, "{wake:?}");
                assert_eq!(wake.missed, 0);
                let of_day = wall.duration_since(SystemTime::UNIX_EPOCH).expect("after the epoch");
                seen.push((since.as_secs(), of_day.as_secs(), !wake.clock_was_set));
                if seen.len() < how_many { Continue(()) } else { Break(()) }
            })
            .expect("no sandbox");
            seen
        }
    }

    impl Day for ScriptedDay {
        fn wall(&self) -> SystemTime {
            self.now.get().1
        }

        fn instant(&self) -> Instant {
            crate::instant(u64::try_from(self.now.get().0.as_nanos()).expect("a short script"))
        }

        fn was_set(&mut self) -> bool {
            std::mem::take(&mut self.was_set)
        }

        fn wait_for(&mut self, moment: SystemTime) -> io::Result<()> {
            loop {
                let (since, wall) = self.now.get();
                let left = moment.duration_since(wall).unwrap_or_default() + Duration::from_micros(1);
                let set =
                    self.sets.front().copied().filter(|&(after_s, _)| Duration::from_secs(after_s) <= since + left);
                let Some((after_s, to)) = set else {
                    self.now.set((since + left, wall + left));
                    return Ok(());
                };
                self.sets.pop_front();
                self.was_set = true;
                self.now.set((Duration::from_secs(after_s), to));
                if self.interrupts {
                    return Ok(());
                }
            }
        }
    }

    #[test]
    fn a_start_time_is_awaited_even_if_the_clock_is_set_away_from_it() {
        // After one minute, the clock is set back by an hour: ten past twelve comes an hour later.
        for interrupts in [true, false] {
            let back = ScriptedDay::new(&[(60, NOON_S + 60 - HOUR)], interrupts).moments(3);
            let begins = 600 + HOUR;
            let expected =
                [(begins, NOON_S + 600, false), (begins + 10, NOON_S + 610, true), (begins + 20, NOON_S + 620, true)];
            assert_eq!(back, expected, "{interrupts}");
        }
        // After one minute, the clock is set to ten minutes before the first deadline.
        let nearer = ScriptedDay::new(&[(60, NOON_S + 590)], true).moments(2);
        assert_eq!(nearer, [(70, NOON_S + 600, false), (80, NOON_S + 610, true)]);
    }

    #[test]
    fn a_start_time_takes_effect_at_once_if_the_clock_is_set_past_it() {
        let past = ScriptedDay::new(&[(60, NOON_S + HOUR + 3)], true).moments(3);
        assert_eq!(past[0], (60, NOON_S + HOUR + 3, false));
        // The other deadlines keep their times of day.
        assert_eq!(past[1..], [(67, NOON_S + HOUR + 10, true), (77, NOON_S + HOUR + 20, true)]);
    }

    #[test]
    fn deadlines_keep_their_times_of_day_when_the_clock_is_set() {
        // Between the second deadline and the third, the clock is set back by an hour, to seven seconds past a multiple
        // of ten: the thread does not wait for an hour.
        let back = ScriptedDay::new(&[(615, NOON_S + 600 - HOUR + 7)], true).moments(4);
        let hour_before = NOON_S + 600 - HOUR;
        assert_eq!(
            back,
            [
                (600, NOON_S + 600, true),
                (610, NOON_S + 610, true),
                (618, hour_before + 10, false),
                (628, hour_before + 20, true)
            ]
        );
        // A sleep that nothing interrupts is as long as the clock takes.
        let asleep = ScriptedDay::new(&[(615, NOON_S + 600 - HOUR + 7)], false).moments(3);
        assert_eq!(asleep[2], (615 + HOUR + 13, NOON_S + 620, false));
        // The clock is set forward by an hour: no deadline is repeated.
        let forwards = ScriptedDay::new(&[(615, NOON_S + 615 + HOUR)], true).moments(4);
        assert_eq!(forwards[2..], [(615, NOON_S + 615 + HOUR, false), (620, NOON_S + 620 + HOUR, true)]);
    }

    #[test]
    fn a_run_can_end_while_the_clock_is_set_back() {
        let mut day = ScriptedDay::new(&[(60, NOON_S + 60 - HOUR)], true);
        let first = at_s(NOON_S + 600);
        deadlines_of_the_day(&mut day, (first, Duration::from_secs(10)), &|| Break(()), &mut |_| {
            panic!("it did not come")
        })
        .expect("no sandbox");
        assert_eq!(day.now.get().0.as_secs(), 60);
    }

    proptest! {
        /// Verifies the counts of a wake-up with missed deadlines against those of one wake-up for each deadline.
        #[test]
        fn a_missed_deadline_counts_with_its_own_latency(latency_ns in 0_u64..40_000_000_000, period_ns in 1_000_u64..10_000_000_000) {
            let missed = latency_ns / period_ns;
            prop_assume!(missed < 1 << 15);
            let (mut together, mut singly) = (Latencies::new(), Latencies::new());
            together.record(Wake { period_ns, ..wake(latency_ns, missed) });
            (0..=missed).for_each(|place| singly.record(wake(latency_ns - place * period_ns, 0)));
            prop_assert_eq!(together.histogram(), singly.histogram());
            prop_assert_eq!(together.microseconds(), singly.microseconds());
            prop_assert_eq!(together.overflows(), singly.overflows());
            prop_assert_eq!((together.missed(), singly.missed()), (missed, 0));
            prop_assert_eq!(together.mean_ns(), singly.mean_ns());
            prop_assert_eq!(together.worst().map(|worst| worst.latency_ns), Some(latency_ns));
        }

        #[test]
        fn the_next_deadline_is_on_the_grid_and_not_a_full_period_later(
            first_ns in 0_u64..4_000_000_000_000_000_000,
            now_ns in 0_u64..4_000_000_000_000_000_000,
            period_ns in 1_000_u64..7_200_000_000_000,
        ) {
            let at = |ns| SystemTime::UNIX_EPOCH + Duration::from_nanos(ns);
            let next = on_the_grid(at(first_ns), Duration::from_nanos(period_ns), at(now_ns));
            let next_ns = next.duration_since(SystemTime::UNIX_EPOCH).expect("after the epoch").as_nanos();
            prop_assert!(next_ns > now_ns.into() && next_ns <= u128::from(now_ns) + u128::from(period_ns));
            prop_assert_eq!(next_ns.abs_diff(first_ns.into()) % u128::from(period_ns), 0);
        }
    }

    #[test]
    fn wake_ups_are_not_judged_if_the_clock_was_set() {
        let mut latencies = Latencies::new();
        latencies.record(wake(5, 0));
        latencies.record(Wake { clock_was_set: true, ..wake(u64::MAX, 0) });
        assert_eq!((latencies.histogram().samples(), latencies.clock_was_set()), (1, 1));
        let mut both = latencies.clone();
        both.add(&latencies);
        assert_eq!((both.histogram().samples(), both.clock_was_set()), (2, 2));
    }

    /// A thread that was stopped for an hour at a period of a microsecond missed 3.6 billion deadlines.
    #[test]
    fn billions_of_missed_deadlines_are_counted_at_once() {
        let (mut latencies, hour_ns) = (Latencies::new(), 3_600_000_000_000);
        latencies.record(Wake { period_ns: 1_000, ..wake(hour_ns, hour_ns / 1_000) });
        assert_eq!(latencies.histogram().samples(), hour_ns / 1_000 + 1);
        let p50_ns = latencies.histogram().quantile(0.5).expect("some") as f64;
        assert!((p50_ns / (hour_ns as f64 / 2.0) - 1.0).abs() < 1e-3, "{p50_ns}");
        assert_eq!(latencies.microseconds().iter().sum::<u64>() + latencies.overflows(), hour_ns / 1_000 + 1);
    }

    #[test]
    fn whole_microseconds_are_counted_exactly_and_added_up() {
        let mut latencies = Latencies::new();
        let limit_ns = MICROSECONDS as u64 * 1_000;
        for (latency_ns, missed) in [(999, 0), (1_000, 0), (1_999, 1), (limit_ns - 1, 2), (limit_ns, 0), (u64::MAX, 0)]
        {
            latencies.record(wake(latency_ns, missed));
        }
        assert_eq!(latencies.microseconds()[..3], [1, 2, 0]);
        assert_eq!((latencies.microseconds()[MICROSECONDS - 1], latencies.overflows(), latencies.missed()), (1, 2, 3));
        let mean_ns = latencies.mean_ns().expect("six");
        assert!((mean_ns / (u64::MAX as f64 / 6.0) - 1.0).abs() < 1e-9, "{mean_ns}");
        assert_eq!(Latencies::new().mean_ns(), None);
        assert_eq!(latencies.worst().map(|wake| wake.latency_ns), Some(u64::MAX));
        let mut both = Latencies::new();
        both.record(wake(5, 1));
        both.add(&latencies);
        assert_eq!((both.histogram().samples(), both.microseconds()[0], both.overflows(), both.missed()), (7, 2, 2, 4));
        assert_eq!(both.worst(), latencies.worst());
    }

    #[test]
    fn the_cost_of_a_clock_read_is_plausible() {
        for found in [clock_read_overhead(), wall_clock_read_overhead()] {
            assert!(found.granularity_ns.is_none_or(|step| step > 0) && found.overhead_ns < 1_000_000_000);
        }
    }

    #[test]
    fn a_deadline_beyond_the_last_instant_saturates() {
        let now = SystemTime::now();
        let last = super::later(now, Duration::MAX);
        assert!(last > now && last.checked_add(Duration::from_secs(1)).is_none());
        assert_eq!(super::later(last, Duration::MAX), last);
        assert_eq!(super::later(now, Duration::from_secs(1)), now + Duration::from_secs(1));
        // An unlimited period: the second deadline is never due.
        let mut seen = 0;
        let wakes = Wakes::new(Duration::MAX).with_wall_start(now).with_waiting(Waiting::Polling);
        let waited = wakes.with_check(|| Break(())).run(|_| {
            seen += 1;
            Continue(())
        });
        waited.expect("no sandbox");
        assert_eq!(seen, 1);
    }
}
