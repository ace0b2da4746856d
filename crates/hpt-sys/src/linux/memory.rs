//! Resident memory: mlockall(2), and the extent of the calling thread's stack. Does not count the users of the lock;
//! `realtime` does.

use std::{io, mem::MaybeUninit};

use rustix::mm::{MlockAllFlags, mlockall, munlockall};

/// Keeps all current and future pages of the process in memory.
pub fn lock_all() -> io::Result<()> {
    Ok(mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)?)
}

/// Allows the kernel to page out the pages of the process again.
pub fn unlock_all() -> io::Result<()> {
    Ok(munlockall()?)
}

/// Returns the lowest address that the calling thread's stack may grow to; `None` if the C library does not report it.
pub fn end_of_stack() -> Option<usize> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the call takes no argument. pthread_self(3).
    let this_thread = unsafe { libc::pthread_self() };
    // SAFETY: `attributes` is live and not yet initialized, as the call requires; the thread is the calling thread.
    // pthread_getattr_np(3).
    if unsafe { libc::pthread_getattr_np(this_thread, attributes.as_mut_ptr()) } != 0 {
        return None;
    }
    let (mut lowest, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: `attributes` was initialized by the preceding call; the two results are live. pthread_attr_getstack(3).
    let answer = unsafe { libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut size) };
    // SAFETY: `attributes` was initialized above and is not used afterwards. pthread_attr_destroy(3).
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    (answer == 0 && !lowest.is_null()).then(|| lowest.addr())
}

#[cfg(test)]
mod tests {
    use super::end_of_stack;

    #[test]
    fn a_stack_ends_below_its_variables() {
        let here = 0_u8;
        let here = std::ptr::from_ref(&here).addr();
        assert!(end_of_stack().is_some_and(|end| end < here), "{here:x}");
        let there = std::thread::Builder::new().stack_size(1 << 20).spawn(|| {
            let here = 0_u8;
            std::ptr::from_ref(&here).addr() - end_of_stack().expect("told")
        });
        let room = there.expect("a thread can be started").join().expect("it does not panic");
        assert!(room < 4 << 20, "{room}");
    }
}
