//! The integration tests of hpt-instrument, in one program: the doctor on captured machines.

#![allow(clippy::disallowed_methods, reason = "tests wait, and write files of their own")]

#[macro_use(skipped)]
extern crate hpt_sys;

mod doctor;
mod rules;
mod strangers;
