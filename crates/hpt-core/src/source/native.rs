//! The processor's own counter as the token by which it is read, whatever the machine calls it.
//! Describes no source: `tsc` and `arm_counter` do.

use crate::{
    host::CounterPermission,
    sys::{arch::CounterRefused, native::Native},
};

/// The processor's own counter, if this thread may read it. Allocates nothing, because it may be asked in a signal handler.
///
/// # Errors
///
/// Whether the answer is no, or no answer could be had.
pub(crate) fn permitted_native() -> Result<Native, CounterRefused> {
    let permitted = CounterPermission::of_this_thread() != CounterPermission::Forbidden;
    #[cfg(target_arch = "x86_64")]
    let native = Native::detect(permitted).ok_or(CounterRefused::NotReadable);
    #[cfg(not(target_arch = "x86_64"))]
    let native = Native::detect(permitted, super::has_self_synchronised_reads(crate::sys::process::hwcap2()));
    native
}
