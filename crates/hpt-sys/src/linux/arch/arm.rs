//! CNTVCT and CNTFRQ on 32-bit ARM. Does not decide what the counter's frequency is; `source::arm_counter` does.

use core::{arch::asm, marker::PhantomData};

use super::CounterRefused;
use crate::trial::{Attempt, attempt_in_child};

/// Proof that CNTVCT may be read: a child of this process read it without being killed.
#[derive(Clone, Copy, Debug)]
pub struct CounterToken {
    made_by_detect: PhantomData<()>,
}

/// ISB in the A32 encoding, written as a number because assemblers for ARMv6 do not support the name. Processors
/// without ISB have no CNTVCT either, so no token exists there. Arm ARM for ARMv7-A (DDI 0406C.d), A8.8.54.
macro_rules! isb {
    () => {
        ".inst 0xf57ff06f"
    };
}

impl CounterToken {
    /// Tries the instructions in a forked child, because there is no other way to find out whether the kernel allows
    /// them. `permitted` means that PR_GET_TSC does not forbid the counter.
    pub fn detect(permitted: bool, _self_synchronized: bool) -> Result<Self, CounterRefused> {
        let token = Self { made_by_detect: PhantomData };
        if !permitted {
            return Err(CounterRefused::NotReadable);
        }
        match attempt_in_child(|| {
            token.read_end();
            token.frequency_register();
        }) {
            Attempt::Lived => Ok(token),
            Attempt::Died => Err(CounterRefused::NotReadable),
            Attempt::NotTried => Err(CounterRefused::NotTried),
        }
    }

    /// Creates a copy of the token that `native` received; only that module may call this function.
    #[inline(always)]
    pub(in crate::linux) const fn installed(_own_bit: bool) -> Option<Self> {
        Some(Self { made_by_detect: PhantomData })
    }

    /// Returns false, because this token holds no data.
    #[expect(clippy::unused_self, reason = "on another architecture it holds a value")]
    pub(in crate::linux) const fn own_bit(self) -> bool {
        false
    }

    /// Reads the counter without ordering.
    #[inline(always)]
    pub fn read(self) -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: the instruction touches no memory and no flags. If PL1 has closed the counter (CNTKCTL.PL0VCTEN) or
        // the processor has none, the instruction raises SIGILL, which is not undefined behavior. `detect` returns this
        // token only after a child has executed the instruction. Arm ARM for ARMv7-A (DDI 0406C.d), B8.1.2 and B4.1.34,
        // CNTVCT. The option nomem lets the compiler keep values in registers across a read that promises no ordering.
        unsafe {
            asm!("mrrc p15, 1, {}, {}, c14", out(reg) low, out(reg) high, options(nomem, nostack, preserves_flags));
        }
        join(low, high)
    }

    /// Reads the counter after all preceding instructions have completed.
    #[inline(always)]
    pub fn read_start(self) -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: as in `read`. ISB has existed since ARMv7, and CNTVCT is an extension of ARMv7. The option nomem is
        // not used, because the compiler must not move the timed work's memory accesses above this read.
        unsafe {
            asm!(isb!(), "mrrc p15, 1, {}, {}, c14", out(reg) low, out(reg) high, options(nostack, preserves_flags));
        }
        join(low, high)
    }

    /// Reads the counter after all preceding instructions have completed and before any following instruction begins.
    #[inline(always)]
    pub fn read_end(self) -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: as in `read_start`. The option nomem is not used, because the compiler must not move the timed work's
        // memory accesses below this read.
        unsafe {
            asm!(isb!(), "mrrc p15, 1, {}, {}, c14", isb!(), out(reg) low, out(reg) high, options(nostack, preserves_flags));
        }
        join(low, high)
    }

    /// Returns the value of CNTFRQ, the frequency in hertz that the firmware wrote there; 0 if the firmware wrote
    /// nothing.
    pub fn frequency_register(self) -> u32 {
        let hertz: u32;
        // SAFETY: the instruction touches no memory, and `detect` has tried it together with the read of the counter.
        // Arm ARM for ARMv7-A (DDI 0406C.d), B4.1.21, CNTFRQ.
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
