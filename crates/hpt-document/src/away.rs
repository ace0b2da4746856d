//! Times in which a pinned thread did not run on its CPU.

use serde::{Deserialize, Serialize};

/// A time in which a pinned thread did not run on its CPU: the CPU was offline, or another process
/// changed the thread's affinity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Away {
    /// The CPU that the thread is pinned to.
    pub cpu: usize,
    /// When it was first seen on another CPU, in seconds since the start.
    pub from_s: f64,
    /// When it was pinned to its CPU again; null if it was not pinned again before the end.
    pub to_s: Option<f64>,
    /// Whether its CPU was offline in that time.
    pub offline: bool,
    /// The CPUs that it was seen on.
    pub ran_on: Vec<usize>,
    /// Samples taken in that time, at least in part: wake-ups, edges, reads or rounds of readings,
    /// whatever the document counts.
    pub samples: u64,
}
