//! The checks of this workspace: wording, the picture of the crates, and the answers of emulated boards.
#![forbid(unsafe_code)]

pub mod judge;
pub mod picture;
mod violation;
pub mod words;

pub use violation::Violation;
