//! The token that reads the processor's own counter, regardless of the counter's name on this architecture. The source
//! is described in `tsc` and `arm_counter`.

use hpt_sys::{arch::CounterRefused, host::CounterPermission, native::Native};

/// Returns the processor's own counter, if this thread may read it. Does not allocate, because it may run in a signal
/// handler.
///
/// # Errors
///
/// Returns an error that states whether access is denied or could not be checked.
pub(crate) fn permitted_native() -> Result<Native, CounterRefused> {
    let permitted = CounterPermission::of_this_thread() != CounterPermission::Forbidden;
    #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
    let native = Native::detect(permitted).ok_or(CounterRefused::NotReadable);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "x86")))]
    let native = Native::detect(permitted, super::arm_counter::has_self_synchronized_reads(hpt_sys::process::hwcap2()));
    native
}
