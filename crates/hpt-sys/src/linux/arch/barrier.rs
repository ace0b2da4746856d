//! Waits until all preceding instructions have completed, including accesses to device memory.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm"))]
use core::arch::asm;

/// The instructions that make this processor wait.
#[derive(Clone, Copy, Debug)]
pub struct Barrier {
    /// Whether this is an ARMv6 processor, which has coprocessor operations instead of barrier instructions.
    #[cfg(target_arch = "arm")]
    by_coprocessor: bool,
}

impl Barrier {
    /// Detects the barrier. `platform` is AT_PLATFORM from the auxiliary vector, which is the only way to distinguish
    /// ARMv6 from later versions.
    #[cfg_attr(not(target_arch = "arm"), expect(unused_variables, reason = "other architectures have only one way"))]
    pub fn detect(platform: Option<&str>) -> Self {
        Self {
            #[cfg(target_arch = "arm")]
            by_coprocessor: crate::process::is_armv6(platform),
        }
    }

    /// Waits until all preceding instructions have completed, including reads of devices. Following instructions begin
    /// only after that.
    #[inline(always)]
    pub fn wait(self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: both instructions are in the base instruction set of x86-64 and touch no memory. LFENCE waits for all
        // preceding instructions, including loads, and the preceding MFENCE waits for stores. Intel SDM, volume 2,
        // LFENCE and MFENCE. The option nomem is not used, because the compiler must not move memory accesses across
        // the barrier.
        unsafe {
            asm!("mfence", "lfence", options(nostack, preserves_flags));
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: both instructions are in the base instruction set and touch no memory. DSB waits until a device has
        // answered; ISB alone, which the kernel uses when it reads the generic timer, does not. ISB delays the
        // following instructions. Arm ARM (DDI 0487), B2.3.11 and C6.2. The option nomem is not used, as above.
        unsafe {
            asm!("dsb sy", "isb", options(nostack, preserves_flags));
        }
        #[cfg(target_arch = "arm")]
        if self.by_coprocessor {
            // SAFETY: programs may execute both operations, Data Synchronization Barrier and Flush Prefetch Buffer.
            // ARM1176JZF-S TRM (DDI 0301H), 3.2.22, c7, Cache operations: mcr p15, 0, r0, c7, c10, 4 and mcr p15, 0,
            // r0, c7, c5, 4, written as numbers because assemblers for ARMv7 warn about them. The option nomem is not
            // used, as above.
            unsafe {
                asm!(".inst 0xee070f9a", ".inst 0xee070f95", in("r0") 0, options(nostack, preserves_flags));
            }
        } else {
            // SAFETY: these are DSB SY and ISB in the A32 encoding, written as numbers because assemblers for ARMv6 do
            // not support the names. Both have been in the base instruction set since ARMv7, and AT_PLATFORM shows that
            // this is not an ARMv6 processor. Arm ARM for ARMv7-A (DDI 0406C.d), A8.8.44 and A8.8.54. The option nomem
            // is not used, as above.
            unsafe {
                asm!(".inst 0xf57ff04f", ".inst 0xf57ff06f", options(nostack, preserves_flags));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Barrier;

    #[test]
    fn a_wait_returns() {
        Barrier::detect(crate::process::platform().as_deref()).wait();
    }
}
