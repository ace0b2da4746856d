//! The first reading of nobody: what the measurement itself costs, and an empty program, in a fresh process.
//! For startup.rs, which starts it many times.

mod common;

fn main() {
    common::first_reading(|| (), |()| None);
}
