//! The only module with `unsafe` code: instructions and system calls, each behind a safe function or a token. Decides
//! nothing: `source` determines whether and when a counter may be read.
#![expect(unsafe_code, reason = "the only module with unsafe code; see docs/safety.md")]

pub(crate) mod adjtime;
pub(crate) mod arch;
#[cfg(feature = "program")]
pub(crate) mod child;
pub(crate) mod clock;
#[cfg(feature = "knobs")]
pub(crate) mod file_lock;
#[cfg(feature = "gpio")]
pub(crate) mod gpio;
#[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
pub(crate) mod illegal;
mod mapping;
#[cfg(feature = "realtime")]
pub(crate) mod memory;
pub(crate) mod mmio;
pub(crate) mod native;
mod own_process;
pub(crate) mod perf;
pub(crate) mod port;
pub(crate) mod process;
pub(crate) mod ptp;
pub(crate) mod rtc;
#[cfg(any(feature = "measure", feature = "program"))]
pub(crate) mod signals;
#[cfg_attr(
    target_arch = "x86_64",
    allow(dead_code, reason = "on that architecture everything can be queried; the tests try it everywhere")
)]
pub(crate) mod trial;
pub(crate) mod wait;
