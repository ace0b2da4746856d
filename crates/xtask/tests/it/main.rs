//! Tests the checks with planted violations, and what the documentation says about the code.
#![forbid(unsafe_code)]

mod picture;
mod std_instant;
mod unsafe_code;
mod words;
