//! Seconds and nanoseconds on machines whose `time_t` has 64 bits: one structure, one function. The counterpart of
//! `timespec_32.rs`.

use crate::next::{Next, Timespec};

// SAFETY: clock_gettime(2) and clock_gettime(3): on 64 bits the C library's timespec is the kernel's.
static NEXT: Next<libc::timespec> = unsafe { Next::new(c"clock_gettime", libc::SYS_clock_gettime) };

impl Timespec for libc::timespec {
    fn next() -> &'static Next<Self> {
        &NEXT
    }

    fn new(seconds: i64, nanoseconds: u32) -> Self {
        Self { tv_sec: seconds, tv_nsec: nanoseconds.into() }
    }
}

/// Looks up all functions that follow this library's.
pub(crate) fn look_up_next() {
    NEXT.look_up();
}
