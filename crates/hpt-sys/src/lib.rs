//! The foundation of `hpt-core`: instructions, system calls and the files that describe a machine. All code of hpt that
//! is `unsafe` is in this crate, behind safe functions and tokens (docs/safety.md). It decides nothing: the crates above
//! determine whether and when a counter may be read.
//!
//! Use `hpt-core`. The interface of this crate follows the crates above, and any version may change it.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait, and write files of their own"))]

#[cfg(any(test, feature = "testing"))]
#[macro_use]
pub mod testing;

mod architecture;
pub mod cast;
mod os_error;
pub mod settings;
pub mod slack;
pub mod units;

// Everywhere else, the standard library provides the clock, the waits and the facts about threads.
#[cfg(not(all(target_os = "linux", target_has_atomic = "64")))]
mod elsewhere;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
mod linux;

#[cfg(not(all(target_os = "linux", target_has_atomic = "64")))]
pub use self::elsewhere::*;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub use self::linux::*;
pub use self::os_error::OsError;
