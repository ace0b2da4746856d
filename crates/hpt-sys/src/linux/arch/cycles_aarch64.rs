//! PMCCNTR_EL0 on 64-bit ARM: the cycles of the core that executes the read. Does not decide whether its value is
//! plausible; `source::arm_cycles` does.

use core::arch::asm;

use super::{CyclesRefused, access};
use crate::trial::{Attempt, attempt_in_child};

/// PMCR_EL0.LC: the cycle counter overflows at 64 bits, not at 32. Arm ARM (DDI 0487), D24.5, PMCR_EL0.
const LC: u32 = 1 << 6;

/// Proof that PMCCNTR_EL0 could be read on this CPU when the token was created: PMUSERENR_EL0 allowed the read, and a
/// child of this process read the register without being killed. Access can be revoked, and is separate for each CPU.
#[derive(Clone, Copy, Debug)]
pub struct CyclesToken {
    shows_control: bool,
}

impl CyclesToken {
    /// Checks access on the current CPU. `by_module` means that a kernel module keeps the counter open. Both registers
    /// are tried in a forked child first, because reading either raises SIGILL if the processor has no counters or a
    /// hypervisor denies access.
    pub fn detect(_platform: Option<&str>, by_module: bool) -> Result<Self, CyclesRefused> {
        match attempt_in_child(|| {
            access_register();
        }) {
            Attempt::Lived => {}
            Attempt::Died => return Err(CyclesRefused::NoAccessRegister),
            Attempt::NotTried => return Err(CyclesRefused::NotTried),
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
            Attempt::Lived => Ok(token),
            Attempt::Died => Err(CyclesRefused::Killed),
            Attempt::NotTried => Err(CyclesRefused::NotTried),
        }
    }

    /// Returns the width of the counter in bits. If PMCR_EL0 is not readable, the width is assumed to be 64 bits,
    /// which Linux and hpt_cycles configure.
    pub fn bits(self) -> u8 {
        if self.control_register().is_none_or(|control| control & LC != 0) { 64 } else { 32 }
    }

    /// Reads the counter without ordering.
    #[inline(always)]
    pub fn read(self) -> u64 {
        let cycles: u64;
        // SAFETY: the instruction touches no memory and no flags. If EL1 does not allow access to the register, the
        // instruction raises SIGILL, which is not undefined behavior. `detect` returns this token only after a child
        // has executed the instruction. Arm ARM (DDI 0487), D24.5, PMCCNTR_EL0 (S3_3_C9_C13_0). The option nomem lets
        // the compiler keep values in registers across a read that promises no ordering.
        unsafe {
            asm!("mrs {}, S3_3_C9_C13_0", out(reg) cycles, options(nomem, nostack, preserves_flags));
        }
        cycles
    }

    /// Reads the counter after all preceding instructions have completed.
    #[inline(always)]
    pub fn read_start(self) -> u64 {
        let cycles: u64;
        // SAFETY: as in `read`. ISB is in the base instruction set. The option nomem is not used, because the compiler
        // must not move the timed work's memory accesses above this read.
        unsafe {
            asm!("isb", "mrs {}, S3_3_C9_C13_0", out(reg) cycles, options(nostack, preserves_flags));
        }
        cycles
    }

    /// Reads the counter after all preceding instructions have completed and before any following instruction begins.
    #[inline(always)]
    pub fn read_end(self) -> u64 {
        let cycles: u64;
        // SAFETY: as in `read_start`. The option nomem is not used, because the compiler must not move the timed work's
        // memory accesses below this read.
        unsafe {
            asm!("isb", "mrs {}, S3_3_C9_C13_0", "isb", out(reg) cycles, options(nostack, preserves_flags));
        }
        cycles
    }

    /// Returns the value of PMCR_EL0, the configuration of the counters; `None` if programs may not read it.
    #[expect(clippy::cast_possible_truncation, reason = "the relevant bits are in the lower 32")]
    pub fn control_register(self) -> Option<u32> {
        let control: u64;
        if !self.shows_control {
            return None;
        }
        // SAFETY: the instruction touches no memory. EN gives programs access to the register, and `detect` has tried
        // the read. Arm ARM (DDI 0487), D24.5, PMCR_EL0 (S3_3_C9_C12_0).
        unsafe {
            asm!("mrs {}, S3_3_C9_C12_0", out(reg) control, options(nomem, nostack, preserves_flags));
        }
        Some(control as u32)
    }
}

/// Returns the value of PMUSERENR_EL0, which controls access to the counters on this CPU.
#[expect(clippy::cast_possible_truncation, reason = "the relevant bits are in the lower 32")]
fn access_register() -> u32 {
    let access: u64;
    // SAFETY: the instruction touches no memory. EL0 may read the register wherever it exists. If the register does not
    // exist or a hypervisor denies access, the instruction raises SIGILL, which is not undefined behavior. `detect`
    // tries the read in a child first. Arm ARM (DDI 0487), D24.5, PMUSERENR_EL0 (S3_3_C9_C14_0).
    unsafe {
        asm!("mrs {}, S3_3_C9_C14_0", out(reg) access, options(nomem, nostack, preserves_flags));
    }
    access as u32
}
