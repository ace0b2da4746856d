//! The counterpart of `riscv.rs` on other processors: a token that cannot exist. Never returns an invented number.

use super::CounterRefused;

/// A token type that has no values, so nothing can be read through it.
#[derive(Clone, Copy, Debug)]
pub enum TimeToken {}

impl TimeToken {
    /// Returns an error, because this machine has no RDTIME.
    pub fn detect(_permitted: bool, _self_synchronized: bool) -> Result<Self, CounterRefused> {
        Err(CounterRefused::NotReadable)
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
