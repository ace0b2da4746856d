//! The instruments of the command `hpt`: measurements, the causes of delays, GPIO lines, and rules that find problems.
//! The interface follows the command: a minor version may change it.
//!
//! | module | contains |
//! | --- | --- |
//! | [`measure`] | read overhead, granularity, wake-up latency, OS noise, offsets between CPUs |
//! | [`trace`] | the causes of late wake-ups, from the kernel's trace |
//! | `gpio` | GPIO lines: outputs, edges with the kernel's timestamps |
//! | [`diagnose`] | rules that find problems in settings and measurements |
//!
//! Linux only, on targets with 64-bit atomics.
#![forbid(unsafe_code)]
#![cfg(all(target_os = "linux", target_has_atomic = "64"))]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait, and write files of their own"))]

#[cfg(test)]
#[macro_use(skipped)]
extern crate hpt_sys;

pub mod diagnose;
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "x86",
    target_arch = "aarch64",
    target_arch = "arm",
    target_arch = "riscv64"
))]
pub mod gpio;
pub mod measure;
pub mod trace;

/// Returns the instant at this time on `CLOCK_MONOTONIC`, in nanoseconds.
fn instant(nanos: u64) -> hpt_core::Instant {
    hpt_core::Instant::EPOCH.saturating_add(std::time::Duration::from_nanos(nanos))
}
