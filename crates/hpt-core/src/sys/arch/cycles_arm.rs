//! PMCCNTR of ARMv7, and CCNT of the ARM1176: the cycles of the core that executes the read, in 32 bits. Does not
//! decide whether its value is plausible; `source::arm_cycles` does.

use core::arch::asm;

use super::{CyclesRefused, access};
use crate::sys::{
    process::is_armv6,
    trial::{Trial, attempt_in_child},
};

/// Proof that the counter could be read on this CPU when it was created: a child of this process read it without being
/// killed. Access can be revoked, and each CPU has its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CyclesToken {
    form: Form,
    shows_control: bool,
}

/// The location of the processor's counter. The two must not be mixed: the instruction for one reads another register,
/// or none, on the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// CP15, c9. Arm ARM for ARMv7-A (DDI 0406C.d), chapter C12, The Performance Monitors Extension.
    V7,
    /// CP15, c15. ARM1176JZF-S TRM (DDI 0301H), 3.2.51 and 3.2.52.
    Arm1176,
}

/// ISB in the A32 encoding, written as a number: assemblers for ARMv6 do not know the name. Arm ARM for ARMv7-A (DDI
/// 0406C.d), A8.8.54.
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
    /// Checks access on the current CPU. `platform` is AT_PLATFORM of the auxiliary vector, the only way to distinguish
    /// ARMv6 from later versions; `by_module` means that a kernel module keeps the counter open. An unavailable
    /// register raises SIGILL, so everything is tried in a forked child first.
    pub(crate) fn detect(platform: Option<&str>, by_module: bool) -> Result<Self, CyclesRefused> {
        let is_v6 = is_armv6(platform);
        // The ARM1176 has an access register as well, but programs may not read it.
        let mut token = Self { form: Form::Arm1176, shows_control: true };
        if !is_v6 {
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
            token = Self { form: Form::V7, shows_control: access::shows_control(shown) };
        }
        match attempt_in_child(|| {
            token.read_end();
            token.control_register();
        }) {
            Trial::Lived => Ok(token),
            Trial::Died => Err(CyclesRefused::Killed),
            Trial::NotTried => Err(CyclesRefused::NotTried),
        }
    }

    /// Returns the number of bits after which the counter overflows.
    #[expect(clippy::unused_self, reason = "on another architecture it is used")]
    pub(crate) const fn bits(self) -> u8 {
        32
    }

    /// Returns the counter, without ordering.
    #[inline(always)]
    pub(crate) fn read(self) -> u64 {
        let cycles: u32;
        match self.form {
            // SAFETY: touches no memory and no flags. If the kernel does not allow the register it raises SIGILL, which
            // is not undefined behavior, and `detect` returns this token only after a child executed it. Arm ARM for
            // ARMv7-A (DDI 0406C.d), B4.1, PMCCNTR. nomem: lets the compiler keep values in registers across a read
            // that promises no ordering.
            Form::V7 => unsafe {
                asm!("mrc p15, 0, {}, c9, c13, 0", out(reg) cycles, options(nomem, nostack, preserves_flags));
            },
            // SAFETY: as above. ARM1176JZF-S TRM (DDI 0301H), 3.2.52, c15, Cycle Counter Register.
            Form::Arm1176 => unsafe {
                asm!("mrc p15, 0, {}, c15, c12, 1", out(reg) cycles, options(nomem, nostack, preserves_flags));
            },
        }
        cycles.into()
    }

    /// Returns the counter, not before all preceding instructions have completed.
    #[inline(always)]
    pub(crate) fn read_start(self) -> u64 {
        let cycles: u32;
        match self.form {
            // SAFETY: as `read`; ISB exists since ARMv7. No nomem: the compiler must not move the timed work's memory
            // accesses above this read.
            Form::V7 => unsafe {
                asm!(isb!(), "mrc p15, 0, {}, c9, c13, 0", out(reg) cycles, options(nostack, preserves_flags));
            },
            // SAFETY: as `read`; programs may flush the prefetch buffer. No nomem: as above.
            Form::Arm1176 => unsafe {
                asm!(flush_prefetch!(), "mrc p15, 0, {cycles}, c15, c12, 1", cycles = out(reg) cycles, in("r0") 0, options(nostack, preserves_flags));
            },
        }
        cycles.into()
    }

    /// Returns the counter after all preceding instructions have completed, and before any following one begins.
    #[inline(always)]
    pub(crate) fn read_end(self) -> u64 {
        let cycles: u32;
        match self.form {
            // SAFETY: as `read_start`. No nomem: the compiler must not move the timed work's memory accesses below this
            // read.
            Form::V7 => unsafe {
                asm!(isb!(), "mrc p15, 0, {}, c9, c13, 0", isb!(), out(reg) cycles, options(nostack, preserves_flags));
            },
            // SAFETY: as `read_start`. No nomem: as above. lateout is not used: the second flush still needs the zero.
            Form::Arm1176 => unsafe {
                asm!(flush_prefetch!(), "mrc p15, 0, {cycles}, c15, c12, 1", flush_prefetch!(), cycles = out(reg) cycles, in("r0") 0, options(nostack, preserves_flags));
            },
        }
        cycles.into()
    }

    /// Returns PMCR, on the ARM1176 the Performance Monitor Control Register: the configuration of the counters. The
    /// lowest four bits have the same meaning in both. `None` if programs may not read it.
    pub(crate) fn control_register(self) -> Option<u32> {
        let control: u32;
        if !self.shows_control {
            return None;
        }
        match self.form {
            // SAFETY: touches no memory; tried by `detect` like the counter. Arm ARM for ARMv7-A (DDI 0406C.d), B4.1,
            // PMCR.
            Form::V7 => unsafe {
                asm!("mrc p15, 0, {}, c9, c12, 0", out(reg) control, options(nomem, nostack, preserves_flags));
            },
            // SAFETY: as above. ARM1176JZF-S TRM (DDI 0301H), 3.2.51, c15, Performance Monitor Control Register.
            Form::Arm1176 => unsafe {
                asm!("mrc p15, 0, {}, c15, c12, 0", out(reg) control, options(nomem, nostack, preserves_flags));
            },
        }
        Some(control)
    }
}

/// Returns PMUSERENR: who may read the counters on this CPU.
fn access_register() -> u32 {
    let access: u32;
    // SAFETY: touches no memory. Programs may read it wherever it exists. If it does not exist, or a hypervisor denies
    // it, it raises SIGILL, which is not undefined behavior: `detect` tries it in a child first. Arm ARM for ARMv7-A
    // (DDI 0406C.d), B4.1, PMUSERENR.
    unsafe {
        asm!("mrc p15, 0, {}, c9, c14, 0", out(reg) access, options(nomem, nostack, preserves_flags));
    }
    access
}
