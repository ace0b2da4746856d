//! The counterpart of `cycles_aarch64.rs` and `cycles_arm.rs` on machines whose cycles are read through perf events
//! only: a token that cannot exist. Never panics and never returns an invented number.

use super::CyclesRefused;

/// A token type that has no values, so nothing can be read through it.
#[derive(Clone, Copy, Debug)]
pub enum CyclesToken {}

impl CyclesToken {
    /// Returns an error, because this machine has no cycle counter that programs can read without a perf event.
    pub fn detect(_platform: Option<&str>, _by_module: bool) -> Result<Self, CyclesRefused> {
        Err(CyclesRefused::NoAccessRegister)
    }

    pub fn bits(self) -> u8 {
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

    pub fn control_register(self) -> Option<u32> {
        match self {}
    }
}
