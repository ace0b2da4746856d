//! Starts the periods of a task at fixed intervals, so that delays do not accumulate. `hpt_core::pace` determines the
//! deadlines and the handling of missed periods; `sleeper` sleeps.

use std::{
    future::poll_fn,
    mem,
    task::{Context, Poll, ready},
    time::Duration,
};

use hpt_core::{
    Instant,
    pace::{Counts, Overrun},
    sleep::Woken,
};

use crate::sleeper::{AsyncSleeper, Wait};

/// The periods of a task. The deadline of each period is a fixed time after the previous deadline, not after the end of
/// the previous work.
///
/// Missed periods are handled as [`Pacer`](hpt_core::Pacer) handles them, as [`Overrun`] states. With the feature
/// `stream`, an interval is a `Stream` of its ticks, which never ends.
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
    /// The tick that was polled and has not begun.
    waiting: Option<Wait>,
    /// Whether a cancelled tick began after its deadline, and the periods that it skipped.
    began_late: bool,
    skipped: u64,
    counts: Counts,
}

impl Interval {
    /// Creates an interval with the period `period`, or one nanosecond if `period` is zero. The first deadline is one
    /// period from now.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    /// use hpt_async::{AsyncSleeper, Interval, Timers};
    ///
    /// let sleeper = AsyncSleeper::timers(&Timers::new()?);
    /// let mut interval = Interval::new(sleeper, Duration::from_millis(1));
    /// for _ in 0..3 {
    ///     println!("{:?} late", interval.tick().await.late);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn new(sleeper: AsyncSleeper, period: Duration) -> Self {
        let period = period.max(Duration::from_nanos(1));
        let next = Instant::now().saturating_add(period);
        let (overrun, counts) = (Overrun::default(), Counts::default());
        Self { sleeper, period, next, overrun, waiting: None, began_late: false, skipped: 0, counts }
    }

    /// Sets the first deadline to `first`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    /// use hpt_async::{AsyncSleeper, Interval, Timers};
    /// use hpt_core::{Instant, pace::Overrun};
    ///
    /// let (start, period) = (Instant::now(), Duration::from_millis(1));
    /// let sleeper = AsyncSleeper::timers(&Timers::new()?);
    /// let mut interval = Interval::new(sleeper, period).with_start(start).with_overrun(Overrun::CatchUp);
    /// assert_eq!(interval.tick().await.deadline, start);
    /// assert_eq!(interval.tick().await.deadline, start + period);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_start(mut self, first: Instant) -> Self {
        self.cancel();
        self.next = first;
        self
    }

    /// Sets the handling of missed periods.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    /// use hpt_async::{AsyncSleeper, Interval, Timers};
    /// use hpt_core::{pace::Overrun, testing::FrozenClock};
    ///
    /// let clock = FrozenClock::new();
    /// let _entered = clock.enter();
    /// let sleeper = AsyncSleeper::timers(&Timers::new()?);
    /// let mut interval = Interval::new(sleeper, Duration::from_millis(1)).with_overrun(Overrun::Skip);
    /// // Work that takes three periods and a half.
    /// clock.advance(Duration::from_micros(3_500));
    /// let tick = interval.tick().await;
    /// assert_eq!((tick.late, tick.skipped), (Duration::from_micros(500), 2));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn with_overrun(mut self, overrun: Overrun) -> Self {
        self.overrun = overrun;
        self
    }

    /// Returns the period.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_async::{AsyncSleeper, Interval, Timers};
    ///
    /// let interval = Interval::new(AsyncSleeper::timers(&Timers::new()?), Duration::ZERO);
    /// assert_eq!(interval.period(), Duration::from_nanos(1));
    /// # Ok::<(), std::io::Error>(())
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
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    /// use hpt_async::{AsyncSleeper, Interval, Timers};
    /// use hpt_core::testing::FrozenClock;
    ///
    /// let clock = FrozenClock::new();
    /// let _entered = clock.enter();
    /// let mut interval = Interval::new(AsyncSleeper::timers(&Timers::new()?), Duration::from_secs(1));
    /// // The task has had nothing to do for a while.
    /// clock.advance(Duration::from_millis(10_500));
    /// interval.reset();
    /// let tick = interval.tick().await;
    /// assert_eq!((tick.late, tick.skipped), (Duration::ZERO, 0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn reset(&mut self) {
        self.cancel();
        self.next = Instant::now().saturating_add(self.period);
        (self.began_late, self.skipped) = (false, 0);
    }

    /// Returns the counts of ticks, overruns and skipped periods so far.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    /// use hpt_async::{AsyncSleeper, Interval, Timers};
    ///
    /// let sleeper = AsyncSleeper::timers(&Timers::new()?);
    /// let mut interval = Interval::new(sleeper, Duration::from_millis(1));
    /// interval.tick().await;
    /// interval.tick().await;
    /// let counts = interval.counts();
    /// println!("{} of {} periods were late", counts.overruns, counts.ticks);
    /// assert_eq!(counts.ticks, 2);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Waits until the next period starts. Returns its deadline, how late it started, and how many periods were skipped.
    ///
    /// If the future is dropped, the timer is disarmed, and the next call waits for the same period.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    /// use hpt_async::{AsyncSleeper, Interval, Timers};
    ///
    /// let sleeper = AsyncSleeper::timers(&Timers::new()?);
    /// let mut interval = Interval::new(sleeper, Duration::from_millis(1));
    /// let tick = interval.tick().await;
    /// println!("due at {}, {:?} late, {} periods skipped", tick.deadline, tick.late, tick.skipped);
    /// assert!(tick.deadline.has_passed());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn tick(&mut self) -> Woken {
        let tick = Tick(self);
        poll_fn(|context| tick.0.poll_tick(context)).await
    }

    /// Polls for the start of the next period, as [`tick`](Self::tick) does, for futures and streams of your own. A
    /// pending poll leaves the timer armed, and the next poll continues the same wait.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::{future::poll_fn, time::Duration};
    /// use hpt_async::{AsyncSleeper, Interval, Timers};
    ///
    /// let sleeper = AsyncSleeper::timers(&Timers::new()?);
    /// let mut interval = Interval::new(sleeper, Duration::from_millis(1));
    /// let tick = poll_fn(|context| interval.poll_tick(context)).await;
    /// assert!(tick.deadline.has_passed());
    /// # Ok(())
    /// # }
    /// ```
    pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<Woken> {
        let wait = match &mut self.waiting {
            Some(wait) => wait,
            None => {
                let plan = self.overrun.plan(self.next, self.period, Instant::now());
                // A cancelled tick leaves this to the next one.
                self.next = plan.deadline;
                self.began_late |= plan.is_overrun;
                self.skipped = self.skipped.saturating_add(plan.skipped);
                self.counts.skipped = self.counts.skipped.saturating_add(plan.skipped);
                self.waiting.insert(Wait::new(plan.deadline))
            }
        };
        let late = ready!(wait.poll(&mut self.sleeper, context));
        let deadline = wait.deadline();
        self.waiting = None;
        self.counts.ticks += 1;
        self.counts.overruns += u64::from(mem::take(&mut self.began_late));
        let from = if self.overrun == Overrun::FromNow { Instant::now() } else { deadline };
        self.next = from.saturating_add(self.period);
        let mut woken = Woken::new(deadline, late);
        woken.skipped = mem::take(&mut self.skipped);
        Poll::Ready(woken)
    }

    fn cancel(&mut self) {
        if let Some(wait) = self.waiting.take() {
            wait.cancel(&mut self.sleeper);
        }
    }
}

/// Cancels a tick whose future is dropped.
struct Tick<'a>(&'a mut Interval);

impl Drop for Tick<'_> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

#[cfg(feature = "stream")]
impl futures_core::Stream for Interval {
    type Item = Woken;

    /// Returns ready with the next tick; never with `None`.
    fn poll_next(self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Woken>> {
        self.get_mut().poll_tick(context).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}
