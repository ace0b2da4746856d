//! Starts the periods of a task at fixed intervals, so that delays do not accumulate. `hpt_core::pace` determines the
//! deadlines and the handling of missed periods; `sleeper` sleeps.

use std::{mem, time::Duration};

use hpt_core::{
    Instant,
    pace::{Counts, Overrun},
    sleep::Woken,
};

use crate::sleeper::AsyncSleeper;

/// The periods of a task. The deadline of each period is a fixed time after the previous deadline, not after the end of
/// the previous work.
///
/// Missed periods are handled as [`Pacer`](hpt_core::Pacer) handles them, as [`Overrun`] states.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "tokio")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use std::time::Duration;
/// use hpt_async::{AsyncSleeper, Interval};
///
/// let mut interval = Interval::new(AsyncSleeper::tokio()?, Duration::from_millis(1));
/// let first = interval.tick().await;
/// let second = interval.tick().await;
/// assert_eq!((second.deadline - first.deadline).as_nanos() % 1_000_000, 0);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "tokio"))]
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct Interval {
    sleeper: AsyncSleeper,
    period: Duration,
    next: Instant,
    overrun: Overrun,
    /// Whether a cancelled tick began after its deadline, and the periods that it skipped.
    began_late: bool,
    skipped: u64,
    counts: Counts,
}

impl Interval {
    /// Creates an interval with the period `period`, or one nanosecond if `period` is zero. The first deadline is one
    /// period from now.
    #[must_use]
    pub fn new(sleeper: AsyncSleeper, period: Duration) -> Self {
        let period = period.max(Duration::from_nanos(1));
        let next = Instant::now().saturating_add(period);
        let (overrun, counts) = (Overrun::default(), Counts::default());
        Self { sleeper, period, next, overrun, began_late: false, skipped: 0, counts }
    }

    /// Sets the first deadline to `first`.
    #[must_use]
    pub const fn with_start(mut self, first: Instant) -> Self {
        self.next = first;
        self
    }

    /// Sets the handling of missed periods.
    #[must_use]
    pub const fn with_overrun(mut self, overrun: Overrun) -> Self {
        self.overrun = overrun;
        self
    }

    /// Returns the period.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// Begins a new grid: the next deadline is one period from now. Skipped periods are not counted.
    pub fn reset(&mut self) {
        self.next = Instant::now().saturating_add(self.period);
        (self.began_late, self.skipped) = (false, 0);
    }

    /// Returns the counts of ticks, overruns and skipped periods so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Waits until the next period starts. Returns its deadline, how late it started, and how many periods were skipped.
    ///
    /// If the future is dropped, the timer is disarmed, and the next call waits for the same period.
    pub async fn tick(&mut self) -> Woken {
        let plan = self.overrun.plan(self.next, self.period, Instant::now());
        // A cancelled tick leaves this to the next one.
        self.next = plan.deadline;
        self.began_late |= plan.is_overrun;
        self.skipped = self.skipped.saturating_add(plan.skipped);
        self.counts.skipped = self.counts.skipped.saturating_add(plan.skipped);
        let late = self.sleeper.sleep_until(plan.deadline).await;
        self.counts.ticks += 1;
        self.counts.overruns += u64::from(mem::take(&mut self.began_late));
        let from = if self.overrun == Overrun::FromNow { Instant::now() } else { plan.deadline };
        self.next = from.saturating_add(self.period);
        let mut woken = Woken::new(plan.deadline, late);
        woken.skipped = mem::take(&mut self.skipped);
        woken
    }
}
