//! The machine, on targets where this crate knows no files that describe it: Linux is the only system that it examines.
//! The counterpart of `mod.rs`.

pub use crate::architecture::Architecture;

/// The machine on which the program runs. On targets other than Linux, nothing is known about it, and the only sources
/// are the clocks of the standard library.
#[derive(Clone, Debug)]
pub struct Host {}

impl Host {
    /// Returns the machine on which the program runs.
    #[must_use]
    pub const fn live() -> Self {
        Self {}
    }

    /// Returns true: system snapshots are available on Linux only.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        true
    }
}
