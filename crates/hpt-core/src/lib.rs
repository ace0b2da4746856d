//! High-resolution time for Linux: hardware counters, calibrated clocks, precise sleeps and real-time setup, with
//! stated error bounds.
//!
//! | I want to | use |
//! | --- | --- |
//! | read the time faster than with `std::time::Instant` | [`Instant`]: tracks `CLOCK_MONOTONIC`, with an error bound |
//! | sleep precisely until a deadline | [`Sleeper`]: blocks, then spins for a learned margin |
//! | run something once per period | [`Pacer`]: deadlines on a fixed grid, so that delays do not accumulate |
//! | run a thread with real-time priority | [`realtime::Setup`]: sets policy, CPU, memory, idle states, RT throttling |
//! | time a piece of work | [`Stopwatch`], or [`CycleStopwatch`] for core cycles |
//! | find the best counter on this machine | [`source::choose`], which also explains the choice |
//! | know how accurate a counter is | [`calibrate`]: measures its frequency, with a worst-case bound |
//! | add a counter of my own | [`TimeSource`] to read it, and [`FixedRateClock`] to convert its ticks to nanoseconds |
//! | test code that waits | [`testing::ManualSource`]: a counter that the test controls |
//!
//! An [`Instant`] is read from the CPU's counter; instants from different threads and processes can be compared.
//! [`clock::status`] reports the error bound. [`source::probe`] lists all sources on a machine and states, for each
//! unavailable source, why it is unavailable.
//!
//! ```
//! use std::time::Duration;
//!
//! use hpt_core::{Instant, Sleeper};
//!
//! let start = Instant::now();
//! let woken = Sleeper::new().sleep(Duration::from_millis(1));
//! println!("{:?} after {} ns", woken, start.elapsed_nanos());
//! ```
//!
//! A [`TimeSource`] is a counter that can be read: the x86 timestamp counter (TSC), a kernel clock, or a counter
//! that you implement. This example chooses the best source and times a piece of work with it:
//!
//! ```
//! use hpt_core::{Host, Stopwatch, source};
//!
//! let host = Host::live();
//! let (source, why) = source::choose(&host)?;
//! println!("{}", why.reason());
//! let stopwatch = Stopwatch::calibrated(&host, source)?;
//! let (sum, lap) = stopwatch.time(|| (0..1000_u64).sum::<u64>());
//! println!("{sum}: {} ns, of which {} ns for reading the counter", lap.nanos(), lap.own_cost_ns());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! No code runs before `main`, and no thread runs in the background. The only global state is the clock behind
//! [`Instant`]. Opening a source can fail; the error then states the reason and a fix. Reading an open source never
//! fails.
//!
//! # Features
//!
//! No feature is enabled by default.
//!
//! - `serde`: implements `Serialize` and `Deserialize` for plain data, such as host information, calibrations and
//!   distributions.
//! - `embedded-hal`: implements `DelayNs` of embedded-hal for [`Sleeper`], for drivers that wait between two accesses
//!   to a device.

// Makes docs.rs show which feature each item requires. The attribute is not yet available on stable Rust.
#![cfg_attr(docsrs, feature(doc_cfg))]
// Modules behind features share private code. Builds with all features report code that is not used at all.
#![cfg_attr(not(all(feature = "diagnose", feature = "gpio", feature = "program")), allow(dead_code, unused_imports))]

#[cfg(not(all(
    target_os = "linux",
    target_endian = "little",
    any(
        all(target_arch = "x86_64", target_pointer_width = "64"),
        all(target_arch = "aarch64", target_pointer_width = "64"),
        target_arch = "arm"
    )
)))]
compile_error!("hpt-core supports only Linux on x86-64, aarch64 and little-endian 32-bit ARM");

#[cfg(test)]
/// Reports why a test, or part of a test, cannot run on this machine. The line is written directly to standard error,
/// because the test harness captures the output of `println!` and `eprintln!` in passing tests.
macro_rules! skipped {
    ($($why:tt)*) => {{
        use std::io::Write as _;
        // The whole line is written at once, so that lines from concurrent tests do not interleave.
        std::io::stderr().write_all(format!("skipped: {}\n", format_args!($($why)*)).as_bytes()).expect("standard error is open")
    }};
}

pub mod calibrate;
pub mod clock;
#[cfg(feature = "diagnose")]
pub mod diagnose;
#[cfg(feature = "gpio")]
pub mod gpio;
pub mod host;
#[cfg(feature = "knobs")]
pub mod knobs;
#[cfg(feature = "measure")]
pub mod measure;
pub mod pace;
#[cfg(feature = "realtime")]
pub mod realtime;
mod scale;
pub mod sleep;
pub mod source;
#[cfg(feature = "knobs")]
pub mod state;
pub mod stats;
pub mod stopwatch;
mod sys;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod units;

pub use calibrate::Calibration;
pub use clock::{Clock, FixedRateClock, Instant, Reading, SystemClock};
pub use host::Host;
pub use pace::Pacer;
pub use scale::Scale;
pub use sleep::Sleeper;
pub use source::{
    AcpiPm, ArmCounter, ArmCycles, BcmSystimer, BcmSystimerLow, Hpet, HpetLow, Opened, PerfCycles, PerfTime,
    PosixClock, PosixId, PtpClock, RealTimeClock, SourceId, SourceInfo, TimeSource, Tsc, Unavailable, Widened,
};
pub use stats::Spread;
pub use stopwatch::{CycleLap, CycleStopwatch, Lap, Stopwatch};
pub use units::{Frequency, Width};
