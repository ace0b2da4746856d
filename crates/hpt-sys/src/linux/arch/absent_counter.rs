//! The counterpart of `aarch64.rs` and `arm.rs` on machines without that counter: a token that cannot exist. Never
//! returns an invented number.

use super::CounterRefused;

/// A token type that has no values, so nothing can be read through it.
#[derive(Clone, Copy, Debug)]
pub enum CounterToken {}

impl CounterToken {
    /// Returns an error, because this machine has no CNTVCT.
    pub fn detect(_permitted: bool, _self_synchronized: bool) -> Result<Self, CounterRefused> {
        Err(CounterRefused::NotReadable)
    }

    /// Returns `None`, because no token can be installed.
    #[cfg_attr(
        any(target_arch = "x86_64", target_arch = "x86"),
        expect(dead_code, reason = "on x86 the TSC is installed")
    )]
    pub(in crate::linux) const fn installed(_own_bit: bool) -> Option<Self> {
        None
    }

    #[cfg_attr(
        any(target_arch = "x86_64", target_arch = "x86"),
        expect(dead_code, reason = "on x86 the TSC is installed")
    )]
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

    pub fn frequency_register(self) -> u32 {
        match self {}
    }
}
