//! What the portable modules need from the operating system, provided by the standard library. Used on targets other than
//! Linux, and on Linux without 64-bit atomics. Contains no unsafe code.

pub mod clock;
pub mod host;
pub mod process;
pub mod wait;
