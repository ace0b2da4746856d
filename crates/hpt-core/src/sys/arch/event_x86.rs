//! RDPMC: the counter behind a perf event of this thread.
//! Does not know whether there is one: `sys::perf` asks the event's page before every read.
//!
//! Unproved: no machine with such counters was at hand.

use core::arch::asm;

/// What `perf_event_attr.config1` asks for so that programs may read the counter: nothing, they may.
pub(in crate::sys) const USER_ACCESS: u64 = 0;

/// The counter whose number the event's page gives, which is one more than RDPMC's.
#[inline(always)]
pub(in crate::sys) fn counter(index: u32) -> Option<u64> {
    let (low, high): (u64, u64);
    let number = index.checked_sub(1)?;
    // SAFETY: touches no memory and no flags. The event's page gives a number only while the kernel lets this thread execute RDPMC (CR4.PCE); where that was
    // taken away since, or the number is that of no counter, it raises SIGSEGV, which is not undefined behaviour. Intel SDM vol. 2B (325383-085), RDPMC;
    // Linux, arch/x86/events/core.c, `x86_pmu_event_idx`.
    // No nomem: the reads of the page before and behind it must stay there.
    unsafe {
        asm!("rdpmc", in("ecx") number, out("rax") low, out("rdx") high, options(nostack, preserves_flags));
    }
    Some(high << 32 | low)
}

/// Returns when all earlier instructions have completed; later ones begin after it.
#[inline(always)]
pub(in crate::sys) fn wait() {
    // SAFETY: touches nothing; LFENCE has been there since SSE2, which x86-64 includes. Intel SDM vol. 2B (325383-085), LFENCE.
    // No nomem: the compiler must not move memory accesses across.
    unsafe {
        asm!("lfence", options(nostack, preserves_flags));
    }
}
