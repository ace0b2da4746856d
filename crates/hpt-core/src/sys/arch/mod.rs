//! The door to the instructions: each machine has its own file, and what a machine lacks is a type without values.
//! Holds no logic.

mod barrier;

#[cfg_attr(target_arch = "x86_64", path = "x86.rs")]
#[cfg_attr(not(target_arch = "x86_64"), path = "absent_tsc.rs")]
mod tsc;

#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "arm", path = "arm.rs")]
#[cfg_attr(not(any(target_arch = "aarch64", target_arch = "arm")), path = "absent_counter.rs")]
mod counter;

pub(crate) use barrier::Barrier;
pub(crate) use counter::CounterToken;
#[cfg(target_arch = "x86_64")]
pub(crate) use tsc::wait_for_earlier;
pub(crate) use tsc::{TscToken, cpuid};
