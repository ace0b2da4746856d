//! The document of `hpt calibrate`: the frequency of each source.

use serde::{Deserialize, Serialize};

use crate::{cpu_absence::CpuAbsence, head::Head, not_run::NotRun};

/// The frequency of each source, with a worst-case bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt calibrate: the frequency of each source"))]
pub struct CalibrateDocument {
    /// The keys at the start of the document: `schema`, `kind`, `hpt` and `machine`.
    #[serde(flatten)]
    pub head: Head,
    /// Whether the frequencies were measured in this run; false if saved results are shown.
    pub measured_now: bool,
    /// Whether Ctrl-C or another signal ended the measurement early.
    pub interrupted: bool,
    /// Periods in which a pinned thread did not run on its CPU, in chronological order. Values measured in these
    /// periods may include samples from other CPUs.
    pub cpu_absences: Vec<CpuAbsence>,
    /// The time that the measuring thread needed its CPU, but did not get it.
    #[serde(default)]
    pub not_run: NotRun,
    /// The calibrated counter that the reference itself is made from; null if there is none. Its true rate was not
    /// measured.
    #[serde(default)]
    pub counter_of_reference: Option<String>,
    /// One row for each source.
    pub calibrations: Vec<CalibrationRow>,
    /// The file that the results were saved to; null if they were not saved.
    pub saved_to: Option<String>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// The frequency of one source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CalibrationRow {
    /// The name of the source.
    pub source: String,
    /// The reference that the source was measured against.
    pub reference: Option<String>,
    /// Whether the readings yield a frequency of the source.
    pub calibrated: bool,
    /// The reason why the frequency was not determined; null if it was determined.
    pub failure: Option<String>,
    /// The method by which the frequency was determined.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::calibration_methods))]
    pub method: Option<String>,
    /// The frequency of the source, in hertz; null if it was not determined, or if it has no bound because the reference
    /// advances with the kernel's tick or the readings contradict each other.
    pub frequency_hz: Option<f64>,
    /// The lower bound of the frequency, in hertz.
    pub lowest_hz: Option<f64>,
    /// The upper bound of the frequency, in hertz.
    pub highest_hz: Option<f64>,
    /// The largest possible error of `frequency_hz`, in parts per million. This is a worst-case bound, not a standard
    /// uncertainty.
    pub bound_ppm: Option<f64>,
    /// The nominal frequency of the source, in hertz; null if no nominal frequency is stated.
    pub nominal_hz: Option<f64>,
    /// The origin of the nominal frequency; null if no nominal frequency is stated.
    pub nominal_origin: Option<String>,
    /// The deviation from the nominal frequency, in parts per million: (frequency_hz - nominal_hz) / nominal_hz. Null if
    /// either frequency is null.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub error_ppm: Option<f64>,
    /// Time from the first to the last reading that was used, in nanoseconds of the reference.
    pub window_ns: Option<u64>,
    /// Number of pairs of readings from which the frequency was computed.
    pub pairs: Option<usize>,
    /// The width of the narrowest bracket, in nanoseconds.
    pub narrowest_bracket_ns: Option<u64>,
    /// The CPU on which the frequency was measured; null if the thread migrated during the measurement.
    pub cpu: Option<usize>,
}
