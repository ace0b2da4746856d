//! Why a thread or a machine was not put into a state for real-time work: what is missing, and what helps.
//! Tries nothing.

use std::{io, time::Duration};

use super::{Class, KeptBack, PinError};
use crate::knobs::{JournalError, KnobError};

/// Why a thread or the machine around it was not put into a state for real-time work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RealtimeError {
    /// The thread may not run on that CPU.
    #[error(transparent)]
    Cpu(#[from] PinError),
    /// The kernel refused the class or what goes with it.
    #[error("the kernel refused {class}; {remedy}")]
    Class {
        /// The class asked for.
        class: Class,
        /// What is missing, and what helps.
        remedy: String,
        /// What the kernel said.
        #[source]
        cause: io::Error,
    },
    /// The kernel would take a thread of that class off its CPU, if it never waits.
    #[error(
        "a thread that never waits is not left on its CPU by {class}: {kept_back}; turn that off (hpt: --no-throttling) or accept it (hpt: --accept-throttling)"
    )]
    Throttled {
        /// The class asked for.
        class: Class,
        /// What the kernel keeps back for others.
        kept_back: KeptBack,
    },
    /// The kernel would end the program for a thread of that class, if it never waits.
    #[error(
        "a thread that never waits may go on by {class} for {limit:?}, and is killed then (RLIMIT_RTTIME); lift that limit first, as prlimit --rttime=unlimited does"
    )]
    Timeout {
        /// The class asked for.
        class: Class,
        /// How long it may go on.
        limit: Duration,
    },
    /// The process's memory was not locked.
    #[error("the kernel refused to lock this process's memory; {remedy}")]
    Memory {
        /// What is missing, and what helps.
        remedy: String,
        /// What the kernel said.
        #[source]
        cause: io::Error,
    },
    /// The memory would be locked, and the next allocation refused.
    #[error(
        "the limit for locked memory leaves no room to grow: the process has {size} bytes, and may lock {limit}; it takes root, CAP_IPC_LOCK, or a higher limit (ulimit -l)"
    )]
    MemoryLimit {
        /// How much memory the process has mapped, in bytes.
        size: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The stack is not as large as it is to be touched.
    #[error(
        "{wanted} bytes of stack are wanted and {room} are left; start the thread with a larger one (ulimit -s for the first)"
    )]
    Stack {
        /// How many bytes were asked for.
        wanted: usize,
        /// How many there are.
        room: usize,
    },
    /// The kernel's file for it cannot be written.
    #[error("cannot hold /dev/cpu_dma_latency at {microseconds} µs; {}", what_it_takes(cause))]
    Latency {
        /// The latency asked for.
        microseconds: u32,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// The machine has no such setting.
    #[error("{what} cannot be set: there is no {path}; {why}")]
    NoSuchSetting {
        /// What was asked for.
        what: &'static str,
        /// Where it would be.
        path: String,
        /// Who decides instead.
        why: &'static str,
    },
    /// The CPU's driver has no such governor.
    #[error("{path} takes no governor {name:?}; it takes {available}")]
    NoSuchGovernor {
        /// The governor asked for.
        name: String,
        /// The file.
        path: String,
        /// Those there are.
        available: String,
    },
    /// A setting of the machine was not changed.
    #[error("cannot change the machine's {what}")]
    Knob {
        /// Which.
        what: &'static str,
        /// Why.
        #[source]
        cause: KnobError,
    },
    /// Settings of the machine are not changed unless they can be written down.
    #[error("cannot change the machine's settings")]
    Journal(#[from] JournalError),
    /// It is not the machine at hand.
    #[error("a captured machine is looked at, and nothing of it is changed")]
    Captured,
}
/// Linux, kernel/power/qos.c: the device is there where the kernel can put CPUs to sleep.
fn what_it_takes(cause: &std::io::Error) -> &'static str {
    match cause.kind() {
        std::io::ErrorKind::NotFound => {
            "there is no such device: this kernel was built without CPU idle states, or /dev is not its own"
        }
        _ => "it takes root, or a rule that lets a group write it",
    }
}
