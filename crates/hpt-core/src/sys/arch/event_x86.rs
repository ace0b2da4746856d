//! RDPMC: the counter of a perf event of this thread. Does not check whether there is one; `sys::perf` checks the
//! event's page before every read.
//!
//! Not tested on hardware: no machine with such counters was available.

use core::arch::asm;

/// The value of `perf_event_attr.config1` that requests user-space reads: none is needed.
pub(in crate::sys) const USER_ACCESS: u64 = 0;

/// Returns the counter with the number in the event's page, which is one more than RDPMC's.
#[inline(always)]
pub(in crate::sys) fn counter(index: u32) -> Option<u64> {
    let (low, high): (u64, u64);
    let number = index.checked_sub(1)?;
    // SAFETY: touches no memory and no flags. The event's page has a number only while the kernel lets this thread
    // execute RDPMC (CR4.PCE). If that was revoked since, or the number does not belong to a counter, it raises
    // SIGSEGV, which is not undefined behavior. Intel SDM vol. 2B (325383-085), RDPMC; Linux, arch/x86/events/core.c,
    // `x86_pmu_event_idx`. No nomem: the reads of the page before and after it must stay there.
    unsafe {
        asm!("rdpmc", in("ecx") number, out("rax") low, out("rdx") high, options(nostack, preserves_flags));
    }
    Some(high << 32 | low)
}

/// Returns when all preceding instructions have completed; following ones begin after it.
#[inline(always)]
pub(in crate::sys) fn wait() {
    // SAFETY: touches nothing; LFENCE exists since SSE2, which x86-64 includes. Intel SDM vol. 2B (325383-085), LFENCE.
    // No nomem: the compiler must not move memory accesses across.
    unsafe {
        asm!("lfence", options(nostack, preserves_flags));
    }
}
