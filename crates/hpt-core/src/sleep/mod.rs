//! Sleeping until a moment and no longer: the kernel parks the thread for most of the time, and it spins for the rest.
//! Paces nothing: `pace` does. Measures nothing but its own misses.

#[cfg(feature = "embedded-hal")]
mod delay;
mod reserve;
mod word;

use std::{
    fmt,
    marker::PhantomData,
    sync::Arc,
    time::{Duration, SystemTime},
};

use self::{
    reserve::{Aim, Reserve},
    word::Word,
};
use crate::{
    clock::{Instant, kernels_clock},
    realtime::NoSlack,
    stats::{Histogram, Spread},
    sys::{
        clock::ClockId,
        wait::{self, Till},
    },
    units::saturating_nanos,
};

/// A reserve is no longer, whatever was learned: a host that takes milliseconds does not teach it milliseconds.
const LONGEST_RESERVE: Duration = Duration::from_micros(200);
/// Parking for less than this takes longer than the time that is left.
const SHORTEST_PARK_NS: u64 = 5_000;
/// Of the sleeps that the reserve leaves no room to park in, one in so many is parked for half of its length all the same: else nothing would be learned of
/// them, however early they could be woken by now.
const TRY_EVERY: u32 = 16;
/// The wall clock is said to be set when it moved by more than this beside `CLOCK_MONOTONIC`: by more than `Instant` is away from that.
const LEAST_STEP: Duration = Duration::from_micros(200);
/// A moment that the kernel's clock reaches by so much later than `Instant` is one of a clock that went back.
const WENT_BACK: Duration = Duration::from_millis(100);
/// Who spins towards a moment of the wall clock looks at it so often.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// How a [`Sleeper`] spends the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy {
    /// Parked in the kernel until a learned reserve before the deadline, then spinning.
    #[default]
    Precise,
    /// Spinning all the time: the most punctual, for a whole CPU.
    SpinOnly,
    /// Parked until the deadline: the cheapest, and as late as the kernel is.
    KernelOnly,
}

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an interrupted sleep did not reach its deadline"]
pub enum Woken {
    /// The deadline came.
    InTime {
        /// How long after it the sleep returned; zero is possible, less is not.
        late: Duration,
    },
    /// An [`Interrupter`] ended it.
    Interrupted {
        /// What was left of it; zero when the deadline came at the same time.
        left: Duration,
    },
}

impl Woken {
    /// Whether the deadline came.
    #[must_use]
    pub const fn is_in_time(self) -> bool {
        matches!(self, Self::InTime { .. })
    }
}

/// How a sleep until a moment of the wall clock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an interrupted sleep did not reach its deadline"]
#[non_exhaustive]
pub struct WokenByWall {
    /// As any other sleep. `late` and `left` are by the wall clock.
    pub woken: Woken,
    /// Whether the wall clock was set meanwhile, by 0.2 ms or more; also by a suspended machine, whose `CLOCK_MONOTONIC` stood. The sleep took that into account.
    pub clock_was_set: bool,
}

/// What a [`Sleeper`] did so far.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Sleeps that reached their deadline.
    pub in_time: u64,
    /// Sleeps that were interrupted.
    pub interrupted: u64,
    /// How late they returned; `None` before the first.
    pub late: Option<Spread>,
    /// The part of all sleeping that was spent spinning, from 0 to 1: what it cost in CPU time, but for the parking itself.
    pub spinning_share: f64,
    /// The reserve for the last sleep.
    pub reserve: Duration,
    /// How late each of them returned, in nanoseconds.
    pub misses: Histogram,
}

/// Sleeps for one thread, and learns how late that thread is woken.
///
/// # Punctuality
///
/// A sleep ends at its deadline by [`Instant`] or later, never earlier. Parked, the thread is woken a *reserve* before the deadline, and spins from then on;
/// the reserve is learned from how late the last 64 sleeps of about that length were woken: three of four are in time, and more of them as long as that takes no more
/// than 3.5 µs and 0.2 % of a sleep spinning, on the average. [`with_quantile`](Self::with_quantile) and [`with_cpu_budget`](Self::with_cpu_budget) say otherwise. It is 200 µs at most. What else keeps a thread from running, keeps it from being punctual: other threads, and a host
/// that takes its CPU away.
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
    /// The last sleep, which is not among those done as yet: on the way out of a sleep every cold line of memory is lateness.
    last: Option<Slept>,
    /// What was learned is true of one thread.
    bound_to_its_thread: PhantomData<*const ()>,
}

impl Default for Sleeper {
    fn default() -> Self {
        Self::new()
    }
}

impl Sleeper {
    /// One that knows nothing as yet.
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

    /// The same, by another strategy.
    #[must_use]
    pub const fn with_strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// The same, with this part of all wake-ups in time (0 to 1; what is not in it is taken for the nearest that is): the more, the more CPU time is spent spinning. What
    /// was learned is forgotten.
    #[must_use]
    pub fn with_quantile(mut self, quantile: f64) -> Self {
        self.reserve = reserve(Aim::quantile(quantile));
        self
    }

    /// The same, as punctual as it can be while it spends no more than this part of the time spinning (0 to 1; what is not in it is taken for the nearest that is),
    /// on the average of what was learned. Parking costs CPU time as well, some 10 µs a sleep, and a sleep that is too short to be parked is spun as
    /// a whole: neither is in this part. What was learned is forgotten.
    #[must_use]
    pub fn with_cpu_budget(mut self, part: f64) -> Self {
        self.reserve = reserve(Aim::budget(part));
        self
    }

    /// Something that wakes this sleeper from anywhere.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        Interrupter { word: Arc::clone(&self.word) }
    }

    /// Forgets an interruption that came while nobody slept.
    pub fn clear_interruption(&mut self) {
        self.word.take();
    }

    /// Sleeps for `duration`; to the end of all time where that is beyond.
    pub fn sleep(&mut self, duration: Duration) -> Woken {
        self.sleep_until(Instant::now().saturating_add(duration))
    }

    /// Sleeps until `deadline`; not at all if that has passed.
    pub fn sleep_until(&mut self, deadline: Instant) -> Woken {
        let mut deadline = deadline;
        loop {
            let start = Instant::now();
            self.settle();
            self.park(deadline, start);
            // Once for nothing: the way out was last gone a sleep ago, and what is cold of it would make this one late.
            let woken = self.spin_until(start, deadline, start);
            if !woken.is_in_time() {
                return woken;
            }
            let woken = self.spin_until(deadline, deadline, start);
            match self.last {
                // `CLOCK_MONOTONIC` went back: this sleep lasts as long as it would have.
                Some(Slept { now, .. }) if now < start && woken.is_in_time() => {
                    deadline = now + deadline.duration_since(start);
                    self.last = None;
                }
                _ => return woken,
            }
        }
    }

    /// Sleeps until the wall clock shows `deadline`. If it is set meanwhile, the sleep is shorter or longer by as much.
    pub fn sleep_until_wall(&mut self, deadline: SystemTime) -> WokenByWall {
        let before = WallOffset::now();
        self.settle();
        let (start, mut spun_ns) = (before.earliest, 0);
        let woken = loop {
            // The instant before the wall clock: what is computed from both is rather too early than too late, and is looked at again.
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
            let length_ns = due.nanoseconds_since(now);
            let reserve_ns = self.reserve_for(due, now);
            if self.parks(length_ns, reserve_ns) {
                let _slack = NoSlack::hold();
                let until = deadline - Duration::from_nanos(reserve_ns);
                let moment = until.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                // Once, and then a look at the clock: the kernel keeps to it also when it is set.
                self.word.wait_once(|word| wait::wait_while_zero(word, Till::Realtime, moment));
                if let Ok(late) = SystemTime::now().duration_since(until)
                    && is_late_by_itself(saturating_nanos(late), Instant::now().nanoseconds_since(due), reserve_ns)
                {
                    self.reserve.learn(length_ns, saturating_nanos(late));
                }
            } else {
                let until = due.min(now + LOOK_AGAIN);
                self.word.until_set_or(|| is_over(Instant::now(), until, now), |_| std::hint::spin_loop());
                spun_ns += Instant::now().nanoseconds_since(now);
            }
        };
        let late = match woken {
            Woken::InTime { late } => Some(saturating_nanos(late)),
            Woken::Interrupted { .. } => None,
        };
        self.last = Some(Slept { start, now: Instant::now(), spun_ns, late });
        WokenByWall { woken, clock_was_set: before.differs_from(WallOffset::now()) }
    }

    /// What it did so far.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for printing")]
    pub fn report(&self) -> Report {
        let mut done = self.done.clone();
        done.extend(self.last);
        Report {
            in_time: done.late.samples(),
            interrupted: done.interrupted,
            late: done.late.spread(1.0),
            spinning_share: if done.slept_ns == 0 { 0.0 } else { done.spun_ns as f64 / done.slept_ns as f64 },
            reserve: Duration::from_nanos(self.last_reserve_ns),
            misses: done.late,
        }
    }

    /// Puts the last sleep to those done.
    fn settle(&mut self) {
        self.done.extend(self.last.take());
    }

    fn reserve_for(&mut self, deadline: Instant, now: Instant) -> u64 {
        self.last_reserve_ns = match self.strategy {
            Strategy::Precise => self.reserve.for_length(deadline.nanoseconds_since(now)),
            Strategy::SpinOnly | Strategy::KernelOnly => 0,
        };
        self.last_reserve_ns
    }

    /// Whether so much time is better spent in the kernel, for the most part.
    fn parks(&self, length_ns: u64, reserve_ns: u64) -> bool {
        self.strategy != Strategy::SpinOnly && length_ns > reserve_ns.saturating_add(SHORTEST_PARK_NS)
    }

    /// Parks the thread until the reserve before `deadline`, or an interruption.
    fn park(&mut self, deadline: Instant, start: Instant) {
        let length_ns = deadline.nanoseconds_since(start);
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
        let moment = Duration::from_nanos(until.as_nanoseconds());
        // The kernel waits by its own clock. Where that went back, `Instant` follows within a millisecond, and there is nothing to park for until then.
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
            self.reserve.learn(length_ns, now.nanoseconds_since(until));
        }
    }

    /// Spins until `until` or an interruption, and says how the sleep ended that began at `start` and is due at `due`.
    ///
    /// One function and never a copy, so that who calls it twice leaves the second time by a way that is warm.
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
        let late = (!interrupted).then(|| now.nanoseconds_since(due));
        self.last = Some(Slept { start, now, spun_ns: now.nanoseconds_since(began), late });
        if interrupted { Woken::Interrupted { left: due - now } } else { Woken::InTime { late: now - due } }
    }
}

/// One sleep: when it began and ended, how long it spun; and how late it was, in nanoseconds, if it was not interrupted.
#[derive(Clone, Copy, Debug)]
struct Slept {
    start: Instant,
    now: Instant,
    spun_ns: u64,
    late: Option<u64>,
}

/// The sleeps so far.
#[derive(Clone, Debug, Default)]
struct Done {
    late: Histogram,
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
        self.slept_ns += slept.now.nanoseconds_since(slept.start);
    }
}

fn reserve(aim: Aim) -> Reserve {
    Reserve::new(aim, saturating_nanos(LONGEST_RESERVE))
}

/// Whether a wait until `until` is over that began at `start`. A moment before its beginning is one of a clock that went back.
#[inline(always)]
fn is_over(now: Instant, until: Instant, start: Instant) -> bool {
    now >= until || now < start
}

/// Whether the kernel's own clock takes longer than `length_ns` to `until`, by more than `Instant` can be off: it went back. A clock that a sandbox has shut stands at
/// zero and tells nothing.
fn clock_went_back(until: Instant, length_ns: u64) -> bool {
    let clock_ns = kernels_clock(ClockId::Monotonic).nanoseconds();
    let left_ns = until.as_nanoseconds().saturating_sub(clock_ns);
    clock_ns != 0 && left_ns > length_ns.saturating_add(saturating_nanos(WENT_BACK))
}

/// Whether a wake-up a reserve before what was due, so late by the wall clock and so long past due by [`Instant`], was late by itself: where the clock was set
/// forward meanwhile, it is late by that clock alone.
fn is_late_by_itself(late_ns: u64, past_due_ns: u64, reserve_ns: u64) -> bool {
    late_ns.saturating_sub(past_due_ns) < reserve_ns + saturating_nanos(LEAST_STEP)
}

/// Wakes a [`Sleeper`], from another thread or from a signal handler.
///
/// An interruption ends the sleep that is under way, parked or spinning, or else the next one at once. Several before that end one sleep.
///
/// # Examples
///
/// ```
/// use std::{thread, time::Duration};
/// use hpt_core::{Sleeper, sleep::Woken};
///
/// let mut sleeper = Sleeper::new();
/// let interrupter = sleeper.interrupter();
/// let other = thread::spawn(move || interrupter.interrupt());
/// let woken = sleeper.sleep(Duration::from_secs(3600));
/// assert!(matches!(woken, Woken::Interrupted { left } if left > Duration::from_secs(3500)));
/// other.join().unwrap();
/// ```
#[derive(Clone)]
pub struct Interrupter {
    word: Arc<Word>,
}

impl Interrupter {
    /// Wakes the sleeper. Neither allocates nor waits.
    pub fn interrupt(&self) {
        self.word.set(wait::wake);
    }
}

impl fmt::Debug for Interrupter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupter").field("is_set", &self.word.is_set()).finish()
    }
}

/// The wall clock beside `CLOCK_MONOTONIC`: it was read between two instants.
///
/// # Examples
///
/// ```
/// use hpt_core::sleep::WallOffset;
///
/// let before = WallOffset::now();
/// println!("somebody set the clock: {}", before.differs_from(WallOffset::now()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WallOffset {
    earliest: Instant,
    wall: SystemTime,
    latest: Instant,
}

impl WallOffset {
    /// As it is now.
    #[must_use]
    pub fn now() -> Self {
        let read = || {
            let (earliest, wall, latest) = (Instant::now(), SystemTime::now(), Instant::now());
            Self { earliest, wall, latest }
        };
        // Whoever is interrupted in between sees little.
        (0..3).map(|_| read()).min_by_key(|read| read.latest - read.earliest).unwrap_or_else(read)
    }

    /// Whether the wall clock was set until `later`, by 0.2 ms or more. Whatever bends one of the two clocks bends the other as much: what is between them changes only
    /// when one is set, or the machine was suspended.
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
    fn a_machine_that_wakes_late_is_learned_from_however_late() {
        assert!(is_late_by_itself(10_000, 0, RESERVE_NS), "before it was due");
        assert!(is_late_by_itself(5_000_000, 5_000_000 - RESERVE_NS, RESERVE_NS));
    }

    #[test]
    fn what_a_clock_that_was_set_made_late_is_not() {
        assert!(!is_late_by_itself(1_000_000_000, 0, RESERVE_NS));
        assert!(!is_late_by_itself(1_005_000_000, 5_000_000, RESERVE_NS));
    }
}
