//! The integration tests of hpt-core, in one program: captured machines, and this machine.

#![allow(clippy::disallowed_methods, reason = "tests wait, and write files of their own")]

#[macro_use(skipped)]
extern crate hpt_sys;

mod support;

mod edges;
mod features;
#[cfg(feature = "serde")]
mod hosts;
mod instants;
#[cfg(all(feature = "serde", feature = "testing"))]
mod laws;
mod live;
mod sleeps;
