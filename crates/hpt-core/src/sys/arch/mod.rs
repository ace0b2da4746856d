//! The door to the instructions: each machine has its own file, and absent ones a type without values.
//! Holds no logic.

#[cfg_attr(target_arch = "x86_64", path = "x86.rs")]
#[cfg_attr(not(target_arch = "x86_64"), path = "absent.rs")]
mod tsc;

pub(crate) use tsc::{TscToken, cpuid};
