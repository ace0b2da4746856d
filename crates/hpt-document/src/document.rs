//! A type for documents of any kind, which can read a document whose kind is not known in advance.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    bench::BenchDocument,
    calibrate::CalibrateDocument,
    capture::CaptureDocument,
    check::CheckDocument,
    clocksource::ClocksourceDocument,
    clocksource_cost::ClocksourceCostDocument,
    compare::CompareDocument,
    doctor::DoctorDocument,
    doctor_try::DoctorTryDocument,
    edges::EdgesDocument,
    experiment::ExperimentDocument,
    gpio_latency::GpioLatencyDocument,
    gpio_line::GpioListDocument,
    limit::LimitRow,
    pairs::PairsDocument,
    probe::ProbeDocument,
    read::ReadDocument,
    report::ReportDocument,
    restore::RestoreDocument,
    sleep::SleepDocument,
    sleep_curve::SleepCurveDocument,
    stall::StallDocument,
    wake_latency::WakeLatencyDocument,
    watch::{WatchDocument, WatchSummaryDocument},
};

/// The reason why a value is not an hpt document.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The value has no key `kind`, or `kind` is not a string.
    #[error("the document has no kind")]
    NoKind,
    /// The kind is unknown to this version.
    #[error("unknown kind of document: {0:?}")]
    UnknownKind(String),
    /// A field is missing or has the wrong type.
    #[error("invalid document of kind {kind:?}")]
    Shape {
        /// The kind that the document states.
        kind: String,
        /// The field, and the reason why it is invalid.
        source: serde_json::Error,
    },
}

/// Generates the enum of all documents from one list of types and kinds.
macro_rules! documents {
    ($($(#[$doc:meta])* $variant:ident($type:ident): $($kind:literal)|+,)*) => {
        /// A document of any kind.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(untagged)]
        #[non_exhaustive]
        pub enum Document {
            $($(#[$doc])* $variant($type),)*
        }

        impl Document {
            /// Reads a document of the kind that its key `kind` states. Ignores unknown fields.
            ///
            /// # Errors
            ///
            /// Fails if the kind is missing or unknown, or if a field is missing or has the wrong type.
            pub fn read(value: &Value) -> Result<Self, ReadError> {
                let kind = value.get("kind").and_then(Value::as_str).ok_or(ReadError::NoKind)?;
                let shape = |source| ReadError::Shape { kind: kind.to_owned(), source };
                match kind {
                    $($($kind)|+ => $type::deserialize(value).map(Self::$variant).map_err(shape),)*
                    other => Err(ReadError::UnknownKind(other.to_owned())),
                }
            }
        }

        $(impl From<$type> for Document {
            fn from(document: $type) -> Self {
                Self::$variant(document)
            }
        })*
    };
}

documents! {
    /// `hpt bench`.
    Bench(BenchDocument): "bench",
    /// `hpt calibrate`.
    Calibrate(CalibrateDocument): "calibrate",
    /// `hpt capture`.
    Capture(CaptureDocument): "capture",
    /// `hpt check`.
    Check(CheckDocument): "check",
    /// `hpt clocksource`.
    Clocksource(ClocksourceDocument): "clocksource",
    /// `hpt clocksource compare` and `hpt clocksource set`.
    ClocksourceCost(ClocksourceCostDocument): "clocksource-compare" | "clocksource-set",
    /// `hpt doctor`.
    Doctor(DoctorDocument): "doctor",
    /// `hpt doctor --try`.
    DoctorTry(DoctorTryDocument): "doctor-try",
    /// `hpt latency edges`.
    Edges(EdgesDocument): "latency-edges",
    /// `hpt experiment`.
    Experiment(ExperimentDocument): "experiment",
    /// `hpt latency gpio`.
    GpioLatency(GpioLatencyDocument): "latency-gpio",
    /// `hpt latency gpio --list`.
    GpioList(GpioListDocument): "latency-gpio-list",
    /// `hpt latency pairs`.
    Pairs(PairsDocument): "latency-pairs",
    /// `hpt probe`.
    Probe(ProbeDocument): "probe",
    /// `hpt read`.
    Read(ReadDocument): "read",
    /// `hpt report`.
    Report(ReportDocument): "report",
    /// `hpt compare`.
    Compare(CompareDocument): "compare",
    /// `hpt restore`.
    Restore(RestoreDocument): "restore",
    /// `hpt sleep`.
    Sleep(SleepDocument): "sleep",
    /// `hpt sleep --curve`.
    SleepCurve(SleepCurveDocument): "sleep-curve",
    /// `hpt latency stall`.
    Stall(StallDocument): "latency-stall",
    /// `hpt latency timer` and `hpt latency poll`.
    WakeLatency(WakeLatencyDocument): "latency-timer" | "latency-poll",
    /// An interval of `hpt watch`.
    Watch(WatchDocument): "watch",
    /// The summary of `hpt watch`.
    WatchSummary(WatchSummaryDocument): "watch-summary",
}

impl Document {
    /// Returns whether Ctrl-C or another signal ended the measurement early. Returns `false` for kinds without a
    /// measurement.
    #[must_use]
    pub const fn interrupted(&self) -> bool {
        match self {
            Self::Bench(document) => document.interrupted,
            Self::Calibrate(document) => document.interrupted,
            Self::Check(document) => document.interrupted,
            Self::ClocksourceCost(document) => document.interrupted,
            Self::Doctor(document) => document.interrupted,
            Self::DoctorTry(document) => document.interrupted,
            Self::Edges(document) => document.interrupted,
            Self::Experiment(document) => document.interrupted,
            Self::GpioLatency(document) => document.end.interrupted,
            Self::Pairs(document) => document.interrupted,
            Self::Read(document) => document.interrupted,
            Self::Report(document) => document.interrupted,
            Self::Compare(_)
            | Self::Capture(_)
            | Self::Clocksource(_)
            | Self::GpioList(_)
            | Self::Probe(_)
            | Self::Restore(_)
            | Self::Watch(_) => false,
            Self::Sleep(document) => document.interrupted,
            Self::SleepCurve(document) => document.interrupted,
            Self::Stall(document) => document.end.interrupted,
            Self::WakeLatency(document) => document.end.interrupted,
            Self::WatchSummary(document) => document.interrupted,
        }
    }

    /// Returns the limits that the result was compared with. The list is empty for kinds without limits.
    #[must_use]
    pub fn limits(&self) -> &[LimitRow] {
        match self {
            Self::Bench(document) => &document.limits,
            Self::GpioLatency(document) => &document.limits,
            Self::Pairs(document) => &document.limits,
            Self::Sleep(document) => &document.limits,
            Self::Stall(document) => &document.limits,
            Self::WakeLatency(document) => &document.limits,
            Self::Calibrate(_)
            | Self::Capture(_)
            | Self::Check(_)
            | Self::Clocksource(_)
            | Self::ClocksourceCost(_)
            | Self::Doctor(_)
            | Self::DoctorTry(_)
            | Self::Edges(_)
            | Self::Experiment(_)
            | Self::GpioList(_)
            | Self::Probe(_)
            | Self::Read(_)
            | Self::Report(_)
            | Self::Compare(_)
            | Self::Restore(_)
            | Self::SleepCurve(_)
            | Self::Watch(_)
            | Self::WatchSummary(_) => &[],
        }
    }

    /// Returns further remarks on the result. The list is empty for kinds without notes.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        match self {
            Self::Bench(document) => &document.notes,
            Self::Calibrate(document) => &document.notes,
            Self::Check(document) => &document.notes,
            Self::Clocksource(document) => &document.notes,
            Self::ClocksourceCost(document) => &document.notes,
            Self::Doctor(document) => &document.notes,
            Self::DoctorTry(document) => &document.notes,
            Self::Edges(document) => &document.notes,
            Self::Experiment(document) => &document.notes,
            Self::GpioLatency(document) => &document.notes,
            Self::GpioList(document) => &document.notes,
            Self::Pairs(document) => &document.notes,
            Self::Probe(document) => &document.notes,
            Self::Read(document) => &document.notes,
            Self::Report(document) => &document.notes,
            Self::Compare(document) => &document.notes,
            Self::Restore(document) => &document.notes,
            Self::Sleep(document) => &document.notes,
            Self::SleepCurve(document) => &document.notes,
            Self::Stall(document) => &document.notes,
            Self::WakeLatency(document) => &document.notes,
            Self::WatchSummary(document) => &document.notes,
            Self::Capture(_) | Self::Watch(_) => &[],
        }
    }

    /// Returns the rows of the document, each as an object: the items of the list [`rows_key`](Self::rows_key).
    ///
    /// # Panics
    ///
    /// Never panics, because documents consist of numbers, names and lists, all of which JSON can represent.
    #[must_use]
    pub fn rows(&self) -> Vec<Value> {
        let mut value = serde_json::to_value(self).expect("JSON can represent numbers, names and lists");
        match self.rows_key().map(|key| value[key].take()) {
            Some(Value::Array(rows)) => rows,
            _ => Vec::new(),
        }
    }

    /// Returns the key of the list that contains the rows of the document, which `hpt --format csv` prints. Returns
    /// `None` for the summary of a watch, because the documents of the intervals contain the rows.
    #[must_use]
    pub const fn rows_key(&self) -> Option<&'static str> {
        match self {
            Self::Bench(_)
            | Self::Check(_)
            | Self::ClocksourceCost(_)
            | Self::DoctorTry(_)
            | Self::Edges(_)
            | Self::Experiment(_)
            | Self::GpioLatency(_)
            | Self::Pairs(_)
            | Self::Compare(_)
            | Self::Read(_)
            | Self::Sleep(_)
            | Self::SleepCurve(_)
            | Self::Stall(_)
            | Self::WakeLatency(_) => Some("results"),
            Self::Calibrate(_) => Some("calibrations"),
            Self::Capture(_) => Some("files"),
            Self::Clocksource(_) | Self::Probe(_) | Self::Watch(_) => Some("sources"),
            Self::Doctor(_) => Some("rules"),
            Self::GpioList(_) => Some("lines"),
            Self::Report(_) => Some("parts"),
            Self::Restore(_) => Some("settings"),
            Self::WatchSummary(_) => None,
        }
    }
}
