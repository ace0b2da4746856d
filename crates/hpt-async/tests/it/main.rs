//! Tests of hpt-async through its public API, with real time. No test asserts how late something is.
#![allow(clippy::unwrap_used, reason = "a test may end with a panic")]

mod cancel;
#[cfg(feature = "embedded-hal-async")]
mod delay;
mod executor;
mod interval;
mod never_early;
mod panics;
mod timers;

use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);
