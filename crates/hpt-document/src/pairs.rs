//! `hpt latency pairs`: the interval between back-to-back reads.

use serde::{Deserialize, Serialize};

use crate::{cpu_absence::CpuAbsence, head::Head};

/// The interval between back-to-back reads of a source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt latency pairs: the interval between back-to-back reads"))]
pub struct PairsDocument {
    /// The first keys of every document.
    #[serde(flatten)]
    pub head: Head,
    /// The CPU that the thread was pinned to; null if it was not pinned.
    pub cpu: Option<usize>,
    /// Whether Ctrl-C or another signal ended the run early.
    pub interrupted: bool,
    /// Periods in which a pinned thread did not run on its CPU, the earliest first. Values measured in these periods
    /// come from several CPUs.
    pub cpu_absences: Vec<CpuAbsence>,
    /// One row for each source and each kind of pause.
    pub results: Vec<PairsRow>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// The results of one source after one kind of pause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PairsRow {
    /// The source.
    pub id: String,
    /// The alternating pauses before the pairs; 0 if there are no pauses.
    pub pauses_ns: Vec<u64>,
    /// Number of pairs.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub samples: u64,
    /// The mean interval, in ticks of the source.
    pub mean_ticks: f64,
    /// The duration of a tick, as defined or as measured before the run. For cycles, the duration at the rate of a busy
    /// core. Null if the duration is unknown.
    pub ns_per_tick: Option<f64>,
    /// The mean interval.
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
