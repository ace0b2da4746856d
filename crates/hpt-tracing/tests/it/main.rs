//! Tests of hpt-tracing through its public API, with a subscriber and with time that the test sets.
#![allow(clippy::unwrap_used, reason = "a test may end with a panic")]

mod exports;
mod lines;
mod spans;
