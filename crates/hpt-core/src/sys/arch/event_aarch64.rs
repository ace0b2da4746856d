//! PMCCNTR_EL0 as the counter behind a perf event of this thread.
//! Does not know whether it is that: `sys::perf` asks the event's page before every read.

use core::arch::asm;

/// What `perf_event_attr.config1` asks for so that programs may read the counter: 64 bits (bit 0), and that right (bit 1). Linux,
/// Documentation/arch/arm64/perf.rst.
pub(in crate::sys) const USER_ACCESS: u64 = 0b11;

/// The event page's number of the cycle counter. Linux, drivers/perf/arm_pmuv3.c, `armv8pmu_user_event_idx`.
const CYCLE_COUNTER: u32 = 32;

/// The counter whose number the event's page gives. Only the cycle counter is read: the others have thirty-one names, and the kernel takes one of
/// them for cycles only when the cycle counter is taken.
#[inline(always)]
pub(in crate::sys) fn counter(index: u32) -> Option<u64> {
    if index != CYCLE_COUNTER {
        return None;
    }
    let cycles: u64;
    // SAFETY: touches no memory and no flags. The event's page gives a number only while the kernel lets this thread read it; where that was taken away
    // since, it raises SIGILL, which is not undefined behaviour. Arm ARM (DDI 0487), D24.5, PMCCNTR_EL0 (S3_3_C9_C13_0); Linux,
    // Documentation/arch/arm64/perf.rst, "Perf Userspace PMU Hardware Counter Access".
    // No nomem: the reads of the page before and behind it must stay there.
    unsafe {
        asm!("mrs {}, S3_3_C9_C13_0", out(reg) cycles, options(nostack, preserves_flags));
    }
    Some(cycles)
}

/// Returns when all earlier instructions have completed; later ones begin after it.
#[inline(always)]
pub(in crate::sys) fn wait() {
    // SAFETY: in the base instruction set; touches nothing. Arm ARM (DDI 0487), C6.2, ISB.
    // No nomem: the compiler must not move memory accesses across.
    unsafe {
        asm!("isb", options(nostack, preserves_flags));
    }
}
