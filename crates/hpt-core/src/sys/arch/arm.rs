//! CNTVCT and CNTFRQ of 32-bit ARM. Does not decide what the counter's frequency is; `source::arm_counter` does.

use core::{arch::asm, marker::PhantomData};

use super::CounterRefused;
use crate::sys::trial::{Trial, attempt_in_child};

/// Proof that CNTVCT may be read: a child of this process read it without being killed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterToken {
    made_by_detect: PhantomData<()>,
}

/// ISB in the A32 encoding, written as a number: assemblers for ARMv6 do not know the name, and processors without it
/// have no CNTVCT either, so that no token exists there. Arm ARM for ARMv7-A (DDI 0406C.d), A8.8.54.
macro_rules! isb {
    () => {
        ".inst 0xf57ff06f"
    };
}

impl CounterToken {
    /// Tries the instructions in a forked child, because there is no other way to find out whether the kernel allows
    /// them. `permitted` means that PR_GET_TSC does not forbid the counter.
    pub(crate) fn detect(permitted: bool, _self_synchronized: bool) -> Result<Self, CounterRefused> {
        let token = Self { made_by_detect: PhantomData };
        if !permitted {
            return Err(CounterRefused::NotReadable);
        }
        match attempt_in_child(|| {
            token.read_end();
            token.frequency_register();
        }) {
            Trial::Lived => Ok(token),
            Trial::Died => Err(CounterRefused::NotReadable),
            Trial::NotTried => Err(CounterRefused::NotTried),
        }
    }

    /// Creates a copy of the token that `sys::native` received; only that module may create it.
    #[inline(always)]
    pub(in crate::sys) const fn installed(_own_bit: bool) -> Self {
        Self { made_by_detect: PhantomData }
    }

    /// Returns what this token holds beyond its existence: nothing.
    #[expect(clippy::unused_self, reason = "on another architecture it holds a value")]
    pub(in crate::sys) const fn own_bit(self) -> bool {
        false
    }

    /// Returns the counter, without ordering.
    #[inline(always)]
    pub(crate) fn read(self) -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: touches no memory and no flags. If PL1 closed the counter (CNTKCTL.PL0VCTEN) or the processor has
        // none, it raises SIGILL, which is not undefined behavior, and `detect` returns this token only after a child
        // executed it. Arm ARM for ARMv7-A (DDI 0406C.d), B8.1.2 and B4.1.34, CNTVCT. nomem: lets the compiler keep
        // values in registers across a read that promises no ordering.
        unsafe {
            asm!("mrrc p15, 1, {}, {}, c14", out(reg) low, out(reg) high, options(nomem, nostack, preserves_flags));
        }
        join(low, high)
    }

    /// Returns the counter, not before all preceding instructions have completed.
    #[inline(always)]
    pub(crate) fn read_start(self) -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: as `read`; ISB exists since ARMv7, which CNTVCT is an extension of. No nomem: the compiler must not
        // move the timed work's memory accesses above this read.
        unsafe {
            asm!(isb!(), "mrrc p15, 1, {}, {}, c14", out(reg) low, out(reg) high, options(nostack, preserves_flags));
        }
        join(low, high)
    }

    /// Returns the counter after all preceding instructions have completed, and before any following one begins.
    #[inline(always)]
    pub(crate) fn read_end(self) -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: as `read_start`. No nomem: the compiler must not move the timed work's memory accesses below this
        // read.
        unsafe {
            asm!(isb!(), "mrrc p15, 1, {}, {}, c14", isb!(), out(reg) low, out(reg) high, options(nostack, preserves_flags));
        }
        join(low, high)
    }

    /// Returns CNTFRQ: the value that the firmware wrote there, in hertz; 0 if it wrote nothing.
    pub(crate) fn frequency_register(self) -> u32 {
        let hertz: u32;
        // SAFETY: touches no memory; tried by `detect` like the counter. Arm ARM for ARMv7-A (DDI 0406C.d), B4.1.21,
        // CNTFRQ.
        unsafe {
            asm!("mrc p15, 0, {}, c14, c0, 0", out(reg) hertz, options(nomem, nostack, preserves_flags));
        }
        hertz
    }
}

#[inline(always)]
const fn join(low: u32, high: u32) -> u64 {
    (high as u64) << 32 | low as u64
}
