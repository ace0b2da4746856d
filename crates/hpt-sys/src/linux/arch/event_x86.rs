//! RDPMC, which reads the counter of a perf event of this thread. Does not check whether the event has a counter;
//! `perf` checks the event's page before every read.
//!
//! Not tested on hardware: no machine with such counters was available.

use core::arch::asm;

/// The value of `perf_event_attr.config1` that requests user-space reads: zero, because no request is needed.
pub(in crate::linux) const USER_ACCESS: u64 = 0;

/// Returns the value of the counter whose number is in the event's page. RDPMC takes that number minus one.
#[inline(always)]
pub(in crate::linux) fn counter(index: u32) -> Option<u64> {
    let (low, high): (u64, u64);
    let number = index.checked_sub(1)?;
    // SAFETY: the instruction touches no memory and no flags. The event's page contains a number only while the kernel
    // lets this thread execute RDPMC (CR4.PCE). If that permission has since been revoked, or if the number does not
    // belong to a counter, the instruction raises SIGSEGV, which is not undefined behavior. Intel SDM vol. 2B
    // (325383-085), RDPMC; Linux, arch/x86/events/core.c, `x86_pmu_event_idx`. The option nomem is not used, because
    // the reads of the page before and after the instruction must stay in place.
    unsafe {
        asm!("rdpmc", in("ecx") number, out("rax") low, out("rdx") high, options(nostack, preserves_flags));
    }
    Some(high << 32 | low)
}

/// Waits until all preceding instructions have completed. Following instructions begin only after that.
#[inline(always)]
pub(in crate::linux) fn wait() {
    // SAFETY: the instruction touches nothing. LFENCE is part of SSE2, which x86-64 includes. Intel SDM vol. 2B
    // (325383-085), LFENCE. The option nomem is not used, because the compiler must not move memory accesses across the
    // barrier.
    unsafe {
        asm!("lfence", options(nostack, preserves_flags));
    }
}
