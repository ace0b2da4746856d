//! Waits without the GIL, and ends a wait of the main thread when a signal arrives. The sleepers of hpt-core do the
//! precise part.
//!
//! CPython's signal handler only sets a flag and writes to the file descriptor of `signal.set_wakeup_fd`. A system call
//! that a signal ends is not enough: a signal between the look at the flag and the system call would be lost until the
//! deadline. A wait therefore has a descriptor of its own for as long as it lasts, and blocks until it is readable. The
//! last millisecond is left to the sleeper, which no signal ends.
//!
//! The program may close the descriptor, as daemons do, or set another one in a signal's handler: a wait looks before it
//! uses it. While no descriptor is free, it blocks in slices instead.

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
    fs::fstat,
    io,
    pipe::{PipeFlags, pipe_with},
};

use crate::{sleeper::Woken, testing};

/// The interval at which a wait looks for signals while no descriptor is free.
const SLICE: Duration = Duration::from_millis(50);
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
    if attached < deadline {
        drop(Bound::new(py, Woken::at(deadline)));
        warm(py)?;
    }
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
    let mut signals = Signals { channel: None, before: -1 };
    let waited = wait_beside(py, deadline, &mut signals);
    let restored = signals.release(py);
    waited.and(restored)
}

fn wait_beside(py: Python<'_>, deadline: Instant, signals: &mut Signals) -> PyResult<()> {
    loop {
        py.check_signals()?;
        let left = deadline.remaining();
        if left <= UNINTERRUPTED {
            return Ok(());
        }
        match signals.hold(py)? {
            Held::ByAnotherThread => return Ok(()),
            // A signal may have arrived before.
            Held::Anew => continue,
            Held::Still => (),
        }
        // The kernel may be late by 0.5 % of the time, in addition to the timer slack.
        let coarse = left.saturating_sub(LEFT).saturating_sub(left / 100);
        let readable = signals.channel.as_ref().and_then(|channel| channel.readable.descriptor.as_ref());
        py.detach(|| block(readable, coarse));
        signals.forward(py);
    }
}

/// Blocks until `readable` is, or for `coarse`; without it, until a signal arrives, or for [`SLICE`]. May return early.
fn block(readable: Option<&OwnedFd>, coarse: Duration) {
    let longest = if readable.is_some() { coarse } else { coarse.min(SLICE) };
    let seconds = longest.as_secs().min(1 << 24).try_into().unwrap_or(1 << 24);
    let timeout = Timespec { tv_sec: seconds, tv_nsec: longest.subsec_nanos().into() };
    let readable = readable.map(|readable| PollFd::new(readable, PollFlags::IN));
    // An error is that of a signal.
    let _ = poll(&mut Vec::from_iter(readable), Some(&timeout));
}

/// One end of a pipe. The program may close each of its descriptors, also this one, whose number may then be that of
/// another file.
#[derive(Debug)]
struct End {
    /// `Some` until it is dropped.
    descriptor: Option<OwnedFd>,
    number: RawFd,
    /// The device and the inode of the pipe.
    file: (u64, u64),
}

impl End {
    fn new(descriptor: OwnedFd) -> io::Result<Self> {
        Ok(Self { number: descriptor.as_raw_fd(), file: Self::file(&descriptor)?, descriptor: Some(descriptor) })
    }

    fn file(descriptor: &OwnedFd) -> io::Result<(u64, u64)> {
        fstat(descriptor).map(|stat| (stat.st_dev, stat.st_ino))
    }

    /// Returns whether the descriptor is still that of the pipe.
    fn is_intact(&self) -> bool {
        self.descriptor.as_ref().is_some_and(|descriptor| Self::file(descriptor) == Ok(self.file))
    }
}

impl Drop for End {
    /// Closes the descriptor, unless the program has closed it: its number may then be that of another file.
    fn drop(&mut self) {
        if !self.is_intact() {
            std::mem::forget(self.descriptor.take());
        }
    }
}

/// The pipe to which CPython's signal handler writes. A forked child has one of its own.
#[derive(Debug)]
struct Channel {
    readable: End,
    writable: End,
    process: u32,
}

thread_local!(static CHANNEL: RefCell<Option<Rc<Channel>>> = const { RefCell::new(None) });

impl Channel {
    /// Returns `None` if no descriptor is free.
    fn of_this_thread() -> Option<Rc<Self>> {
        CHANNEL.with_borrow_mut(|kept| {
            if let Some(channel) = kept.as_ref().filter(|channel| channel.is_intact()) {
                return Some(Rc::clone(channel));
            }
            let (readable, writable) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
            let (readable, writable) = (End::new(readable).ok()?, End::new(writable).ok()?);
            Some(Rc::clone(kept.insert(Rc::new(Self { readable, writable, process: process::id() }))))
        })
    }

    /// Returns whether both ends are still those that this process has created.
    fn is_intact(&self) -> bool {
        self.process == process::id() && self.readable.is_intact() && self.writable.is_intact()
    }
}

/// Whether the process's wake-up descriptor is that of a wait.
enum Held {
    /// It was before, or no descriptor is free.
    Still,
    /// It is from now on.
    Anew,
    /// This thread handles no signals.
    ByAnotherThread,
}

/// The signals of a wait: the process's wake-up descriptor is that of the wait until [`Signals::release`].
struct Signals {
    /// `None` until the first [`Signals::hold`], and as long as no descriptor is free.
    channel: Option<Rc<Channel>>,
    /// The descriptor that another library, such as asyncio, or a signal's handler has set.
    before: RawFd,
}

impl Signals {
    /// Makes the process's wake-up descriptor that of the wait. The code of a signal's handler may have set another one,
    /// or closed this one.
    fn hold(&mut self, py: Python<'_>) -> PyResult<Held> {
        if self.channel.as_ref().is_some_and(|channel| !channel.is_intact()) {
            self.release(py)?;
        }
        let number = match &self.channel {
            Some(channel) => channel.writable.number,
            None => return self.hold_anew(py),
        };
        match set_wakeup_fd(py, number)? {
            current if current == number => Ok(Held::Still),
            current => {
                self.before = current;
                Ok(Held::Anew)
            }
        }
    }

    fn hold_anew(&mut self, py: Python<'_>) -> PyResult<Held> {
        let Some(channel) = Channel::of_this_thread() else { return Ok(Held::Still) };
        match set_wakeup_fd(py, channel.writable.number) {
            Ok(before) => {
                (self.channel, self.before) = (Some(channel), before);
                Ok(Held::Anew)
            }
            Err(refused) if refused.is_instance_of::<PyValueError>(py) => Ok(Held::ByAnotherThread),
            Err(refused) => Err(refused),
        }
    }

    /// Empties the pipe, and passes its signals on to the descriptor that was set before.
    fn forward(&self, py: Python<'_>) {
        let Some(channel) = self.channel.as_ref().filter(|channel| channel.is_intact()) else { return };
        let Some(readable) = &channel.readable.descriptor else { return };
        let mut numbers = [0_u8; 64];
        while let Ok(count @ 1..) = io::read(readable, &mut numbers) {
            if self.before != -1 && self.before != channel.writable.number {
                // If it is full, what reads it is awake already.
                let _ = py.import("os").and_then(|os| os.call_method1("write", (self.before, &numbers[..count])));
            }
        }
    }

    /// Sets the descriptor that was set before, unless a signal's handler has set another one.
    fn release(&mut self, py: Python<'_>) -> PyResult<()> {
        self.forward(py);
        let Some(channel) = self.channel.take() else { return Ok(()) };
        // One that has been closed in the meantime is refused.
        let set = |descriptor| set_wakeup_fd(py, descriptor).or_else(|_| set_wakeup_fd(py, -1));
        let current = set(self.before)?;
        if current == channel.writable.number { Ok(()) } else { set(current).map(drop) }
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
