//! The bare instructions, the fence and the C library's call that everything else is held against.
//! Converts nothing, and adds nothing to an instruction but what joins its halves.
#![expect(
    unsafe_code,
    reason = "with bare/ the room of this package where it lives: an instruction or a call in each block"
)]

pub mod shared;
pub mod signal;
pub mod slewing;

pub use self::machine::{Counter, Fence};

/// `clock_gettime(CLOCK_MONOTONIC)` of the C library, as it is; zero where a sandbox refuses it.
#[must_use]
#[inline(always)]
pub fn clock_monotonic() -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a live timespec that the call may fill; a call that fails leaves it as it is. clock_gettime(2).
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now
}

/// The same as one number; a time of the system clock fits into it for 292 years.
#[must_use]
#[inline(always)]
#[allow(clippy::useless_conversion, reason = "the fields have 32 bits on 32-bit machines")]
pub fn nanoseconds(time: libc::timespec) -> i64 {
    i64::from(time.tv_sec) * 1_000_000_000 + i64::from(time.tv_nsec)
}

#[cfg(target_arch = "x86_64")]
mod machine {
    use core::{arch::asm, marker::PhantomData};

    use hpt_core::{Host, host::CounterPermission};

    /// Leaf 1, EDX bit 4: the processor has RDTSC. Intel SDM vol. 2A (325383-085), CPUID, table 3-11.
    const LEAF_FEATURES: u32 = 1;
    const EDX_TSC: u32 = 1 << 4;

    /// Proof that RDTSC may be executed.
    #[derive(Clone, Copy, Debug)]
    pub struct Counter {
        made_by_detect: PhantomData<()>,
    }

    impl Counter {
        /// What the plain read is called in tables.
        pub const PLAIN: &str = "bare rdtsc";
        /// What the ordered read is called in tables.
        pub const ORDERED: &str = "bare lfence;rdtsc";

        /// Looks for the instruction, and for the calling thread's right to it.
        ///
        /// # Errors
        ///
        /// Why it may not be executed, in words.
        pub fn detect(host: &Host) -> Result<Self, &'static str> {
            if !host.is_live() {
                return Err("a captured machine has no counter to read");
            }
            if CounterPermission::of_this_thread() == CounterPermission::Forbidden {
                return Err("prctl(PR_SET_TSC) forbids this thread to read the counter");
            }
            match host.cpu().leaf(LEAF_FEATURES) {
                Some([_, _, _, edx]) if edx & EDX_TSC != 0 => Ok(Self { made_by_detect: PhantomData }),
                _ => Err("CPUID leaf 1 has EDX bit 4 clear: the processor has no RDTSC"),
            }
        }

        /// The counter, at whatever moment the processor finds convenient.
        #[must_use]
        #[inline(always)]
        pub fn read(self) -> u64 {
            let (low, high): (u64, u64);
            // SAFETY: touches no memory and no flags. The processor has the instruction and the thread the right to it: `detect` made this
            // token only then; where that right is withdrawn later the kernel sends SIGSEGV, which is not undefined behaviour. Intel SDM
            // vol. 2B (325383-085), RDTSC.
            // nomem: the read promises no order, so values may stay in registers across it.
            unsafe {
                asm!("rdtsc", out("rax") low, out("rdx") high, options(nomem, nostack, preserves_flags));
            }
            join(low, high)
        }

        /// The counter, not before all earlier instructions have completed.
        #[must_use]
        #[inline(always)]
        pub fn read_ordered(self) -> u64 {
            let (low, high): (u64, u64);
            // SAFETY: as `read`; LFENCE belongs to SSE2, which every x86-64 processor has. Intel SDM vol. 2B (325383-085), LFENCE.
            // No nomem: the compiler must not move earlier accesses below an ordered read.
            unsafe {
                asm!("lfence", "rdtsc", out("rax") low, out("rdx") high, options(nostack, preserves_flags));
            }
            join(low, high)
        }
    }

    /// RDTSC clears the upper halves of RAX and RDX: taken as 64 bits they need no extension. Intel SDM vol. 2B (325383-085), RDTSC.
    #[inline(always)]
    const fn join(low: u64, high: u64) -> u64 {
        high << 32 | low
    }

    /// The fence that makes every read wait for the one before: LFENCE.
    #[derive(Clone, Copy, Debug)]
    pub struct Fence {
        made_by_detect: PhantomData<()>,
    }

    impl Fence {
        /// Its name in tables.
        pub const NAME: &str = "lfence";

        /// Every x86-64 processor has it.
        #[must_use]
        pub const fn detect() -> Option<Self> {
            Some(Self { made_by_detect: PhantomData })
        }

        /// Holds back all later instructions until all earlier ones have completed.
        #[inline(always)]
        pub fn wait(self) {
            // SAFETY: LFENCE belongs to SSE2, which every x86-64 processor has; it changes no register, flag or memory. Intel SDM vol. 2B
            // (325383-085), LFENCE.
            // No nomem: what was handed on before the fence is to be in memory before it.
            unsafe {
                asm!("lfence", options(nostack, preserves_flags));
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod machine {
    use core::{arch::asm, marker::PhantomData};

    use hpt_core::{Host, host::CounterPermission};

    /// Proof that `CNTVCT_EL0` may be read.
    #[derive(Clone, Copy, Debug)]
    pub struct Counter {
        made_by_detect: PhantomData<()>,
    }

    impl Counter {
        /// What the plain read is called in tables.
        pub const PLAIN: &str = "bare mrs cntvct_el0";
        /// What the ordered read is called in tables.
        pub const ORDERED: &str = "bare isb;mrs cntvct_el0";

        /// Looks for the calling thread's right to the register.
        ///
        /// # Errors
        ///
        /// Why it may not be read, in words.
        pub fn detect(host: &Host) -> Result<Self, &'static str> {
            if !host.is_live() {
                return Err("a captured machine has no counter to read");
            }
            if CounterPermission::of_this_thread() == CounterPermission::Forbidden {
                return Err("prctl(PR_SET_TSC) forbids this thread to read the counter");
            }
            Ok(Self { made_by_detect: PhantomData })
        }

        /// The counter, at whatever moment the processor finds convenient.
        #[must_use]
        #[inline(always)]
        pub fn read(self) -> u64 {
            let ticks: u64;
            // SAFETY: touches no memory and no flags. Every ARMv8-A processor has the register; Linux lets EL0 read it, or traps the read and
            // emulates it (arch/arm64/kernel/traps.c, cntvct_read_handler), unless prctl forbids it, which `detect` asked. Arm ARM (DDI
            // 0487), CNTVCT_EL0.
            // nomem: the read promises no order, so values may stay in registers across it.
            unsafe {
                asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags));
            }
            ticks
        }

        /// The counter, not before all earlier instructions have completed.
        #[must_use]
        #[inline(always)]
        pub fn read_ordered(self) -> u64 {
            let ticks: u64;
            // SAFETY: as `read`; ISB is an instruction of every ARMv8-A processor. Arm ARM (DDI 0487), ISB.
            // No nomem: the compiler must not move earlier accesses below an ordered read.
            unsafe {
                asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags));
            }
            ticks
        }
    }

    /// The fence that makes every read wait for the one before: ISB.
    #[derive(Clone, Copy, Debug)]
    pub struct Fence {
        made_by_detect: PhantomData<()>,
    }

    impl Fence {
        /// Its name in tables.
        pub const NAME: &str = "isb";

        /// Every ARMv8-A processor has it.
        #[must_use]
        pub const fn detect() -> Option<Self> {
            Some(Self { made_by_detect: PhantomData })
        }

        /// Holds back all later instructions until the pipeline has been refilled after all earlier ones.
        #[inline(always)]
        pub fn wait(self) {
            // SAFETY: ISB changes no register, flag or memory. Arm ARM (DDI 0487), ISB.
            // No nomem: what was handed on before the fence is to be in memory before it.
            unsafe {
                asm!("isb", options(nostack, preserves_flags));
            }
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod machine {
    use hpt_core::Host;

    /// No counter that user space may read on every processor of this architecture: a token without values.
    #[derive(Clone, Copy, Debug)]
    pub enum Counter {}

    impl Counter {
        /// What the plain read would be called in tables.
        pub const PLAIN: &str = "bare instruction";
        /// What the ordered read would be called in tables.
        pub const ORDERED: &str = "bare ordered instruction";

        /// There is none.
        ///
        /// # Errors
        ///
        /// Always.
        pub fn detect(_host: &Host) -> Result<Self, &'static str> {
            Err("no instruction reads a counter in user space on every processor of this architecture")
        }

        /// Cannot be called.
        #[must_use]
        pub fn read(self) -> u64 {
            match self {}
        }

        /// Cannot be called.
        #[must_use]
        pub fn read_ordered(self) -> u64 {
            match self {}
        }
    }

    /// No fence that is known to wait for a read: a token without values.
    #[derive(Clone, Copy, Debug)]
    pub enum Fence {}

    impl Fence {
        /// What it would be called in tables.
        pub const NAME: &str = "none";

        /// There is none.
        #[must_use]
        pub const fn detect() -> Option<Self> {
            None
        }

        /// Cannot be called.
        pub fn wait(self) {
            match self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use hpt_core::Host;

    use super::{Counter, clock_monotonic};

    #[test]
    fn ordered_reads_stand_in_their_order() {
        if let Ok(counter) = Counter::detect(&Host::live()) {
            let (first, second) = (counter.read_ordered(), counter.read_ordered());
            assert!(first <= second, "{first} {second}");
        }
    }

    #[test]
    fn the_c_librarys_clock_moves_forwards() {
        let (first, second) = (clock_monotonic(), clock_monotonic());
        assert!((first.tv_sec, first.tv_nsec) <= (second.tv_sec, second.tv_nsec));
    }
}
