//! A timer of the kernel that tokio's reactor watches.

use std::{
    io,
    task::{Context, Poll, ready},
};

use hpt_core::Instant;
use tokio::io::{Interest, unix::AsyncFd};

use super::Alarm;
use crate::timerfd::TimerFd;

#[derive(Debug)]
pub(crate) struct TokioAlarm {
    timer: AsyncFd<TimerFd>,
    /// The time for which it was armed last.
    at: Instant,
}

impl TokioAlarm {
    // tokio deprecated this function because the descriptor of another type could change while it is registered. That of
    // `TimerFd` is the same until it is dropped. The replacement is an unsafe function, and this crate has no unsafe code.
    #[allow(deprecated, reason = "sound for a type that owns one descriptor")]
    pub(crate) fn new() -> io::Result<Self> {
        let timer = AsyncFd::with_interest(TimerFd::nonblocking()?, Interest::READABLE)?;
        Ok(Self { timer, at: Instant::EPOCH })
    }
}

impl Alarm for TokioAlarm {
    fn arm(&mut self, at: Instant) {
        self.at = at;
        self.timer.get_ref().arm(at);
    }

    fn disarm(&mut self) {
        self.timer.get_ref().disarm();
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut ready =
                ready!(self.timer.poll_read_ready(context)).expect("the tokio runtime of this sleeper has ended");
            // The reactor reports each expiry once, and arming discards an expiry, so it does not have to be read.
            if Instant::now() >= self.at {
                ready.clear_ready();
                return Poll::Ready(());
            }
            // An error means that the readiness is that of an earlier expiry. It is cleared, and the task waits again.
            if let Ok(read) = ready.try_io(|timer| timer.get_ref().read()) {
                read.expect("a timer can be read");
                return Poll::Ready(());
            }
        }
    }

    #[cfg(test)]
    fn is_armed(&self) -> bool {
        self.timer.get_ref().is_armed()
    }
}
