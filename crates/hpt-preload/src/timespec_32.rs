//! Seconds and nanoseconds on machines whose `time_t` originally had 32 bits: two structures, two functions. The
//! counterpart of `timespec_64.rs`.

use crate::next::{Next, Timespec};

/// `struct __kernel_timespec` (include/uapi/linux/time_types.h), which has the layout of glibc's `__timespec64` on
/// little-endian machines; the upper half of the nanoseconds is padding there.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Timespec64 {
    seconds: i64,
    nanoseconds: i64,
}

/// The number of the system call, the same on every 32-bit architecture; the libc crate does not define it on ARM.
/// Linux, arch/arm/tools/syscall.tbl, `clock_gettime64`.
const CLOCK_GETTIME64: libc::c_long = 403;

// SAFETY: clock_gettime(2) and clock_gettime(3): this name and this number use the 32-bit `time_t`, like the libc
// crate's timespec.
static NEXT: Next<libc::timespec> = unsafe { Next::new(c"clock_gettime", libc::SYS_clock_gettime) };
// SAFETY: the name uses the 64-bit `time_t` (glibc 2.34 time.h under __USE_TIME_BITS64, musl 1.2), and so does the
// number.
static NEXT_64: Next<Timespec64> = unsafe { Next::new(c"__clock_gettime64", CLOCK_GETTIME64) };

impl Timespec for libc::timespec {
    fn next() -> &'static Next<Self> {
        &NEXT
    }

    /// Creates the structure; the seconds saturate at 32 bits, after 68 years of uptime.
    fn new(seconds: i64, nanoseconds: u32) -> Self {
        Self { tv_sec: i32::try_from(seconds).unwrap_or(i32::MAX), tv_nsec: i32::try_from(nanoseconds).unwrap_or(0) }
    }
}

impl Timespec for Timespec64 {
    fn next() -> &'static Next<Self> {
        &NEXT_64
    }

    fn new(seconds: i64, nanoseconds: u32) -> Self {
        Self { seconds, nanoseconds: nanoseconds.into() }
    }
}

/// Looks up all functions that follow this library's.
pub(crate) fn look_up_next() {
    NEXT.look_up();
    NEXT_64.look_up();
}
