//! The document of `hpt read`: readings of time sources.

use serde::{Deserialize, Serialize};

use crate::head::Head;

/// Readings of time sources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt read: readings of time sources"))]
pub struct ReadDocument {
    /// The keys at the start of the document: `schema`, `kind`, `hpt` and `machine`.
    #[serde(flatten)]
    pub head: Head,
    /// The requested time between two rounds, in nanoseconds; null if each round follows the previous one immediately.
    pub interval_ns: Option<u64>,
    /// Whether Ctrl-C or another signal ended the run early.
    pub interrupted: bool,
    /// The readings, in the order in which they were taken. Each round reads every source once.
    pub results: Vec<Reading>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// One reading of a time source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reading {
    /// The number of the round, starting with 1.
    pub number: u32,
    /// The name of the source.
    pub id: String,
    /// The reading in seconds, in decimal notation, without the digits that are finer than the resolution of the
    /// source. A string, because the seconds since 1970 with nanoseconds do not fit in a 64-bit floating-point number.
    /// Null for a counter, whose reading is a number of ticks.
    pub time_s: Option<String>,
    /// The reading in ticks of the source. A tick of a clock of the kernel is a nanosecond, of `gettimeofday` a
    /// microsecond, and of a real-time clock a second.
    pub ticks: u64,
}
