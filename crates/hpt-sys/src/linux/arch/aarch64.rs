//! CNTVCT_EL0 and CNTFRQ_EL0 on 64-bit ARM. Decides neither whether the counter may be read nor what its frequency is;
//! `source::arm_counter` does.

use core::arch::asm;

use super::CounterRefused;

/// Proof that CNTVCT_EL0 may be read: no prctl in this thread forbids it.
#[derive(Clone, Copy, Debug)]
pub struct CounterToken {
    self_synchronized: bool,
}

impl CounterToken {
    /// Creates a token. `permitted` means that PR_GET_TSC does not forbid the counter, and `self_synchronized` means
    /// that HWCAP2 has ECV.
    pub fn detect(permitted: bool, self_synchronized: bool) -> Result<Self, CounterRefused> {
        permitted.then_some(Self { self_synchronized }).ok_or(CounterRefused::NotReadable)
    }

    /// Creates a copy of the token that `native` received; only that module may call this function.
    #[inline(always)]
    pub(in crate::linux) const fn installed(own_bit: bool) -> Option<Self> {
        Some(Self { self_synchronized: own_bit })
    }

    /// Returns the only data in this token: whether reads are self-synchronized.
    pub(in crate::linux) const fn own_bit(self) -> bool {
        self.self_synchronized
    }

    /// Reads the counter without ordering.
    #[inline(always)]
    pub fn read(self) -> u64 {
        let ticks: u64;
        // SAFETY: the instruction touches no memory and no flags. Linux lets EL0 read CNTVCT_EL0
        // (CNTKCTL_EL1.EL0VCTEN), or traps and emulates the read. If prctl forbids the read (Linux 6.12), the
        // instruction raises SIGSEGV, which is not undefined behavior. This token was created only after prctl had
        // permitted the read. Arm ARM (DDI 0487), D24.12, CNTVCT_EL0; Linux,
        // Documentation/arch/arm64/legacy_instructions.rst. The option nomem lets the compiler keep values in registers
        // across a read that promises no ordering.
        unsafe {
            asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags));
        }
        ticks
    }

    /// Reads the counter after all preceding instructions have completed.
    ///
    /// An ISB precedes the read, unless the processor has the self-synchronized view, which is not read speculatively.
    #[inline(always)]
    pub fn read_start(self) -> u64 {
        let ticks: u64;
        if self.self_synchronized {
            // SAFETY: as in `read`. S3_3_C14_C0_6 is CNTVCTSS_EL0, which exists if HWCAP2 reports FEAT_ECV. Arm ARM
            // (DDI 0487), D24.12, CNTVCTSS_EL0. The option nomem is not used, because the compiler must not move the
            // timed work's memory accesses above this read.
            unsafe {
                asm!("mrs {}, S3_3_C14_C0_6", out(reg) ticks, options(nostack, preserves_flags));
            }
        } else {
            // SAFETY: as in `read`. ISB is in the base instruction set. Arm ARM (DDI 0487), D12.2, "Synchronization of
            // the counters". The option nomem is not used, as above.
            unsafe {
                asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags));
            }
        }
        ticks
    }

    /// Reads the counter after all preceding instructions have completed and before any following instruction begins.
    #[inline(always)]
    pub fn read_end(self) -> u64 {
        let ticks: u64;
        // SAFETY: as in `read_start`. The second ISB delays following instructions. The option nomem is not used,
        // because the compiler must not move the timed work's memory accesses below this read.
        unsafe {
            asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) ticks, options(nostack, preserves_flags));
        }
        ticks
    }

    /// Returns the value of CNTFRQ_EL0, the frequency in hertz that the firmware wrote there; 0 if the firmware wrote
    /// nothing.
    #[expect(clippy::cast_possible_truncation, reason = "bits 63 to 32 are reserved and read as zero")]
    pub fn frequency_register(self) -> u32 {
        let hertz: u64;
        // SAFETY: the instruction touches no memory. The control bits that give programs access to CNTVCT_EL0 also give
        // access to CNTFRQ_EL0. Arm ARM (DDI 0487), D24.12, CNTFRQ_EL0.
        unsafe {
            asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nomem, nostack, preserves_flags));
        }
        hertz as u32
    }
}
