//! The exported function on aarch64: adds the address of its caller to its arguments. Does not serve the call;
//! `answer` does.

use core::arch::naked_asm;

use crate::answer::answer;

/// `clock_gettime(3)`. The return address is in the link register, and the register of the third argument is free.
///
/// # Safety
///
/// As for the C library's function, `time` must be null or valid for a write.
///
/// # References
///
/// Procedure Call Standard for the Arm 64-bit Architecture (IHI 0055), 6.1.1 (general-purpose registers) and 6.8.2
/// (parameter passing).
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(id: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    naked_asm!("mov x2, x30", "b {answer}", answer = sym answer::<libc::timespec>)
}
