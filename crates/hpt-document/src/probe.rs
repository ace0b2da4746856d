//! The document of `hpt probe`: every time source of a machine.

use serde::{Deserialize, Serialize};

use crate::{head::Head, not_run::NotRun};

/// Every time source of a machine, and the reason why it can or cannot be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt probe: every time source of a machine"))]
pub struct ProbeDocument {
    /// The keys at the start of the document: `schema`, `kind`, `hpt` and `machine`.
    #[serde(flatten)]
    pub head: Head,
    /// The way in which clock_gettime(CLOCK_MONOTONIC) reads the clock. `kernel` means either the vDSO or a system
    /// call; for a captured machine, hpt cannot determine which.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::read_paths))]
    pub clock_gettime_read_path: Option<String>,
    /// The recommended source, and the reason for the recommendation.
    pub recommendation: SourceRecommendation,
    /// The state of the library's `Instant`; null for a captured machine.
    pub instant: Option<InstantStatus>,
    /// One row for each source.
    pub sources: Vec<ProbeRow>,
    /// The time that the measuring thread did not run although it was ready; null for a captured machine.
    #[serde(default)]
    pub not_run: Option<NotRun>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// The recommended source, and the reason for the recommendation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SourceRecommendation {
    /// The name of the recommended source; null if no source is recommended.
    pub source: Option<String>,
    /// The reason for the recommendation.
    pub reason: String,
}

/// The state of the library's `Instant`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InstantStatus {
    /// The source that `Instant` reads: a counter, or `monotonic` for the kernel's clock.
    pub source: String,
    /// The reason why `Instant` reads this source.
    pub reason: String,
    /// The worst-case bound on the difference between `Instant` and CLOCK_MONOTONIC, in nanoseconds; 0 if `Instant`
    /// reads the kernel's clock.
    pub bound_ns: u64,
    /// The width of the last bracketed reading of the counter and the kernel's clock, in nanoseconds.
    pub last_bracket_ns: Option<u64>,
    /// The deviation of the counter's rate from its nominal rate, measured against CLOCK_MONOTONIC, in parts per
    /// million.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub frequency_error_ppm: Option<f64>,
    /// Number of comparisons between the counter and the kernel's clock.
    pub comparisons: u64,
    /// Number of times that the rate of the kernel's clock has changed.
    pub rate_changes: u64,
    /// Number of times that the counter or the kernel's clock has stepped.
    pub steps: u64,
    /// Number of disruptions of the counter, such as migrations, that the hypervisor has reported (vmclock); null if
    /// the hypervisor does not report disruptions, or if this user may not read the reports.
    pub disruptions: Option<u64>,
    /// Number of bracketed readings that were rejected because they were too wide.
    pub rejected_brackets: u64,
}

/// One time source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeRow {
    /// The name of the source.
    pub id: String,
    /// A description of the source.
    pub description: String,
    /// Whether the source can be used on this machine.
    pub available: bool,
    /// The reason why the source cannot be used, as a word that is stable across versions.
    pub reason_kind: Option<String>,
    /// The reason why the source cannot be used, as text.
    pub reason: Option<String>,
    /// A way to make the source available.
    pub fix: Option<String>,
    /// The width of the counter in bits, which determines when it wraps.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 64)))]
    pub width_bits: Option<u8>,
    /// The nominal frequency of the source, in hertz, or the measured frequency if no nominal frequency is stated.
    pub frequency_hz: Option<f64>,
    /// The origin of the nominal frequency; `measured` if the frequency was measured.
    pub frequency_origin: Option<String>,
    /// The advertised resolution of the source, in nanoseconds.
    pub resolution_ns: Option<f64>,
    /// The granularity of the source, in nanoseconds: the smallest observed difference between two different readings.
    pub granularity_ns: Option<f64>,
    /// The largest number of ticks that divides every observed step.
    pub step_multiple_ticks: Option<u64>,
    /// Time per read, in nanoseconds, from a short measurement.
    pub read_cost_ns: Option<f64>,
    /// The way in which the source is read. `kernel` means either the vDSO or a system call; for a captured machine,
    /// hpt cannot determine which.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::read_paths))]
    pub read_path: Option<String>,
    /// The scope of the source: one counter for the whole system, or one for each core, process or thread.
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
    /// The evidence for `kernel_verdict`.
    pub kernel_evidence: String,
    /// The reason why the source is or is not recommended.
    pub suitability: String,
    /// The checks that hpt performed, each with its result.
    pub evidence: Vec<String>,
}
