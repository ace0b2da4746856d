//! The next function with the same name as this library's function, usually the one in the C library. Does not decide
//! which calls are passed on to it; `answer` does.

use core::{
    ffi::CStr,
    marker::PhantomData,
    mem::transmute,
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

type Function<T> = unsafe extern "C" fn(libc::clockid_t, *mut T) -> libc::c_int;

/// A structure for seconds and nanoseconds, in one of the C library's layouts.
pub(crate) trait Timespec: Sized + 'static {
    /// Returns the next function that fills this structure.
    fn next() -> &'static Next<Self>;

    /// Creates the structure for a time in seconds and nanoseconds, the latter below one billion.
    fn new(seconds: i64, nanoseconds: u32) -> Self;
}

/// A function that fills a `T`. Until it is found, or if there is none, the system call with the same effect is used.
#[derive(Debug)]
pub(crate) struct Next<T> {
    name: &'static CStr,
    system_call: libc::c_long,
    found: AtomicPtr<libc::c_void>,
    fills: PhantomData<fn(*mut T)>,
}

impl<T> Next<T> {
    /// Creates the function that is to be looked up by `name`, with a system call to use instead.
    ///
    /// # Safety
    ///
    /// The functions of this name, and the system call of this number, take the arguments of `clock_gettime(2)` and
    /// fill a `T`.
    pub(crate) const unsafe fn new(name: &'static CStr, system_call: libc::c_long) -> Self {
        Self { name, system_call, found: AtomicPtr::new(ptr::null_mut()), fills: PhantomData }
    }

    /// Looks up the function. Must not be called in a signal handler.
    pub(crate) fn look_up(&self) {
        // SAFETY: the name is a NUL-terminated string that outlives the call. dlsym(3).
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(address, Ordering::Relaxed);
    }

    /// Calls the function. Returns 0, or -1 and sets `errno`.
    ///
    /// # Safety
    ///
    /// `time` is null or may be written to.
    pub(crate) unsafe fn call(&self, id: libc::clockid_t, time: *mut T) -> libc::c_int {
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: by `new`'s contract the system call of this number takes these arguments; it returns EFAULT for
            // an invalid pointer. clock_gettime(2).
            let answer = unsafe { libc::syscall(self.system_call, id, time) };
            return if answer == 0 { 0 } else { -1 };
        }
        // SAFETY: a non-null address was found for the name, whose functions have this type by `new`'s contract.
        // dlsym(3).
        let function = unsafe { transmute::<*mut libc::c_void, Function<T>>(found) };
        // SAFETY: the caller's promise about `time` is the required one.
        unsafe { function(id, time) }
    }
}
