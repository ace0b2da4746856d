//! Precise sleeps of tasks: an alarm until a learned margin before the deadline, then the rest. Schedules no periods;
//! `interval` does.

use std::{
    hint,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use hpt_core::{Instant, clock::FrozenDeadline};

use crate::{
    alarm::{Alarm, TimersAlarm},
    finish::Finish,
    margin::Margin,
    timers::Timers,
};

/// The number of consecutive sleeps that may end without yielding to the runtime: sleeps that are too short to block, or
/// whose deadline has passed. The next sleep yields first, so that a task with such sleeps does not stop all others.
const MOST_WITHOUT_YIELD: u32 = 16;

/// A sleeper for one task, which learns how late the runtime wakes that task.
///
/// A sleep never ends before its deadline, as measured with [`Instant`]. Deadlines are absolute, so that delays do not
/// accumulate. A sleep can be cancelled at any time: dropping its future disarms the timer.
///
/// The margin between the wake-up and the deadline covers 95 % of the last 64 wake-up latencies of sleeps of similar
/// length, and never exceeds 200 µs. [`Finish`] determines what happens in this time.
///
/// | constructor | timer | works in |
/// | --- | --- | --- |
/// | [`tokio`](Self::tokio) (feature `tokio`) | a timer of the kernel for each sleeper | a tokio runtime with I/O enabled |
/// | [`async_io`](Self::async_io) (feature `async-io`) | a timer of the kernel for each sleeper | any runtime |
/// | [`timers`](Self::timers) | one for all sleepers, which another thread waits for | any runtime |
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "tokio")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use std::time::Duration;
/// use hpt_async::{AsyncSleeper, Finish};
/// use hpt_core::Instant;
///
/// let mut sleeper = AsyncSleeper::tokio()?.with_finish(Finish::Spin);
/// let deadline = Instant::now() + Duration::from_millis(2);
/// let late = sleeper.sleep_until(deadline).await;
/// assert!(Instant::now() >= deadline + late);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "tokio"))]
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct AsyncSleeper {
    alarm: Box<dyn Alarm>,
    margin: Margin,
    /// The number of sleeps that have ended since the last one that yielded to the runtime.
    unyielded: u32,
}

impl AsyncSleeper {
    /// Creates a sleeper with a timer of the kernel that tokio's reactor watches. Its sleeps panic if that runtime has
    /// ended.
    ///
    /// # Errors
    ///
    /// Fails if the kernel refuses a timer.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime, and in a runtime without I/O (`enable_io`).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    /// use hpt_async::AsyncSleeper;
    ///
    /// let mut sleeper = AsyncSleeper::tokio()?;
    /// println!("{:?} late", sleeper.sleep(Duration::from_millis(1)).await);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tokio")]
    pub fn tokio() -> std::io::Result<Self> {
        Ok(Self::new(Box::new(crate::alarm::TokioAlarm::new()?)))
    }

    /// Creates a sleeper with a timer of the kernel that the reactor of async-io watches.
    ///
    /// # Errors
    ///
    /// Fails if the kernel refuses a timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_async::AsyncSleeper;
    ///
    /// let mut sleeper = AsyncSleeper::async_io()?;
    /// let late = async_io::block_on(sleeper.sleep(Duration::from_millis(1)));
    /// println!("{late:?} late");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(feature = "async-io")]
    pub fn async_io() -> std::io::Result<Self> {
        Ok(Self::new(Box::new(crate::alarm::AsyncIoAlarm::new()?)))
    }

    /// Creates a sleeper with a deadline of `timers`. Ten thousand such sleepers need one timer of the kernel.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    /// use hpt_async::{AsyncSleeper, Timers};
    ///
    /// // One timer of the kernel for both.
    /// let timers = Timers::new()?;
    /// let (mut first, mut second) = (AsyncSleeper::timers(&timers), AsyncSleeper::timers(&timers));
    /// println!("{:?} late", first.sleep(Duration::from_millis(1)).await);
    /// println!("{:?} late", second.sleep(Duration::from_millis(1)).await);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn timers(timers: &Timers) -> Self {
        Self::new(Box::new(TimersAlarm::new(timers.clone())))
    }

    fn new(alarm: Box<dyn Alarm>) -> Self {
        Self { alarm, margin: Margin::new(Finish::default()), unyielded: 0 }
    }

    /// Sets what happens in the last microseconds before a deadline. Discards what was learned.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    /// use hpt_async::{AsyncSleeper, Finish, Timers};
    ///
    /// // Takes the least CPU time.
    /// let mut sleeper = AsyncSleeper::timers(&Timers::new()?).with_finish(Finish::Kernel);
    /// println!("{:?} late", sleeper.sleep(Duration::from_millis(1)).await);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_finish(mut self, finish: Finish) -> Self {
        self.margin = Margin::new(finish);
        self
    }

    /// Sleeps until `deadline`. Returns the overshoot: the time from the deadline until the sleep ended.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    /// use hpt_async::{AsyncSleeper, Timers};
    /// use hpt_core::Instant;
    ///
    /// let mut sleeper = AsyncSleeper::timers(&Timers::new()?);
    /// let deadline = Instant::now() + Duration::from_millis(1);
    /// let late = sleeper.sleep_until(deadline).await;
    /// assert!(Instant::now() >= deadline + late);
    /// # Ok(())
    /// # }
    /// ```
    pub fn sleep_until(&mut self, deadline: Instant) -> PreciseSleep<'_> {
        PreciseSleep { sleeper: self, wait: Wait::new(deadline) }
    }

    /// Sleeps until `duration` from now, the time of this call. Returns the overshoot.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    /// use hpt_async::{AsyncSleeper, Timers};
    /// use hpt_core::Instant;
    ///
    /// let mut sleeper = AsyncSleeper::timers(&Timers::new()?);
    /// let start = Instant::now();
    /// sleeper.sleep(Duration::from_millis(1)).await;
    /// assert!(start.elapsed() >= Duration::from_millis(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn sleep(&mut self, duration: Duration) -> PreciseSleep<'_> {
        self.sleep_until(Instant::now().saturating_add(duration))
    }
}

/// The future of a sleep. Completes with the overshoot. Dropping it disarms the timer.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct PreciseSleep<'a> {
    sleeper: &'a mut AsyncSleeper,
    wait: Wait,
}

/// The state of one sleep.
#[derive(Debug)]
pub(crate) struct Wait {
    deadline: Instant,
    stage: Stage,
    /// The deadline on a clock that a test controls.
    frozen: Option<FrozenDeadline>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Begin,
    /// The alarm is armed for `wake_at`.
    Armed {
        wake_at: Instant,
        remaining_ns: u64,
    },
    /// The deadline is too close to block.
    Finish,
}

impl PreciseSleep<'_> {
    /// Returns the deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    /// use hpt_async::{AsyncSleeper, Timers};
    /// use hpt_core::Instant;
    ///
    /// let mut sleeper = AsyncSleeper::timers(&Timers::new()?);
    /// let before = Instant::now();
    /// let sleep = sleeper.sleep(Duration::from_millis(1));
    /// assert!(sleep.deadline() >= before + Duration::from_millis(1));
    /// sleep.await;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn deadline(&self) -> Instant {
        self.wait.deadline
    }
}

impl Future for PreciseSleep<'_> {
    type Output = Duration;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Duration> {
        let Self { sleeper, wait } = &mut *self;
        wait.poll(sleeper, context)
    }
}

impl Wait {
    pub(crate) const fn new(deadline: Instant) -> Self {
        Self { deadline, stage: Stage::Begin, frozen: None }
    }

    pub(crate) const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Completes with the overshoot.
    pub(crate) fn poll(&mut self, sleeper: &mut AsyncSleeper, context: &mut Context<'_>) -> Poll<Duration> {
        if matches!(self.stage, Stage::Begin) && sleeper.unyielded >= MOST_WITHOUT_YIELD {
            sleeper.unyielded = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = self.poll_stages(sleeper, context);
        sleeper.unyielded = if polled.is_pending() { 0 } else { sleeper.unyielded + 1 };
        polled
    }

    /// Disarms the timer of a sleep that has not completed.
    pub(crate) fn cancel(&self, sleeper: &mut AsyncSleeper) {
        if let Stage::Armed { .. } = self.stage {
            sleeper.alarm.disarm();
        }
    }

    fn poll_stages(&mut self, sleeper: &mut AsyncSleeper, context: &mut Context<'_>) -> Poll<Duration> {
        let AsyncSleeper { alarm, margin, .. } = sleeper;
        let Self { deadline, stage, frozen } = self;
        loop {
            match *stage {
                Stage::Armed { wake_at, remaining_ns } => {
                    ready!(alarm.poll(context));
                    margin.learn(remaining_ns, Instant::now().nanos_since(wake_at));
                    *stage = Stage::Begin;
                }
                Stage::Begin => {
                    let now = Instant::now();
                    if now >= *deadline {
                        return Poll::Ready(now - *deadline);
                    }
                    // A task may be polled with another waker each time.
                    *frozen = FrozenDeadline::new(*deadline, context.waker());
                    match frozen {
                        Some(frozen) if !frozen.has_passed() => return Poll::Pending,
                        Some(_) => continue,
                        None => {}
                    }
                    let remaining_ns = deadline.nanos_since(now);
                    *stage = match margin.block_ns(remaining_ns) {
                        Some(block_ns) => {
                            let wake_at = now.saturating_add(Duration::from_nanos(block_ns));
                            alarm.arm(wake_at);
                            Stage::Armed { wake_at, remaining_ns }
                        }
                        None => Stage::Finish,
                    };
                }
                Stage::Finish => {
                    let mut now = Instant::now();
                    while now < *deadline {
                        if margin.finish() == Finish::Yield {
                            context.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                        hint::spin_loop();
                        now = Instant::now();
                    }
                    return Poll::Ready(now - *deadline);
                }
            }
        }
    }
}

impl Drop for PreciseSleep<'_> {
    fn drop(&mut self) {
        self.wait.cancel(self.sleeper);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        mem,
        pin::{Pin, pin},
        task::{Context, Poll, Waker},
        thread,
        time::Duration,
    };

    use hpt_core::Instant;

    use super::{AsyncSleeper, MOST_WITHOUT_YIELD, PreciseSleep};
    use crate::{finish::Finish, timers::Timers};

    const HOUR: Duration = Duration::from_secs(3_600);

    fn polled(sleep: Pin<&mut PreciseSleep<'_>>) -> Poll<Duration> {
        sleep.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn with_timers() -> AsyncSleeper {
        AsyncSleeper::timers(&Timers::new().expect("the kernel has timers"))
    }

    /// Cancels sleeps before, during and after their first poll, and when the timer has expired.
    fn cancels_without_a_trace(mut sleeper: AsyncSleeper) {
        for finish in [Finish::Kernel, Finish::Yield, Finish::Spin] {
            sleeper = sleeper.with_finish(finish);
            drop(sleeper.sleep(HOUR));
            assert!(!sleeper.alarm.is_armed(), "it was not polled");
            {
                let mut sleep = pin!(sleeper.sleep(HOUR));
                for _ in 0..3 {
                    assert!(polled(sleep.as_mut()).is_pending());
                    assert!(sleep.sleeper.alarm.is_armed());
                }
            }
            assert!(!sleeper.alarm.is_armed());
            {
                let mut sleep = pin!(sleeper.sleep(Duration::from_millis(3)));
                let _ = polled(sleep.as_mut());
                while Instant::now() < sleep.deadline() {
                    thread::yield_now();
                }
            }
            assert!(!sleeper.alarm.is_armed(), "it had expired");
            {
                // The timer of a sleep that is forgotten stays armed until the next sleep.
                let mut sleep = sleeper.sleep(HOUR);
                assert!(polled(Pin::new(&mut sleep)).is_pending());
                mem::forget(sleep);
            }
            let mut sleep = pin!(sleeper.sleep(Duration::from_millis(1)));
            while polled(sleep.as_mut()).is_pending() {
                thread::yield_now();
            }
        }
        assert!(!sleeper.alarm.is_armed());
    }

    #[test]
    fn a_dropped_sleep_leaves_no_deadline_in_timers() {
        cancels_without_a_trace(with_timers());
    }

    #[cfg(feature = "tokio")]
    #[test]
    fn a_dropped_sleep_leaves_no_armed_timer_in_tokio() {
        // Another thread watches the timer, because this one does not return to the runtime.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_io().build();
        let runtime = runtime.expect("a runtime");
        let _entered = runtime.enter();
        cancels_without_a_trace(AsyncSleeper::tokio().expect("the kernel has timers"));
    }

    #[cfg(feature = "async-io")]
    #[test]
    fn a_dropped_sleep_leaves_no_armed_timer_in_async_io() {
        cancels_without_a_trace(AsyncSleeper::async_io().expect("the kernel has timers"));
    }

    #[test]
    fn sleeps_that_never_block_yield_to_other_tasks() {
        let mut sleeper = with_timers().with_finish(Finish::Spin);
        for _ in 0..3 {
            for _ in 0..MOST_WITHOUT_YIELD {
                assert!(polled(pin!(sleeper.sleep_until(Instant::EPOCH))).is_ready());
            }
            {
                let mut sleep = pin!(sleeper.sleep_until(Instant::EPOCH));
                assert!(polled(sleep.as_mut()).is_pending());
                assert!(polled(sleep.as_mut()).is_ready());
            }
            // This sleep was the first after the yield.
            for _ in 1..MOST_WITHOUT_YIELD {
                assert!(polled(pin!(sleeper.sleep_until(Instant::EPOCH))).is_ready());
            }
            let mut sleep = pin!(sleeper.sleep(HOUR));
            assert!(polled(sleep.as_mut()).is_pending() && polled(sleep).is_pending(), "it has yielded, and waits");
        }
    }
}
