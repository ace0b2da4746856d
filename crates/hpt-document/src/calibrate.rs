//! `hpt calibrate`: the frequency of each source.

use serde::{Deserialize, Serialize};

use crate::{cpu_absence::CpuAbsence, head::Head};

/// The frequency of each source, with a worst-case bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt calibrate: the frequency of each source"))]
pub struct CalibrateDocument {
    /// The first keys of every document.
    #[serde(flatten)]
    pub head: Head,
    /// False if a saved result is shown.
    pub measured_now: bool,
    /// Whether the measurement ended early.
    pub interrupted: bool,
    /// Periods in which a pinned thread did not run on its CPU, the earliest first. Values measured in these periods
    /// come from several CPUs.
    pub cpu_absences: Vec<CpuAbsence>,
    /// One row for each source.
    pub calibrations: Vec<CalibrationRow>,
    /// The file that the result was saved to.
    pub saved_to: Option<String>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// The frequency of one source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CalibrationRow {
    /// The source.
    pub source: String,
    /// The reference that the source was measured against.
    pub reference: Option<String>,
    /// Whether a frequency was determined.
    pub calibrated: bool,
    /// Why no frequency was determined.
    pub failure: Option<String>,
    /// How the frequency was determined.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::calibration_methods))]
    pub method: Option<String>,
    /// The frequency.
    pub frequency_hz: Option<f64>,
    /// The lower limit of the frequency.
    pub lowest_hz: Option<f64>,
    /// The upper limit of the frequency.
    pub highest_hz: Option<f64>,
    /// The largest possible error of frequency_hz, in parts per million: a bound, not a standard
    /// uncertainty.
    pub bound_ppm: Option<f64>,
    /// The nominal frequency.
    pub nominal_hz: Option<f64>,
    /// The origin of the nominal frequency.
    pub nominal_origin: Option<String>,
    /// (frequency_hz - nominal_hz) / nominal_hz, in parts per million.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub error_ppm: Option<f64>,
    /// Time from the first to the last reading that was used.
    pub window_ns: Option<u64>,
    /// Number of pairs of readings that the frequency is computed from.
    pub pairs: Option<usize>,
    /// The width of the narrowest bracket.
    pub narrowest_bracket_ns: Option<u64>,
    /// The CPU that the frequency was measured on; null if the thread migrated.
    pub cpu: Option<usize>,
}
