//! The first reading of fastant's Instant in a new process.
//! For startup.rs, which starts it many times.

mod common;

fn main() {
    common::first_reading(fastant::Instant::now, |_| None);
}
