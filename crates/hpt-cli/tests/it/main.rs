//! The tests of the command `hpt` from outside, in one program: the built binary, as its users meet it.

mod golden;
mod live;
mod realtime;
mod schemas;
mod support;
mod trouble;
