//! Errors that occur when real-time settings are applied to a thread or to the system. Where possible, the messages
//! state how to fix the problem.

use std::{io, time::Duration};

use hpt_sys::units::Spaced;

use super::{PinError, Policy, Throttling};
use crate::knobs::{JournalError, KnobError};

/// The reason why a real-time setting of a thread or of the system was not applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RealtimeError {
    /// The thread cannot be pinned to the requested CPU.
    #[error(transparent)]
    Cpu(#[from] PinError),
    /// The kernel refused the scheduling policy or its parameters.
    #[error("the kernel refused {policy}; {remedy}")]
    Policy {
        /// The requested policy.
        policy: Policy,
        /// The likely reason, or the fix.
        remedy: String,
        /// The error that the kernel returned.
        #[source]
        cause: io::Error,
    },
    /// The thread did not get a time slice of its own.
    #[error("cannot set a time slice of {}; it needs Linux 6.12 or newer, and a thread without real-time policy", Spaced(*.slice))]
    Slice {
        /// The requested slice.
        slice: Duration,
        /// The error that the kernel returned, or that says the same.
        #[source]
        cause: io::Error,
    },
    /// The kernel would throttle a thread that never blocks under the requested policy.
    #[error(
        "the kernel throttles a thread under {policy} that never blocks: {throttling}; disable throttling (`Setup::without_throttling`) or accept it (`Setup::with_throttling_accepted`)"
    )]
    Throttled {
        /// The requested policy.
        policy: Policy,
        /// The time that the kernel reserves for other threads.
        throttling: Throttling,
    },
    /// The kernel would kill the program, because the thread would never block under the requested policy.
    #[error(
        "the kernel kills a thread under {policy} that does not block for {} (RLIMIT_RTTIME); raise that limit first, for example with prlimit --rttime=unlimited",
        Spaced(*.limit)
    )]
    Timeout {
        /// The requested policy.
        policy: Policy,
        /// The longest time for which such a thread may run without blocking.
        limit: Duration,
    },
    /// The process's memory was not locked.
    #[error("the kernel refused to lock this process's memory; {remedy}")]
    Memory {
        /// The likely reason, or the fix.
        remedy: String,
        /// The error that the kernel returned.
        #[source]
        cause: io::Error,
    },
    /// The memory would be locked, but the next allocation would fail.
    #[error(
        "the limit on locked memory leaves no room for growth: the process uses {size} bytes and can lock {limit} bytes; run as root, with CAP_IPC_LOCK, or with a higher limit (ulimit -l)"
    )]
    MemoryLimit {
        /// The size of the process's mapped memory, in bytes.
        size: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The stack has less space left than was requested.
    #[error(
        "{wanted} bytes of stack were requested, but only {room} are left; start the thread with a larger stack (ulimit -s for the main thread)"
    )]
    Stack {
        /// The requested number of bytes.
        wanted: usize,
        /// The available number of bytes.
        room: usize,
    },
    /// The limit on the exit latency was not set, because the kernel's file for it cannot be opened or written.
    #[error("cannot set /dev/cpu_dma_latency to {microseconds} µs; {}", what_it_takes(cause))]
    Latency {
        /// The requested latency, in microseconds.
        microseconds: u32,
        /// The error that the system returned.
        #[source]
        cause: io::Error,
    },
    /// The machine has no such setting.
    #[error("cannot set {what}: {path} does not exist; {why}")]
    NoSuchSetting {
        /// The setting.
        what: &'static str,
        /// The expected path of the setting.
        path: String,
        /// The likely reason, or the fix.
        why: &'static str,
    },
    /// The cpufreq driver of the CPU has no such governor.
    #[error("{path} does not accept the governor {name:?}; available: {available}")]
    NoSuchGovernor {
        /// The requested governor.
        name: String,
        /// The file that selects the governor.
        path: String,
        /// The available governors.
        available: String,
    },
    /// A system-wide setting was not changed.
    #[error("cannot change the system's {what}")]
    Knob {
        /// The setting.
        what: &'static str,
        /// The reason.
        #[source]
        cause: KnobError,
    },
    /// The change of system-wide settings cannot be recorded, so nothing is changed.
    #[error("cannot change the system's settings")]
    Journal(#[from] JournalError),
    /// The host is a system snapshot, not the live machine.
    #[error("this is a system snapshot: its settings cannot be changed")]
    Captured,
}
/// Returns the likely reason why the exit latency could not be limited, or the fix. The device exists if the kernel can
/// put CPUs into idle states. Source: Linux, kernel/power/qos.c.
fn what_it_takes(cause: &std::io::Error) -> &'static str {
    match cause.kind() {
        std::io::ErrorKind::NotFound => {
            "the device does not exist: this kernel was built without CPU idle states, or this process has a /dev of its own"
        }
        _ => "run as root, or add a udev rule that lets a group write to the device",
    }
}
