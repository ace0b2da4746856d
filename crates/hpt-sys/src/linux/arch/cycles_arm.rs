//! PMCCNTR on ARMv7, and CCNT on the ARM1176: the cycles of the core that executes the read, in 32 bits. Does not
//! decide whether its value is plausible; `source::arm_cycles` does.

use core::arch::asm;

use super::{CyclesRefused, access};
use crate::{
    process::is_armv6,
    trial::{Attempt, attempt_in_child},
};

/// Proof that the counter could be read on this CPU when the token was created: a child of this process read it without
/// being killed. Access can be revoked, and is separate for each CPU.
#[derive(Clone, Copy, Debug)]
pub struct CyclesToken {
    form: PmuForm,
    shows_control: bool,
}

/// The location of the processor's counter. The two locations must not be confused, because the instruction for one
/// processor reads a different register, or none, on the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PmuForm {
    /// CP15, c9. Arm ARM for ARMv7-A (DDI 0406C.d), chapter C12, The Performance Monitors Extension.
    V7,
    /// CP15, c15. ARM1176JZF-S TRM (DDI 0301H), 3.2.51 and 3.2.52.
    Arm1176,
}

/// ISB in the A32 encoding, written as a number because assemblers for ARMv6 do not support the name. Arm ARM for
/// ARMv7-A (DDI 0406C.d), A8.8.54.
macro_rules! isb {
    () => {
        ".inst 0xf57ff06f"
    };
}

/// Flush Prefetch Buffer, the ISB of ARMv6: mcr p15, 0, r0, c7, c5, 4, written as a number because assemblers for ARMv7
/// warn about it. ARM1176JZF-S TRM (DDI 0301H), 3.2.22, c7, Cache operations.
macro_rules! flush_prefetch {
    () => {
        ".inst 0xee070f95"
    };
}

impl CyclesToken {
    /// Checks access on the current CPU. `platform` is AT_PLATFORM from the auxiliary vector, which is the only way to
    /// distinguish ARMv6 from later versions. `by_module` means that a kernel module keeps the counter open. All reads
    /// are tried in a forked child first, because reading an unavailable register raises SIGILL.
    pub fn detect(platform: Option<&str>, by_module: bool) -> Result<Self, CyclesRefused> {
        let is_v6 = is_armv6(platform);
        // The ARM1176 also has an access register, but programs may not read it.
        let mut token = Self { form: PmuForm::Arm1176, shows_control: true };
        if !is_v6 {
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
            token = Self { form: PmuForm::V7, shows_control: access::shows_control(shown) };
        }
        match attempt_in_child(|| {
            token.read_end();
            token.control_register();
        }) {
            Attempt::Lived => Ok(token),
            Attempt::Died => Err(CyclesRefused::Killed),
            Attempt::NotTried => Err(CyclesRefused::NotTried),
        }
    }

    /// Returns the width of the counter in bits.
    pub const fn bits(self) -> u8 {
        32
    }

    /// Reads the counter without ordering.
    #[inline(always)]
    pub fn read(self) -> u64 {
        let cycles: u32;
        match self.form {
            // SAFETY: the instruction touches no memory and no flags. If the kernel does not allow access to the
            // register, the instruction raises SIGILL, which is not undefined behavior. `detect` returns this token
            // only after a child has executed the instruction. Arm ARM for ARMv7-A (DDI 0406C.d), B4.1, PMCCNTR. The
            // option nomem lets the compiler keep values in registers across a read that promises no ordering.
            PmuForm::V7 => unsafe {
                asm!("mrc p15, 0, {}, c9, c13, 0", out(reg) cycles, options(nomem, nostack, preserves_flags));
            },
            // SAFETY: as above. ARM1176JZF-S TRM (DDI 0301H), 3.2.52, c15, Cycle Counter Register.
            PmuForm::Arm1176 => unsafe {
                asm!("mrc p15, 0, {}, c15, c12, 1", out(reg) cycles, options(nomem, nostack, preserves_flags));
            },
        }
        cycles.into()
    }

    /// Reads the counter after all preceding instructions have completed.
    #[inline(always)]
    pub fn read_start(self) -> u64 {
        let cycles: u32;
        match self.form {
            // SAFETY: as in `read`. ISB has existed since ARMv7. The option nomem is not used, because the compiler
            // must not move the timed work's memory accesses above this read.
            PmuForm::V7 => unsafe {
                asm!(isb!(), "mrc p15, 0, {}, c9, c13, 0", out(reg) cycles, options(nostack, preserves_flags));
            },
            // SAFETY: as in `read`. Programs may flush the prefetch buffer. The option nomem is not used, as above.
            PmuForm::Arm1176 => unsafe {
                asm!(flush_prefetch!(), "mrc p15, 0, {cycles}, c15, c12, 1", cycles = out(reg) cycles, in("r0") 0, options(nostack, preserves_flags));
            },
        }
        cycles.into()
    }

    /// Reads the counter after all preceding instructions have completed and before any following instruction begins.
    #[inline(always)]
    pub fn read_end(self) -> u64 {
        let cycles: u32;
        match self.form {
            // SAFETY: as in `read_start`. The option nomem is not used, because the compiler must not move the timed
            // work's memory accesses below this read.
            PmuForm::V7 => unsafe {
                asm!(isb!(), "mrc p15, 0, {}, c9, c13, 0", isb!(), out(reg) cycles, options(nostack, preserves_flags));
            },
            // SAFETY: as in `read_start`. The option nomem is not used, as above. The output is not `lateout`, because
            // the second flush still needs the zero.
            PmuForm::Arm1176 => unsafe {
                asm!(flush_prefetch!(), "mrc p15, 0, {cycles}, c15, c12, 1", flush_prefetch!(), cycles = out(reg) cycles, in("r0") 0, options(nostack, preserves_flags));
            },
        }
        cycles.into()
    }

    /// Returns the configuration of the counters: PMCR, or the Performance Monitor Control Register on the ARM1176;
    /// `None` if programs may not read the register. The lowest four bits have the same meaning in both registers.
    pub fn control_register(self) -> Option<u32> {
        let control: u32;
        if !self.shows_control {
            return None;
        }
        match self.form {
            // SAFETY: the instruction touches no memory, and `detect` has tried it together with the read of the
            // counter. Arm ARM for ARMv7-A (DDI 0406C.d), B4.1, PMCR.
            PmuForm::V7 => unsafe {
                asm!("mrc p15, 0, {}, c9, c12, 0", out(reg) control, options(nomem, nostack, preserves_flags));
            },
            // SAFETY: as above. ARM1176JZF-S TRM (DDI 0301H), 3.2.51, c15, Performance Monitor Control Register.
            PmuForm::Arm1176 => unsafe {
                asm!("mrc p15, 0, {}, c15, c12, 0", out(reg) control, options(nomem, nostack, preserves_flags));
            },
        }
        Some(control)
    }
}

/// Returns the value of PMUSERENR, which controls access to the counters on this CPU.
fn access_register() -> u32 {
    let access: u32;
    // SAFETY: the instruction touches no memory. Programs may read the register wherever it exists. If the register
    // does not exist or a hypervisor denies access, the instruction raises SIGILL, which is not undefined behavior.
    // `detect` tries the read in a child first. Arm ARM for ARMv7-A (DDI 0406C.d), B4.1, PMUSERENR.
    unsafe {
        asm!("mrc p15, 0, {}, c9, c14, 0", out(reg) access, options(nomem, nostack, preserves_flags));
    }
    access
}
