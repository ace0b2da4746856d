//! The C library's `errno` of this thread: saved and restored.

/// A value of `errno`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Errno {
    value: libc::c_int,
}

impl Errno {
    pub(crate) fn now() -> Self {
        // SAFETY: the place is this thread's own, live as long as the thread, aligned, and always has a value.
        // errno(3).
        Self { value: unsafe { place().read() } }
    }

    pub(crate) fn restore(self) {
        // SAFETY: as above, and no reference to it exists. errno(3).
        unsafe { place().write(self.value) };
    }
}

fn place() -> *mut libc::c_int {
    // SAFETY: the function has no precondition and may be called in a signal handler. Linux Standard Base 5.0,
    // `__errno_location`.
    unsafe { libc::__errno_location() }
}
