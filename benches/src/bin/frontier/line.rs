//! The figures of one setting.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) samples: usize,
    pub(crate) early: u64,
    /// The share of the waits that took more than twice their length.
    pub(crate) doubled: f64,
    pub(crate) p50_ns: u64,
    pub(crate) p90_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) p999_ns: u64,
    /// The mean without the largest hundredth.
    pub(crate) trimmed_mean_ns: u64,
    /// The CPU time of the thread over the time that passed.
    pub(crate) cpu_share: f64,
}
