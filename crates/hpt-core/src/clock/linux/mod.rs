//! The system clock of Linux, on targets with 64-bit atomics: it follows `CLOCK_MONOTONIC` with a counter.

mod bound;
#[cfg(test)]
mod contention;
pub(super) mod discipline;
mod follower;
mod following;
mod published;
mod segment;
pub(super) mod system;
mod trust;
mod vmclock;

use hpt_sys::clock_words;
