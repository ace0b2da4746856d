//! A timer of the kernel that the reactor of async-io watches.

use std::{
    io,
    task::{Context, Poll, ready},
};

use async_io::Async;
use hpt_core::Instant;

use super::Alarm;
use crate::timerfd::TimerFd;

#[derive(Debug)]
pub(crate) struct AsyncIoAlarm(Async<TimerFd>);

impl AsyncIoAlarm {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Async::new_nonblocking(TimerFd::nonblocking()?)?))
    }
}

impl Alarm for AsyncIoAlarm {
    fn arm(&mut self, at: Instant) {
        self.0.get_ref().arm(at);
    }

    fn disarm(&mut self) {
        self.0.get_ref().disarm();
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.0.get_ref().read() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => {
                    read.expect("a timer can be read");
                    return Poll::Ready(());
                }
            }
            ready!(self.0.poll_readable(context)).expect("the reactor of async-io watches this timer");
        }
    }

    #[cfg(test)]
    fn is_armed(&self) -> bool {
        self.0.get_ref().is_armed()
    }
}
