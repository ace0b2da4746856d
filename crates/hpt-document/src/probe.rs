//! `hpt probe`: every time source of a machine.

use serde::{Deserialize, Serialize};

use crate::head::Head;

/// Every time source of a machine, and why it can or cannot be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt probe: every time source of a machine"))]
pub struct ProbeDocument {
    /// The first keys of every document.
    #[serde(flatten)]
    pub head: Head,
    /// How clock_gettime(CLOCK_MONOTONIC) reads the clock. `kernel`: through the vDSO or a system call; for a captured
    /// machine, it is not known which.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::read_paths))]
    pub clock_gettime_read_path: Option<String>,
    /// The recommended source.
    pub recommendation: SourceRecommendation,
    /// The state of the library's `Instant`; null for a captured machine.
    pub instant: Option<InstantStatus>,
    /// One row for each source.
    pub sources: Vec<ProbeRow>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// The recommended source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SourceRecommendation {
    /// Its name.
    pub source: Option<String>,
    /// The reason.
    pub reason: String,
}

/// The state of the library's `Instant`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InstantStatus {
    /// The source that `Instant` reads: a counter, or `monotonic` for the kernel's clock.
    pub source: String,
    /// The reason.
    pub reason: String,
    /// The worst-case bound of the difference between `Instant` and CLOCK_MONOTONIC; 0 if `Instant` reads the kernel's
    /// clock.
    pub bound_ns: u64,
    /// The bracket width of the last bracketed reading of the counter and the kernel's clock.
    pub last_bracket_ns: Option<u64>,
    /// The deviation of the counter's rate from its nominal rate, measured against CLOCK_MONOTONIC, in parts per
    /// million.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub frequency_error_ppm: Option<f64>,
    /// Number of comparisons of the counter with the kernel's clock.
    pub comparisons: u64,
    /// Number of times that the rate of the kernel's clock changed.
    pub rate_changes: u64,
    /// Number of times that the counter or the clock stepped.
    pub steps: u64,
    /// Number of disruptions of the counter that the hypervisor reported (vmclock), such as migrations; null
    /// if it does not report them.
    pub disruptions: Option<u64>,
    /// Number of bracketed readings that were too wide to be used.
    pub rejected_brackets: u64,
}

/// One time source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeRow {
    /// Its name.
    pub id: String,
    /// A description.
    pub description: String,
    /// Whether the source can be used on this machine.
    pub available: bool,
    /// Why the source cannot be used, as a word that is stable across versions.
    pub reason_kind: Option<String>,
    /// Why the source cannot be used, as a sentence.
    pub reason: Option<String>,
    /// How to make the source available.
    pub fix: Option<String>,
    /// The width of the counter in bits, which determines when it wraps.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 64)))]
    pub width_bits: Option<u8>,
    /// The nominal frequency of the source, or the measured frequency if no nominal frequency is stated.
    pub frequency_hz: Option<f64>,
    /// The origin of the frequency, or `measured`.
    pub frequency_origin: Option<String>,
    /// The advertised resolution of the source.
    pub resolution_ns: Option<f64>,
    /// The granularity: the smallest observed difference between two different readings.
    pub granularity_ns: Option<f64>,
    /// The number of ticks that every observed step is a multiple of.
    pub step_multiple_ticks: Option<u64>,
    /// Time per read in a short measurement.
    pub read_cost_ns: Option<f64>,
    /// How the source is read. `kernel`: through the vDSO or a system call; for a captured machine, it is not known
    /// which.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::read_paths))]
    pub read_path: Option<String>,
    /// The scope of the source's count.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::scopes))]
    pub scope: Option<String>,
    /// Whether the source has a constant rate and is never stepped.
    pub constant_rate: Option<bool>,
    /// Whether a time daemon adjusts the rate of the source.
    pub disciplined: Option<bool>,
    /// Whether the source continues to count while the machine is suspended.
    pub counts_in_suspend: Option<bool>,
    /// Whether read access can be revoked.
    pub revocable: Option<bool>,
    /// Whether the kernel trusts the source.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::kernel_verdicts))]
    pub kernel_verdict: String,
    /// The evidence for kernel_verdict.
    pub kernel_evidence: String,
    /// Why the source is recommended or not.
    pub suitability: String,
    /// The checks that hpt performed, with their results.
    pub evidence: Vec<String>,
}
