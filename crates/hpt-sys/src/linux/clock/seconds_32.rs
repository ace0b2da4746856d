//! Clock reads for a C library whose `time_t` may have 32 bits: the wall clock is nevertheless read with 64-bit
//! seconds. The counterpart of `seconds_64.rs`.
//!
//! glibc 2.34 and musl 1.2 export `__clock_gettime64`, which uses the vDSO; this function is looked up once. If it does
//! not exist (in older versions, and in static programs, which export nothing), the plain `clock_gettime` is called. If
//! that fails with EOVERFLOW, as in glibc after 2038, the system call clock_gettime64 (Linux 5.1) is used. On older
//! kernels, the old system call is used. Its truncated seconds are read as unsigned numbers, which is correct until
//! 2106.

use core::{
    mem::transmute,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering},
};

use super::Route;
use crate::cast::unsigned;

/// `struct __kernel_timespec` (include/uapi/linux/time_types.h), which glibc's `__timespec64` overlays on little-endian
/// machines.
#[repr(C)]
pub(super) struct Timespec64 {
    seconds: i64,
    nanoseconds: i64,
}

/// glibc's `__timeval64`: both members have 64 bits.
#[repr(C)]
pub(super) struct Timeval64 {
    seconds: i64,
    microseconds: i64,
}

/// The number of the system call, which is the same on every 32-bit architecture. The libc crate does not define it on
/// ARM. Linux, arch/arm/tools/syscall.tbl, `clock_gettime64`.
const CLOCK_GETTIME64: libc::c_long = 403;

type Gettime64 = unsafe extern "C" fn(libc::clockid_t, *mut Timespec64) -> libc::c_int;
type Gettimeofday64 = unsafe extern "C" fn(*mut Timeval64, *mut libc::c_void) -> libc::c_int;

/// The function that reads a clock.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reader {
    Library(Gettime64),
    PlainLibrary,
    SystemCall64,
    SystemCall32,
}

static GETTIME: Symbol = Symbol::new(c"__clock_gettime64");

impl Reader {
    /// Looks up the C library's function. Must not be called in a signal handler.
    pub(super) fn find(route: Route) -> Self {
        GETTIME.look_up();
        Self::known(route)
    }

    /// Returns the best function known so far. May be called in a signal handler.
    pub(super) fn known(route: Route) -> Self {
        /// Whether the kernel has the system call with 64-bit seconds: 0 means not tried, 1 yes, 2 no.
        static HAS_64: AtomicU8 = AtomicU8::new(0);
        if let (Route::Library, Some(address)) = (route, GETTIME.address()) {
            // SAFETY: the C library's symbol of this name has this signature (glibc 2.34 time.h under
            // __USE_TIME_BITS64, musl 1.2).
            return Self::Library(unsafe { transmute::<*mut libc::c_void, Gettime64>(address) });
        }
        if route == Route::Library {
            return Self::PlainLibrary;
        }
        let has_64 = match HAS_64.load(Ordering::Relaxed) {
            0 => {
                let answers = Self::SystemCall64.nanos(libc::CLOCK_MONOTONIC).is_some();
                HAS_64.store(if answers { 1 } else { 2 }, Ordering::Relaxed);
                answers
            }
            tried => tried == 1,
        };
        if has_64 { Self::SystemCall64 } else { Self::SystemCall32 }
    }

    #[inline(always)]
    pub(super) fn nanos(self, id: libc::clockid_t) -> Option<u64> {
        let mut now = Timespec64 { seconds: 0, nanoseconds: 0 };
        let answer = match self {
            // SAFETY: `now` is live and has the layout that the function fills; with an unknown ID, it fails with
            // EINVAL.
            Self::Library(gettime) => unsafe { gettime(id, &raw mut now) },
            Self::PlainLibrary => return Self::plain(id),
            // SAFETY: as above; clock_gettime64 takes the same two arguments.
            Self::SystemCall64 => unsafe { libc::syscall(CLOCK_GETTIME64, id, &raw mut now) },
            Self::SystemCall32 => return Self::nanoseconds_before_5_1(id),
        };
        (answer == 0).then(|| join(now.seconds, now.nanoseconds))
    }

    fn plain(id: libc::clockid_t) -> Option<u64> {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `now` is a live timespec that the call fills; with an unknown ID, the call fails with EINVAL.
        // clock_gettime(2).
        let answer = unsafe { libc::clock_gettime(id, &raw mut now) };
        if answer == 0 { Some(join_native(&now)) } else { Self::known(Route::SystemCall).nanos(id) }
    }

    fn nanoseconds_before_5_1(id: libc::clockid_t) -> Option<u64> {
        let mut now = [0_i32; 2];
        // SAFETY: the old system call fills two 32-bit words. clock_gettime(2), struct old_timespec32.
        let answer = unsafe { libc::syscall(libc::SYS_clock_gettime, id, now.as_mut_ptr()) };
        (answer == 0).then(|| join(i64::from(u32::from_ne_bytes(now[0].to_ne_bytes())), i64::from(now[1])))
    }
}

/// The function that implements gettimeofday.
#[derive(Clone, Copy, Debug)]
pub(super) enum DayReader {
    Library(Gettimeofday64),
    PlainLibrary,
    SystemCall32,
}

impl DayReader {
    pub(super) fn find(route: Route) -> Self {
        static GETTIMEOFDAY: Symbol = Symbol::new(c"__gettimeofday64");
        GETTIMEOFDAY.look_up();
        if let (Route::Library, Some(address)) = (route, GETTIMEOFDAY.address()) {
            // SAFETY: the C library's symbol of this name has this signature (glibc 2.34 sys/time.h under
            // __USE_TIME_BITS64).
            return Self::Library(unsafe { transmute::<*mut libc::c_void, Gettimeofday64>(address) });
        }
        match route {
            Route::Library => Self::PlainLibrary,
            Route::SystemCall => Self::SystemCall32,
        }
    }

    #[inline(always)]
    pub(super) fn microseconds(self) -> Option<u64> {
        let no_zone = core::ptr::null_mut::<libc::c_void>();
        let (answer, seconds, microseconds) = match self {
            Self::Library(gettimeofday) => {
                let mut now = Timeval64 { seconds: 0, microseconds: 0 };
                // SAFETY: `now` is live and has the layout that the function fills; a null time zone is allowed.
                let answer = unsafe { gettimeofday(&raw mut now, no_zone) };
                (answer, now.seconds, now.microseconds)
            }
            Self::PlainLibrary => {
                let mut now = libc::timeval { tv_sec: 0, tv_usec: 0 };
                // SAFETY: `now` is a live timeval that the call fills; a null time zone is allowed. gettimeofday(2).
                let answer = unsafe { libc::gettimeofday(&raw mut now, no_zone.cast()) };
                if answer != 0 {
                    return Self::SystemCall32.microseconds();
                }
                (0, now.tv_sec.into(), now.tv_usec.into())
            }
            Self::SystemCall32 => {
                let mut now = [0_i32; 2];
                // SAFETY: the system call fills two 32-bit words; there is no 64-bit form of it. gettimeofday(2),
                // struct old_timeval32.
                let answer = unsafe { libc::syscall(libc::SYS_gettimeofday, now.as_mut_ptr(), no_zone) };
                (answer, i64::from(u32::from_ne_bytes(now[0].to_ne_bytes())), i64::from(now[1]))
            }
        };
        (answer == 0).then(|| unsigned(seconds).wrapping_mul(1_000_000).wrapping_add(unsigned(microseconds)))
    }
}

/// A symbol of the C library, looked up once.
struct Symbol {
    name: &'static core::ffi::CStr,
    found: AtomicPtr<libc::c_void>,
    looked_up: AtomicBool,
}

impl Symbol {
    const fn new(name: &'static core::ffi::CStr) -> Self {
        Self { name, found: AtomicPtr::new(core::ptr::null_mut()), looked_up: AtomicBool::new(false) }
    }

    /// Returns the address of the symbol; `None` if it has not been looked up or the library does not have it.
    fn address(&self) -> Option<*mut libc::c_void> {
        let found = self.found.load(Ordering::Relaxed);
        (!found.is_null()).then_some(found)
    }

    /// Looks up the symbol. Allocates in a static program, so it must not be called in a signal handler.
    fn look_up(&self) {
        if self.looked_up.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: the name is a NUL-terminated string that outlives the call. dlsym(3).
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, self.name.as_ptr()) };
        self.found.store(address, Ordering::Relaxed);
        self.looked_up.store(true, Ordering::Relaxed);
    }
}

/// Converts the C library's timespec, whose members have 32 or 64 bits, to nanoseconds.
pub(super) fn join_native(time: &libc::timespec) -> u64 {
    join(time.tv_sec.into(), time.tv_nsec.into())
}

/// Converts seconds and nanoseconds to nanoseconds, modulo 2^64. The upper half of a C library's nanoseconds may be
/// padding.
#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the nanoseconds within a second are less than 2^30; the rest may be padding"
)]
pub(super) const fn join(seconds: i64, nanoseconds: i64) -> u64 {
    let nanoseconds = unsigned(nanoseconds) as u32;
    unsigned(seconds).wrapping_mul(1_000_000_000).wrapping_add(nanoseconds as u64)
}
