//! The first reading of hpt's Instant in a new process.
//! For startup.rs, which starts it many times.

mod common;

fn main() {
    common::first_reading(hpt_core::Instant::now, |now| Some(now.as_nanos().cast_unsigned()));
}
