//! The checks of this workspace: imports between modules, places of unsafe code, wording, and the
//! answers of emulated boards.
//! Reads source text and answers only; builds and runs nothing.

pub mod cycles;
pub mod facts;
pub mod judge;
pub mod layers;
pub mod program;
pub mod rules;
mod tokens;
pub mod tree;
pub mod unsafe_code;
pub mod unsafe_words;
mod violation;
pub mod words;
pub mod written;

pub use violation::Violation;
