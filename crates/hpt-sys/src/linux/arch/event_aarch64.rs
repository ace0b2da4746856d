//! PMCCNTR_EL0, read as the counter of a perf event of this thread. Does not check that the event has this counter;
//! `perf` checks the event's page before every read.

use core::arch::asm;

/// The value of `perf_event_attr.config1` that requests user-space reads: a 64-bit counter (bit 0), and permission to
/// read it (bit 1). Linux, Documentation/arch/arm64/perf.rst.
pub(in crate::linux) const USER_ACCESS: u64 = 0b11;

/// The number of the cycle counter in the event's page. Linux, drivers/perf/arm_pmuv3.c, `armv8pmu_user_event_idx`.
const CYCLE_COUNTER: u32 = 32;

/// Returns the value of the counter whose number is in the event's page. Only the cycle counter is read. The other
/// counters are thirty-one different registers, and the kernel uses one of them for cycles only if the cycle counter is
/// taken.
#[inline(always)]
pub(in crate::linux) fn counter(index: u32) -> Option<u64> {
    if index != CYCLE_COUNTER {
        return None;
    }
    let cycles: u64;
    // SAFETY: the instruction touches no memory and no flags. The event's page contains a number only while the kernel
    // lets this thread read the counter. If that permission has since been revoked, the instruction raises SIGILL,
    // which is not undefined behavior. Arm ARM (DDI 0487), D24.5, PMCCNTR_EL0 (S3_3_C9_C13_0); Linux,
    // Documentation/arch/arm64/perf.rst, "Perf Userspace PMU Hardware Counter Access". The option nomem is not used,
    // because the reads of the page before and after the instruction must stay in place.
    unsafe {
        asm!("mrs {}, S3_3_C9_C13_0", out(reg) cycles, options(nostack, preserves_flags));
    }
    Some(cycles)
}

/// Waits until all preceding instructions have completed. Following instructions begin only after that.
#[inline(always)]
pub(in crate::linux) fn wait() {
    // SAFETY: the instruction is in the base instruction set and touches nothing. Arm ARM (DDI 0487), C6.2, ISB. The
    // option nomem is not used, because the compiler must not move memory accesses across the barrier.
    unsafe {
        asm!("isb", options(nostack, preserves_flags));
    }
}
