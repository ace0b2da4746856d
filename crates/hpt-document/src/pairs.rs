//! `hpt latency pairs`: the difference of back-to-back reads.

use serde::{Deserialize, Serialize};

use crate::{away::Away, head::Head};

/// The difference between back-to-back reads of a source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt latency pairs: the difference of back-to-back reads"))]
pub struct PairsDocument {
    /// The first keys of every document.
    #[serde(flatten)]
    pub head: Head,
    /// The CPU it ran on; null if it was not pinned.
    pub cpu: Option<usize>,
    /// Whether Ctrl-C or another signal ended it early.
    pub interrupted: bool,
    /// Times in which a pinned thread did not run on its CPU, the earliest first. Values measured then come from
    /// several CPUs.
    pub away: Vec<Away>,
    /// One row for each source and each kind of pause.
    pub results: Vec<PairsRow>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// One source, after one kind of pause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PairsRow {
    /// The source.
    pub id: String,
    /// The pauses before the pairs, used in turn; 0 if the pairs follow one another.
    pub waits_ns: Vec<u64>,
    /// Number of pairs.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub samples: u64,
    /// The mean difference, in ticks of the source.
    pub mean_ticks: f64,
    /// The length of a tick: by definition, or as measured before. For cycles, at the rate of a busy core. Null if it
    /// is not known.
    pub ns_per_tick: Option<f64>,
    /// The mean difference.
    pub mean_ns: Option<f64>,
    /// The minimum.
    pub min_ns: Option<f64>,
    /// The median.
    pub p50_ns: Option<f64>,
    /// The 99th percentile.
    pub p99_ns: Option<f64>,
    /// The maximum.
    pub max_ns: Option<f64>,
}
