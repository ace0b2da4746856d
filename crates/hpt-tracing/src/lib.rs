//! Timing for [`tracing`](https://docs.rs/tracing) with the clock of hpt-core.
//!
//! | I want to | use |
//! | --- | --- |
//! | know how long the spans of my program take | [`SpanTimes`]: a layer, and histograms that any thread can read |
//! | print these times, or save them as JSON | [`Snapshot`], which implements `Display` and, with the feature `serde`, `Serialize` |
//! | export them to Prometheus | [`Snapshot::to_openmetrics`], or register [`SpanTimes`] as a collector (feature `openmetrics`) |
//! | print log lines with timestamps of fixed width | [`time::Uptime`] and [`time::WallClock`] |
//!
//! ```
//! # #[cfg(feature = "fmt")] {
//! use hpt_tracing::{SpanTimes, time::Uptime};
//! use tracing_subscriber::{fmt, layer::SubscriberExt, registry};
//!
//! let times = SpanTimes::new();
//! let subscriber = registry().with(times.layer()).with(fmt::layer().with_timer(Uptime::new()));
//! tracing::subscriber::with_default(subscriber, || {
//!     for _ in 0..100 {
//!         tracing::info_span!("work").in_scope(|| std::hint::black_box(0));
//!     }
//! });
//! let snapshot = times.snapshot();
//! let work = snapshot.span("work").expect("it has run");
//! println!("{} spans, the slowest took {:?}", work.total.count(), work.total.max());
//! assert_eq!(work.total.count(), 100);
//! print!("{snapshot}");
//! # }
//! ```
//!
//! # Features
//!
//! | feature | default | adds | dependency |
//! | --- | --- | --- | --- |
//! | `fmt` | yes | [`time`]: timestamps for `tracing_subscriber::fmt` | jiff |
//! | `serde` | no | `Serialize` for [`Snapshot`] | serde |
//! | `openmetrics` | no | [`Snapshot::to_openmetrics`] and a collector | prometheus-client |
//!
//! This crate builds wherever hpt-core does. On systems other than Linux, times are those of the standard library.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// The docs link to items behind features. Builds with all features still report broken links.
#![cfg_attr(not(all(feature = "fmt", feature = "openmetrics")), allow(rustdoc::broken_intra_doc_links))]

/// The example in the README is run as a test.
#[cfg(all(doctest, feature = "fmt"))]
#[doc = include_str!("../README.md")]
pub mod readme {}

mod layer;
#[cfg(feature = "openmetrics")]
mod openmetrics;
mod recorder;
mod snapshot;
#[cfg(feature = "fmt")]
pub mod time;

pub use hpt_core::stats::Durations;

pub use self::{
    layer::{SpanTimes, SpanTimesLayer},
    snapshot::{Snapshot, SpanSummary},
};
