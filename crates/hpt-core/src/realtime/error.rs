//! Why real-time settings of a thread or of the system were not applied: what is missing, and how to fix it. Performs
//! no operation.

use std::{io, time::Duration};

use super::{Class, KeptBack, PinError};
use crate::knobs::{JournalError, KnobError};

/// Why real-time settings of a thread or of the system were not applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RealtimeError {
    /// The thread may not run on that CPU.
    #[error(transparent)]
    Cpu(#[from] PinError),
    /// The kernel refused the scheduling policy or its parameters.
    #[error("the kernel refused {class}; {remedy}")]
    Class {
        /// The requested policy.
        class: Class,
        /// What is missing, and how to fix it.
        remedy: String,
        /// The error of the kernel.
        #[source]
        cause: io::Error,
    },
    /// The kernel would throttle a thread of that policy if it never blocks.
    #[error(
        "a thread that never waits is not left on its CPU by {class}: {kept_back}; turn that off (hpt: --no-throttling) or accept it (hpt: --accept-throttling)"
    )]
    Throttled {
        /// The requested policy.
        class: Class,
        /// The time that the kernel reserves for other threads.
        kept_back: KeptBack,
    },
    /// The kernel would kill the program for a thread of that policy that never blocks.
    #[error(
        "a thread that never waits may go on by {class} for {limit:?}, and is killed then (RLIMIT_RTTIME); lift that limit first, as prlimit --rttime=unlimited does"
    )]
    Timeout {
        /// The requested policy.
        class: Class,
        /// The largest run time.
        limit: Duration,
    },
    /// The process's memory was not locked.
    #[error("the kernel refused to lock this process's memory; {remedy}")]
    Memory {
        /// What is missing, and how to fix it.
        remedy: String,
        /// The error of the kernel.
        #[source]
        cause: io::Error,
    },
    /// The memory would be locked, but the next allocation would fail.
    #[error(
        "the limit for locked memory leaves no room to grow: the process has {size} bytes, and may lock {limit}; it takes root, CAP_IPC_LOCK, or a higher limit (ulimit -l)"
    )]
    MemoryLimit {
        /// The size of the process's mapped memory, in bytes.
        size: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The stack is smaller than the part of it to be touched.
    #[error(
        "{wanted} bytes of stack are wanted and {room} are left; start the thread with a larger one (ulimit -s for the first)"
    )]
    Stack {
        /// The requested number of bytes.
        wanted: usize,
        /// The available number of bytes.
        room: usize,
    },
    /// The kernel's file for it cannot be written.
    #[error("cannot hold /dev/cpu_dma_latency at {microseconds} µs; {}", what_it_takes(cause))]
    Latency {
        /// The requested latency.
        microseconds: u32,
        /// The error of the system.
        #[source]
        cause: io::Error,
    },
    /// The machine has no such setting.
    #[error("{what} cannot be set: there is no {path}; {why}")]
    NoSuchSetting {
        /// The setting.
        what: &'static str,
        /// Its expected path.
        path: String,
        /// What controls it instead.
        why: &'static str,
    },
    /// The driver of the CPU has no such governor.
    #[error("{path} takes no governor {name:?}; it takes {available}")]
    NoSuchGovernor {
        /// The requested governor.
        name: String,
        /// The file.
        path: String,
        /// The available ones.
        available: String,
    },
    /// A system-wide setting was not changed.
    #[error("cannot change the machine's {what}")]
    Knob {
        /// Which.
        what: &'static str,
        /// Why.
        #[source]
        cause: KnobError,
    },
    /// System-wide settings are not changed unless they can be recorded.
    #[error("cannot change the machine's settings")]
    Journal(#[from] JournalError),
    /// This is not the live machine.
    #[error("a captured machine is looked at, and nothing of it is changed")]
    Captured,
}
/// Linux, kernel/power/qos.c: the device exists if the kernel can put CPUs into idle states.
fn what_it_takes(cause: &std::io::Error) -> &'static str {
    match cause.kind() {
        std::io::ErrorKind::NotFound => {
            "there is no such device: this kernel was built without CPU idle states, or /dev is not its own"
        }
        _ => "it takes root, or a rule that lets a group write it",
    }
}
