//! The first reading of the standard library's Instant in a new process.
//! For startup.rs, which starts it many times.

mod common;

fn main() {
    common::first_reading(std::time::Instant::now, |_| None);
}
