//! The contenders of the benches (the bare instruction, this project's clocks and their
//! competitors) and the method of comparison.
//! Not published, and not used by the library or the command.

pub mod bare;
pub mod brackets;
pub mod contender;
pub mod handover;
pub mod ours;
pub mod pairs;
pub mod programs;
pub mod report;
pub mod rivals;
pub mod rounds;
pub mod slewing;
pub mod startup;
pub mod tails;

use hpt_realtime::{PinError, Pinned, allowed_cpus};

pub use contender::{Contender, Gives, Group, Skipped};

/// Pins the calling thread to the last CPU that it may use, because the first handles the
/// interrupts on most machines.
///
/// # Errors
///
/// [`PinError`] if the kernel rejects the request.
pub fn pin() -> Result<Pinned, PinError> {
    Pinned::new(allowed_cpus().last().copied().unwrap_or(0))
}
