//! Measurements for [Criterion](criterion) 0.8: time by any time source of hpt-core, core cycles and instructions.
//!
//! | I want to measure | use |
//! | --- | --- |
//! | time with the best counter of this machine | [`Time::best`] |
//! | time with a source of my choice, for example `tsc` | [`Time::open`], or [`Time::new`] with an open source |
//! | core cycles, or time where they cannot be counted | [`Cycles::new`](Counting::new) |
//! | instructions, or time where they cannot be counted | [`Instructions::new`](Counting::new) |
//!
//! Each measurement reads its counter in order with the measured work, subtracts its own overhead, and prints the
//! overhead and the granularity once on standard error. Nothing is calibrated before it is needed. [`Cycles`] and
//! [`Instructions`] open their counter at the first interval, or when [`name`](Counting::name) is called.
//!
//! ```
//! use std::hint::black_box;
//! use criterion::Criterion;
//! use hpt_criterion::Cycles;
//!
//! fn fibonacci(n: u64) -> u64 {
//!     if n < 2 { n } else { fibonacci(n - 1) + fibonacci(n - 2) }
//! }
//!
//! let cycles = Cycles::new();
//! // Prints, for example, "cycles by perf-cycles", or "time by tsc" in a virtual machine without a PMU.
//! println!("{}", cycles.name());
//! let mut criterion = Criterion::default().with_measurement(cycles.clone());
//! # let mut criterion = criterion.without_plots().sample_size(10).nresamples(1001)
//! #     .warm_up_time(std::time::Duration::from_millis(1)).measurement_time(std::time::Duration::from_millis(5))
//! #     .output_directory(&std::env::temp_dir().join(format!("hpt-criterion-doc-{}", std::process::id())));
//! criterion.benchmark_group(cycles.name()).bench_function("fibonacci", |bencher| {
//!     bencher.iter(|| fibonacci(black_box(10)));
//! });
//! # let _ = std::fs::remove_dir_all(std::env::temp_dir().join(format!("hpt-criterion-doc-{}", std::process::id())));
//! ```
//!
//! # What the counts contain
//!
//! Cycles and instructions are those of the measuring thread in user mode; a few old ARM cores cannot exclude the
//! kernel. They are zero while the thread does not run, so they do not measure waiting. Instructions are counted on
//! x86-64 and aarch64, with a system call for each read; on 32-bit ARM, time is measured instead.
//!
//! This crate requires Linux: its counters are events of the kernel. Its version follows Criterion's: a new major version of Criterion
//! requires a new version of this crate.

#![forbid(unsafe_code)]

mod counting;
mod cycles;
mod format;
mod instructions;
mod laps;
mod time;

pub use hpt_core::Opened;

pub use self::{
    counting::{CountError, Counting, Event, Started},
    cycles::CoreCycles,
    instructions::UserInstructions,
    laps::Laps,
    time::{Rate, Time, TimeError, TimeReport},
};

/// The examples in the README are compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub mod readme {}

/// Counts core cycles, or measures time where they cannot be counted.
pub type Cycles = Counting<CoreCycles>;

/// Counts instructions in user mode, or measures time where they cannot be counted.
pub type Instructions = Counting<UserInstructions>;
