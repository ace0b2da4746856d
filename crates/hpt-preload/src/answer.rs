//! What is answered, and by whom.
//! Does not know how a timespec is laid out: `timespec` does.

use hpt_core::Instant;

use crate::{errno::Errno, next::Timespec, own_code, process};

/// `clock_gettime`, called from the address `caller`: 0, or -1 and `errno`.
///
/// # Safety
///
/// `time` is null or may be written to.
pub(crate) unsafe extern "C" fn answer<T: Timespec>(id: libc::clockid_t, time: *mut T, caller: usize) -> libc::c_int {
    if own_code::contains(caller) {
        // SAFETY: our caller's promise about `time` is the one that is asked for.
        return unsafe { T::next().call(id, time) };
    }
    if id != libc::CLOCK_MONOTONIC || time.is_null() {
        process::PASSED_ON.add_one();
        // SAFETY: as above; what becomes of a null pointer is the next function's to say.
        return unsafe { T::next().call(id, time) };
    }
    // The first call asks the kernel this and that, and not all of it succeeds.
    let errno = Errno::now();
    let (seconds, nanoseconds) = Instant::now().to_timespec();
    errno.restore();
    // SAFETY: the pointer is not null, so by our caller's promise it may be written to. Unaligned: the C library's own function does not mind
    // either where the machine does not. pointer, `write_unaligned`.
    unsafe { time.write_unaligned(T::new(seconds, nanoseconds)) };
    process::SERVED.add_one();
    0
}
