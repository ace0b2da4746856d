//! Precise sleeps and intervals for asynchronous tasks, in any runtime on Linux, and many deadlines on one timer.
//!
//! | I want to | use |
//! | --- | --- |
//! | sleep in a task until a deadline, precise to microseconds | [`AsyncSleeper`] |
//! | run something in a task once per period, without drift | [`Interval`] |
//! | keep many deadlines, and cancel most of them, from any thread | [`Timers`]: callbacks, and futures for any runtime |
//! | choose between precision and CPU time | [`Finish`] |
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
//!
//! Without features, `AsyncSleeper::timers` works in every runtime.
//!
//! # Limits
//!
//! - `CLOCK_MONOTONIC` stops while the machine is suspended, and so do all deadlines.
//! - The kernel does not know the time of `hpt_core::testing::FrozenClock`: do not sleep in tests that enter one.
//! - This crate requires Linux, as hpt-core does.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// The docs link to items behind features. Builds with all features still report broken links.
#![cfg_attr(not(all(feature = "tokio", feature = "async-io")), allow(rustdoc::broken_intra_doc_links))]

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
mod timerfd;
mod timers;

pub use self::{
    finish::Finish,
    interval::{Interval, Tick},
    sleeper::{AsyncSleeper, PreciseSleep},
    timers::{Call, Sleep, Timers},
};
