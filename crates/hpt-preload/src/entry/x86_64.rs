//! The exported function on x86-64: adds the address of its caller to its arguments. Does not serve the call;
//! `answer` does.

use core::arch::naked_asm;

use crate::answer::answer;

/// `clock_gettime(3)`. The return address is on top of the stack, and the register of the third argument is free.
///
/// # Safety
///
/// As for the C library's function, `time` must be null or valid for a write.
///
/// # References
///
/// System V ABI, AMD64 supplement 1.0, 3.2.2 (the stack frame) and 3.2.3 (parameter passing).
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(id: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    naked_asm!("mov rdx, [rsp]", "jmp {answer}", answer = sym answer::<libc::timespec>)
}
