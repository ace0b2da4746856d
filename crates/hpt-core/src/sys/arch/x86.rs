//! RDTSC and CPUID. Does not decide whether the TSC is a suitable clock; `source::tsc` does.

use core::{
    arch::{asm, x86_64::__cpuid_count},
    marker::PhantomData,
};

/// CPUID leaf 1, EDX bit 4: the processor has RDTSC. Intel SDM vol. 2A (325383-085), CPUID, table 3-11.
const LEAF_FEATURES: u32 = 1;
const EDX_TSC: u32 = 1 << 4;

/// Proof that RDTSC may be executed: the processor has it and no prctl of this thread forbids it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TscToken {
    made_by_detect: PhantomData<()>,
}

impl TscToken {
    /// Checks for the instruction; `permitted` means that `PR_GET_TSC` returned `PR_TSC_ENABLE` (or is not supported by
    /// the kernel).
    pub(crate) fn detect(permitted: bool) -> Option<Self> {
        let [_, _, _, edx] = cpuid(LEAF_FEATURES, 0)?;
        (permitted && edx & EDX_TSC != 0).then_some(Self { made_by_detect: PhantomData })
    }

    /// Creates a copy of the token that `sys::native` received; only that module may create it.
    #[inline(always)]
    pub(in crate::sys) const fn installed(_own_bit: bool) -> Self {
        Self { made_by_detect: PhantomData }
    }

    /// Returns what this token holds beyond its existence: nothing.
    #[expect(clippy::unused_self, reason = "on another architecture it holds a value")]
    pub(in crate::sys) const fn own_bit(self) -> bool {
        false
    }

    /// Returns the counter, without ordering.
    #[inline(always)]
    pub(crate) fn read(self) -> u64 {
        let (low, high): (u64, u64);
        // SAFETY: touches no memory and no flags. CPUID reports the instruction, so it cannot be undefined. If CR4.TSD
        // forbids it the kernel sends SIGSEGV, which is not undefined behavior, and this token was created only after
        // prctl permitted it. Intel SDM vol. 2B (325383-085), RDTSC. nomem: lets the compiler keep values in registers
        // across a read that promises no ordering.
        unsafe {
            asm!("rdtsc", out("rax") low, out("rdx") high, options(nomem, nostack, preserves_flags));
        }
        join(low, high)
    }

    /// Reads the counter like `read`, and also returns the low half as a value that the compiler cannot derive from the
    /// whole: it is available two instructions sooner.
    #[inline(always)]
    pub(crate) fn read_split(self) -> (u64, u32) {
        let (low, high): (u64, u64);
        let sooner: u32;
        // SAFETY: as `read`; MOV touches no memory and no flags.
        unsafe {
            asm!(
                "rdtsc",
                "mov {sooner:e}, eax",
                sooner = out(reg) sooner, out("rax") low, out("rdx") high,
                options(nomem, nostack, preserves_flags)
            );
        }
        (join(low, high), sooner)
    }

    /// Returns the counter, not before all preceding instructions have completed and all preceding loads are done.
    ///
    /// LFENCE, not CPUID: CPUID traps to the hypervisor (2 µs) and clobbers four registers. Not MFENCE: it orders
    /// memory, not instructions. On AMD, LFENCE waits for the dispatch because Linux sets `DE_CFG` bit 1 at boot.
    #[inline(always)]
    pub(crate) fn read_start(self) -> u64 {
        let (low, high): (u64, u64);
        // SAFETY: as `read`; LFENCE exists since SSE2, which x86-64 includes. Intel SDM vol. 2B (325383-085), LFENCE:
        // "does not execute until all prior instructions have completed locally". No nomem: the compiler must not move
        // the timed work's memory accesses above this read.
        unsafe {
            asm!("lfence", "rdtsc", out("rax") low, out("rdx") high, options(nostack, preserves_flags));
        }
        join(low, high)
    }

    /// Returns the counter after all preceding instructions have completed, and before any following one begins.
    ///
    /// LFENCE;RDTSC;LFENCE and not RDTSCP;LFENCE: it needs no second feature bit and was no slower on the measured
    /// machines (docs/platform.md).
    #[inline(always)]
    pub(crate) fn read_end(self) -> u64 {
        let (low, high): (u64, u64);
        // SAFETY: as `read_start`. No nomem: the compiler must not move the timed work's memory accesses below this
        // read.
        unsafe {
            asm!("lfence", "rdtsc", "lfence", out("rax") low, out("rdx") high, options(nostack, preserves_flags));
        }
        join(low, high)
    }
}

/// Returns when all preceding instructions have completed and all preceding loads are done; following ones begin after
/// it. As in `TscToken::read_start`.
#[inline(always)]
pub(crate) fn wait_for_earlier() {
    // SAFETY: LFENCE is in the base instruction set of x86-64 and touches no memory. Intel SDM vol. 2A (325383-085),
    // LFENCE. No nomem: the compiler must not move memory accesses across.
    unsafe {
        asm!("lfence", options(nostack, preserves_flags));
    }
}

/// Joins the two halves. RDTSC clears the upper halves of RAX and RDX, so that taken as 64 bits they need no extension.
/// Intel SDM vol. 2B (325383-085), RDTSC.
#[inline(always)]
const fn join(low: u64, high: u64) -> u64 {
    high << 32 | low
}

/// Returns CPUID as `[eax, ebx, ecx, edx]`. Leaves above the processor's highest return meaningless values: the caller
/// queries leaf 0 (or `0x8000_0000`, `0x4000_0000`) first.
pub(crate) fn cpuid(leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
    #[allow(unused_unsafe, reason = "the intrinsic is safe in newer Rust and unsafe in the oldest we support")]
    // SAFETY: every x86-64 processor has CPUID; it reads no memory. Intel SDM vol. 2A (325383-085), CPUID.
    let answer = unsafe { __cpuid_count(leaf, subleaf) };
    Some([answer.eax, answer.ebx, answer.ecx, answer.edx])
}
