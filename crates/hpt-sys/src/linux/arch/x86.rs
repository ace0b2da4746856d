//! RDTSC and CPUID. Does not decide whether the TSC is a suitable clock; `source::tsc` does.

use core::{
    arch::{asm, x86_64::__cpuid_count},
    marker::PhantomData,
};

/// CPUID leaf 1, EDX bit 4: the processor has RDTSC. Intel SDM vol. 2A (325383-085), CPUID, table 3-11.
const LEAF_FEATURES: u32 = 1;
const EDX_TSC: u32 = 1 << 4;

/// Proof that RDTSC may be executed: the processor has it and no prctl in this thread forbids it.
#[derive(Clone, Copy, Debug)]
pub struct TscToken {
    made_by_detect: PhantomData<()>,
}

impl TscToken {
    /// Checks whether the processor has the instruction. `permitted` means that `PR_GET_TSC` returned `PR_TSC_ENABLE`
    /// or is not supported by the kernel.
    pub fn detect(permitted: bool) -> Option<Self> {
        let [_, _, _, edx] = cpuid(LEAF_FEATURES, 0)?;
        (permitted && edx & EDX_TSC != 0).then_some(Self { made_by_detect: PhantomData })
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
        let (low, high): (u64, u64);
        // SAFETY: the instruction touches no memory and no flags. CPUID reports the instruction, so it cannot be
        // undefined. If CR4.TSD forbids the instruction, the kernel sends SIGSEGV, which is not undefined behavior.
        // This token was created only after prctl had permitted the instruction. Intel SDM vol. 2B (325383-085), RDTSC.
        // The option nomem lets the compiler keep values in registers across a read that promises no ordering.
        unsafe {
            asm!("rdtsc", out("rax") low, out("rdx") high, options(nomem, nostack, preserves_flags));
        }
        join(low, high)
    }

    /// Reads the counter like `read`, and also returns the low half as a value that the compiler cannot derive from the
    /// whole. The low half is available two instructions sooner.
    #[inline(always)]
    pub fn read_split(self) -> (u64, u32) {
        let (low, high): (u64, u64);
        let sooner: u32;
        // SAFETY: as in `read`. MOV touches no memory and no flags.
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

    /// Reads the counter after all preceding instructions and loads have completed.
    ///
    /// LFENCE is used instead of CPUID, which traps to the hypervisor (2 µs) and clobbers four registers. It is used
    /// instead of MFENCE, which orders memory accesses but not instructions. On AMD processors, LFENCE is
    /// dispatch-serializing because Linux sets `DE_CFG` bit 1 at boot.
    #[inline(always)]
    pub fn read_start(self) -> u64 {
        let (low, high): (u64, u64);
        // SAFETY: as in `read`. LFENCE is part of SSE2, which x86-64 includes. Intel SDM vol. 2B (325383-085), LFENCE:
        // "does not execute until all prior instructions have completed locally". The option nomem is not used, because
        // the compiler must not move the timed work's memory accesses above this read.
        unsafe {
            asm!("lfence", "rdtsc", out("rax") low, out("rdx") high, options(nostack, preserves_flags));
        }
        join(low, high)
    }

    /// Reads the counter after all preceding instructions have completed and before any following instruction begins.
    ///
    /// LFENCE;RDTSC;LFENCE is used instead of RDTSCP;LFENCE, because it needs no second feature bit and was no slower
    /// on the measured machines (docs/platform.md).
    #[inline(always)]
    pub fn read_end(self) -> u64 {
        let (low, high): (u64, u64);
        // SAFETY: as in `read_start`. The option nomem is not used, because the compiler must not move the timed work's
        // memory accesses below this read.
        unsafe {
            asm!("lfence", "rdtsc", "lfence", out("rax") low, out("rdx") high, options(nostack, preserves_flags));
        }
        join(low, high)
    }
}

/// Waits until all preceding instructions and loads have completed, as in `TscToken::read_start`. Following
/// instructions begin only after that.
#[inline(always)]
pub fn wait_for_earlier() {
    // SAFETY: LFENCE is in the base instruction set of x86-64 and touches no memory. Intel SDM vol. 2A (325383-085),
    // LFENCE. The option nomem is not used, because the compiler must not move memory accesses across the barrier.
    unsafe {
        asm!("lfence", options(nostack, preserves_flags));
    }
}

/// Joins the two halves. RDTSC clears the upper halves of RAX and RDX, so the 64-bit values need no zero extension.
/// Intel SDM vol. 2B (325383-085), RDTSC.
#[inline(always)]
const fn join(low: u64, high: u64) -> u64 {
    high << 32 | low
}

/// Returns the result of CPUID as `[eax, ebx, ecx, edx]`. Leaves above the processor's highest leaf return meaningless
/// values, so the caller must query leaf 0 (or `0x8000_0000`, `0x4000_0000`) first.
pub fn cpuid(leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
    #[allow(unused_unsafe, reason = "the intrinsic is safe in newer Rust and unsafe in the oldest we support")]
    // SAFETY: every x86-64 processor has CPUID, which reads no memory. Intel SDM vol. 2A (325383-085), CPUID.
    let answer = unsafe { __cpuid_count(leaf, subleaf) };
    Some([answer.eax, answer.ebx, answer.ecx, answer.edx])
}
