//! Pauses a thread.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Pauses the thread for at least `duration`. Unlike `std::thread::sleep`, this function does not panic if a sandbox
/// refuses clock_nanosleep(2).
pub(crate) fn pause(duration: Duration) {
    let begun = Instant::now();
    loop {
        let left = duration.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return;
        }
        // It can return early.
        thread::park_timeout(left);
    }
}
