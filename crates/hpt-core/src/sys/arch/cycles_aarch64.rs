//! PMCCNTR_EL0 of 64-bit ARM: the cycles of the core that executes the read.
//! Does not decide whether what it shows is believed: `source::arm_cycles` does.

use core::arch::asm;

use super::{CyclesRefused, access};
use crate::sys::trial::{Trial, attempt_in_child};

/// PMCR_EL0.LC: the cycle counter overflows at 64 bits, not at 32. Arm ARM (DDI 0487), D24.5, PMCR_EL0.
const LC: u32 = 1 << 6;

/// Proof that PMCCNTR_EL0 could be read on this CPU when it was made: PMUSERENR_EL0 said so, and a child of this process read it and lived. The right can be
/// taken away, and each CPU has its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CyclesToken {
    shows_control: bool,
}

impl CyclesToken {
    /// Asks on the CPU on which it is called; `by_module` says that a kernel module keeps the counter open. Both registers are tried in a forked child first: a processor without counters, and a hypervisor that
    /// keeps them, raise SIGILL for either.
    pub(crate) fn detect(_platform: Option<&str>, by_module: bool) -> Result<Self, CyclesRefused> {
        match attempt_in_child(|| {
            access_register();
        }) {
            Trial::Lived => {}
            Trial::Died => return Err(CyclesRefused::NoAccessRegister),
            Trial::NotTried => return Err(CyclesRefused::NotTried),
        }
        let shown = access_register();
        if !access::lets_in(shown, by_module) {
            return Err(CyclesRefused::Closed(shown));
        }
        let token = Self { shows_control: access::shows_control(shown) };
        match attempt_in_child(|| {
            token.read_end();
            token.control_register();
        }) {
            Trial::Lived => Ok(token),
            Trial::Died => Err(CyclesRefused::Killed),
            Trial::NotTried => Err(CyclesRefused::NotTried),
        }
    }

    /// The bits that the counter has before it overflows. Where PMCR_EL0 is not shown, it has the 64 that Linux and hpt_cycles set it up for.
    pub(crate) fn bits(self) -> u8 {
        if self.control_register().is_none_or(|control| control & LC != 0) { 64 } else { 32 }
    }

    /// The counter, at whatever moment the processor finds convenient.
    #[inline(always)]
    pub(crate) fn read(self) -> u64 {
        let cycles: u64;
        // SAFETY: touches no memory and no flags. Where EL1 keeps the register it raises SIGILL, which is not undefined behaviour, and this token
        // leaves `detect` only after a child executed it. Arm ARM (DDI 0487), D24.5, PMCCNTR_EL0 (S3_3_C9_C13_0).
        // nomem: lets the compiler keep values in registers across a read that promises no ordering.
        unsafe {
            asm!("mrs {}, S3_3_C9_C13_0", out(reg) cycles, options(nomem, nostack, preserves_flags));
        }
        cycles
    }

    /// The counter, not before all earlier instructions have completed.
    #[inline(always)]
    pub(crate) fn read_start(self) -> u64 {
        let cycles: u64;
        // SAFETY: as `read`; ISB is in the base instruction set.
        // No nomem: the compiler must not move the timed work's memory accesses above this read.
        unsafe {
            asm!("isb", "mrs {}, S3_3_C9_C13_0", out(reg) cycles, options(nostack, preserves_flags));
        }
        cycles
    }

    /// The counter after all earlier instructions have completed, and before any later one begins.
    #[inline(always)]
    pub(crate) fn read_end(self) -> u64 {
        let cycles: u64;
        // SAFETY: as `read_start`. No nomem: the compiler must not move the timed work's memory accesses below this read.
        unsafe {
            asm!("isb", "mrs {}, S3_3_C9_C13_0", "isb", out(reg) cycles, options(nostack, preserves_flags));
        }
        cycles
    }

    /// PMCR_EL0: how the counters are set up; `None` where programs may not see it.
    #[expect(clippy::cast_possible_truncation, reason = "what is looked at stands in the lower 32 bits")]
    pub(crate) fn control_register(self) -> Option<u32> {
        let control: u64;
        if !self.shows_control {
            return None;
        }
        // SAFETY: touches no memory; EN opens it to programs, and `detect` tried it. Arm ARM (DDI 0487), D24.5, PMCR_EL0 (S3_3_C9_C12_0).
        unsafe {
            asm!("mrs {}, S3_3_C9_C12_0", out(reg) control, options(nomem, nostack, preserves_flags));
        }
        Some(control as u32)
    }
}

/// PMUSERENR_EL0: who may read the counters on this CPU.
#[expect(clippy::cast_possible_truncation, reason = "what is looked at stands in the lower 32 bits")]
fn access_register() -> u32 {
    let access: u64;
    // SAFETY: touches no memory. EL0 may read it wherever it is; where it is not, or a hypervisor keeps it, it raises SIGILL, which is not undefined
    // behaviour: `detect` tries it in a child first. Arm ARM (DDI 0487), D24.5, PMUSERENR_EL0 (S3_3_C9_C14_0).
    unsafe {
        asm!("mrs {}, S3_3_C9_C14_0", out(reg) access, options(nomem, nostack, preserves_flags));
    }
    access as u32
}
