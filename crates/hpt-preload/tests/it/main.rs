//! The tests of the preloaded library from outside: programs that it is loaded into. These programs are this one, started again (`program.rs`).

mod preloaded;
mod program;
mod support;
