//! One timer of the kernel, as a file descriptor. Does not wait for it: `timers` and `alarm` do.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
};

use hpt_core::Instant;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// The latest deadline in seconds. Kernels without 64-bit time accept no later one; a timer that expires after 68 years
/// is armed again.
const LATEST_SECONDS: i64 = i32::MAX as i64;
const ZERO: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A timer on `CLOCK_MONOTONIC`. The kernel does not apply the timer slack to it.
#[derive(Debug)]
pub(crate) struct TimerFd(OwnedFd);

impl TimerFd {
    /// Creates a timer whose reads block.
    pub(crate) fn blocking() -> io::Result<Self> {
        Ok(Self(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?))
    }

    /// Creates a timer whose reads do not block.
    #[cfg_attr(not(any(feature = "tokio", feature = "async-io")), allow(dead_code, reason = "only reactors need it"))]
    pub(crate) fn nonblocking() -> io::Result<Self> {
        Ok(Self(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?))
    }

    /// Arms the timer for `deadline`, instead of any earlier one. If it has passed, the timer expires immediately.
    pub(crate) fn arm(&self, deadline: Instant) {
        // Zero would disarm the timer.
        let (tv_sec, nanoseconds) = deadline.max(Instant::from_nanos(1)).to_timespec();
        self.set(Timespec { tv_sec: tv_sec.min(LATEST_SECONDS), tv_nsec: nanoseconds.into() });
    }

    /// Disarms the timer.
    pub(crate) fn disarm(&self) {
        self.set(ZERO);
    }

    /// Returns whether the timer will expire. It is disarmed before it is armed for the first time, after it expired, and
    /// after `disarm`.
    #[cfg(test)]
    pub(crate) fn is_armed(&self) -> bool {
        let Timespec { tv_sec, tv_nsec } = rustix::time::timerfd_gettime(&self.0).expect("it is a timer").it_value;
        (tv_sec, tv_nsec) != (0, 0)
    }

    fn set(&self, it_value: Timespec) {
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval: ZERO, it_value })
            .expect("the descriptor is a timer, and the time is valid");
    }

    /// Reads the timer: returns once it has expired since it was armed.
    pub(crate) fn read(&self) -> io::Result<()> {
        rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut [0; 8]))?;
        Ok(())
    }
}

impl AsFd for TimerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for TimerFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::{io::ErrorKind, time::Duration};

    use hpt_core::Instant;

    use super::TimerFd;

    fn blocking() -> TimerFd {
        TimerFd::blocking().expect("the kernel has timers")
    }

    #[test]
    fn a_time_that_has_passed_expires_immediately() {
        let timer = blocking();
        for past in [Instant::from_nanos(-1), Instant::EPOCH, Instant::from_nanos(1), Instant::now()] {
            timer.arm(past);
            timer.read().expect("it expired");
            assert!(!timer.is_armed());
        }
    }

    #[test]
    fn the_latest_time_is_accepted() {
        let timer = blocking();
        timer.arm(Instant::from_nanos(i64::MAX));
        assert!(timer.is_armed());
        timer.disarm();
        assert!(!timer.is_armed());
    }

    #[test]
    fn disarming_discards_an_expiry() {
        let timer = TimerFd::nonblocking().expect("the kernel has timers");
        let is_waiting = || timer.read().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        timer.arm(Instant::EPOCH);
        timer.disarm();
        assert!(is_waiting());
        timer.arm(Instant::EPOCH);
        timer.arm(Instant::now() + Duration::from_secs(3_600));
        assert!(is_waiting() && timer.is_armed(), "so does arming");
    }
}
