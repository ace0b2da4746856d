//! `clock_gettime`, `clock_getres` and gettimeofday, through the C library or with a system call. Does not decide which
//! route to take; `source::posix` does.

#[cfg_attr(target_pointer_width = "64", path = "seconds_64.rs")]
#[cfg_attr(target_pointer_width = "32", path = "seconds_32.rs")]
mod kernel;
mod route;

use std::{io, os::fd::RawFd};

pub use self::route::Route;

/// The clocks that every Linux kernel since 3.10 has. A sandbox may still refuse access to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClockId {
    Realtime,
    Monotonic,
    MonotonicRaw,
    Boottime,
    Tai,
    RealtimeCoarse,
    MonotonicCoarse,
    ProcessCpu,
    ThreadCpu,
}

impl ClockId {
    /// All of these clocks.
    pub const ALL: [Self; 9] = [
        Self::Realtime,
        Self::Monotonic,
        Self::MonotonicRaw,
        Self::Boottime,
        Self::Tai,
        Self::RealtimeCoarse,
        Self::MonotonicCoarse,
        Self::ProcessCpu,
        Self::ThreadCpu,
    ];

    /// Returns the kernel's name for the clock.
    pub const fn kernel_name(self) -> &'static str {
        match self {
            Self::Realtime => "CLOCK_REALTIME",
            Self::Monotonic => "CLOCK_MONOTONIC",
            Self::MonotonicRaw => "CLOCK_MONOTONIC_RAW",
            Self::Boottime => "CLOCK_BOOTTIME",
            Self::Tai => "CLOCK_TAI",
            Self::RealtimeCoarse => "CLOCK_REALTIME_COARSE",
            Self::MonotonicCoarse => "CLOCK_MONOTONIC_COARSE",
            Self::ProcessCpu => "CLOCK_PROCESS_CPUTIME_ID",
            Self::ThreadCpu => "CLOCK_THREAD_CPUTIME_ID",
        }
    }

    /// Returns the resolution that `clock_getres` reports for the clock, in nanoseconds.
    pub fn resolution_ns(self) -> io::Result<u64> {
        let mut claimed = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `claimed` is a live timespec that the call may fill; with an unknown ID, the call
        // fails with EINVAL. clock_getres(2).
        let answer = unsafe { libc::clock_getres(self.raw(), &raw mut claimed) };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(kernel::join_native(&claimed))
    }

    const fn raw(self) -> libc::clockid_t {
        match self {
            Self::Realtime => libc::CLOCK_REALTIME,
            Self::Monotonic => libc::CLOCK_MONOTONIC,
            Self::MonotonicRaw => libc::CLOCK_MONOTONIC_RAW,
            Self::Boottime => libc::CLOCK_BOOTTIME,
            Self::Tai => libc::CLOCK_TAI,
            Self::RealtimeCoarse => libc::CLOCK_REALTIME_COARSE,
            Self::MonotonicCoarse => libc::CLOCK_MONOTONIC_COARSE,
            Self::ProcessCpu => libc::CLOCK_PROCESS_CPUTIME_ID,
            Self::ThreadCpu => libc::CLOCK_THREAD_CPUTIME_ID,
        }
    }
}

/// A clock that has been read once through this route, so that later reads cannot fail.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    id: libc::clockid_t,
    by: kernel::Reader,
}

impl Clock {
    /// Opens a clock by reading it once.
    ///
    /// # Errors
    ///
    /// Returns the error from the kernel or from a sandbox: EINVAL, EPERM, or ENOSYS.
    pub fn open(clock: ClockId, route: Route) -> io::Result<Self> {
        let clock = Self { id: clock.raw(), by: kernel::Reader::find(route) };
        clock.by.nanos(clock.id).map(|_| clock).ok_or_else(io::Error::last_os_error)
    }

    /// Opens the clock of an open clock device by reading it once. The clock is read with a system call, because the
    /// vDSO does not support such clocks. Readings are zero after the file is closed.
    ///
    /// # Errors
    ///
    /// Returns the error from the kernel: EINVAL for a file of another kind, or ENODEV for a device that was removed.
    pub fn of_descriptor(descriptor: RawFd) -> io::Result<Self> {
        let clock = Self { id: clock_id(descriptor), by: kernel::Reader::find(Route::SystemCall) };
        clock.by.nanos(clock.id).map(|_| clock).ok_or_else(io::Error::last_os_error)
    }

    /// Returns the clock without reading it first. The clock must be one that every kernel has. May be called in a
    /// signal handler.
    #[inline]
    pub fn unasked(clock: ClockId, route: Route) -> Self {
        Self { id: clock.raw(), by: kernel::Reader::known(route) }
    }

    /// Returns the nanoseconds since the clock's epoch, modulo 2^64. The result is zero if a sandbox has forbidden
    /// access since the clock was opened.
    #[inline(always)]
    pub fn nanos(self) -> u64 {
        self.by.nanos(self.id).unwrap_or(0)
    }
}

/// Returns the kernel's clock ID of an open clock device: its descriptor inverted, above the type bits. Linux,
/// include/linux/posix-timers.h, `CLOCKFD`.
const fn clock_id(descriptor: RawFd) -> libc::clockid_t {
    const CLOCKFD: libc::clockid_t = 3;
    (!descriptor << 3) | CLOCKFD
}

/// The function gettimeofday, which has been called once through this route, so that later calls cannot fail.
#[derive(Clone, Copy, Debug)]
pub struct TimeOfDay {
    by: kernel::DayReader,
}

impl TimeOfDay {
    /// Calls gettimeofday once to check the route.
    pub fn open(route: Route) -> io::Result<Self> {
        let clock = Self { by: kernel::DayReader::find(route) };
        clock.by.microseconds().map(|_| clock).ok_or_else(io::Error::last_os_error)
    }

    /// Returns the microseconds since 1970, modulo 2^64.
    #[inline(always)]
    pub fn microseconds(self) -> u64 {
        self.by.microseconds().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, ClockId, Route, TimeOfDay, clock_id};

    #[test]
    fn both_routes_read_the_same_clock() {
        let by_library = Clock::open(ClockId::Monotonic, Route::Library).expect("every kernel has this clock");
        let by_call = Clock::open(ClockId::Monotonic, Route::SystemCall).expect("every kernel has this clock");
        let (first, second, third) = (by_library.nanos(), by_call.nanos(), by_library.nanos());
        assert!(first <= second && second <= third, "{first} {second} {third}");
    }

    #[test]
    fn every_route_reads_a_wall_time_after_2020() {
        const YEAR_2020_US: u64 = 1_577_836_800_000_000;
        for route in [Route::Library, Route::SystemCall] {
            let nanoseconds = Clock::open(ClockId::Realtime, route).expect("every kernel has this clock").nanos();
            let microseconds = TimeOfDay::open(route).expect("every kernel has this clock").microseconds();
            assert!(nanoseconds / 1000 > YEAR_2020_US && microseconds > YEAR_2020_US, "{route:?}");
            assert!(microseconds.abs_diff(nanoseconds / 1000) < 60_000_000, "{route:?}");
        }
    }

    #[test]
    fn a_clock_id_encodes_its_file_descriptor() {
        assert_eq!((clock_id(0), clock_id(3)), (-5, -29));
    }
}
