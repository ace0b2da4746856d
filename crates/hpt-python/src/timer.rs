//! A timer of the kernel, which an event loop watches.

use std::{
    os::fd::{AsRawFd, OwnedFd, RawFd},
    sync::Mutex,
};

use pyo3::{PyResult, exceptions::PyOSError, pyclass, pymethods};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::instant::Instant;

/// A timer that expires at `deadline`, as a file descriptor for hpt.aio.
#[pyclass(frozen, module = "hpt._hpt", name = "_Timer")]
#[derive(Debug)]
pub(crate) struct Timer {
    timer: Mutex<Option<OwnedFd>>,
}

#[pymethods]
impl Timer {
    #[new]
    fn new(deadline: &Instant) -> PyResult<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)
            .map_err(std::io::Error::from)?;
        let (seconds, nanos) = deadline.0.to_timespec();
        // Zero would disarm the timer.
        let (tv_sec, tv_nsec) = if seconds < 0 { (0, 1) } else { (seconds, nanos.max(1).into()) };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spec = Itimerspec { it_interval: zero, it_value: Timespec { tv_sec: tv_sec.min(1 << 30), tv_nsec } };
        timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &spec).map_err(std::io::Error::from)?;
        Ok(Self { timer: Mutex::new(Some(timer)) })
    }

    /// Returns the file descriptor.
    fn fileno(&self) -> PyResult<RawFd> {
        let timer = self.timer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        timer.as_ref().map(AsRawFd::as_raw_fd).ok_or_else(|| PyOSError::new_err("the timer is closed"))
    }

    /// Closes the file descriptor.
    fn close(&self) {
        self.timer.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    }
}
