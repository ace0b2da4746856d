//! RDTIME on 64-bit RISC-V. Does not decide whether the counter is a suitable clock; `source::riscv_time` does.

use core::{arch::asm, marker::PhantomData};

use super::CounterRefused;

/// Proof that RDTIME may be executed.
#[derive(Clone, Copy, Debug)]
pub struct CounterToken {
    made_by_detect: PhantomData<()>,
}

impl CounterToken {
    /// Creates a token. `permitted` means that no prctl forbids the counter; RISC-V has no such prctl.
    ///
    /// A trial is not needed: the vDSO of every Linux for RISC-V executes the same instruction in user mode. Firmware
    /// that closes the CSR to user mode has to emulate it. Linux, arch/riscv/include/asm/vdso/gettimeofday.h,
    /// `__arch_get_hw_counter`.
    pub fn detect(permitted: bool, _self_synchronized: bool) -> Result<Self, CounterRefused> {
        permitted.then_some(Self { made_by_detect: PhantomData }).ok_or(CounterRefused::NotReadable)
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
        let ticks: u64;
        // SAFETY: the instruction touches no memory. Linux lets user mode read the CSR `time` (scounteren.TM), or the
        // firmware emulates the read; without either, it raises SIGILL, which is not undefined behavior. RISC-V ISA
        // manual, volume I (20240411), "Zicntr" 7.1. The option nomem lets the compiler keep values in registers across
        // a read that promises no ordering.
        unsafe {
            asm!("rdtime {}", out(reg) ticks, options(nomem, nostack, preserves_flags));
        }
        ticks
    }

    /// Reads the counter after all preceding accesses to memory and devices.
    ///
    /// The order of a CSR read relative to other accesses is that of a device input, so a FENCE with the successor set
    /// `i` orders it. RISC-V ISA manual, volume I (20240411), "Zicsr" 6.1.1, CSR Access Ordering. No instruction orders
    /// it after preceding instructions that access nothing.
    #[inline(always)]
    pub fn read_start(self) -> u64 {
        let ticks: u64;
        // SAFETY: as in `read`. FENCE is in the base instruction set. RISC-V ISA manual, volume I (20240411), 2.7. The
        // option nomem is not used, because the compiler must not move the timed work's memory accesses above this
        // read.
        unsafe {
            asm!("fence iorw, i", "rdtime {}", out(reg) ticks, options(nostack, preserves_flags));
        }
        ticks
    }

    /// Reads the counter after all preceding and before all following accesses to memory and devices.
    #[inline(always)]
    pub fn read_end(self) -> u64 {
        let ticks: u64;
        // SAFETY: as in `read_start`. The option nomem is not used, because the compiler must not move the timed work's
        // memory accesses below this read.
        unsafe {
            asm!("fence iorw, i", "rdtime {}", "fence i, iorw", out(reg) ticks, options(nostack, preserves_flags));
        }
        ticks
    }

    /// Returns zero, because RISC-V has no register that states the frequency.
    pub const fn frequency_register(self) -> u32 {
        0
    }
}
