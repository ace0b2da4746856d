//! No reading: measures the overhead of the measurement itself and of an empty program, in a new
//! process. For startup.rs, which starts it many times.

mod common;

fn main() {
    common::first_reading(|| (), |()| None);
}
