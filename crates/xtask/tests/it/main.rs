//! The checks, tried on trees with something planted in them: each plant is found, and nothing
//! else.
#![forbid(unsafe_code)]

mod cycles;
mod layers;
mod modules;
mod support;
mod unsafe_code;
mod workspace;
