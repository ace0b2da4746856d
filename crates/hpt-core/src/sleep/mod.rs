//! Sleeps precisely until a deadline: the thread blocks in the kernel for most of the time and spins for the rest. Does
//! not schedule periods; `pace` does. Measures only its own overshoot.

#[cfg(feature = "embedded-hal")]
mod delay;
mod overshoot;
mod reserve;
mod word;

use std::{
    fmt,
    marker::PhantomData,
    sync::Arc,
    time::{Duration, SystemTime},
};

use self::{
    overshoot::Overshoots,
    reserve::{Aim, Reserve},
    word::Word,
};
#[cfg(feature = "testing")]
use crate::clock::frozen;
use crate::{
    clock::{Instant, kernels_clock},
    slack::NoSlack,
    stats::Spread,
    sys::{
        clock::ClockId,
        wait::{self, Till},
    },
    units::saturating_nanos,
};

/// The limit of the learned margin. It prevents a hypervisor that preempts a virtual CPU for milliseconds from
/// extending the margin to milliseconds.
const LONGEST_RESERVE: Duration = Duration::from_micros(200);
/// The shortest time for which a thread blocks. If less time remains, blocking and waking up would take longer than
/// the remaining time.
const SHORTEST_PARK_NS: u64 = 5_000;
/// If the margin leaves no time to block, one in this many sleeps blocks for half of its length anyway. Otherwise, the
/// margin for such sleeps would never be learned again, even if the wake-up latency had decreased.
const TRY_EVERY: u32 = 16;
/// The change of the wall clock relative to `CLOCK_MONOTONIC` above which the wall clock is considered to have been
/// set. It is larger than the error of `Instant` relative to `CLOCK_MONOTONIC`.
const LEAST_STEP: Duration = Duration::from_micros(200);
/// The lag of the kernel's clock behind `Instant` above which the kernel's clock is considered to have gone back.
const WENT_BACK: Duration = Duration::from_millis(100);
/// The interval at which the wall clock is read while a thread spins until a wall-clock time.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The method by which a [`Sleeper`] waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy {
    /// Blocks in the kernel until a learned margin before the deadline, then spins.
    #[default]
    Precise,
    /// Spins until the deadline. This is the most precise strategy, but it occupies a whole CPU.
    SpinOnly,
    /// Blocks until the deadline. This is the cheapest strategy, but the overshoot includes the kernel's full wake-up
    /// latency.
    KernelOnly,
}

/// The result of a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an interrupted sleep did not reach its deadline"]
pub enum Woken {
    /// The sleep reached its deadline.
    InTime {
        /// The overshoot: the time from the deadline until the sleep ended.
        late: Duration,
    },
    /// A [`Waker`] ended the sleep.
    Interrupted {
        /// The time that remained until the deadline; zero if the deadline had also passed.
        left: Duration,
    },
}

impl Woken {
    /// Returns whether the deadline was reached.
    #[must_use]
    pub const fn is_in_time(self) -> bool {
        matches!(self, Self::InTime { .. })
    }
}

/// The result of a sleep until a wall-clock time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an interrupted sleep did not reach its deadline"]
#[non_exhaustive]
pub struct WokenByWall {
    /// The result of the sleep. `late` and `left` are measured with the wall clock.
    pub woken: Woken,
    /// Whether the wall clock was set by 0.2 ms or more during the sleep, or the machine was suspended, which stops
    /// `CLOCK_MONOTONIC` but not the wall clock. In both cases, the sleep was adjusted.
    pub clock_was_set: bool,
}

/// Statistics of a [`Sleeper`].
#[derive(Clone, Debug, PartialEq)]
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
    /// The margin of the last sleep.
    pub reserve: Duration,
}

/// A sleeper for one thread, which learns the wake-up latency of that thread.
///
/// A sleeper is not [`Send`]: create it on the thread that sleeps, and send a [`Waker`] to the threads that may
/// interrupt it.
///
/// # Punctuality
///
/// Unless it is interrupted, a sleep never ends before its deadline, as measured with [`Instant`]. The thread blocks
/// until a *margin* before the deadline, and then spins. The margin is learned from the wake-up latency of the last 64
/// sleeps of similar length, and never exceeds 200 µs.
///
/// By default, the margin covers at least three quarters of these wake-ups. It covers more of them if spinning then
/// takes, on average, no more than 3.5 µs plus 0.2 % of the length of the sleep. [`with_quantile`](Self::with_quantile)
/// and [`with_cpu_budget`](Self::with_cpu_budget) change this goal. Preemption by other threads or by a hypervisor can
/// still delay the end of a sleep.
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
#[derive(Debug)]
pub struct Sleeper {
    word: Arc<Word>,
    strategy: Strategy,
    reserve: Reserve,
    last_reserve_ns: u64,
    untried: u32,
    done: Done,
    /// The last sleep, which is not yet included in the statistics. On the return path of a sleep, every access to cold
    /// memory would add to the overshoot.
    last: Option<Slept>,
    /// Binds the learned statistics to one thread.
    bound_to_its_thread: PhantomData<*const ()>,
}

impl Default for Sleeper {
    fn default() -> Self {
        Self::new()
    }
}

impl Sleeper {
    /// Creates a sleeper without learned statistics.
    #[must_use]
    pub fn new() -> Self {
        Self {
            word: Arc::default(),
            strategy: Strategy::Precise,
            reserve: reserve(Aim::Balanced),
            last_reserve_ns: 0,
            untried: 0,
            done: Done::default(),
            last: None,
            bound_to_its_thread: PhantomData,
        }
    }

    /// Sets the strategy.
    #[must_use]
    pub const fn with_strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Sets the share of wake-ups that the margin covers (0 to 1, clamped). A higher share costs more CPU time for
    /// spinning. Discards the learned statistics.
    #[must_use]
    pub fn with_quantile(mut self, quantile: f64) -> Self {
        self.reserve = reserve(Aim::quantile(quantile));
        self
    }

    /// Limits the average share of the sleep time that is spent spinning to `part` (0 to 1, clamped), and makes the
    /// sleeper as precise as possible within this limit. The limit does not include the CPU time for blocking, about 10
    /// µs per sleep. It does not apply to sleeps that are too short to block, which only spin. Discards the
    /// learned statistics.
    #[must_use]
    pub fn with_cpu_budget(mut self, part: f64) -> Self {
        self.reserve = reserve(Aim::budget(part));
        self
    }

    /// Returns a handle that can wake this sleeper from another thread or from a signal handler.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker { word: Arc::clone(&self.word) }
    }

    /// Discards an interruption that arrived while the thread was not sleeping.
    pub fn clear_interruption(&mut self) {
        self.word.take();
    }

    /// Sleeps for `duration`. The deadline saturates at the maximum of [`Instant`].
    pub fn sleep(&mut self, duration: Duration) -> Woken {
        self.sleep_until(Instant::now().saturating_add(duration))
    }

    /// Sleeps until `deadline`; returns at once if it has passed.
    pub fn sleep_until(&mut self, deadline: Instant) -> Woken {
        #[cfg(feature = "testing")]
        if let Some(woken) = self.sleep_on_a_frozen_clock(deadline) {
            return woken;
        }
        let mut deadline = deadline;
        loop {
            let start = Instant::now();
            self.settle();
            self.park(deadline, start);
            // This call is a dry run. The return path was last used one sleep ago, and cold memory on it would add to
            // the overshoot.
            let woken = self.spin_until(start, deadline, start);
            if !woken.is_in_time() {
                return woken;
            }
            let woken = self.spin_until(deadline, deadline, start);
            match self.last {
                // `CLOCK_MONOTONIC` went back. The sleep starts over with its full length.
                Some(Slept { now, .. }) if now < start && woken.is_in_time() => {
                    deadline = now + deadline.duration_since(start);
                    self.last = None;
                }
                _ => return woken,
            }
        }
    }

    /// Sleeps until the wall clock reaches `deadline`. If the clock is set in the meantime, the sleep becomes shorter
    /// or longer by the same amount.
    pub fn sleep_until_wall(&mut self, deadline: SystemTime) -> WokenByWall {
        #[cfg(feature = "testing")]
        if let Some(woken) = self.sleep_on_a_frozen_clock(Instant::now().saturating_add(until(deadline))) {
            return WokenByWall { woken, clock_was_set: false };
        }
        let before = WallOffset::now();
        self.settle();
        let (start, mut spun_ns) = (before.earliest, 0);
        let woken = loop {
            // The instant is read before the wall clock, so that `due` is too early rather than too late. The next
            // iteration reads both again.
            let now = Instant::now();
            let left = match deadline.duration_since(SystemTime::now()) {
                Ok(left) if !left.is_zero() => left,
                Ok(_) => break Woken::InTime { late: Duration::ZERO },
                Err(past) => break Woken::InTime { late: past.duration() },
            };
            if self.word.take() {
                break Woken::Interrupted { left };
            }
            let due = now.saturating_add(left);
            let length_ns = due.nanos_since(now);
            let reserve_ns = self.reserve_for(due, now);
            if self.parks(length_ns, reserve_ns) {
                let _slack = NoSlack::hold();
                let until = deadline - Duration::from_nanos(reserve_ns);
                let moment = until.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                // Waits once, then reads the clock again. The kernel's wait follows the wall clock even if the clock is
                // set.
                self.word.wait_once(|word| wait::wait_while_zero(word, Till::Realtime, moment));
                if let Ok(late) = SystemTime::now().duration_since(until)
                    && is_late_by_itself(saturating_nanos(late), Instant::now().nanos_since(due), reserve_ns)
                {
                    self.reserve.learn(length_ns, saturating_nanos(late));
                }
            } else {
                let until = due.min(now + LOOK_AGAIN);
                self.word.until_set_or(|| is_over(Instant::now(), until, now), |_| std::hint::spin_loop());
                spun_ns += Instant::now().nanos_since(now);
            }
        };
        let late = match woken {
            Woken::InTime { late } => Some(saturating_nanos(late)),
            Woken::Interrupted { .. } => None,
        };
        self.last = Some(Slept { start, now: Instant::now(), spun_ns, late });
        WokenByWall { woken, clock_was_set: before.differs_from(WallOffset::now()) }
    }

    /// Advances the clock that a test has set for this thread to `deadline`, if there is one.
    #[cfg(feature = "testing")]
    fn sleep_on_a_frozen_clock(&mut self, deadline: Instant) -> Option<Woken> {
        let start = Instant::from_nanos(frozen::now_ns()?);
        self.settle();
        if self.word.take() {
            self.last = Some(Slept { start, now: start, spun_ns: 0, late: None });
            return Some(Woken::Interrupted { left: deadline - start });
        }
        let now = Instant::from_nanos(frozen::sleep_until(deadline.as_nanos())?);
        let late = now - deadline;
        self.last = Some(Slept { start, now, spun_ns: 0, late: Some(saturating_nanos(late)) });
        Some(Woken::InTime { late })
    }

    /// Returns the statistics of the sleeps so far.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for printing")]
    pub fn report(&self) -> Report {
        let mut done = self.done.clone();
        done.extend(self.last);
        Report {
            in_time: done.late.samples(),
            interrupted: done.interrupted,
            late: done.late.spread(),
            spinning_share: if done.slept_ns == 0 { 0.0 } else { done.spun_ns as f64 / done.slept_ns as f64 },
            reserve: Duration::from_nanos(self.last_reserve_ns),
        }
    }

    /// Adds the last sleep to the statistics.
    fn settle(&mut self) {
        self.done.extend(self.last.take());
    }

    fn reserve_for(&mut self, deadline: Instant, now: Instant) -> u64 {
        self.last_reserve_ns = match self.strategy {
            Strategy::Precise => self.reserve.for_length(deadline.nanos_since(now)),
            Strategy::SpinOnly | Strategy::KernelOnly => 0,
        };
        self.last_reserve_ns
    }

    /// Returns whether a sleep of this length is long enough to block in the kernel.
    fn parks(&self, length_ns: u64, reserve_ns: u64) -> bool {
        self.strategy != Strategy::SpinOnly && length_ns > reserve_ns.saturating_add(SHORTEST_PARK_NS)
    }

    /// Blocks the thread until the margin before `deadline` begins, or until an interruption.
    fn park(&mut self, deadline: Instant, start: Instant) {
        let length_ns = deadline.nanos_since(start);
        let mut reserve_ns = self.reserve_for(deadline, start);
        if !self.parks(length_ns, reserve_ns) {
            self.untried = self.untried.saturating_add(1);
            if self.untried < TRY_EVERY || !self.parks(length_ns, length_ns / 2) {
                return;
            }
            self.untried = 0;
            reserve_ns = length_ns / 2;
        }
        let until = deadline.saturating_sub(Duration::from_nanos(reserve_ns));
        let moment = Duration::from_nanos(until.kernel_nanos());
        // The kernel waits on its own clock. If that clock went back, `Instant` follows within a millisecond. Until
        // then, blocking would last too long.
        if clock_went_back(until, length_ns) {
            return;
        }
        let _slack = NoSlack::hold();
        let mut now = start;
        self.word.until_set_or(
            || {
                now = Instant::now();
                is_over(now, until, start)
            },
            |word| wait::wait_while_zero(word, Till::Monotonic, moment),
        );
        if now >= until {
            self.reserve.learn(length_ns, now.nanos_since(until));
        }
    }

    /// Spins until `until` or an interruption. Returns how the sleep that began at `start` and is due at `due` ended.
    ///
    /// This function is never inlined, so that the second call returns through code that is already cached.
    #[inline(never)]
    fn spin_until(&mut self, until: Instant, due: Instant, start: Instant) -> Woken {
        let began = Instant::now();
        let mut now = began;
        self.word.until_set_or(
            || {
                now = Instant::now();
                is_over(now, until, start)
            },
            |_| std::hint::spin_loop(),
        );
        let interrupted = self.word.take();
        let late = (!interrupted).then(|| now.nanos_since(due));
        self.last = Some(Slept { start, now, spun_ns: now.nanos_since(began), late });
        if interrupted { Woken::Interrupted { left: due - now } } else { Woken::InTime { late: now - due } }
    }
}

/// A finished sleep: its start, its end, its spinning time and, unless it was interrupted, its overshoot in
/// nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Slept {
    start: Instant,
    now: Instant,
    spun_ns: u64,
    late: Option<u64>,
}

/// The statistics of the sleeps so far.
#[derive(Clone, Debug, Default)]
struct Done {
    late: Overshoots,
    interrupted: u64,
    spun_ns: u64,
    slept_ns: u64,
}

impl Done {
    fn extend(&mut self, slept: Option<Slept>) {
        let Some(slept) = slept else { return };
        match slept.late {
            Some(late_ns) => self.late.record(late_ns),
            None => self.interrupted += 1,
        }
        self.spun_ns += slept.spun_ns;
        self.slept_ns += slept.now.nanos_since(slept.start);
    }
}

/// Returns the time until the wall clock shows `deadline`; zero if the deadline has passed.
#[cfg(feature = "testing")]
fn until(deadline: SystemTime) -> Duration {
    deadline.duration_since(SystemTime::now()).unwrap_or_default()
}

fn reserve(aim: Aim) -> Reserve {
    Reserve::new(aim, saturating_nanos(LONGEST_RESERVE))
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
fn is_late_by_itself(late_ns: u64, past_due_ns: u64, reserve_ns: u64) -> bool {
    late_ns.saturating_sub(past_due_ns) < reserve_ns + saturating_nanos(LEAST_STEP)
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
/// use hpt_core::{Sleeper, sleep::Woken};
///
/// let (send, receive) = mpsc::channel();
/// let sleeping = thread::spawn(move || {
///     let mut sleeper = Sleeper::new();
///     send.send(sleeper.waker()).unwrap();
///     sleeper.sleep(Duration::from_secs(3600))
/// });
/// receive.recv().unwrap().wake();
/// let woken = sleeping.join().unwrap();
/// assert!(matches!(woken, Woken::Interrupted { left } if left > Duration::from_secs(3500)));
/// ```
#[derive(Clone)]
pub struct Waker {
    word: Arc<Word>,
}

impl Waker {
    /// Wakes the sleeper. Neither allocates nor blocks.
    pub fn wake(&self) {
        self.word.set(wait::wake);
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
    #[must_use]
    pub fn differs_from(self, later: Self) -> bool {
        let (least, most) = (later.earliest - self.latest, later.latest - self.earliest);
        later.wall + LEAST_STEP < self.wall + least || later.wall > self.wall + most + LEAST_STEP
    }
}

#[cfg(test)]
mod tests {
    use super::is_late_by_itself;

    const RESERVE_NS: u64 = 60_000;

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
