//! The settings of a time-critical thread: its CPU, its scheduling policy, resident memory, and system-wide settings.
//! They are in effect as long as a guard exists. Dropping the guard restores the previous settings. This module
//! measures nothing.
//!
//! [`Setup`] requests any combination of these settings. [`EffectiveSettings`] contains the settings in effect, as read
//! back from the kernel.
//!
//! ```no_run
//! use hpt_core::{Host, realtime::{Policy, Behavior, Setup}};
//!
//! let host = Host::live();
//! let setup = Setup::blocking().on_cpu(1).policy(Policy::Fifo(50)).with_memory_locked();
//! let held = setup.best_effort().apply(&host)?;
//! for refused in held.refused() {
//!     println!("without {}: {}", refused.setting, refused.error);
//! }
//! println!("{:?}", held.effective());
//! # Ok::<(), hpt_core::realtime::RealtimeError>(())
//! ```

mod awake;
mod choice;
mod effective;
mod error;
mod limits;
mod machine;
mod memory;
mod pin_watch;
mod pinned;
mod policy;
mod policy_guard;
#[cfg(feature = "program")]
mod program;
#[cfg(feature = "program")]
mod program_times;
mod setup;
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
    throttling::{FAIR_SERVER_SINCE, Throttling},
};
pub(crate) use self::{
    limits::{CAP_IPC_LOCK, CAP_SYS_NICE, Limits},
    machine::{turbo, with_governor, without_turbo},
};
#[cfg(feature = "program")]
pub use self::{
    program::{Ended, Program, Signals, StartError},
    program_times::{ProgramTimes, ReadyTime},
};
