//! The settings of a time-critical thread: its CPU, its scheduling policy, resident memory, and system-wide settings.
//! They are in effect as long as a guard exists. Dropping the guard restores the previous settings. This module
//! measures nothing.
//!
//! [`Setup`] requests any combination of these settings. [`InForce`] contains the settings in effect, as read back from
//! the kernel.
//!
//! ```no_run
//! use hpt_core::{Host, realtime::{Class, Conduct, Setup}};
//!
//! let host = Host::live();
//! let setup = Setup::of_a_thread_that(Conduct::Waits).on_cpu(1).by(Class::Fifo { priority: 50 }).with_memory_locked();
//! let held = setup.best_effort().apply(&host)?;
//! for refused in held.refused() {
//!     println!("without {}: {}", refused.setting, refused.error);
//! }
//! println!("{:?}", held.in_force());
//! # Ok::<(), hpt_core::realtime::RealtimeError>(())
//! ```

mod awake;
mod class;
mod error;
mod in_class;
mod in_force;
mod limits;
mod machine;
mod memory;
mod pin_watch;
mod pinned;
mod program;
mod setup;
mod slack;
mod throttling;

pub use self::{
    awake::AwakeCpus,
    class::Class,
    error::RealtimeError,
    in_class::{Fifo, InClass},
    in_force::{Bandwidth, FairServer, InForce},
    machine::Conduct,
    memory::{LockedMemory, prefault_stack},
    pin_watch::{Absence, PinWatch},
    pinned::{PinError, Pinned, allowed_cpus},
    program::{Ended, Program, Signals, StartError},
    setup::{Held, Refused, Setup},
    throttling::{FAIR_SERVER_SINCE, Throttling},
};
pub(crate) use self::{
    limits::{CAP_IPC_LOCK, CAP_SYS_NICE, Limits},
    machine::turbo,
    slack::NoSlack,
};
