//! The causes of late samples, from the kernel's trace. A private tracefs instance records what runs on the measured
//! CPUs, and each late sample is divided into parts that add up to its latency. This module measures nothing; the
//! caller passes the samples.
//!
//! ```no_run
//! use std::{ops::ControlFlow, time::Duration};
//! use hpt_core::Instant;
//! use hpt_instrument::{measure::Wakes, trace::{Request, Tracing}};
//!
//! let tracing = Tracing::begin(&Request::new([0]).with_worst(10))?;
//! let mut feed = tracing.feed(None);
//! Wakes::new(Duration::from_millis(1)).with_count(1_000).run(|wake| {
//!     feed.offer(wake.deadline.nanos_since(Instant::EPOCH), wake.latency_ns);
//!     ControlFlow::Continue(())
//! });
//! drop(feed);
//! for late in tracing.end().explained {
//!     println!("{} ns: {:?}", late.sample.latency_ns, late.parts.first());
//! }
//! # Ok::<(), hpt_instrument::trace::TraceError>(())
//! ```

mod attribute;
mod causes;
mod error;
mod events;
mod format;
mod instance;
mod leftover;
mod part;
mod place;
mod quota;
mod reader;
mod report;
mod request;
mod ring;
mod rules;
mod session;
mod shared;
mod steal;
mod symbols;
mod threads;
mod track;
mod wanted;
mod window;

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod ruled;

pub use self::{
    causes::CauseTotal,
    error::TraceError,
    leftover::{LeftInstance, Removal, left_instances, remove_left_instances},
    part::{CauseKind, Doubt, Explained, LateSample, Part, Segment},
    report::TraceReport,
    request::Request,
    rules::{CAUSE_RULES, CauseRule},
    session::{Feed, Tracing},
};
