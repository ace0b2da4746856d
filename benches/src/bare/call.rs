//! Reads the kernel's clocks with system calls, for programs that measure another clock's first
//! reading. Does not use the C library: its first call would map and warm up pages for the measured
//! clock.
#![expect(unsafe_code, reason = "a system call")]

/// Returns `CLOCK_MONOTONIC` in nanoseconds; zero if a sandbox denies it.
pub(crate) fn monotonic_ns() -> i64 {
    nanos(libc::CLOCK_MONOTONIC)
}

/// Returns the CPU time of the calling thread in nanoseconds.
pub(crate) fn thread_cpu_ns() -> i64 {
    nanos(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the CPU time of the process in nanoseconds.
pub(crate) fn process_cpu_ns() -> i64 {
    nanos(libc::CLOCK_PROCESS_CPUTIME_ID)
}

#[allow(clippy::useless_conversion, reason = "the fields have 32 bits on 32-bit machines")]
fn nanos(clock: libc::clockid_t) -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a live structure of the layout that this call of the C library's own ABI
    // fills, and outlives the call; one that fails leaves it as it is. clock_gettime(2),
    // syscall(2).
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &raw mut now) };
    i64::from(now.tv_sec) * 1_000_000_000 + i64::from(now.tv_nsec)
}
