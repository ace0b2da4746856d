//! The settings of a time-critical thread: its CPU, its scheduling policy, resident memory, and system-wide settings.
//! They are in effect as long as a guard exists. Dropping the guard restores the previous settings. This module
//! measures nothing.
//!
//! [`Setup`] requests any combination of these settings. [`EffectiveSettings`] contains the settings in effect, as read
//! back from the kernel.
//!
//! ```no_run
//! use hpt_core::Host;
//! use hpt_realtime::{Policy, Setup};
//!
//! let host = Host::live();
//! let setup = Setup::blocking().with_cpu(1).with_policy(Policy::Fifo(50)).with_memory_locked();
//! let held = setup.with_best_effort().apply(&host)?;
//! for refused in held.refused() {
//!     println!("without {}: {}", refused.setting, refused.error);
//! }
//! println!("{:?}", held.effective());
//! # Ok::<(), hpt_realtime::RealtimeError>(())
//! ```

#![forbid(unsafe_code)]
#![cfg(all(target_os = "linux", target_has_atomic = "64"))]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait, and write files of their own"))]

#[cfg(test)]
#[macro_use(skipped)]
extern crate hpt_sys;

mod awake;
mod choice;
mod effective;
mod error;
pub mod knobs;
mod limits;
mod machine;
mod memory;
mod pin_watch;
mod pinned;
mod policy;
mod policy_guard;
mod program;
mod program_times;
mod setup;
mod slice;
pub mod state;
mod throttling;

pub use self::{
    awake::AwakeCpus,
    choice::{ChoiceReason, ChosenCpu, choose_cpu, usable_cpus},
    effective::{Bandwidth, EffectiveSettings, FairServer},
    error::RealtimeError,
    machine::Behavior,
    memory::{LockedMemory, prefault_stack},
    pin_watch::{Absence, PinWatch},
    pinned::{PinError, Pinned, allowed_cpus},
    policy::Policy,
    policy_guard::{Fifo, PolicyGuard},
    setup::{RealtimeGuard, Refused, Setup},
    slice::ShortSlice,
    throttling::{FAIR_SERVER_SINCE, Throttling},
};
pub use self::{
    limits::{CAP_IPC_LOCK, CAP_SYS_NICE, Limits},
    machine::{governor_settings, no_turbo_settings, turbo},
};
pub use self::{
    program::{Ended, Program, Signals, StartError},
    program_times::{ProgramTimes, ReadyTime},
};
