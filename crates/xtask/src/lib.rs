//! The checks of this workspace: which module imports which, where unsafe code stands, and what
//! emulated boards answered.
//! Builds nothing and runs nothing: it reads source text and answers only.

pub mod cycles;
pub mod facts;
pub mod figures;
pub mod judge;
pub mod layers;
pub mod program;
pub mod rules;
mod tokens;
pub mod tree;
pub mod unsafe_code;
pub mod unsafe_words;
mod violation;
pub mod written;

pub use violation::Violation;
