//! The first reading of quanta's Instant in a new process.
//! For startup.rs, which starts it many times.

mod common;

fn main() {
    common::first_reading(quanta::Instant::now, |_| None);
}
