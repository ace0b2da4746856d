//! PMCCNTR_EL0 as the counter of a perf event of this thread. Does not check that; `sys::perf` checks the event's page
//! before every read.

use core::arch::asm;

/// The value of `perf_event_attr.config1` that requests user-space reads: 64 bits (bit 0), and the permission (bit 1).
/// Linux, Documentation/arch/arm64/perf.rst.
pub(in crate::sys) const USER_ACCESS: u64 = 0b11;

/// The event page's number of the cycle counter. Linux, drivers/perf/arm_pmuv3.c, `armv8pmu_user_event_idx`.
const CYCLE_COUNTER: u32 = 32;

/// Returns the counter with the number in the event's page. Only the cycle counter is read: the others have thirty-one
/// names, and the kernel uses one of them for cycles only if the cycle counter is taken.
#[inline(always)]
pub(in crate::sys) fn counter(index: u32) -> Option<u64> {
    if index != CYCLE_COUNTER {
        return None;
    }
    let cycles: u64;
    // SAFETY: touches no memory and no flags. The event's page has a number only while the kernel lets this thread read
    // it. If that was revoked since, it raises SIGILL, which is not undefined behavior. Arm ARM (DDI 0487), D24.5,
    // PMCCNTR_EL0 (S3_3_C9_C13_0); Linux, Documentation/arch/arm64/perf.rst, "Perf Userspace PMU Hardware Counter
    // Access". No nomem: the reads of the page before and after it must stay there.
    unsafe {
        asm!("mrs {}, S3_3_C9_C13_0", out(reg) cycles, options(nostack, preserves_flags));
    }
    Some(cycles)
}

/// Returns when all preceding instructions have completed; following ones begin after it.
#[inline(always)]
pub(in crate::sys) fn wait() {
    // SAFETY: in the base instruction set; touches nothing. Arm ARM (DDI 0487), C6.2, ISB.
    // No nomem: the compiler must not move memory accesses across.
    unsafe {
        asm!("isb", options(nostack, preserves_flags));
    }
}
