//! The first reading of minstant's Instant in a new process.
//! For startup.rs, which starts it many times.

mod common;

fn main() {
    common::first_reading(minstant::Instant::now, |_| None);
}
