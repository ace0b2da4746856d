//! Waits without the GIL, and ends a wait of the main thread when a signal arrives. The sleepers of hpt-core do the
//! precise part.
//!
//! CPython's signal handler only sets a flag and writes to the file descriptor of `signal.set_wakeup_fd`. A system call
//! that a signal ends is not enough: a signal between the look at the flag and the system call would be lost until the
//! deadline. A wait therefore has a descriptor of its own for as long as it lasts, and blocks until it is readable. The
//! last millisecond is left to the sleeper, which no signal ends.

use std::{
    cell::RefCell,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    process,
    rc::Rc,
    time::Duration,
};

use hpt_core::Instant;
use pyo3::{
    Bound, Py, PyAny, PyResult, Python,
    exceptions::PyValueError,
    sync::PyOnceLock,
    types::{IntoPyDict, PyAnyMethods, PyDict},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io,
    pipe::{PipeFlags, pipe_with},
};

use crate::{sleeper::Woken, testing};

/// The last part of a wait, which no signal ends.
const UNINTERRUPTED: Duration = Duration::from_micros(900);
/// The time before the deadline at which the part that a signal ends should be over.
const LEFT: Duration = Duration::from_micros(800);

/// The time before the deadline at which the thread takes the GIL.
const WITH_GIL: Duration = Duration::from_micros(20);

/// The end of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// The time from the deadline until the thread ran again, in nanoseconds.
    pub late_ns: i64,
    /// The part of it until the thread had the GIL, in nanoseconds.
    pub gil_ns: i64,
    /// The length of the precise part.
    pub precise: Duration,
}

/// Waits until `deadline`; the precise part with `precisely`. Fails if a signal's handler raises.
///
/// The thread takes the GIL shortly before the deadline, does what it will do after it, and spins for the rest: after a
/// wait, each line of cold memory costs time. This halves the lateness that a caller measures.
pub(crate) fn until(py: Python<'_>, deadline: Instant, precisely: impl FnOnce(Instant) + Send) -> PyResult<Ended> {
    let is_frozen = testing::is_frozen();
    if deadline.remaining() > UNINTERRUPTED && !is_frozen {
        until_near(py, deadline)?;
    }
    let early = if is_frozen { deadline } else { deadline.saturating_sub(WITH_GIL) };
    let (precise, woken) = py.detach(|| {
        let start = Instant::now();
        precisely(early);
        let woken = Instant::now();
        (woken.saturating_duration_since(start), woken)
    });
    let attached = Instant::now();
    py.check_signals()?;
    drop(Bound::new(py, Woken::at(deadline)));
    warm(py)?;
    let mut now = attached;
    // If CLOCK_MONOTONIC goes back, more is left.
    while now < deadline && deadline.saturating_duration_since(now) <= WITH_GIL {
        std::hint::spin_loop();
        now = Instant::now();
    }
    let gil_ns = attached.signed_nanos_since(woken.max(deadline)).max(0);
    Ok(Ended { late_ns: Instant::now().signed_nanos_since(deadline), gil_ns, precise })
}

/// Runs a few lines of Python, as the caller does after the wait.
fn warm(py: Python<'_>) -> PyResult<()> {
    static FUNCTION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let function = FUNCTION.get_or_try_init(py, || {
        py.eval(c"lambda clock=__import__('time').monotonic_ns: clock() - 1 > clock()", None, None).map(Bound::unbind)
    })?;
    function.call0(py).map(drop)
}

/// Waits until the last part of the wait begins. Returns at once on a thread that handles no signals.
fn until_near(py: Python<'_>, deadline: Instant) -> PyResult<()> {
    let Some(signals) = Signals::watch(py)? else { return Ok(()) };
    let waited = wait_beside(py, deadline, &signals);
    let restored = signals.end(py);
    waited.and(restored)
}

fn wait_beside(py: Python<'_>, deadline: Instant, signals: &Signals) -> PyResult<()> {
    loop {
        py.check_signals()?;
        let left = deadline.remaining();
        if left <= UNINTERRUPTED {
            return Ok(());
        }
        // The kernel may be late by 0.5 % of the time, in addition to the timer slack.
        let coarse = left.saturating_sub(LEFT).saturating_sub(left / 100);
        let readable = &signals.channel.readable;
        py.detach(|| block(readable, coarse));
        signals.forward(py);
    }
}

/// Blocks until `readable` is, or for `coarse`. May return early.
fn block(readable: &OwnedFd, coarse: Duration) {
    let seconds = coarse.as_secs().min(1 << 24).try_into().unwrap_or(1 << 24);
    let timeout = Timespec { tv_sec: seconds, tv_nsec: coarse.subsec_nanos().into() };
    // An error is that of a signal.
    let _ = poll(&mut [PollFd::new(readable, PollFlags::IN)], Some(&timeout));
}

/// The pipe to which CPython's signal handler writes. A forked child has one of its own.
#[derive(Debug)]
struct Channel {
    readable: OwnedFd,
    writable: OwnedFd,
    process: u32,
}

thread_local!(static CHANNEL: RefCell<Option<Rc<Channel>>> = const { RefCell::new(None) });

impl Channel {
    fn of_this_thread() -> io::Result<Rc<Self>> {
        CHANNEL.with_borrow_mut(|kept| {
            if let Some(channel) = kept.as_ref().filter(|channel| channel.process == process::id()) {
                return Ok(Rc::clone(channel));
            }
            let (readable, writable) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
            Ok(Rc::clone(kept.insert(Rc::new(Self { readable, writable, process: process::id() }))))
        })
    }
}

/// The signals of a wait: the process's wake-up descriptor is that of the wait until [`Signals::end`].
struct Signals {
    channel: Rc<Channel>,
    /// The descriptor that another library, such as asyncio, has set.
    before: RawFd,
}

impl Signals {
    /// Returns `None` on a thread that handles no signals.
    fn watch(py: Python<'_>) -> PyResult<Option<Self>> {
        let channel = Channel::of_this_thread().map_err(std::io::Error::from)?;
        match set_wakeup_fd(py, channel.writable.as_raw_fd()) {
            Ok(before) => Ok(Some(Self { channel, before })),
            Err(refused) if refused.is_instance_of::<PyValueError>(py) => Ok(None),
            Err(refused) => Err(refused),
        }
    }

    /// Empties the pipe, and passes its signals on to the descriptor that was set before.
    fn forward(&self, py: Python<'_>) {
        let mut numbers = [0_u8; 64];
        while let Ok(count @ 1..) = io::read(&self.channel.readable, &mut numbers) {
            if self.before != -1 && self.before != self.channel.writable.as_raw_fd() {
                // If it is full, what reads it is awake already.
                let _ = py.import("os").and_then(|os| os.call_method1("write", (self.before, &numbers[..count])));
            }
        }
    }

    /// Sets the descriptor that was set before.
    fn end(self, py: Python<'_>) -> PyResult<()> {
        self.forward(py);
        // One that has been closed in the meantime is refused.
        set_wakeup_fd(py, self.before).or_else(|_| set_wakeup_fd(py, -1)).map(|_| ())
    }
}

/// Sets the process's wake-up descriptor. Returns the previous one, or -1.
fn set_wakeup_fd(py: Python<'_>, descriptor: RawFd) -> PyResult<RawFd> {
    static FUNCTION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static QUIETLY: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let function = FUNCTION.import(py, "signal", "set_wakeup_fd")?;
    let quietly =
        QUIETLY.get_or_try_init(py, || [("warn_on_full_buffer", false)].into_py_dict(py).map(Bound::unbind))?;
    function.call((descriptor,), Some(quietly.bind(py)))?.extract()
}
