//! The document of `hpt latency pairs`: the interval between back-to-back reads.

use serde::{Deserialize, Serialize};

use crate::{
    conditions::Conditions,
    cpu_absence::CpuAbsence,
    head::Head,
    limit::LimitRow,
    not_run::NotRun,
    quantiles::{PairList, Quantiles},
    warm_up::DiscardedSamples,
};

/// The interval between back-to-back reads of a source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt latency pairs: the interval between back-to-back reads"))]
pub struct PairsDocument {
    /// The keys at the start of the document: `schema`, `kind`, `hpt` and `machine`.
    #[serde(flatten)]
    pub head: Head,
    /// The CPU that the thread was pinned to; null if it was not pinned.
    pub cpu: Option<usize>,
    /// The warm-up: `warm_up_ns` and `warm_up_samples`.
    #[serde(flatten)]
    pub warm_up: DiscardedSamples,
    /// Whether Ctrl-C or another signal ended the run early.
    pub interrupted: bool,
    /// Periods in which a pinned thread did not run on its CPU, in chronological order. Values measured in these
    /// periods may include samples from other CPUs.
    pub cpu_absences: Vec<CpuAbsence>,
    /// The time during which the thread was ready to run, but did not run. Pauses are not included.
    pub not_run: NotRun,
    /// The conditions during the measurement.
    #[serde(default)]
    pub conditions: Conditions,
    /// The limits of `--limit`, each with its verdict, in the order in which they were given.
    #[serde(default)]
    pub limits: Vec<LimitRow>,
    /// One row for each combination of source and pauses.
    pub results: Vec<PairsRow>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// The intervals between back-to-back reads of one source, after the same pauses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PairsRow {
    /// The name of the source; `realtime-in-kernel` and `arm-cycles-in-kernel` for readings that the kernel made.
    pub id: String,
    /// The pauses before the pairs of reads, in nanoseconds. Pauses of different lengths alternate; 0 means that there
    /// are no pauses.
    pub pauses_ns: Vec<u64>,
    /// Number of pairs of reads.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub samples: u64,
    /// The mean interval, in ticks of the source.
    pub mean_ticks: f64,
    /// The duration of a tick, in nanoseconds, as defined or as measured before the run. For a cycle counter, this is
    /// the duration of a cycle on a busy core. Null if the duration is unknown.
    pub ns_per_tick: Option<f64>,
    /// The mean interval, in nanoseconds; null if the duration of a tick is unknown.
    pub mean_ns: Option<f64>,
    /// The minimum interval, in nanoseconds; null if the duration of a tick is unknown.
    pub min_ns: Option<f64>,
    /// The quantiles: `p50_ns` and so on.
    #[serde(flatten)]
    pub quantiles: Quantiles<PairList>,
    /// The maximum interval, in nanoseconds; null if the duration of a tick is unknown.
    pub max_ns: Option<f64>,
}
