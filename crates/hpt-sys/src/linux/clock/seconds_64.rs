//! Clock reads for a 64-bit `time_t`: the C library and the kernel use the same types. The counterpart of
//! `seconds_32.rs`.

use super::Route;

/// The function that reads a clock.
pub(super) type Reader = Route;

/// The function that implements gettimeofday.
pub(super) type DayReader = Route;

impl Route {
    /// Returns the route unchanged, because there is nothing to look up on 64-bit machines.
    pub(super) const fn find(route: Self) -> Self {
        route
    }

    /// Returns the route unchanged, because there is nothing to look up on 64-bit machines.
    pub(super) const fn known(route: Self) -> Self {
        route
    }

    #[inline(always)]
    pub(super) fn nanos(self, id: libc::clockid_t) -> Option<u64> {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let answer = match self {
            // SAFETY: `now` is a live timespec that the call fills; with an unknown ID, the call fails with
            // EINVAL. clock_gettime(2).
            Self::Library => unsafe { libc::clock_gettime(id, &raw mut now) }.into(),
            // SAFETY: as above; the system call takes the same two arguments, and the C library's timespec is the same
            // as the kernel's on 64-bit machines.
            Self::SystemCall => unsafe { libc::syscall(libc::SYS_clock_gettime, id, &raw mut now) },
        };
        (answer == 0).then(|| join(now.tv_sec, now.tv_nsec))
    }

    #[inline(always)]
    #[expect(clippy::cast_sign_loss, reason = "modulo 2^64: differences across 1970 stay correct")]
    pub(super) fn microseconds(self) -> Option<u64> {
        let mut now = libc::timeval { tv_sec: 0, tv_usec: 0 };
        let no_zone = std::ptr::null_mut::<libc::c_void>();
        let answer = match self {
            // SAFETY: `now` is a live timeval that the call fills; a null time zone is allowed. gettimeofday(2).
            Self::Library => unsafe { libc::gettimeofday(&raw mut now, no_zone.cast()) }.into(),
            // SAFETY: as above; the system call takes the same two arguments.
            Self::SystemCall => unsafe { libc::syscall(libc::SYS_gettimeofday, &raw mut now, no_zone) },
        };
        (answer == 0).then(|| (now.tv_sec as u64).wrapping_mul(1_000_000).wrapping_add(now.tv_usec as u64))
    }
}

/// Converts the C library's timespec to nanoseconds.
pub(super) const fn join_native(time: &libc::timespec) -> u64 {
    join(time.tv_sec, time.tv_nsec)
}

/// Converts seconds and nanoseconds to nanoseconds, modulo 2^64.
#[inline(always)]
#[expect(clippy::cast_sign_loss, reason = "modulo 2^64: differences across the epoch stay correct")]
pub(super) const fn join(seconds: i64, nanoseconds: i64) -> u64 {
    (seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(nanoseconds as u64)
}
