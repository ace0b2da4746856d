//! One timer of the kernel, as a file descriptor. Does not wait for it: `timers` and `alarm` do.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    process,
    sync::{Arc, Mutex, PoisonError},
    task::{Wake, Waker},
};

use hpt_core::{Instant, clock::FrozenDeadline};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// The latest deadline in seconds. Kernels without 64-bit time accept no later one; a timer that expires after 68 years
/// is armed again.
const LATEST_SECONDS: i64 = i32::MAX as i64;
const ZERO: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// Why a forked child cannot use a timer.
pub(crate) const IN_CHILD: &str =
    "this timer is that of the parent process: create Timers and sleepers in the child, after the fork";
/// Zero would disarm the timer.
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 1 };

/// A timer on `CLOCK_MONOTONIC`. The kernel does not apply the timer slack to it.
#[derive(Debug)]
pub(crate) struct TimerFd {
    timer: Arc<OwnedFd>,
    /// The deadline on a clock that a test controls. The kernel does not know that clock.
    frozen: Mutex<Option<FrozenDeadline>>,
    /// The process that created it. A forked child has the same timer of the kernel.
    process: u32,
}

/// Lets the timer expire at once.
struct Expire(Arc<OwnedFd>);

impl Wake for Expire {
    fn wake(self: Arc<Self>) {
        set(&self.0, AT_ONCE);
    }
}

impl TimerFd {
    /// Creates a timer whose reads block.
    pub(crate) fn blocking() -> io::Result<Self> {
        Self::new(TimerfdFlags::CLOEXEC)
    }

    /// Creates a timer whose reads do not block.
    #[cfg_attr(not(any(feature = "tokio", feature = "async-io")), allow(dead_code, reason = "only reactors need it"))]
    pub(crate) fn nonblocking() -> io::Result<Self> {
        Self::new(TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)
    }

    fn new(flags: TimerfdFlags) -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self { timer: Arc::new(timer), frozen: Mutex::new(None), process: process::id() })
    }

    /// Returns whether this process created the timer. If not, it is that of the parent, as are all threads that wait for
    /// it.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process == process::id()
    }

    /// Arms the timer for `deadline`, instead of any earlier one. If it has passed, the timer expires immediately. Panics in
    /// a forked child.
    pub(crate) fn arm(&self, deadline: Instant) {
        assert!(self.is_of_this_process(), "{IN_CHILD}");
        if FrozenDeadline::is_any() {
            self.disarm();
            let expire = Waker::from(Arc::new(Expire(Arc::clone(&self.timer))));
            self.freeze(FrozenDeadline::of_process(deadline, &expire));
            return;
        }
        let (tv_sec, nanoseconds) = deadline.max(Instant::from_nanos(1)).to_timespec();
        set(&self.timer, Timespec { tv_sec: tv_sec.min(LATEST_SECONDS), tv_nsec: nanoseconds.into() });
    }

    fn freeze(&self, frozen: Option<FrozenDeadline>) {
        *self.frozen.lock().unwrap_or_else(PoisonError::into_inner) = frozen;
    }

    /// Disarms the timer, but not that of a parent.
    pub(crate) fn disarm(&self) {
        if !self.is_of_this_process() {
            return;
        }
        self.freeze(None);
        set(&self.timer, ZERO);
    }

    /// Returns whether the timer will expire. It is disarmed before it is armed for the first time, after it expired, and
    /// after `disarm`.
    #[cfg(test)]
    pub(crate) fn is_armed(&self) -> bool {
        let Timespec { tv_sec, tv_nsec } = rustix::time::timerfd_gettime(&self.timer).expect("it is a timer").it_value;
        (tv_sec, tv_nsec) != (0, 0)
    }

    /// Reads the timer: returns once it has expired since it was armed.
    pub(crate) fn read(&self) -> io::Result<()> {
        rustix::io::retry_on_intr(|| rustix::io::read(&self.timer, &mut [0; 8]))?;
        Ok(())
    }
}

impl AsFd for TimerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

impl AsRawFd for TimerFd {
    fn as_raw_fd(&self) -> RawFd {
        self.timer.as_raw_fd()
    }
}

fn set(timer: &OwnedFd, it_value: Timespec) {
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval: ZERO, it_value })
        .expect("the descriptor is a timer, and the time is valid");
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
