//! The counterpart of `x86.rs` on machines without that counter: a token that cannot exist. Never panics and never
//! returns an invented number.

/// A token type that has no values, so nothing can be read through it.
#[derive(Clone, Copy, Debug)]
pub enum TscToken {}

impl TscToken {
    /// Returns `None`, because this machine has no RDTSC.
    pub fn detect(_permitted: bool) -> Option<Self> {
        None
    }

    /// Returns `None`, because no token can be installed.
    #[cfg(target_arch = "x86")]
    pub(in crate::linux) const fn installed(_own_bit: bool) -> Option<Self> {
        None
    }

    #[cfg(target_arch = "x86")]
    pub(in crate::linux) fn own_bit(self) -> bool {
        match self {}
    }

    pub fn read(self) -> u64 {
        match self {}
    }

    pub fn read_start(self) -> u64 {
        match self {}
    }

    pub fn read_end(self) -> u64 {
        match self {}
    }
}

/// Returns `None`, because this machine has no CPUID.
pub fn cpuid(_leaf: u32, _subleaf: u32) -> Option<[u32; 4]> {
    None
}
