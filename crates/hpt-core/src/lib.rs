//! High-resolution time for Linux: hardware counters, calibrated clocks, precise sleeps and real-time setup, with
//! stated error bounds.
//!
//! A [`TimeSource`] is a counter that can be read: the x86 TSC, the kernel's clocks, or one of your own.
//! [`source::probe`] lists the sources of a machine. [`source::choose`] selects the best one and says why.
//! [`calibrate`] determines the frequency of a source, with a worst-case bound. A [`Clock`] converts ticks to
//! nanoseconds at the cost of one multiplication. A [`Stopwatch`] measures how long a piece of work took, and its own
//! overhead.
//!
//! ```
//! use hpt_core::{Host, Stopwatch, source};
//!
//! let host = Host::live();
//! let (source, why) = source::choose(&host)?;
//! println!("{}", why.reason());
//! let stopwatch = Stopwatch::calibrated(&host, source.as_dyn())?;
//! let (sum, lap) = stopwatch.time(|| (0..1000_u64).sum::<u64>());
//! println!("{sum}: {} ns, of which {} ns for reading the counter", lap.nanoseconds(), lap.own_cost_ns());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! No code runs before `main`, no thread is started, and there is no hidden global state. Opening a source may fail,
//! with a reason and a fix; reading one cannot.
//!
//! # Features
//!
//! None is enabled by default.
//!
//! - `serde`: Serialize and Deserialize for plain values: facts of a machine, calibrations, distributions.
//! - `embedded-hal`: embedded-hal's `DelayNs` for [`Sleeper`], for drivers that wait between two accesses.

// docs.rs shows for each item which feature it requires; this is not yet available on stable Rust.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(all(
    target_os = "linux",
    target_endian = "little",
    any(
        all(target_arch = "x86_64", target_pointer_width = "64"),
        all(target_arch = "aarch64", target_pointer_width = "64"),
        target_arch = "arm"
    )
)))]
compile_error!(
    "hpt-core reads the clocks and counters of Linux on x86-64, aarch64 and little-endian 32-bit ARM, and runs there only"
);

#[cfg(test)]
/// Reports why a test, or a part of one, cannot run on this machine. The line is written directly to standard error,
/// because the test harness captures the output of `println!` and `eprintln!` in a test that passes.
macro_rules! skipped {
    ($($why:tt)*) => {{
        use std::io::Write as _;
        // One write for the whole line, so that the lines of two tests do not mix.
        std::io::stderr().write_all(format!("skipped: {}\n", format_args!($($why)*)).as_bytes()).expect("standard error is open")
    }};
}

pub mod calibrate;
pub mod clock;
pub mod diagnose;
pub mod gpio;
pub mod host;
pub mod knobs;
pub mod measure;
pub mod pace;
pub mod realtime;
mod scale;
pub mod sleep;
pub mod source;
pub mod state;
pub mod stats;
pub mod stopwatch;
mod sys;
pub mod testing;
mod units;

pub use calibrate::Calibration;
pub use clock::{Clock, Instant, Reading};
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
