//! Tests the checks with planted violations: each is found, and nothing else.
#![forbid(unsafe_code)]

mod cycles;
mod layers;
mod modules;
mod std_instant;
mod support;
mod unsafe_code;
mod words;
mod workspace;
