//! The bare instructions, the fence and the C library's call with which everything else is
//! compared. Converts nothing, and only joins the halves of an instruction's result.
#![expect(
    unsafe_code,
    reason = "this file and bare/ contain the unsafe code of this package: an instruction or a call in each block"
)]

pub mod shared;
pub mod signal;
pub mod slewing;

pub use self::machine::{Counter, Fence};

/// Calls `clock_gettime(CLOCK_MONOTONIC)` of the C library. Returns zero if a sandbox denies it.
#[must_use]
#[inline(always)]
pub fn clock_monotonic() -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a live timespec that the call may fill; a call that fails leaves it as it
    // is. clock_gettime(2).
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now
}

/// Converts a time to nanoseconds. A time of the system clock fits for 292 years.
#[must_use]
#[inline(always)]
#[allow(clippy::useless_conversion, reason = "the fields have 32 bits on 32-bit machines")]
pub fn nanos(time: libc::timespec) -> i64 {
    i64::from(time.tv_sec) * 1_000_000_000 + i64::from(time.tv_nsec)
}

#[cfg(target_arch = "x86_64")]
mod machine {
    use core::{arch::asm, marker::PhantomData};

    use hpt_core::Host;
    use hpt_sys::host::CounterPermission;

    /// Leaf 1, EDX bit 4: the processor has RDTSC. Intel SDM vol. 2A (325383-085), CPUID, table
    /// 3-11.
    const LEAF_FEATURES: u32 = 1;
    const EDX_TSC: u32 = 1 << 4;

    /// Proof that RDTSC may be executed.
    #[derive(Clone, Copy, Debug)]
    pub struct Counter {
        made_by_detect: PhantomData<()>,
    }

    impl Counter {
        /// The name of the unordered read in tables.
        pub const PLAIN: &str = "bare rdtsc";
        /// The name of the ordered read in tables.
        pub const ORDERED: &str = "bare lfence;rdtsc";

        /// Checks whether the instruction exists, and whether the calling thread may use it.
        ///
        /// # Errors
        ///
        /// Returns the reason if it may not be executed.
        pub fn detect(host: &Host) -> Result<Self, &'static str> {
            if !host.is_live() {
                return Err("a captured machine has no counter to read");
            }
            if CounterPermission::of_this_thread() == CounterPermission::Forbidden {
                return Err("prctl(PR_SET_TSC) denies this thread access to the counter");
            }
            match host.cpu().leaf(LEAF_FEATURES) {
                Some([_, _, _, edx]) if edx & EDX_TSC != 0 => Ok(Self { made_by_detect: PhantomData }),
                _ => Err("CPUID leaf 1 has EDX bit 4 clear: the processor has no RDTSC"),
            }
        }

        /// Reads the counter, unordered.
        #[must_use]
        #[inline(always)]
        pub fn read(self) -> u64 {
            let (low, high): (u64, u64);
            // SAFETY: touches no memory and no flags. The processor has the instruction and the
            // thread the right to it: `detect` made this token only then; where that right is
            // withdrawn later the kernel sends SIGSEGV, which is not undefined behavior. Intel SDM
            // vol. 2B (325383-085), RDTSC.
            // nomem: the read promises no order, so values may stay in registers across it.
            unsafe {
                asm!("rdtsc", out("rax") low, out("rdx") high, options(nomem, nostack, preserves_flags));
            }
            join(low, high)
        }

        /// Reads the counter after all earlier instructions have completed.
        #[must_use]
        #[inline(always)]
        pub fn read_ordered(self) -> u64 {
            let (low, high): (u64, u64);
            // SAFETY: as `read`; LFENCE belongs to SSE2, which every x86-64 processor has. Intel
            // SDM vol. 2B (325383-085), LFENCE. No nomem: the compiler must not move earlier
            // accesses below an ordered read.
            unsafe {
                asm!("lfence", "rdtsc", out("rax") low, out("rdx") high, options(nostack, preserves_flags));
            }
            join(low, high)
        }
    }

    /// Joins both halves. RDTSC clears the upper halves of RAX and RDX, so that 64-bit values need
    /// no extension. Intel SDM vol. 2B (325383-085), RDTSC.
    #[inline(always)]
    const fn join(low: u64, high: u64) -> u64 {
        high << 32 | low
    }

    /// The fence that makes every read wait for the previous one: LFENCE.
    #[derive(Clone, Copy, Debug)]
    pub struct Fence {
        made_by_detect: PhantomData<()>,
    }

    impl Fence {
        /// Its name in tables.
        pub const NAME: &str = "lfence";

        /// Returns the fence, which every x86-64 processor has.
        #[must_use]
        pub const fn detect() -> Option<Self> {
            Some(Self { made_by_detect: PhantomData })
        }

        /// Delays all later instructions until all earlier ones have completed.
        #[inline(always)]
        pub fn wait(self) {
            // SAFETY: LFENCE belongs to SSE2, which every x86-64 processor has; it changes no
            // register, flag or memory. Intel SDM vol. 2B (325383-085), LFENCE.
            // No nomem: values passed on before the fence must be in memory before it.
            unsafe {
                asm!("lfence", options(nostack, preserves_flags));
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod machine {
    use core::{arch::asm, marker::PhantomData};

    use hpt_core::Host;
    use hpt_sys::host::CounterPermission;

    /// Proof that `CNTVCT_EL0` may be read.
    #[derive(Clone, Copy, Debug)]
    pub struct Counter {
        made_by_detect: PhantomData<()>,
    }

    impl Counter {
        /// The name of the unordered read in tables.
        pub const PLAIN: &str = "bare mrs cntvct_el0";
        /// The name of the ordered read in tables.
        pub const ORDERED: &str = "bare isb;mrs cntvct_el0";

        /// Checks whether the calling thread may read the register.
        ///
        /// # Errors
        ///
        /// Returns the reason if it may not be read.
        pub fn detect(host: &Host) -> Result<Self, &'static str> {
            if !host.is_live() {
                return Err("a captured machine has no counter to read");
            }
            if CounterPermission::of_this_thread() == CounterPermission::Forbidden {
                return Err("prctl(PR_SET_TSC) denies this thread access to the counter");
            }
            Ok(Self { made_by_detect: PhantomData })
        }

        /// Reads the counter, unordered.
        #[must_use]
        #[inline(always)]
        pub fn read(self) -> u64 {
            let ticks: u64;
            // SAFETY: touches no memory and no flags. Every ARMv8-A processor has the register;
            // Linux lets EL0 read it, or traps the read and emulates it (arch/arm64/kernel/traps.c,
            // cntvct_read_handler), unless prctl denies it, which `detect` checked. Arm ARM (DDI
            // 0487), CNTVCT_EL0.
            // nomem: the read promises no order, so values may stay in registers across it.
            unsafe {
                asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags));
            }
            ticks
        }

        /// Reads the counter after all earlier instructions have completed.
        #[must_use]
        #[inline(always)]
        pub fn read_ordered(self) -> u64 {
            let ticks: u64;
            // SAFETY: as `read`; ISB is an instruction of every ARMv8-A processor. Arm ARM (DDI
            // 0487), ISB. No nomem: the compiler must not move earlier accesses below an ordered
            // read.
            unsafe {
                asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags));
            }
            ticks
        }
    }

    /// The fence that makes every read wait for the previous one: ISB.
    #[derive(Clone, Copy, Debug)]
    pub struct Fence {
        made_by_detect: PhantomData<()>,
    }

    impl Fence {
        /// Its name in tables.
        pub const NAME: &str = "isb";

        /// Returns the fence, which every ARMv8-A processor has.
        #[must_use]
        pub const fn detect() -> Option<Self> {
            Some(Self { made_by_detect: PhantomData })
        }

        /// Delays all later instructions until the pipeline has been refilled after all earlier
        /// ones.
        #[inline(always)]
        pub fn wait(self) {
            // SAFETY: ISB changes no register, flag or memory. Arm ARM (DDI 0487), ISB.
            // No nomem: values passed on before the fence must be in memory before it.
            unsafe {
                asm!("isb", options(nostack, preserves_flags));
            }
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod machine {
    use hpt_core::Host;

    /// Uninhabited: no counter can be read in user space on every processor of this architecture.
    #[derive(Clone, Copy, Debug)]
    pub enum Counter {}

    impl Counter {
        /// The name of the unordered read in tables.
        pub const PLAIN: &str = "bare instruction";
        /// The name of the ordered read in tables.
        pub const ORDERED: &str = "bare ordered instruction";

        /// Returns an error.
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

    /// Uninhabited: no fence is known to wait for a read.
    #[derive(Clone, Copy, Debug)]
    pub enum Fence {}

    impl Fence {
        /// Its name in tables.
        pub const NAME: &str = "none";

        /// Returns `None`.
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
    fn ordered_reads_are_in_order() {
        if let Ok(counter) = Counter::detect(&Host::live()) {
            let (first, second) = (counter.read_ordered(), counter.read_ordered());
            assert!(first <= second, "{first} {second}");
        }
    }

    #[test]
    fn the_c_librarys_clock_does_not_run_backwards() {
        let (first, second) = (clock_monotonic(), clock_monotonic());
        assert!((first.tv_sec, first.tv_nsec) <= (second.tv_sec, second.tv_nsec));
    }
}
