//! Starts periods at fixed intervals, so that delays do not accumulate. Determines the deadlines and the handling of
//! missed periods; `sleep` implements the sleeping.

use std::time::Duration;

use hpt_sys::units::saturating_nanos;

use crate::{
    clock::Instant,
    sleep::{Sleeper, Waker, Woken},
};

/// The handling of periods that could not start on time, because the previous work took too long or the thread was woken
/// too late for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overrun {
    /// Skips the periods that have passed completely. The period that is already running starts at once, late by less
    /// than a period; the following periods start on the grid.
    #[default]
    Skip,
    /// Catches up: starts each missed period immediately, until the next deadline is in the future again.
    CatchUp,
    /// Restarts the grid: the next deadline is one period from now.
    Reset,
    /// Uses no grid: the next deadline is always one period from now. Delays accumulate. This variant is intended for
    /// comparison with the others.
    FromNow,
}

/// The next period to wait for, which [`Overrun::plan`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// The time at which the period starts.
    pub deadline: Instant,
    /// The number of periods that are skipped before it.
    pub skipped: u64,
    /// Whether the planned deadline had already passed.
    pub is_overrun: bool,
}

impl Overrun {
    /// Returns the period to wait for at the time `now`, if the next one was planned to start at `next`. [`Pacer`]
    /// calls this before each wait; call it to pace with another way of waiting. A `period` of zero counts as one
    /// nanosecond.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::{Instant, pace::Overrun};
    ///
    /// let next = Instant::EPOCH + Duration::from_millis(5);
    /// let plan = Overrun::Skip.plan(next, Duration::from_millis(1), next + Duration::from_micros(3_300));
    /// assert_eq!((plan.deadline - next, plan.skipped), (Duration::from_millis(3), 3));
    /// ```
    #[must_use]
    pub fn plan(self, next: Instant, period: Duration, now: Instant) -> Plan {
        let period_ns = saturating_nanos(period).max(1);
        let late_ns = now.nanos_since(next);
        let on_the_grid = Plan { deadline: next, skipped: 0, is_overrun: late_ns > 0 };
        match self {
            Self::CatchUp | Self::FromNow => on_the_grid,
            Self::Reset if late_ns >= period_ns => {
                // The period that was due is skipped as well.
                let skipped = (late_ns / period_ns).saturating_add(1);
                Plan { deadline: now.saturating_add(period), skipped, ..on_the_grid }
            }
            Self::Skip if late_ns >= period_ns => {
                // The period that is due now starts late; the periods before it are skipped.
                let skipped = late_ns / period_ns;
                let past = Duration::from_nanos(skipped.saturating_mul(period_ns));
                Plan { deadline: next.saturating_add(past), skipped, ..on_the_grid }
            }
            Self::Reset | Self::Skip => on_the_grid,
        }
    }
}

/// The counts that a [`Pacer`] keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// The number of periods that were started.
    pub ticks: u64,
    /// The number of started periods whose deadline had already passed when the wait for them began, because the
    /// previous period began too late or its work took too long. [`Woken::late`] of the previous period tells which.
    pub overruns: u64,
    /// The number of periods that never started.
    pub skipped: u64,
}

/// A timer that starts periods one after another. The deadline of each period is a fixed time after the previous
/// deadline, not after the end of the previous work, so delays do not accumulate.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use hpt_core::Pacer;
///
/// let mut pacer = Pacer::new(Duration::from_millis(1));
/// let first = pacer.wait();
/// let second = pacer.wait();
/// // However late either tick is, their deadlines are a whole number of periods apart.
/// assert_eq!((second.deadline - first.deadline).as_nanos() % 1_000_000, 0);
/// ```
#[derive(Debug)]
pub struct Pacer {
    sleeper: Sleeper,
    period: Duration,
    next: Instant,
    overrun: Overrun,
    /// Whether an interrupted wait began after its deadline. If so, the resulting tick counts as an overrun.
    began_late: bool,
    counts: Counts,
}

impl Pacer {
    /// Creates a pacer with the period `period`, or one nanosecond if `period` is zero. The first deadline is one
    /// period from now.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::{Instant, Pacer};
    ///
    /// let before = Instant::now();
    /// let mut pacer = Pacer::new(Duration::from_millis(1));
    /// assert!(pacer.wait().deadline >= before + Duration::from_millis(1));
    /// ```
    #[must_use]
    pub fn new(period: Duration) -> Self {
        Self::with_sleeper(period, Sleeper::new())
    }

    /// Creates a pacer with the period `period` that uses `sleeper` to wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::{Pacer, Sleeper, sleep::Strategy};
    ///
    /// // A rhythm that takes no CPU time, and need not be precise.
    /// let sleeper = Sleeper::new().with_strategy(Strategy::KernelOnly);
    /// let mut pacer = Pacer::with_sleeper(Duration::from_millis(1), sleeper);
    /// println!("{:?} late", pacer.wait().late);
    /// ```
    #[must_use]
    pub fn with_sleeper(period: Duration, sleeper: Sleeper) -> Self {
        let period = period.max(Duration::from_nanos(1));
        let next = Instant::now().saturating_add(period);
        Self { sleeper, period, next, overrun: Overrun::default(), began_late: false, counts: Counts::default() }
    }

    /// Sets the first deadline to `first`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::{Instant, Pacer, pace::Overrun};
    ///
    /// let (start, period) = (Instant::now(), Duration::from_millis(1));
    /// let mut pacer = Pacer::new(period).with_start(start).with_overrun(Overrun::CatchUp);
    /// assert_eq!(pacer.wait().deadline, start);
    /// assert_eq!(pacer.wait().deadline, start + period);
    /// ```
    #[must_use]
    pub const fn with_start(mut self, first: Instant) -> Self {
        self.next = first;
        self
    }

    /// Sets the handling of missed periods.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use std::time::Duration;
    /// use hpt_core::{Pacer, pace::Overrun, testing::FrozenClock};
    ///
    /// let clock = FrozenClock::new();
    /// let _entered = clock.enter();
    /// let mut pacer = Pacer::new(Duration::from_millis(1)).with_overrun(Overrun::CatchUp);
    /// // Work that takes three periods.
    /// clock.advance(Duration::from_millis(3));
    /// let late: Vec<_> = (0..4).map(|_| pacer.wait().late.as_millis()).collect();
    /// assert_eq!(late, [2, 1, 0, 0]);
    /// # }
    /// ```
    #[must_use]
    pub const fn with_overrun(mut self, overrun: Overrun) -> Self {
        self.overrun = overrun;
        self
    }

    /// Returns a handle that can interrupt a wait, for example from another thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{thread, time::Duration};
    /// use hpt_core::Pacer;
    ///
    /// let mut pacer = Pacer::new(Duration::from_secs(3600));
    /// let waker = pacer.waker();
    /// let stop = thread::spawn(move || waker.wake());
    /// while pacer.wait().is_in_time() {
    ///     println!("the work of one period");
    /// }
    /// stop.join().expect("it only wakes the pacer");
    /// ```
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.sleeper.waker()
    }

    /// Returns the period.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Pacer;
    ///
    /// assert_eq!(Pacer::new(Duration::from_millis(1)).period(), Duration::from_millis(1));
    /// ```
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// Begins a new grid: the next deadline is one period from now. Skipped periods are not counted.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{thread, time::Duration};
    /// use hpt_core::{Instant, Pacer};
    ///
    /// let mut pacer = Pacer::new(Duration::from_millis(1));
    /// // The loop pauses, for example for a new configuration.
    /// thread::sleep(Duration::from_millis(5));
    /// pacer.reset();
    /// let now = Instant::now();
    /// let tick = pacer.wait();
    /// assert!(tick.deadline <= now + Duration::from_millis(1));
    /// assert_eq!(pacer.counts().skipped, tick.skipped);
    /// ```
    pub fn reset(&mut self) {
        self.next = Instant::now().saturating_add(self.period);
        self.began_late = false;
    }

    /// Returns the counts of ticks, overruns and skipped periods so far.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Pacer;
    ///
    /// let mut pacer = Pacer::new(Duration::from_millis(1));
    /// assert!(pacer.wait().is_in_time() && pacer.wait().is_in_time());
    /// let counts = pacer.counts();
    /// println!("{} of {} periods were late", counts.overruns, counts.ticks);
    /// assert_eq!(counts.ticks, 2);
    /// ```
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the sleeper, for example to query its report.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Pacer;
    ///
    /// let mut pacer = Pacer::new(Duration::from_millis(1));
    /// assert!(pacer.wait().is_in_time());
    /// assert_eq!(pacer.sleeper().report().in_time, 1);
    /// ```
    #[must_use]
    pub const fn sleeper(&self) -> &Sleeper {
        &self.sleeper
    }

    /// Blocks until the next period starts or the wait is interrupted. After an interruption, the next wait has the same
    /// deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Pacer;
    ///
    /// let mut pacer = Pacer::new(Duration::from_millis(1));
    /// for _ in 0..3 {
    ///     let tick = pacer.wait();
    ///     if !tick.is_in_time() {
    ///         break;
    ///     }
    ///     println!("due at {}, {:?} late, {} periods skipped", tick.deadline, tick.late, tick.skipped);
    /// }
    /// assert_eq!(pacer.counts().ticks, 3);
    /// ```
    #[must_use = "a loop that ignores an interruption begins a period early"]
    pub fn wait(&mut self) -> Woken {
        let plan = self.overrun.plan(self.next, self.period, Instant::now());
        self.counts.skipped += plan.skipped;
        let woken = Woken { skipped: plan.skipped, ..self.sleeper.sleep_until(plan.deadline) };
        if !woken.is_in_time() {
            self.next = plan.deadline;
            self.began_late |= plan.is_overrun;
            return woken;
        }
        self.counts.ticks += 1;
        self.counts.overruns += u64::from(plan.is_overrun || self.began_late);
        self.began_late = false;
        let from = if self.overrun == Overrun::FromNow { Instant::now() } else { plan.deadline };
        self.next = from.saturating_add(self.period);
        woken
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use proptest::prelude::{prop_assert, proptest};

    use super::{Overrun, Pacer, Plan};
    use crate::clock::Instant;

    const PERIOD: Duration = Duration::from_millis(1);

    fn at(us: u64) -> Instant {
        Instant::from_kernel_nanos(us * 1_000)
    }

    #[test]
    fn every_policy_waits_for_a_future_deadline() {
        for overrun in [Overrun::Skip, Overrun::CatchUp, Overrun::Reset, Overrun::FromNow] {
            let planned = overrun.plan(at(5_000), PERIOD, at(4_999));
            assert_eq!(planned, Plan { deadline: at(5_000), skipped: 0, is_overrun: false });
            let planned = overrun.plan(at(5_000), PERIOD, at(5_400));
            assert_eq!(planned, Plan { deadline: at(5_000), skipped: 0, is_overrun: true }, "less than a period late");
        }
    }

    #[test]
    fn missed_deadlines_follow_the_policy() {
        let planned = |overrun: Overrun| overrun.plan(at(5_000), PERIOD, at(8_300));
        assert_eq!(planned(Overrun::Skip), Plan { deadline: at(8_000), skipped: 3, is_overrun: true });
        assert_eq!(planned(Overrun::CatchUp), Plan { deadline: at(5_000), skipped: 0, is_overrun: true });
        assert_eq!(planned(Overrun::Reset), Plan { deadline: at(9_300), skipped: 4, is_overrun: true });
        assert_eq!(planned(Overrun::FromNow), Plan { deadline: at(5_000), skipped: 0, is_overrun: true });
    }

    proptest! {
        /// Verifies that a deadline stays on the grid, however late it is: it lies a whole number of periods after the
        /// deadline that was due, and less than one period ago.
        #[test]
        fn deadlines_stay_on_the_grid(next in 0..1_u64 << 50, late in 0..1_u64 << 40, period in 1..1_u64 << 36) {
            let (next, now) = (Instant::from_kernel_nanos(next), Instant::from_kernel_nanos(next + late));
            let planned = Overrun::Skip.plan(next, Duration::from_nanos(period), now);
            prop_assert!((planned.deadline - next).as_nanos() == u128::from(planned.skipped) * u128::from(period));
            prop_assert!(now.nanos_since(planned.deadline) < period.max(1));
        }
    }

    #[test]
    fn latency_does_not_accumulate() {
        let period = Duration::from_micros(500);
        let first = Instant::now() + period;
        let mut pacer = Pacer::new(period).with_start(first).with_overrun(Overrun::CatchUp);
        for number in 0..20_u32 {
            let tick = pacer.wait();
            assert_eq!(tick.deadline, first + number * period);
            assert!(Instant::now() >= tick.deadline && tick.interrupted.is_none());
        }
        assert_eq!(pacer.counts().ticks, 20);
    }

    #[test]
    fn missed_periods_are_counted() {
        let mut pacer = Pacer::new(PERIOD);
        let _ = pacer.wait();
        thread::sleep(4 * PERIOD);
        let tick = pacer.wait();
        // The lateness refers to the tick's own deadline, not to skipped deadlines.
        assert!(tick.skipped >= 3 && tick.deadline + tick.late <= Instant::now(), "{tick:?}");
        let counts = pacer.counts();
        assert!(counts.overruns >= 1 && counts.skipped >= tick.skipped && counts.ticks == 2, "{counts:?}");
    }

    #[test]
    fn an_interrupted_wait_keeps_its_deadline() {
        let mut pacer = Pacer::new(Duration::from_secs(3_600));
        pacer.waker().wake();
        let interrupted = pacer.wait();
        assert!(interrupted.interrupted.is_some_and(|left| left > Duration::from_secs(3_000)));
        pacer.waker().wake();
        assert_eq!(pacer.wait().deadline, interrupted.deadline);
        assert_eq!(pacer.counts().ticks, 0);
    }

    #[test]
    fn an_interruption_does_not_hide_an_overrun() {
        for overrun in [Overrun::Skip, Overrun::Reset, Overrun::CatchUp] {
            let mut pacer = Pacer::new(PERIOD).with_overrun(overrun);
            thread::sleep(4 * PERIOD);
            pacer.waker().wake();
            assert!(pacer.wait().interrupted.is_some(), "{overrun:?}");
            assert!(pacer.wait().interrupted.is_none());
            assert_eq!((pacer.counts().ticks, pacer.counts().overruns), (1, 1), "{overrun:?}");
        }
    }

    #[test]
    fn the_shortest_and_the_longest_period_are_valid() {
        let mut shortest = Pacer::new(Duration::ZERO);
        let _ = shortest.wait();
        let mut longest = Pacer::new(Duration::MAX);
        longest.waker().wake();
        assert_eq!(longest.wait().deadline, Instant::MAX);
    }
}
