//! The checks of this workspace that read Rust: which module imports which, and where unsafe code
//! stands.
//! Builds nothing and runs nothing: it reads the source text only.

pub mod cycles;
pub mod facts;
pub mod figures;
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
