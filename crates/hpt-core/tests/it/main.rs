//! The integration tests of hpt-core, in one program: captured machines, and this machine.

#![allow(clippy::disallowed_methods, reason = "tests wait, and write files of their own")]

#[macro_use]
#[cfg_attr(not(feature = "realtime"), allow(dead_code))]
mod support;

#[cfg(all(feature = "diagnose", feature = "serde"))]
mod captures;
#[cfg(all(feature = "diagnose", feature = "serde"))]
mod doctor;
mod edges;
mod features;
#[cfg(feature = "serde")]
mod hosts;
mod instants;
#[cfg(all(feature = "serde", feature = "testing"))]
mod laws;
#[cfg(feature = "realtime")]
mod live;
#[cfg(all(feature = "diagnose", feature = "serde"))]
mod rules;
mod sleeps;
#[cfg(all(feature = "diagnose", feature = "serde"))]
mod strangers;
