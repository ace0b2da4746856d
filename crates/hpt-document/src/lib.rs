//! Rust types for the JSON documents of the `hpt` command. This crate neither measures nor prints.
//!
#![doc = include_str!("../README.md")]
//!
//! Each kind of document has its own module. Types that several kinds share are in separate modules. [`Document`]
//! represents a document of any kind.
#![forbid(unsafe_code)]

pub mod bench;
pub mod calibrate;
pub mod capture;
pub mod check;
pub mod clocksource;
pub mod clocksource_cost;
pub mod compare;
pub mod conditions;
#[cfg(feature = "schema")]
mod constraints;
pub mod cpu_absence;
pub mod doctor;
pub mod doctor_try;
mod document;
pub mod edges;
pub mod experiment;
pub mod explain;
#[cfg(feature = "schema")]
pub mod generated;
pub mod gpio_latency;
pub mod gpio_line;
pub mod head;
pub mod latency;
pub mod limit;
pub mod load;
pub mod not_run;
pub mod pairs;
pub mod probe;
pub mod quantiles;
pub mod read;
pub mod read_cost;
pub mod report;
pub mod restore;
pub mod round;
pub mod schema;
pub mod sleep;
pub mod sleep_curve;
pub mod stall;
pub mod thread;
pub mod wake_latency;
pub mod warm_up;
pub mod watch;
pub mod words;

pub use document::{Document, ReadError};
pub use head::SCHEMA;
