//! Selects the instructions for the target. Each architecture has its own files; a counter that it lacks is represented
//! by a type without values. Contains no logic of its own.

#[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
mod access;
mod barrier;

#[cfg_attr(target_arch = "x86_64", path = "x86.rs")]
#[cfg_attr(all(target_arch = "x86", target_feature = "sse2"), path = "x86_32.rs")]
#[cfg_attr(not(any(target_arch = "x86_64", all(target_arch = "x86", target_feature = "sse2"))), path = "absent_tsc.rs")]
mod tsc;

#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "arm", path = "arm.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv.rs")]
#[cfg_attr(not(any(target_arch = "aarch64", target_arch = "arm", target_arch = "riscv64")), path = "absent_counter.rs")]
mod counter;

#[cfg_attr(target_arch = "aarch64", path = "cycles_aarch64.rs")]
#[cfg_attr(target_arch = "arm", path = "cycles_arm.rs")]
#[cfg_attr(not(any(target_arch = "aarch64", target_arch = "arm")), path = "absent_cycles.rs")]
mod cycles;

#[cfg_attr(target_arch = "x86_64", path = "event_x86.rs")]
#[cfg_attr(target_arch = "aarch64", path = "event_aarch64.rs")]
#[cfg_attr(target_arch = "arm", path = "event_arm.rs")]
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")), path = "absent_event.rs")]
pub(in crate::linux) mod event;

#[cfg_attr(any(target_arch = "x86_64", target_arch = "x86"), path = "port_x86.rs")]
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "x86")), path = "absent_port.rs")]
mod port;

#[cfg(not(target_arch = "riscv64"))]
#[path = "absent_time.rs"]
mod time;

pub use barrier::Barrier;
pub use counter::CounterToken;
#[cfg(target_arch = "riscv64")]
pub use counter::CounterToken as TimeToken;
pub use cycles::CyclesToken;
pub use port::OpenPort;
#[cfg(not(target_arch = "riscv64"))]
pub use time::TimeToken;
#[cfg(target_arch = "x86_64")]
pub use tsc::wait_for_earlier;
pub use tsc::{TscToken, cpuid};

/// The reason why there is no token for the core's cycle counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(any(target_arch = "aarch64", target_arch = "arm")),
    allow(dead_code, reason = "other architectures have none, and the tests name them all")
)]
pub enum CyclesRefused {
    /// The register that controls access to the counter cannot be read: there is no counter, or a hypervisor denies
    /// access.
    NoAccessRegister,
    /// The register that controls access to the counter denies programs access. The field is the value of the
    /// register.
    Closed(u32),
    /// A child that read the counter was killed by a signal.
    Killed,
    /// No child could be started to try the read; a later call may succeed.
    NotTried,
}

/// The reason why there is no token for the processor's own counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterRefused {
    /// The processor has no counter, reading it is forbidden, or a child that read it was killed by a signal.
    NotReadable,
    /// No child could be started to try the read; a later call may succeed.
    #[cfg_attr(not(target_arch = "arm"), allow(dead_code, reason = "only 32-bit ARM needs a trial"))]
    NotTried,
}
