//! The next function of a name behind this library's, which is mostly the C library's.
//! Does not decide who is sent there: `answer` does.

use core::{
    ffi::CStr,
    marker::PhantomData,
    mem::transmute,
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

type Function<T> = unsafe extern "C" fn(libc::clockid_t, *mut T) -> libc::c_int;

/// A structure for seconds and nanoseconds, of one of the C library's layouts.
pub(crate) trait Timespec: Sized + 'static {
    /// The next function that fills this structure.
    fn next() -> &'static Next<Self>;

    /// The structure for a time of so many seconds and, below a billion, nanoseconds.
    fn new(seconds: i64, nanoseconds: u32) -> Self;
}

/// A function that fills a `T`, and until it was found, or where there is none, the system call that does the same.
#[derive(Debug)]
pub(crate) struct Next<T> {
    name: &'static CStr,
    system_call: libc::c_long,
    found: AtomicPtr<libc::c_void>,
    fills: PhantomData<fn(*mut T)>,
}

impl<T> Next<T> {
    /// # Safety
    ///
    /// The functions of this name, and the system call of this number, take the arguments of `clock_gettime(2)` and fill a `T`.
    pub(crate) const unsafe fn new(name: &'static CStr, system_call: libc::c_long) -> Self {
        Self { name, system_call, found: AtomicPtr::new(ptr::null_mut()), fills: PhantomData }
    }

    /// Looks for the function. Not for signal handlers.
    pub(crate) fn look_up(&self) {
        // SAFETY: the name is a NUL-terminated string that outlives the call. dlsym(3).
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(address, Ordering::Relaxed);
    }

    /// Calls it: 0, or -1 and `errno`.
    ///
    /// # Safety
    ///
    /// `time` is null or may be written to.
    pub(crate) unsafe fn call(&self, id: libc::clockid_t, time: *mut T) -> libc::c_int {
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: by `new`'s contract the call of this number takes these arguments; a bad pointer it answers with EFAULT. clock_gettime(2).
            let answer = unsafe { libc::syscall(self.system_call, id, time) };
            return if answer == 0 { 0 } else { -1 };
        }
        // SAFETY: an address that is not null was found under the name, whose functions have this type by `new`'s contract. dlsym(3).
        let function = unsafe { transmute::<*mut libc::c_void, Function<T>>(found) };
        // SAFETY: our caller's promise about `time` is the one that is asked for.
        unsafe { function(id, time) }
    }
}
