//! What is raced in the benches: the bare instruction, this project's clocks and their rivals, and the rules of the race.
//! Never published, and named by neither product.

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

use hpt_core::realtime::{PinError, Pinned, allowed_cpus};

pub use contender::{Contender, Gives, Group, Skipped};

/// Pins the calling thread to the last CPU it may use: the first serves the interrupts of most machines.
///
/// # Errors
///
/// [`PinError`] when the kernel refuses.
pub fn pin() -> Result<Pinned, PinError> {
    Pinned::to(allowed_cpus().last().copied().unwrap_or(0))
}
