//! Decides which function serves a call. Independent of the layout of a timespec; `timespec` defines it.

use hpt_core::Instant;

use crate::{errno::Errno, next::Timespec, own_code, process};

/// Serves a call of `clock_gettime` from the address `caller`. Returns 0, or -1 and sets `errno`.
///
/// # Safety
///
/// `time` is null or may be written to.
pub(crate) unsafe extern "C" fn answer<T: Timespec>(id: libc::clockid_t, time: *mut T, caller: usize) -> libc::c_int {
    if own_code::contains(caller) {
        // SAFETY: the caller's promise about `time` is the required one.
        return unsafe { T::next().call(id, time) };
    }
    if id != libc::CLOCK_MONOTONIC || time.is_null() {
        process::PASSED_ON.add_one();
        // SAFETY: as above; the next function handles a null pointer.
        return unsafe { T::next().call(id, time) };
    }
    // The first call makes several system calls, some of which may fail.
    let errno = Errno::now();
    let (seconds, nanoseconds) = Instant::now().to_timespec();
    errno.restore();
    // SAFETY: the pointer is not null, so by the caller's promise it may be written to. The write is unaligned, because
    // the C library's own function accepts an unaligned pointer too, if the machine does. See `write_unaligned` of the
    // primitive type pointer.
    unsafe { time.write_unaligned(T::new(seconds, nanoseconds)) };
    process::SERVED.add_one();
    0
}
