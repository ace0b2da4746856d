//! The document of `hpt latency edges`: the intervals between the edges in a recording of a logic analyzer.

use serde::{Deserialize, Serialize};

use crate::{
    head::Head,
    quantiles::{EdgeList, Quantiles},
    words::word_enum,
};

/// The intervals between the edges in a recording of a logic analyzer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt latency edges: edges in a recording of a logic analyzer"))]
pub struct EdgesDocument {
    /// The keys at the start of the document: `schema`, `kind`, `hpt` and `machine`. The machine is the one that read
    /// the file.
    #[serde(flatten)]
    pub head: Head,
    /// The file.
    pub file: String,
    /// The sample rate that the file states, in hertz; null if it states none.
    pub sample_rate_hz: Option<u64>,
    /// The time between two samples, in nanoseconds; null if it is unknown. Each edge occurred at most this time before
    /// the sample that shows it, so `jitter_ns` differs from the true jitter by less than twice this time.
    pub resolution_ns: Option<f64>,
    /// The number of rows that were read.
    pub samples: u64,
    /// Whether Ctrl-C or another signal ended the run before the end of the file.
    pub interrupted: bool,
    /// One row for each channel and kind of edge with at least one interval.
    pub results: Vec<EdgesRow>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// The intervals between the edges of one channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EdgesRow {
    /// The name of the channel.
    pub channel: String,
    /// The edges between which the intervals are measured.
    pub edges: EdgeKind,
    /// The number of intervals.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub intervals: u64,
    /// The mean interval, in nanoseconds.
    pub mean_ns: f64,
    /// The minimum interval, in nanoseconds.
    pub min_ns: f64,
    /// The quantiles: `p50_ns` and so on.
    #[serde(flatten)]
    pub quantiles: Quantiles<EdgeList>,
    /// The maximum interval, in nanoseconds.
    pub max_ns: f64,
    /// The jitter, in nanoseconds, in whole samples: how much later the latest edge is than the earliest, relative to the
    /// constant period that makes this difference smallest. Null if the edges are far from every constant period.
    pub jitter_ns: Option<f64>,
    /// The jitter in cycles of 20 ns, which is the time between two samples at 50 MHz.
    pub jitter_cycles_20ns: Option<f64>,
    /// The maximum interval minus the minimum interval, in nanoseconds. If a single edge is late, one interval is longer
    /// and the next one shorter, so this is twice the delay.
    pub interval_jitter_ns: f64,
}

word_enum! {
    /// The edges between which intervals are measured.
    pub enum EdgeKind {
        /// Each edge and the next one.
        All = "all",
        /// Each rising edge and the next rising edge.
        Rising = "rising",
        /// Each falling edge and the next falling edge.
        Falling = "falling",
    }
}
