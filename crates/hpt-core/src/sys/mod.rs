//! The only module with `unsafe` code: instructions and system calls, each behind a safe function or a token. Decides
//! nothing: `source` determines whether and when a counter may be read.
// A target without unsafe code of its own has no use for the permission.
#![cfg_attr(
    all(target_os = "linux", target_has_atomic = "64"),
    expect(unsafe_code, reason = "the only module with unsafe code; see docs/safety.md")
)]

#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub(crate) mod adjtime;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub(crate) mod arch;
#[cfg(all(target_os = "linux", target_has_atomic = "64", feature = "program"))]
pub(crate) mod child;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub(crate) mod clock;
#[cfg(all(target_os = "linux", target_has_atomic = "64", feature = "knobs"))]
pub(crate) mod file_lock;
#[cfg(all(
    target_os = "linux",
    target_has_atomic = "64",
    feature = "gpio",
    any(
        target_arch = "x86_64",
        target_arch = "x86",
        target_arch = "aarch64",
        target_arch = "arm",
        target_arch = "riscv64"
    )
))]
pub(crate) mod gpio;
#[cfg(all(target_os = "linux", target_has_atomic = "64", any(target_arch = "aarch64", target_arch = "arm")))]
pub(crate) mod illegal;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
mod mapping;
#[cfg(all(target_os = "linux", target_has_atomic = "64", feature = "realtime"))]
pub(crate) mod memory;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub(crate) mod mmio;
#[cfg(all(
    target_os = "linux",
    target_has_atomic = "64",
    feature = "gpio",
    any(
        target_arch = "x86_64",
        target_arch = "x86",
        target_arch = "aarch64",
        target_arch = "arm",
        target_arch = "riscv64"
    )
))]
pub(crate) mod mmio_writable;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub(crate) mod native;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
mod own_process;
#[cfg(all(target_os = "linux", target_has_atomic = "64", feature = "measure"))]
pub(crate) mod packet;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub(crate) mod perf;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub(crate) mod port;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub(crate) mod process;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub(crate) mod ptp;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub(crate) mod rtc;
#[cfg(all(target_os = "linux", target_has_atomic = "64", any(feature = "measure", feature = "program")))]
pub(crate) mod signals;
#[cfg_attr(
    not(any(target_arch = "aarch64", target_arch = "arm")),
    allow(dead_code, reason = "only ARM has instructions that must be tried; the tests try it everywhere")
)]
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub(crate) mod trial;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub(crate) mod wait;

// The condition above is that of the backends: Linux, with 64-bit atomics. Everywhere else, the standard library
// provides the clock, the waits and the facts about threads.
#[cfg(not(all(target_os = "linux", target_has_atomic = "64")))]
mod elsewhere;
#[cfg(not(all(target_os = "linux", target_has_atomic = "64")))]
pub(crate) use elsewhere::{clock, process, wait};
