//! Precise sleeps and intervals for asynchronous tasks, in any runtime on Linux, and many deadlines on one timer.
//!
//! | I want to | use |
//! | --- | --- |
//! | sleep in a task until a deadline, precise to microseconds | [`AsyncSleeper`] |
//! | run something in a task once per period, without drift | [`Interval`] |
//! | keep many deadlines, and cancel most of them, from any thread | [`Timers`]: callbacks, and futures for any runtime |
//! | give up on a future after a time | [`timeout`] |
//! | choose between precision and CPU time | [`Finish`] |
//! | test a whole program without waiting | `FrozenProcess` of hpt-core's feature `testing`: all of this crate follows its clock |
//! | give a driver its delays | [`AsyncSleeper`] implements `DelayNs` of embedded-hal-async (feature `embedded-hal-async`) |
//!
//! All deadlines are absolute [`hpt_core::Instant`]s. Nothing is early, as measured with this clock. Dropping a future
//! leaves no timer behind.
//!
//! ```
//! use std::{sync::mpsc, time::Duration};
//! use hpt_async::Timers;
//! use hpt_core::Instant;
//!
//! let timers = Timers::new()?;
//! let (sender, receiver) = mpsc::channel();
//! let deadline = Instant::now() + Duration::from_millis(1);
//! timers.call_at(deadline, move || sender.send(Instant::now()).expect("it is open"));
//! assert!(receiver.recv().expect("it was sent") >= deadline);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Features
//!
//! | feature | default | adds | dependency |
//! | --- | --- | --- | --- |
//! | `tokio` | no | `AsyncSleeper::tokio`: a timer of the kernel that tokio's reactor watches | tokio (feature `net`) |
//! | `async-io` | no | `AsyncSleeper::async_io`: the same for the reactor of smol and async-std | async-io |
//! | `embedded-hal-async` | no | `DelayNs` for [`AsyncSleeper`] | embedded-hal-async |
//! | `stream` | no | `Stream` for [`Interval`] | futures-core |
//!
//! Without features, `AsyncSleeper::timers` works in every runtime.
//!
//! # Limits
//!
//! - `CLOCK_MONOTONIC` stops while the machine is suspended, and so do all deadlines.
//! - On a thread that has entered a `FrozenClock`, a sleep advances that clock; calls of [`Timers::call_at`] run on another
//!   thread, which does not follow it. They follow `FrozenProcess`.
//! - In a child created by `fork`, create new [`Timers`] and sleepers: those of the parent panic there.
//! - This crate requires Linux: it waits on timers of the kernel (timerfd). hpt-core does not.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// The docs link to items behind features. Builds with all features still report broken links.
#![cfg_attr(not(all(feature = "tokio", feature = "async-io")), allow(rustdoc::broken_intra_doc_links))]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "hpt-async requires Linux: it waits on timers of the kernel; elsewhere, use hpt_core::Sleeper on a thread"
);

/// The example in the README is run as a test.
#[cfg(all(doctest, feature = "tokio"))]
#[doc = include_str!("../README.md")]
pub mod readme {}

mod alarm;
#[cfg(feature = "embedded-hal-async")]
mod delay;
mod finish;
mod interval;
mod margin;
mod sleeper;
mod timeout;
mod timerfd;
mod timers;

pub use self::{
    finish::Finish,
    interval::Interval,
    sleeper::{AsyncSleeper, PreciseSleep},
    timeout::{AnySleep, TimeoutError, timeout},
    timers::{Call, Sleep, Timers},
};
