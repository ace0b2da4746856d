//! A type for the periods in which a pinned thread did not run on its CPU.

use serde::{Deserialize, Serialize};

/// A period in which a pinned thread did not run on its CPU: the CPU was offline, or another process
/// changed the affinity of the thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuAbsence {
    /// The CPU that the thread is pinned to.
    pub cpu: usize,
    /// The start of the absence, in seconds since the start of the run: the time of the first sample on another CPU, or
    /// the start of the first interval during which the thread left its CPU.
    pub from_s: f64,
    /// The time at which the thread was pinned to its CPU again, in seconds since the start of the run; null if it was
    /// not pinned again before the end of the run.
    pub to_s: Option<f64>,
    /// Whether the thread's CPU was offline in this period.
    pub offline: bool,
    /// The CPUs on which the thread was observed in this period.
    pub ran_on_cpus: Vec<usize>,
    /// Number of samples that were taken entirely or partly in this period. The samples are wake-ups, edges, reads or
    /// rounds of readings, depending on the document.
    pub samples: u64,
}
