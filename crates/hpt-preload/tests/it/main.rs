//! Tests of the preloaded library from outside, in programs that load it. These programs are this one, started again
//! (`program.rs`).

#[macro_use]
mod support;

mod preloaded;
mod program;
