//! Sleeps precisely until a deadline: the thread blocks in the kernel for most of the time and spins for the rest. Does
//! not schedule periods; `pace` does. Measures only its own overshoot.

mod contention;
#[cfg(feature = "embedded-hal")]
mod delay;
mod lateness;
mod margins;
mod overshoot;
mod plain;
mod recent;
mod word;

use std::{
    cell::Cell,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use self::{
    contention::{Contention, SUSPICIOUS_NS},
    margins::{Choice, Margins, SHORTEST_PARK_NS, USES},
    overshoot::Overshoots,
    recent::{Blocks, Recent, Slept},
    word::Word,
};
pub use self::{
    margins::Target,
    plain::{for_, until},
};
#[cfg(feature = "testing")]
use crate::clock::frozen;
use crate::{
    clock::{Instant, kernels_clock},
    stats::Spread,
};
use hpt_sys::{
    clock::{Clock, ClockId, Route},
    slack::{KnownSlack, NoSlack},
    units::saturating_nanos,
    wait::{self, Till},
};

/// If the margin leaves no time to block, one in this many sleeps blocks for half of its length anyway. Otherwise, the
/// margin for such sleeps would never be learned again, even if the wake-up latency had decreased.
const TRY_EVERY: u32 = 16;
/// One in this many sleeps measures its CPU time until it begins to spin, and so do the first few.
const MEASURE_EVERY: u32 = 16;
/// The time that a measurement of CPU time may take while a thread would spin anyway.
const MEASURING_NS: u64 = 3_000;
/// The change of the wall clock relative to `CLOCK_MONOTONIC` above which the wall clock is considered to have been
/// set. It is larger than the error of `Instant` relative to `CLOCK_MONOTONIC`.
const LEAST_STEP: Duration = Duration::from_micros(200);
/// The lag of the kernel's clock behind `Instant` above which the kernel's clock is considered to have gone back.
const WENT_BACK: Duration = Duration::from_millis(100);
/// The longest wait that only spins while other threads need the CPU, and each delay of a driver. A thread that blocks
/// gives up its turn, and such a wait takes less time than another thread's turn.
const SPUN_NS: u64 = 100_000;
/// The margin of longer waits while other threads need the CPU, at most. A longer one would use up the thread's share of
/// the CPU, so that it waits for its turn when it should run. It covers the usual wake-up latency on a busy CPU.
const CONTENDED_NS: u64 = 50_000;
/// A wait that ends this late may have had to wait for its turn.
const LATE: Duration = Duration::from_micros(100);
/// The interval at which the wall clock is read while a thread spins until a wall-clock time.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The method by which a [`Sleeper`] waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy {
    /// Blocks in the kernel until a learned margin before the deadline, once or twice, then spins.
    #[default]
    Precise,
    /// Spins until the deadline. This is the most precise strategy, but it occupies a whole CPU.
    SpinOnly,
    /// Blocks until the deadline. This is the cheapest strategy, but the overshoot includes the kernel's full wake-up
    /// latency.
    KernelOnly,
}

/// The end of a wait: of a sleep, or for the start of a period. Only a sleeper with a [`Waker`] is interrupted, so that
/// others can ignore it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Woken {
    /// The time at which the wait should have ended.
    pub deadline: Instant,
    /// The overshoot: the time from the deadline until the wait ended; zero if it was interrupted.
    pub late: Duration,
    /// The time that remained until the deadline, if a [`Waker`] ended the wait; zero if the deadline had also passed.
    pub interrupted: Option<Duration>,
    /// The number of periods that a [`Pacer`](crate::Pacer) skipped immediately before this one; zero for a sleep.
    pub skipped: u64,
    /// How long the thread waited for its turn on the CPU during this wait, if it was late, as the kernel counts it. No
    /// sleeper can prevent that; a real-time policy does. `None` unless it was known before the wait that other threads
    /// need the CPU; also for a wait that only spins, and if the kernel does not count it.
    pub waited_for_cpu: Option<Duration>,
}

impl Woken {
    /// Returns the end of a wait that reached its deadline, for implementations of waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::{Instant, sleep::Woken};
    ///
    /// /// Waits for `deadline` in another way than a sleeper.
    /// fn wait(deadline: Instant) -> Woken {
    ///     while !deadline.has_passed() {}
    ///     Woken::new(deadline, deadline.elapsed())
    /// }
    ///
    /// let woken = wait(Instant::now() + Duration::from_micros(50));
    /// assert!(woken.is_in_time() && woken.skipped == 0);
    /// ```
    #[must_use]
    pub const fn new(deadline: Instant, late: Duration) -> Self {
        Self { deadline, late, interrupted: None, skipped: 0, waited_for_cpu: None }
    }

    const fn before(deadline: Instant, left: Duration) -> Self {
        Self { interrupted: Some(left), ..Self::new(deadline, Duration::ZERO) }
    }

    /// Returns whether the deadline was reached.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Sleeper;
    ///
    /// let mut sleeper = Sleeper::new();
    /// assert!(sleeper.sleep(Duration::from_millis(1)).is_in_time());
    /// sleeper.waker().wake();
    /// assert!(!sleeper.sleep(Duration::from_secs(3600)).is_in_time());
    /// ```
    #[must_use]
    pub const fn is_in_time(self) -> bool {
        self.interrupted.is_none()
    }
}

/// The result of a sleep until a wall-clock time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WokenByWall {
    /// The result of the sleep. Its times are measured with the wall clock.
    pub woken: Woken,
    /// Whether the wall clock was set by 0.2 ms or more during the sleep, or the machine was suspended, which stops
    /// `CLOCK_MONOTONIC` but not the wall clock. In both cases, the sleep was adjusted.
    pub clock_was_set: bool,
}

/// Statistics of a [`Sleeper`].
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// The number of sleeps that reached their deadline.
    pub in_time: u64,
    /// The number of sleeps that were interrupted.
    pub interrupted: u64,
    /// The distribution of the overshoot; `None` before the first completed sleep. The minimum, the maximum and the
    /// mean are exact; quantiles are within 1.6 %.
    pub late: Option<Spread>,
    /// The share of the total sleep time that was spent spinning, from 0 to 1. The CPU time for blocking is not
    /// included.
    pub spinning_share: f64,
    /// The share of the total sleep time for which the thread used its CPU, from 0 to 1: the time that it spun, and the
    /// CPU time of blocking, which is measured in one of 16 sleeps. Only Linux reports that time; elsewhere it counts as
    /// zero.
    pub cpu_share: f64,
    /// The margin of the last sleep, from which on it spun.
    pub margin: Duration,
    /// The number of sleeps that blocked a second time.
    pub two_stage: u64,
    /// The number of sleeps that kept a margin of at most 50 µs, because other threads needed the CPU. Sleeps that only
    /// spin, and those with a target, are not counted.
    pub contended: u64,
    /// Whether the target is met.
    pub target: TargetStatus,
}

impl fmt::Debug for Report {
    /// With rounded shares.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report")
            .field("in_time", &self.in_time)
            .field("interrupted", &self.interrupted)
            .field("late", &self.late)
            .field("spinning_share", &format_args!("{:.4}", self.spinning_share))
            .field("cpu_share", &format_args!("{:.4}", self.cpu_share))
            .field("margin", &self.margin)
            .field("two_stage", &self.two_stage)
            .field("contended", &self.contended)
            .field("target", &self.target)
            .finish()
    }
}

/// Whether a [`Sleeper`] meets its [`Target`], and what that takes.
#[derive(Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct TargetStatus {
    /// The target.
    pub target: Target,
    /// Whether all its limits are met; `None` for [`Target::Balanced`], which has none, and with too few sleeps: a
    /// quantile takes ten sleeps beyond it.
    pub is_met: Option<bool>,
    /// The share of CPU time that the target's quantile takes for sleeps as long as the last one, from 0 to 1; `None` for
    /// targets without a quantile, or if nothing is known.
    pub needed_cpu_share: Option<f64>,
    /// The share of the wake-ups that came 0.5 ms late or later, from 0 to 1. No margin covers them. They are usually
    /// caused by a hypervisor or by threads with a higher priority.
    pub out_of_reach: f64,
}

impl fmt::Debug for TargetStatus {
    /// With rounded shares.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needed = self.needed_cpu_share.map(|share| format!("{share:.4}"));
        f.debug_struct("TargetStatus")
            .field("target", &self.target)
            .field("is_met", &self.is_met)
            .field("needed_cpu_share", &format_args!("{}", needed.as_deref().unwrap_or("None")))
            .field("out_of_reach", &format_args!("{:.4}", self.out_of_reach))
            .finish()
    }
}

/// A sleeper for one thread, which learns the wake-up latency of that thread.
///
/// Another thread may take it over; it then learns anew. [`until`] and [`for_`] use a sleeper of the calling thread.
///
/// # Punctuality
///
/// Unless it is interrupted, a sleep never ends before its deadline, as measured with [`Instant`]. The thread blocks
/// until a *margin* before the deadline, and then spins. If that takes less CPU time, it blocks twice: until an early
/// margin, and again for the short rest, from which it is woken more evenly. Preemption by other threads or by a
/// hypervisor can still delay the end of a sleep.
///
/// The margins are learned from the wake-up latencies of sleeps of similar length. Their histograms have a fixed size and
/// forget: the weight of a latency falls to 1/e after 2048 more. A lasting change, such as another governor or load,
/// outweighs the past within 500 sleeps. Latencies of 0.5 ms and more do not change a margin. [`Target`] determines how
/// many of the wake-ups the margins cover.
///
/// If other threads need the CPU, spinning uses up the thread's share of it, and the thread is preempted when it should
/// run. A sleeper without a target that is preempted repeatedly therefore spins for at most 50 µs of a sleep longer than
/// 100 µs, for 0.25 s to 1 s. Neither prevents that the thread waits for its turn, often for milliseconds; a real-time policy does
/// (`hpt_realtime::Setup`).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use hpt_core::{Instant, Sleeper};
///
/// let mut sleeper = Sleeper::new();
/// let deadline = Instant::now() + Duration::from_millis(2);
/// let woken = sleeper.sleep_until(deadline);
/// assert!(woken.is_in_time() && Instant::now() >= deadline);
/// ```
pub struct Sleeper {
    word: Arc<Word>,
    ready: Ready,
    /// The last margin, and the length of the last sleep.
    last_margin_ns: u64,
    last_length_ns: u64,
    recent: Recent,
    strategy: Strategy,
    margins: Margins,
    contention: Contention,
    untried: u32,
    done: Done,
    slack: KnownSlack,
    /// The thread to which the learned margins and the known slack apply.
    thread: ThreadMark,
    /// How long the thread had waited for a CPU when the current sleep began, if other threads need it.
    waited_before_ns: Option<u64>,
}

impl fmt::Debug for Sleeper {
    /// Without the learned statistics, which are long. [`Sleeper::report`] returns them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleeper")
            .field("strategy", &self.strategy)
            .field("target", &self.margins.target())
            .field("in_time", &self.done.late.samples())
            .field("interrupted", &self.done.interrupted)
            .finish_non_exhaustive()
    }
}

/// Tells apart the threads of the process, also those that have ended: a new thread may be slower to wake up than an
/// ended one, and have another timer slack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ThreadMark(usize);

impl ThreadMark {
    const NONE: Self = Self(0);

    fn here() -> Self {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static HERE: Cell<usize> = const { Cell::new(0) });
        HERE.with(|here| {
            if here.get() == 0 {
                here.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
            }
            Self(here.get())
        })
    }
}

impl Default for Sleeper {
    fn default() -> Self {
        Self::new()
    }
}

impl Sleeper {
    /// Creates a sleeper without learned statistics.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Sleeper;
    ///
    /// // Keep it: it learns from each sleep.
    /// let mut sleeper = Sleeper::new();
    /// for _ in 0..5 {
    ///     println!("{:?} late", sleeper.sleep(Duration::from_millis(1)).late);
    /// }
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self {
            word: Arc::default(),
            strategy: Strategy::Precise,
            margins: Margins::new(Target::Balanced),
            contention: Contention::default(),
            ready: Ready::NONE,
            last_margin_ns: 0,
            last_length_ns: 0,
            recent: Recent::NONE,
            untried: 0,
            done: Done::default(),
            slack: KnownSlack::default(),
            thread: ThreadMark::NONE,
            waited_before_ns: None,
        }
    }

    /// Sets the strategy.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::{Sleeper, sleep::Strategy};
    ///
    /// let mut sleeper = Sleeper::new().with_strategy(Strategy::KernelOnly);
    /// let woken = sleeper.sleep(Duration::from_millis(1));
    /// println!("the kernel woke this thread {:?} after the deadline", woken.late);
    /// assert_eq!(sleeper.report().spinning_share, 0.0);
    /// ```
    #[must_use]
    pub const fn with_strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self.ready.uses_left = 0;
        self
    }

    /// Sets the target, and discards the learned margins.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::{Sleeper, sleep::Target};
    ///
    /// let mut sleeper = Sleeper::new().with_target(Target::P99(Duration::from_micros(1)));
    /// for _ in 0..20 {
    ///     let _ = sleeper.sleep(Duration::from_millis(1));
    /// }
    /// let status = sleeper.report().target;
    /// println!("met: {:?}; it takes {:?} of a CPU", status.is_met, status.needed_cpu_share);
    /// ```
    #[must_use]
    pub fn with_target(mut self, target: Target) -> Self {
        self.margins = Margins::new(target);
        self.ready.uses_left = 0;
        self
    }

    /// Returns a handle that can wake this sleeper from another thread or from a signal handler.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{thread, time::Duration};
    /// use hpt_core::Sleeper;
    ///
    /// let mut sleeper = Sleeper::new();
    /// let waker = sleeper.waker();
    /// let other = thread::spawn(move || waker.wake());
    /// let woken = sleeper.sleep(Duration::from_secs(3600));
    /// assert!(woken.interrupted.is_some());
    /// other.join().expect("it only wakes the sleeper");
    /// ```
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.word.add_waker();
        Waker { word: Arc::clone(&self.word) }
    }

    /// Discards an interruption that arrived while the thread was not sleeping.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Sleeper;
    ///
    /// let mut sleeper = Sleeper::new();
    /// sleeper.waker().wake();
    /// sleeper.clear_interruption();
    /// assert!(sleeper.sleep(Duration::from_millis(1)).is_in_time());
    /// ```
    pub fn clear_interruption(&mut self) {
        self.word.take();
    }

    /// Sleeps for `duration`. The deadline saturates at the maximum of [`Instant`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::{Instant, Sleeper};
    ///
    /// let start = Instant::now();
    /// let woken = Sleeper::new().sleep(Duration::from_millis(1));
    /// assert!(start.elapsed() >= Duration::from_millis(1) + woken.late);
    /// ```
    pub fn sleep(&mut self, duration: Duration) -> Woken {
        self.sleep_until(Instant::now().saturating_add(duration))
    }

    /// Sleeps until `deadline`; returns at once if it has passed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::{Instant, Sleeper};
    ///
    /// let mut sleeper = Sleeper::new();
    /// let deadline = Instant::now() + Duration::from_millis(1);
    /// assert_eq!(sleeper.sleep_until(deadline).deadline, deadline);
    /// assert!(deadline.has_passed());
    /// // A deadline that has passed returns at once.
    /// assert!(sleeper.sleep_until(deadline).late <= deadline.elapsed());
    /// ```
    pub fn sleep_until(&mut self, deadline: Instant) -> Woken {
        self.wait_until(deadline, Self::park)
    }

    /// Waits until `deadline`, for a part of the time with `block`, which returns the time.
    #[inline(always)]
    fn wait_until(
        &mut self,
        deadline: Instant,
        block: impl Fn(&mut Self, Instant, Instant) -> (Blocks, Instant),
    ) -> Woken {
        #[cfg(feature = "testing")]
        if let Some(woken) = self.sleep_on_a_frozen_clock(deadline) {
            return woken;
        }
        let mut deadline = deadline;
        loop {
            let start = Instant::now();
            self.settle();
            let (blocks, now) = block(self, deadline, start);
            // This call is a dry run. The return path was last used one sleep ago, and cold memory on it would add to
            // the overshoot. A thread that was woken too late returns at once.
            if now < deadline {
                let woken = self.spin_until(start, deadline, start, now, blocks);
                if !woken.is_in_time() {
                    return woken;
                }
            }
            let woken = self.spin_until(deadline, deadline, start, now, blocks);
            match self.recent.last() {
                // `CLOCK_MONOTONIC` went back. The sleep starts over with its full length.
                Some(&Slept { now, .. }) if now < start && woken.is_in_time() => {
                    deadline = now + deadline.duration_since(start);
                    self.recent.remove_last();
                }
                _ => return self.with_wait_for_cpu(woken),
            }
        }
    }

    /// Adds how long the thread waited for its turn, if it was read before a wait that ended late.
    #[inline(always)]
    fn with_wait_for_cpu(&mut self, woken: Woken) -> Woken {
        match self.waited_before_ns.take() {
            Some(before_ns) if woken.late >= LATE => {
                let waited = waited_ns().map(|waited_ns| Duration::from_nanos(waited_ns.saturating_sub(before_ns)));
                Woken { waited_for_cpu: waited, ..woken }
            }
            _ => woken,
        }
    }

    /// Sleeps until the wall clock reaches `deadline`. If the clock is set in the meantime, the sleep becomes shorter
    /// or longer by the same amount.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use hpt_core::Sleeper;
    ///
    /// let at = SystemTime::now() + Duration::from_millis(1);
    /// let slept = Sleeper::new().sleep_until_wall(at);
    /// assert!(slept.woken.is_in_time());
    /// if slept.clock_was_set {
    ///     println!("the wall clock was set in the meantime");
    /// }
    /// ```
    pub fn sleep_until_wall(&mut self, deadline: SystemTime) -> WokenByWall {
        #[cfg(feature = "testing")]
        if let Some(woken) = self.sleep_on_a_frozen_clock(Instant::now().saturating_add(time_until(deadline))) {
            return WokenByWall { woken, clock_was_set: false };
        }
        let before = WallOffset::now();
        self.settle();
        let (start, mut spun_ns) = (before.earliest, 0);
        let mut blocks = Blocks::none(0);
        let mut choice: Option<Choice> = None;
        let woken = loop {
            // The instant is read before the wall clock, so that `due` is too early rather than too late. The next
            // iteration reads both again.
            let now = Instant::now();
            let to_deadline = deadline.duration_since(SystemTime::now());
            // A thread that is always behind can be interrupted as well.
            let due = |left: &Duration| now.saturating_add(*left);
            if self.word.take() {
                let left = to_deadline.unwrap_or_default();
                break Woken::before(due(&left), left);
            }
            let left = match to_deadline {
                Ok(left) if !left.is_zero() => left,
                Ok(_) => break Woken::new(now, Duration::ZERO),
                Err(past) => break Woken::new(now.saturating_sub(past.duration()), past.duration()),
            };
            let due = due(&left);
            let length_ns = due.nanos_since(now);
            let (margin_ns, is_second) = match choice {
                // After the first stage, the thread blocks again, or else spins.
                Some(Choice { first_ns, second_ns }) if length_ns <= first_ns => (second_ns.unwrap_or(u64::MAX), true),
                _ => {
                    let chosen = self.choose(length_ns, now);
                    (choice, blocks.length_ns) = (Some(chosen), length_ns);
                    blocks.is_contended = self.is_contended(now);
                    (chosen.first_ns, false)
                }
            };
            if self.parks(length_ns, margin_ns) {
                self.last_margin_ns = margin_ns;
                let _slack = self.slack.hold(1);
                let until = deadline - Duration::from_nanos(margin_ns);
                let moment = until.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                // Waits once, then reads the clock again. The kernel's wait follows the wall clock even if the clock is
                // set.
                self.word.wait_once(|word| wait::wait_while_zero(word, Till::Realtime, moment));
                blocks.add(is_second);
                let late_ns = SystemTime::now().duration_since(until).ok().map(saturating_nanos);
                if let Some(late_ns) =
                    late_ns.filter(|&late_ns| is_late_by_itself(late_ns, Instant::now().nanos_since(due), margin_ns))
                {
                    blocks.set_late(is_second, late_ns);
                }
            } else {
                let until = due.min(now + LOOK_AGAIN);
                self.word.until_set_or(|| is_over(Instant::now(), until, now), |_| std::hint::spin_loop());
                spun_ns += Instant::now().nanos_since(now);
            }
        };
        let late_ns = woken.is_in_time().then(|| saturating_nanos(woken.late));
        self.last_length_ns = blocks.length_ns;
        self.recent.put(Slept { start, now: Instant::now(), spun_ns, longest_gap_ns: 0, late_ns, blocks });
        WokenByWall { woken, clock_was_set: before.differs_from(WallOffset::now()) }
    }

    /// Advances the clock that a test has set for this thread to `deadline`, if there is one.
    #[cfg(feature = "testing")]
    fn sleep_on_a_frozen_clock(&mut self, deadline: Instant) -> Option<Woken> {
        let start = Instant::from_nanos(frozen::now_ns()?);
        self.settle();
        if self.word.take() {
            self.recent.put(Slept { start, now: start, ..Slept::NONE });
            return Some(Woken::before(deadline, deadline - start));
        }
        let now = Instant::from_nanos(frozen::sleep_until(deadline.as_nanos(), &|| self.word.is_set())?);
        if now < deadline && self.word.take() {
            self.recent.put(Slept { start, now, ..Slept::NONE });
            return Some(Woken::before(deadline, deadline - now));
        }
        let late = now - deadline;
        self.recent.put(Slept { start, now, late_ns: Some(saturating_nanos(late)), ..Slept::NONE });
        Some(Woken::new(deadline, late))
    }

    /// Returns the statistics of the sleeps so far.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Sleeper;
    ///
    /// let mut sleeper = Sleeper::new();
    /// for _ in 0..10 {
    ///     let _ = sleeper.sleep(Duration::from_millis(1));
    /// }
    /// let report = sleeper.report();
    /// println!("margin {:?}, {:.1} % of a CPU", report.margin, report.cpu_share * 100.0);
    /// assert_eq!((report.in_time, report.interrupted), (10, 0));
    /// ```
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for printing")]
    pub fn report(&self) -> Report {
        let mut done = self.done.clone();
        for slept in self.recent.all() {
            done.extend(slept, &self.margins);
        }
        let share = |ns: f64| if done.slept_ns == 0 { 0.0 } else { (ns / done.slept_ns as f64).min(1.0) };
        let late = done.late.spread();
        let cpu_share = share(done.spun_ns as f64 + done.blocks_ns);
        Report {
            in_time: done.late.samples(),
            interrupted: done.interrupted,
            late,
            spinning_share: share(done.spun_ns as f64),
            cpu_share,
            margin: Duration::from_nanos(self.last_margin_ns),
            two_stage: done.two_stage,
            contended: done.contended,
            target: TargetStatus {
                target: self.margins.target(),
                is_met: self.margins.target().is_met(late, cpu_share),
                needed_cpu_share: self.margins.needed_share(self.last_length_ns),
                out_of_reach: self.margins.share_beyond(self.last_length_ns),
            },
        }
    }

    /// Stores the last sleep for the statistics. On another thread than before, forgets what was learned.
    #[inline(always)]
    fn settle(&mut self) {
        if self.thread != ThreadMark::here() {
            self.move_here();
        }
        let Some(last) = self.recent.last() else { return };
        let (now, held_up_ns) = (last.now, last.held_up_ns());
        if held_up_ns >= SUSPICIOUS_NS {
            self.suspect(now, held_up_ns);
        }
        if self.recent.settle() {
            self.learn();
        }
    }

    #[cold]
    fn move_here(&mut self) {
        if self.thread != ThreadMark::NONE {
            // Otherwise the last sleep on the other thread would be lost.
            self.recent.settle();
            self.learn();
            self.margins = Margins::new(self.margins.target());
            (self.contention, self.slack) = (Contention::default(), KnownSlack::default());
        }
        (self.thread, self.ready.uses_left) = (ThreadMark::here(), 0);
    }

    /// Reads from the kernel whether other threads need the CPU, if this thread was held up for `held_up_ns`.
    #[cold]
    fn suspect(&mut self, now: Instant, held_up_ns: u64) {
        if self.strategy != Strategy::Precise || !self.contention.is_suspicious(now, held_up_ns) {
            return;
        }
        if let Some(waited_ns) = waited_ns() {
            self.contention.record(now, waited_ns);
            self.ready.uses_left = 0;
        }
    }

    /// Adds the stored sleeps to the statistics.
    #[cold]
    fn learn(&mut self) {
        for slept in self.recent.take() {
            self.done.extend(slept, &self.margins);
            let Blocks { length_ns, is_contended, .. } = slept.blocks;
            // The latencies in a time of contention are those of the other threads.
            for (is_second, late_ns) in slept.blocks.late_ns().filter(|_| !is_contended) {
                self.margins.learn(length_ns, is_second, late_ns);
            }
        }
        self.ready.uses_left = 0;
    }

    /// Chooses how to wait for `length_ns`.
    fn choose(&mut self, length_ns: u64, now: Instant) -> Choice {
        let at_once = Choice { first_ns: 0, second_ns: None };
        let (choice, uses) = match self.strategy {
            Strategy::Precise => match self.margins.choose(length_ns) {
                _ if length_ns <= SPUN_NS && self.is_contended(now) => {
                    (Choice { first_ns: length_ns, second_ns: None }, 1)
                }
                (choice, _) if self.is_contended(now) => (choice.at_most(CONTENDED_NS), 1),
                chosen => chosen,
            },
            Strategy::SpinOnly | Strategy::KernelOnly => (at_once, USES),
        };
        let uses = if self.parks(length_ns, choice.first_ns) { uses } else { 1 };
        self.ready = Ready { length_ns, choice, uses_left: uses - 1, ..self.ready };
        choice
    }

    /// Returns whether other threads need this thread's CPU now. A target that the user has set is kept nevertheless.
    fn is_contended(&self, now: Instant) -> bool {
        self.strategy == Strategy::Precise
            && self.margins.target() == Target::Balanced
            && self.contention.is_contended(now)
    }

    /// Returns whether a sleep of this length is long enough to block in the kernel.
    fn parks(&self, length_ns: u64, margin_ns: u64) -> bool {
        self.strategy != Strategy::SpinOnly && length_ns > margin_ns.saturating_add(SHORTEST_PARK_NS)
    }

    /// Blocks the thread until the margin before `deadline` begins, or until an interruption.
    #[inline(always)]
    fn park(&mut self, deadline: Instant, start: Instant) -> (Blocks, Instant) {
        let length_ns = deadline.nanos_since(start);
        self.last_length_ns = length_ns;
        match self.ready.take(length_ns) {
            Some(choice) => self.block(deadline, start, choice, Blocks::none(length_ns), || ()),
            None => self.choose_and_park(deadline, start, length_ns),
        }
    }

    /// Chooses how to wait for `deadline`, and blocks. Measures the CPU time of some sleeps.
    #[cold]
    fn choose_and_park(&mut self, deadline: Instant, start: Instant, length_ns: u64) -> (Blocks, Instant) {
        let mut blocks = Blocks::none(length_ns);
        let mut choice = self.choose(length_ns, start);
        if !self.parks(length_ns, choice.first_ns) {
            self.untried = self.untried.saturating_add(1);
            if self.untried < TRY_EVERY || self.is_contended(start) || !self.parks(length_ns, length_ns / 2) {
                return (blocks, start);
            }
            self.untried = 0;
            choice = Choice { first_ns: length_ns / 2, second_ns: None };
        }
        blocks.is_contended = self.is_contended(start);
        if self.contention.is_contended(start) {
            self.waited_before_ns = waited_ns();
        }
        let cpu_before_ns = if blocks.is_contended { None } else { self.begin_measurement(length_ns) };
        let slack = self.slack.hold(USES);
        if slack.as_ref().is_some_and(NoSlack::is_needed) {
            self.ready.uses_left = 0;
        }
        let mut cpu_between_ns = None;
        let (blocks, now) = self.block(deadline, start, choice, blocks, || {
            cpu_between_ns = cpu_before_ns.map(|_| cpu_time_ns());
        });
        // This thread would spin in the time that is left.
        let left_ns = deadline.nanos_since(now);
        let measures = |_: &u64| blocks.count > 0 && (left_ns > MEASURING_NS || !self.margins.knows_cpu(length_ns));
        if let Some(before_ns) = cpu_before_ns.filter(measures) {
            self.ready.unmeasured = 0;
            let after_ns = cpu_time_ns();
            let first_ns = cpu_between_ns.unwrap_or(after_ns).saturating_sub(before_ns);
            let second_ns = cpu_between_ns.map(|between_ns| after_ns.saturating_sub(between_ns));
            self.margins.learn_cpu(length_ns, first_ns, second_ns);
        }
        (blocks, now)
    }

    /// Blocks once or twice. Calls `between` before the second time.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "each value stays in a register")]
    fn block(
        &mut self,
        deadline: Instant,
        start: Instant,
        choice: Choice,
        mut blocks: Blocks,
        between: impl FnOnce(),
    ) -> (Blocks, Instant) {
        let until = deadline.saturating_sub(Duration::from_nanos(choice.first_ns));
        // The kernel waits on its own clock. If that clock went back, `Instant` follows within a millisecond. Until
        // then, blocking would last too long.
        if until <= start || clock_went_back(until, blocks.length_ns) {
            return (blocks, start);
        }
        self.last_margin_ns = choice.first_ns;
        let mut now = self.block_until(until, start, false, &mut blocks);
        let blocks_again = |&second_ns: &u64| now >= until && deadline.nanos_since(now) > second_ns + SHORTEST_PARK_NS;
        if let Some(second_ns) = choice.second_ns.filter(blocks_again) {
            self.last_margin_ns = second_ns;
            between();
            let until = deadline.saturating_sub(Duration::from_nanos(second_ns));
            now = self.block_until(until, start, true, &mut blocks);
        }
        (blocks, now)
    }

    /// Blocks until `until` or an interruption. Returns the time. The sleep began at `start`.
    ///
    /// This function is never inlined, so that the second block of a sleep runs code that is already cached.
    #[inline(never)]
    fn block_until(&self, until: Instant, start: Instant, is_second: bool, blocks: &mut Blocks) -> Instant {
        let moment = Duration::from_nanos(until.kernel_nanos());
        let now = Cell::new(start);
        self.word.until_set_or(
            || is_over(now.get(), until, start),
            |word| {
                // Without a waker, the cheaper system call is enough, unless a sandbox refuses it.
                if !self.word.is_out_of_reach() || wait::sleep_once(Till::Monotonic, moment).is_err() {
                    wait::wait_while_zero(word, Till::Monotonic, moment);
                }
                now.set(Instant::now());
            },
        );
        let now = now.get();
        blocks.add(is_second);
        if now >= until {
            blocks.set_late(is_second, now.nanos_since(until));
        }
        now
    }

    /// Returns the CPU time of the thread if this sleep is one of those whose CPU time is measured.
    fn begin_measurement(&mut self, length_ns: u64) -> Option<u64> {
        if self.ready.unmeasured < MEASURE_EVERY && self.margins.knows_cpu(length_ns) {
            return None;
        }
        // If a sandbox forbids this clock, its reading is zero.
        Some(cpu_time_ns()).filter(|&ns| ns > 0)
    }

    /// Spins until `until` or an interruption, from `began` on. Returns how the sleep that began at `start` and is due at
    /// `due` ended.
    ///
    /// This function is never inlined, so that the second call returns through code that is already cached.
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "each value stays in a register")]
    fn spin_until(&mut self, until: Instant, due: Instant, start: Instant, began: Instant, blocks: Blocks) -> Woken {
        let (now, mut longest_gap_ns) = (Cell::new(began), 0);
        self.word.until_set_or(
            || is_over(now.get(), until, start),
            |_| {
                std::hint::spin_loop();
                let before = now.replace(Instant::now());
                longest_gap_ns = now.get().nanos_since(before).max(longest_gap_ns);
            },
        );
        let now = now.get();
        let interrupted = self.word.take();
        let late_ns = (!interrupted).then(|| now.nanos_since(due));
        self.recent.put(Slept { start, now, spun_ns: now.nanos_since(began), longest_gap_ns, late_ns, blocks });
        if interrupted { Woken::before(due, due - now) } else { Woken::new(due, now - due) }
    }
}

/// A choice that several sleeps of similar length use.
#[derive(Clone, Copy, Debug)]
struct Ready {
    length_ns: u64,
    choice: Choice,
    uses_left: u32,
    /// The number of sleeps since the last one whose CPU time was measured.
    unmeasured: u32,
}

impl Ready {
    const NONE: Self =
        Self { length_ns: 0, choice: Choice { first_ns: 0, second_ns: None }, uses_left: 0, unmeasured: 0 };

    /// Returns the choice if it can be used for a sleep of this length.
    #[inline(always)]
    fn take(&mut self, length_ns: u64) -> Option<Choice> {
        self.unmeasured = self.unmeasured.saturating_add(1);
        if self.uses_left == 0 || self.length_ns.abs_diff(length_ns) > self.length_ns / 16 {
            return None;
        }
        self.uses_left -= 1;
        Some(self.choice)
    }
}

/// The statistics of the sleeps so far.
#[derive(Clone, Debug, Default)]
struct Done {
    late: Overshoots,
    interrupted: u64,
    spun_ns: u64,
    /// The CPU time of blocking.
    blocks_ns: f64,
    slept_ns: u64,
    two_stage: u64,
    contended: u64,
}

impl Done {
    fn extend(&mut self, slept: &Slept, margins: &Margins) {
        let &Slept { start, now, spun_ns, late_ns, blocks, .. } = slept;
        match late_ns {
            Some(late_ns) => self.late.record(late_ns),
            None => self.interrupted += 1,
        }
        self.spun_ns += spun_ns;
        self.slept_ns += now.nanos_since(start);
        if blocks.count > 0 {
            self.blocks_ns += margins.blocks_ns(blocks.length_ns, blocks.count > 1);
        }
        self.two_stage += u64::from(blocks.count > 1);
        self.contended += u64::from(blocks.is_contended);
    }
}

/// Returns the CPU time of this thread; zero if a sandbox forbids this clock.
fn cpu_time_ns() -> u64 {
    Clock::unasked(ClockId::ThreadCpu, Route::Library).nanos()
}

/// Returns the time until the wall clock shows `deadline`; zero if the deadline has passed.
#[cfg(feature = "testing")]
fn time_until(deadline: SystemTime) -> Duration {
    deadline.duration_since(SystemTime::now()).unwrap_or_default()
}

/// Returns how long this thread has waited for a CPU since its start, in nanoseconds; `None` if the kernel does not count
/// this time.
fn waited_ns() -> Option<u64> {
    #[cfg(all(target_os = "linux", target_has_atomic = "64"))]
    return hpt_sys::host::waited_ns(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?);
    #[cfg(not(all(target_os = "linux", target_has_atomic = "64")))]
    return None;
}

/// Returns whether a wait until `until` that began at `start` is over. It is also over if `now` is before `start`,
/// because the clock then went back.
#[inline(always)]
fn is_over(now: Instant, until: Instant, start: Instant) -> bool {
    now >= until || now < start
}

/// Returns whether the kernel's own clock went back. If it did, the time left on that clock exceeds `length_ns` by more
/// than the error of `Instant`. If a sandbox blocks the clock, its reading is zero, which does not mean that the clock
/// went back.
fn clock_went_back(until: Instant, length_ns: u64) -> bool {
    let clock_ns = kernels_clock(ClockId::Monotonic).nanos();
    let left_ns = until.kernel_nanos().saturating_sub(clock_ns);
    clock_ns != 0 && left_ns > length_ns.saturating_add(saturating_nanos(WENT_BACK))
}

/// Returns whether the lateness of a wake-up was caused by the wake-up itself and not by a step of the wall clock.
/// `late_ns` is the lateness on the wall clock, relative to the start of the margin. `past_due_ns` is the lateness on
/// [`Instant`], relative to the deadline. If the wall clock was set forward during the wait, the wake-up is late only
/// on the wall clock.
fn is_late_by_itself(late_ns: u64, past_due_ns: u64, margin_ns: u64) -> bool {
    late_ns.saturating_sub(past_due_ns) < margin_ns + saturating_nanos(LEAST_STEP)
}

/// A handle that wakes a [`Sleeper`] from another thread or from a signal handler.
///
/// An interruption ends the current sleep, whether the thread is blocked or spinning. If the thread is not sleeping,
/// the interruption ends the next sleep at once. Several interruptions before a sleep end only that sleep.
///
/// # Examples
///
/// ```
/// use std::{sync::mpsc, thread, time::Duration};
/// use hpt_core::Sleeper;
///
/// let (send, receive) = mpsc::channel();
/// let sleeping = thread::spawn(move || {
///     let mut sleeper = Sleeper::new();
///     send.send(sleeper.waker()).unwrap();
///     sleeper.sleep(Duration::from_secs(3600))
/// });
/// receive.recv().unwrap().wake();
/// let woken = sleeping.join().unwrap();
/// assert!(woken.interrupted.is_some_and(|left| left > Duration::from_secs(3500)));
/// ```
pub struct Waker {
    word: Arc<Word>,
}

impl Clone for Waker {
    fn clone(&self) -> Self {
        self.word.add_waker();
        Self { word: Arc::clone(&self.word) }
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        self.word.remove_waker();
    }
}

impl Waker {
    /// Wakes the sleeper. Neither allocates nor blocks. On targets other than Linux, takes a lock for a few
    /// instructions, and must not be called in a signal handler.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Sleeper;
    ///
    /// let mut sleeper = Sleeper::new();
    /// let waker = sleeper.waker();
    /// // Several interruptions before a sleep end only that sleep.
    /// waker.wake();
    /// waker.wake();
    /// assert!(!sleeper.sleep(Duration::from_secs(3600)).is_in_time());
    /// assert!(sleeper.sleep(Duration::from_millis(1)).is_in_time());
    /// ```
    pub fn wake(&self) {
        self.word.set(wait::wake);
        #[cfg(feature = "testing")]
        frozen::interrupt();
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waker").field("is_set", &self.word.is_set()).finish()
    }
}

/// The offset of the wall clock from `CLOCK_MONOTONIC`. The wall clock is read between two readings of [`Instant`].
///
/// # Examples
///
/// ```
/// use hpt_core::sleep::WallOffset;
///
/// let before = WallOffset::now();
/// println!("the wall clock was set: {}", before.differs_from(WallOffset::now()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WallOffset {
    earliest: Instant,
    wall: SystemTime,
    latest: Instant,
}

impl WallOffset {
    /// Reads the current offset.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::{Sleeper, sleep::WallOffset};
    ///
    /// let before = WallOffset::now();
    /// let _ = Sleeper::new().sleep(Duration::from_millis(1));
    /// if before.differs_from(WallOffset::now()) {
    ///     println!("read the calendar again");
    /// }
    /// ```
    #[must_use]
    pub fn now() -> Self {
        let read = || {
            let (earliest, wall, latest) = (Instant::now(), SystemTime::now(), Instant::now());
            Self { earliest, wall, latest }
        };
        // A preemption between the readings widens the bracket, so the narrowest of several brackets is used.
        (0..3).map(|_| read()).min_by_key(|read| read.latest - read.earliest).unwrap_or_else(read)
    }

    /// Returns whether the wall clock was set by 0.2 ms or more between this reading and `later`. Slewing affects both
    /// clocks equally. Their difference changes only if the wall clock is set, or if the machine is suspended.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::sleep::WallOffset;
    ///
    /// let offset = WallOffset::now();
    /// assert!(!offset.differs_from(offset));
    /// ```
    #[must_use]
    pub fn differs_from(self, later: Self) -> bool {
        let (least, most) = (later.earliest - self.latest, later.latest - self.earliest);
        later.wall + LEAST_STEP < self.wall + least || later.wall > self.wall + most + LEAST_STEP
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use super::{Sleeper, Strategy, is_late_by_itself};
    use crate::clock::Instant;
    use hpt_sys::slack::NoSlack;

    const RESERVE_NS: u64 = 60_000;
    const MS: u64 = 1_000_000;

    /// A sleeper that knows of latencies of up to 0.4 ms after a long sleep, and of 0.1 ms after a short one, so that it
    /// uses two stages for a sleep of 2 ms.
    fn two_stages() -> Sleeper {
        let mut sleeper = Sleeper::new().with_target(super::Target::P99(Duration::ZERO));
        for number in 0..2_000 {
            sleeper.margins.learn(2 * MS, false, 20_000 + number * 7_919 % 380_000);
            sleeper.margins.learn(2 * MS, true, 80_000 + number * 7_919 % 20_000);
        }
        assert!(sleeper.margins.choose(2 * MS).0.second_ns.is_some());
        sleeper
    }

    #[test]
    fn a_sleep_with_two_stages_is_never_early() {
        let mut sleeper = two_stages();
        for number in 1..=200 {
            let deadline = Instant::now() + Duration::from_millis(2);
            assert!(sleeper.sleep_until(deadline).is_in_time() && Instant::now() >= deadline);
            assert_eq!(sleeper.report().in_time, number);
        }
        let wall = std::time::SystemTime::now() + Duration::from_millis(2);
        assert!(two_stages().sleep_until_wall(wall).woken.is_in_time());
    }

    /// Interruptions at random times of sleeps with two stages: in the first and the second block, in between, and while
    /// spinning. Each of them ends one sleep.
    #[test]
    fn every_interruption_ends_a_sleep_in_any_stage() {
        let mut sleeper = two_stages();
        let (begun, begins) = mpsc::channel::<super::Waker>();
        let other = thread::spawn(move || {
            let mut random = 0x9e37_79b9_7f4a_7c15_u64;
            for waker in begins {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let until = Instant::now() + Duration::from_nanos(random % (2 * MS + MS / 10));
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
                waker.wake();
            }
        });
        // Each interruption needs turns of two threads, which take long on a busy machine.
        let started = std::time::Instant::now();
        let most = if cfg!(target_arch = "x86_64") { 10_000 } else { 500 };
        let mut made = 0;
        while made < most && (made < 30 || started.elapsed() < Duration::from_secs(20)) {
            if made % 50 == 49 {
                // What it learns on this machine may be that one stage is enough.
                sleeper = two_stages();
            }
            begun.send(sleeper.waker()).expect("the other thread lives");
            let mut sleeps = 1;
            while sleeper.sleep(Duration::from_millis(2)).is_in_time() {
                sleeps += 1;
                assert!(sleeps < 100_000, "one was lost");
            }
            made += 1;
        }
        drop(begun);
        other.join().expect("it only interrupts");
        assert!(sleeper.sleep(Duration::from_millis(2)).is_in_time(), "one was left over");
        println!("{made} interruptions");
    }

    #[test]
    fn a_new_strategy_applies_to_the_next_sleep() {
        // With more slack, no sleep uses a choice that was made before.
        let _slack = NoSlack::hold();
        let length = Duration::from_millis(2);
        for (first, then, blocks) in [
            (Strategy::KernelOnly, Strategy::SpinOnly, 0),
            (Strategy::SpinOnly, Strategy::KernelOnly, 1),
            (Strategy::KernelOnly, Strategy::Precise, 1),
        ] {
            // Each wait has the same length, however long this thread waits for a CPU before it.
            let wait = |sleeper: &mut Sleeper| {
                let start = Instant::now();
                sleeper.park(start + length, start).0
            };
            let mut sleeper = Sleeper::new().with_strategy(first);
            for _ in 0..3 {
                wait(&mut sleeper);
            }
            let mut sleeper = sleeper.with_strategy(then);
            assert_eq!(wait(&mut sleeper).count, blocks, "{then:?} after {first:?}");
        }
    }

    #[test]
    fn an_interruption_outlives_its_waker() {
        let mut sleeper = Sleeper::new();
        let waker = sleeper.waker();
        waker.clone().wake();
        drop(waker);
        assert!(!sleeper.sleep(Duration::from_secs(3_600)).is_in_time());
        assert!(sleeper.sleep(Duration::from_millis(1)).is_in_time());
    }

    #[test]
    fn any_late_wake_up_of_the_machine_is_learned_from() {
        assert!(is_late_by_itself(10_000, 0, RESERVE_NS), "before it was due");
        assert!(is_late_by_itself(5_000_000, 5_000_000 - RESERVE_NS, RESERVE_NS));
    }

    #[test]
    fn a_wake_up_made_late_by_a_clock_step_is_not_learned_from() {
        assert!(!is_late_by_itself(1_000_000_000, 0, RESERVE_NS));
        assert!(!is_late_by_itself(1_005_000_000, 5_000_000, RESERVE_NS));
    }
}
