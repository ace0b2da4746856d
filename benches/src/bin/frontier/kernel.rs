//! Sleeps with the kernel alone.

use hpt_core::Instant;
use rustix::{
    thread::{ClockId, clock_nanosleep_absolute},
    time::Timespec,
};

pub(crate) fn nanosleep_until(deadline: Instant) {
    let (tv_sec, nanoseconds) = deadline.to_timespec();
    let moment = Timespec { tv_sec, tv_nsec: nanoseconds.into() };
    while clock_nanosleep_absolute(ClockId::Monotonic, &moment).is_err() {}
}
