//! The two exported functions on 32-bit ARM: add the address of their caller to their arguments. Do not serve the call;
//! `answer` does.

use core::arch::naked_asm;

use crate::{answer::answer, timespec::Timespec64};

/// `clock_gettime(3)` with a 32-bit `time_t`. The return address is in the link register, and the register of the third
/// argument is free.
///
/// # Safety
///
/// As for the C library's function, `time` must be null or valid for a write.
///
/// # References
///
/// Procedure Call Standard for the Arm Architecture (IHI 0042), 6.1.1 (core registers) and 6.5 (parameter passing).
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(id: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    naked_asm!("mov r2, lr", "b {answer}", answer = sym answer::<libc::timespec>)
}

/// `clock_gettime(3)` with a 64-bit `time_t`, under its name in glibc since 2.34 and musl since 1.2.
///
/// # Safety
///
/// As for the C library's function, `time` must be null or valid for a write.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn __clock_gettime64(id: libc::clockid_t, time: *mut Timespec64) -> libc::c_int {
    naked_asm!("mov r2, lr", "b {answer}", answer = sym answer::<Timespec64>)
}
