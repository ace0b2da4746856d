//! PMCCNTR, read as the counter of a perf event of this thread by a 32-bit program on an ARMv8 processor. Does not
//! check that the event has this counter; `perf` checks the event's page before every read.

use core::arch::asm;

/// The value of `perf_event_attr.config1` that requests user-space reads: permission to read the counter (bit 1), but
/// not a 64-bit counter, because the instruction used here returns only 32 bits. Linux,
/// Documentation/arch/arm64/perf.rst.
pub(in crate::linux) const USER_ACCESS: u64 = 0b10;

/// The number of the cycle counter in the event's page. Linux, drivers/perf/arm_pmuv3.c, `armv8pmu_user_event_idx`.
const CYCLE_COUNTER: u32 = 32;

/// Returns the value of the counter whose number is in the event's page; `None` if that is not the cycle counter.
#[inline(always)]
pub(in crate::linux) fn counter(index: u32) -> Option<u64> {
    if index != CYCLE_COUNTER {
        return None;
    }
    let cycles: u32;
    // SAFETY: the instruction touches no memory and no flags. The event's page contains a number only on processors
    // that have the register, and while the kernel lets this thread read it. If that permission has since been revoked,
    // the instruction raises SIGILL, which is not undefined behavior. Arm ARM (DDI 0487), G8.4, PMCCNTR; Linux,
    // Documentation/arch/arm64/perf.rst, "Perf Userspace PMU Hardware Counter Access". The option nomem is not used,
    // because the reads of the page before and after the instruction must stay in place.
    unsafe {
        asm!("mrc p15, 0, {}, c9, c13, 0", out(reg) cycles, options(nostack, preserves_flags));
    }
    Some(cycles.into())
}

/// Waits until all preceding instructions have completed. Following instructions begin only after that. Never called on
/// a processor without ISB, because no event's page contains a number there.
#[inline(always)]
pub(in crate::linux) fn wait() {
    // SAFETY: this is ISB in the A32 encoding, written as a number because assemblers for ARMv6 do not support the
    // name. It touches nothing, and raises SIGILL on ARMv6, which is not undefined behavior. Arm ARM for ARMv7-A (DDI
    // 0406C.d), A8.8.54. The option nomem is not used, because the compiler must not move memory accesses across the
    // barrier.
    unsafe {
        asm!(".inst 0xf57ff06f", options(nostack, preserves_flags));
    }
}
