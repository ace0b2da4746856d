//! The tests of the preloaded library from outside: programs that it is loaded into. These programs are this one, started again (`program.rs`).

#[macro_use]
mod support;

mod preloaded;
mod program;
