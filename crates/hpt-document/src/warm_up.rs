//! A type for the samples that a measurement discarded at its start (`--warm-up`).

use serde::{Deserialize, Serialize};

/// The warm-up of a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiscardedSamples {
    /// The length of the warm-up (--warm-up), in nanoseconds; 0 without a warm-up. Its samples are discarded.
    #[serde(default)]
    pub warm_up_ns: u64,
    /// Number of samples that were discarded because they belong to the warm-up.
    #[serde(default)]
    pub warm_up_samples: u64,
}
