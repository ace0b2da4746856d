//! What hpt uses of Linux, on targets with 64-bit atomics: instructions and system calls, each behind a safe function or a
//! token, and the files that describe a machine.
#![expect(unsafe_code, reason = "the only module with unsafe code; see docs/safety.md")]

pub mod adjtime;
pub mod arch;
#[cfg(feature = "realtime")]
pub mod child;
pub mod clock;
pub mod clock_words;
#[cfg(feature = "realtime")]
pub mod file_lock;
mod found;
#[cfg(all(
    feature = "instrument",
    any(
        target_arch = "x86_64",
        target_arch = "x86",
        target_arch = "aarch64",
        target_arch = "arm",
        target_arch = "riscv64"
    )
))]
pub mod gpio;
#[forbid(unsafe_code)]
pub mod host;
#[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
pub mod illegal;
mod mapping;
#[cfg(feature = "realtime")]
pub mod memory;
pub mod mmio;
#[cfg(all(
    feature = "instrument",
    any(
        target_arch = "x86_64",
        target_arch = "x86",
        target_arch = "aarch64",
        target_arch = "arm",
        target_arch = "riscv64"
    )
))]
pub mod mmio_writable;
pub mod native;
mod own_process;
pub mod packet;
pub mod perf;
pub mod port;
pub mod process;
#[cfg(feature = "devices")]
pub mod ptp;
#[cfg(feature = "devices")]
pub mod rtc;
pub mod signals;
#[cfg_attr(
    not(any(target_arch = "aarch64", target_arch = "arm")),
    allow(dead_code, reason = "only ARM has instructions that must be tried; the tests try it everywhere")
)]
pub mod trial;
pub mod wait;
