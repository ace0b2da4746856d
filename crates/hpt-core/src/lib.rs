//! High-resolution time for Linux: hardware counters, calibrated clocks and precise sleeps, with stated error bounds.
//! Elsewhere, the same clocks and sleeps on the operating system's clock.
//!
//! | I want to | use |
//! | --- | --- |
//! | [read the time](#read-the-time) faster than with `std::time::Instant` | [`Instant`]: tracks `CLOCK_MONOTONIC`, with an error bound |
//! | [sleep](#sleep-until-a-deadline) precisely until a deadline | [`Sleeper`]: blocks, then spins for a learned margin |
//! | [run something once per period](#run-once-per-period) | [`Pacer`]: deadlines on a fixed grid, so that delays do not accumulate |
//! | [run a thread with real-time priority](#run-a-thread-with-real-time-priority) | `Setup` of the crate `hpt-realtime` |
//! | know how my times are distributed | `stats::Durations`: quantiles, in bounded memory; `stats::Histogram` for other integers |
//! | [time a piece of work](#time-a-piece-of-work) | [`Stopwatch`], or [`CycleStopwatch`] for core cycles |
//! | [find the best counter](#find-and-calibrate-a-counter), and know how accurate it is | [`source::choose`], which also explains the choice, and [`calibrate`] |
//! | add a counter of my own | [`TimeSource`] to read it, [`Widened`] if it has fewer than 64 bits, [`FixedRateClock`] to convert its ticks to nanoseconds |
//! | measure wake-up latency, OS noise or read overhead | the crate `hpt-instrument`, or the command `hpt` |
//! | [test code](#test-code-that-depends-on-time) that reads the time or waits | [`testing::FrozenClock`], which replaces the time that a thread reads |
//!
//! # Read the time
//!
//! [`Instant`] has every method and trait of [`std::time::Instant`]: replace `use std::time::Instant` with
//! `use hpt_core::Instant`. [`clock::prime`] is optional: it learns the rate of the counter before the first reading
//! instead of in the first millisecond after it.
//!
//! ```
//! use hpt_core::{Instant, clock};
//!
//! clock::prime();
//! let start = Instant::now();
//! let sum: u64 = (0..1000).sum();
//! println!("{sum} after {:?}, read from {}", start.elapsed(), clock::status());
//! ```
//!
//! # Sleep until a deadline
//!
//! ```
//! use std::time::Duration;
//! use hpt_core::{Instant, Sleeper};
//!
//! let mut sleeper = Sleeper::new();
//! let woken = sleeper.sleep_until(Instant::now() + Duration::from_millis(1));
//! match woken.interrupted {
//!     None => println!("{:?} after the deadline", woken.late),
//!     Some(left) => println!("interrupted {left:?} before the deadline"),
//! }
//! ```
//!
//! # Run once per period
//!
//! ```
//! use std::time::Duration;
//! use hpt_core::Pacer;
//!
//! let mut pacer = Pacer::new(Duration::from_millis(1));
//! for _ in 0..3 {
//!     let tick = pacer.wait();
//!     println!("{:?} late, {} periods skipped", tick.late, tick.skipped);
//! }
//! ```
//!
//! # Run a thread with real-time priority
//!
//! The crate `hpt-realtime` sets the policy, CPU, memory, idle states and RT throttling of a thread, and restores them.
//!
//! # Time a piece of work
//!
//! A [`Stopwatch`] knows the cost of reading its counter, and whether the work was long enough for its resolution.
//!
//! ```
//! use std::hint::black_box;
//! use hpt_core::{Host, Stopwatch, source};
//!
//! let host = Host::live();
//! let chosen = source::choose(&host)?;
//! println!("{}", chosen.reason());
//! let stopwatch = Stopwatch::calibrated(&host, chosen.source)?;
//! // `black_box` keeps the compiler from computing the sum in advance.
//! let (sum, lap) = stopwatch.time(|| (0..1000_u64).map(black_box).sum::<u64>());
//! println!("{sum}: {:?}, plus {:?} for reading the counter", lap.without_own_cost(), lap.own_cost());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Find and calibrate a counter
//!
//! [`source::probe`] lists all sources, and states for each unavailable source why it is unavailable.
//!
//! ```
//! use std::time::Duration;
//! use hpt_core::{Host, calibrate::calibrate, source};
//!
//! let host = Host::live();
//! for report in source::probe(&host) {
//!     match report.availability {
//!         Ok(info) => println!("{}: {} bits", report.id, info.width),
//!         Err(reason) => println!("{}: {reason}; fix: {}", report.id, reason.remedy().unwrap_or("none".into())),
//!     }
//! }
//! let counter = source::choose(&host)?.source;
//! let clock = source::open(&host, "monotonic")?;
//! let calibration = calibrate(&counter, &clock, Duration::from_millis(50))?;
//! println!("{calibration}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Test code that depends on time
//!
//! In `Cargo.toml`, enable the feature `testing` for tests only:
//!
//! ```toml
//! [dev-dependencies]
//! hpt-core = { version = "0.1", features = ["testing"] }
//! ```
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use std::time::Duration;
//! use hpt_core::{Instant, Pacer, testing::FrozenClock};
//!
//! let clock = FrozenClock::new();
//! let _entered = clock.enter();
//! let start = Instant::now();
//! let mut pacer = Pacer::new(Duration::from_secs(60));
//! for _ in 0..60 {
//!     let _ = pacer.wait();
//! }
//! assert_eq!(start.elapsed(), Duration::from_secs(3600));
//! # }
//! ```
//!
//! # Guarantees
//!
//! An [`Instant`] never goes back, even across threads, except in the two cases that [`Instant::now`] documents. Its
//! distance from the kernel's `CLOCK_MONOTONIC` stays within the bound that [`clock::status`] reports. A calibration
//! states a bound of its error, or that none is known. A sleep never ends before its deadline, unless it is
//! interrupted. Opening a source can fail; the error then states the reason, and [`SourceError::remedy`] returns a fix,
//! if there is one. Reading an open source never fails. No code runs before `main`, and no thread runs in the
//! background. The only global state is the clock behind [`Instant`].
//!
//! # Platforms
//!
//! The crate builds wherever the standard library builds. [`clock::status`] states which clock [`Instant`] reads, and
//! why.
//!
//! | target | [`Instant`] reads | modules |
//! | --- | --- | --- |
//! | Linux on x86-64, x86 with SSE2, aarch64, 32-bit ARM (ARMv6 or newer) and 64-bit RISC-V | the processor's counter | all |
//! | Linux on other processors | the kernel's clock | all |
//! | macOS, Windows, the BSDs, WASI and others; Linux on processors without 64-bit atomics | the operating system's monotonic clock | [`clock`], [`sleep`], [`pace`], [`stopwatch`], [`calibrate`](mod@calibrate), [`source`] with two clocks, [`stats`], `testing` if there are 64-bit atomics |
//!
//! On the targets of the last row, an [`Instant`] is a reading of [`std::time::Instant`], counted from the first reading
//! in the process, so that instants of two processes cannot be compared. A [`Sleeper`] still never ends early, learns
//! how late it is woken, and can be interrupted by other threads, but not by a signal handler. The feature
//! `devices` adds nothing.
//!
//! If a program may not read the processor's counter, or if the kernel does not trust this counter, [`Instant`] reads
//! the kernel's clock instead. If the kernel lacks a setting or an interface, the error says so.
//!
//! # Rust version
//!
//! The crate builds with Rust 1.85, with all features. A minor release may raise this version, but not above the one in
//! Debian stable.
//!
//! # Features
//!
//! Without features, the crate contains the sources, [`Instant`] and the other clocks, [`Stopwatch`], [`Sleeper`] and
//! [`Pacer`], and depends only on libc and on hpt-sys, its own foundation. All features only add items. A source whose feature is disabled
//! is listed as unavailable for that reason.
//!
//! | feature | default | adds | dependency |
//! | --- | --- | --- | --- |
//! | `stats` | yes | `stats::Histogram`, for any number of samples | hdrhistogram |
//! | `devices` | yes | sources behind device files, I/O ports and mapped memory: `hpet`, `bcm-systimer`, the timers of ARM systems on a chip, `acpi-pm`, `perf-time`, `rtc0`, `ptp0`; reports from the hypervisor | memmap2 |
//! | `testing` | no | `testing`: a clock and a source that a test controls; needs 64-bit atomics | none |
//! | `serde` | no | `Serialize` and `Deserialize` for plain data, such as host information and calibrations | serde |
//! | `embedded-hal` | no | `DelayNs` of embedded-hal for [`Sleeper`] | embedded-hal |

#![forbid(unsafe_code)]
// Makes docs.rs show which feature each item requires. The attribute is not yet available on stable Rust.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait, and write files of their own"))]
#[cfg(test)]
#[macro_use(skipped)]
extern crate hpt_sys;

pub mod calibrate;
pub mod clock;
pub mod pace;
mod scale;
pub mod sleep;
pub mod source;
pub mod stats;
pub mod stopwatch;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(all(feature = "testing", not(target_has_atomic = "64")))]
compile_error!("the feature `testing` needs 64-bit atomics, which this target does not have");

#[doc(inline)]
pub use calibrate::Calibration;
#[doc(inline)]
pub use clock::{Clock, FixedRateClock, Instant, Reading, SystemClock};
#[doc(inline)]
pub use hpt_sys::{
    OsError,
    host::{Architecture, Host},
    units::{Frequency, FrequencyEstimate, FrequencyRange, Width},
};
#[doc(inline)]
pub use pace::Pacer;
pub use scale::Scale;
#[doc(inline)]
pub use sleep::Sleeper;
#[cfg(target_has_atomic = "64")]
pub use source::Widened;
#[cfg(all(target_os = "linux", target_has_atomic = "64", feature = "devices"))]
pub use source::{AcpiPm, BcmSystimer, BcmSystimerLow, Hpet, HpetLow, PerfTime, PtpClock, RealTimeClock};
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub use source::{ArmCounter, ArmCycles, PerfCycles, RiscvTime, Tsc};
#[doc(inline)]
pub use source::{Opened, TimeSource};
pub use source::{PosixClock, PosixId, SourceError, SourceId, SourceInfo};
pub use stats::Spread;
#[doc(inline)]
pub use stopwatch::{CycleLap, CycleStopwatch, Lap, Stopwatch};
