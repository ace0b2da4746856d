//! The ways to wake a task at a point in time. Imprecise: `sleeper` waits for the rest.

#[cfg(feature = "async-io")]
mod async_io;
#[cfg(feature = "tokio")]
mod tokio;

use std::{
    fmt::Debug,
    pin::Pin,
    task::{Context, Poll},
};

use hpt_core::Instant;

#[cfg(feature = "async-io")]
pub(crate) use self::async_io::AsyncIoAlarm;
#[cfg(feature = "tokio")]
pub(crate) use self::tokio::TokioAlarm;
use crate::timers::{Sleep, Timers};

/// One timer that wakes a task.
pub(crate) trait Alarm: Debug + Send + Sync {
    /// Arms the timer for `at`, instead of any earlier time.
    fn arm(&mut self, at: Instant);

    /// Disarms the timer.
    fn disarm(&mut self);

    /// Returns ready once the timer has expired. It is armed.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Returns whether the timer is armed.
    #[cfg(test)]
    fn is_armed(&self) -> bool;
}

/// One of the deadlines of a [`Timers`].
#[derive(Debug)]
pub(crate) struct TimersAlarm {
    timers: Timers,
    sleep: Option<Sleep>,
}

impl TimersAlarm {
    pub(crate) const fn new(timers: Timers) -> Self {
        Self { timers, sleep: None }
    }
}

impl Alarm for TimersAlarm {
    fn arm(&mut self, at: Instant) {
        self.sleep = Some(self.timers.sleep_until(at));
    }

    fn disarm(&mut self) {
        self.sleep = None;
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.sleep.as_mut().map_or(Poll::Ready(()), |sleep| Pin::new(sleep).poll(context))
    }

    #[cfg(test)]
    fn is_armed(&self) -> bool {
        // The thread may arm the timer of the kernel later. The tests of `timers` look at that.
        self.timers.pending() > 0
    }
}
