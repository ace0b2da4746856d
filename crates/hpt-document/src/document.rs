//! The list of all documents: each with its type, its schema and the fields that documents of several kinds have. A type
//! for documents of any kind, which can read a document whose kind is not known in advance.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(feature = "schema")]
use crate::generated;
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

/// Generates everything that concerns all kinds of documents from one list. An entry names the type, its kinds, each
/// with the function that generates its schema unless the type alone determines it, and the fields that several kinds
/// have.
macro_rules! documents {
    ($(
        $(#[$doc:meta])*
        $variant:ident($type:ident as $document:ident): $($kind:literal $(by $generate:path)?)|+,
        rows: $rows:expr, interrupted: $interrupted:expr, limits: $limits:expr, notes: $notes:expr;
    )*) => {
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

            /// Returns whether Ctrl-C or another signal ended the measurement early. Returns `false` for kinds without
            /// a measurement.
            #[must_use]
            #[allow(unused_variables, reason = "some kinds lack the field")]
            pub const fn interrupted(&self) -> bool {
                match self {
                    $(Self::$variant($document) => $interrupted,)*
                }
            }

            /// Returns the limits that the result was compared with. The list is empty for kinds without limits.
            #[must_use]
            #[allow(unused_variables, reason = "some kinds lack the field")]
            pub fn limits(&self) -> &[LimitRow] {
                match self {
                    $(Self::$variant($document) => $limits,)*
                }
            }

            /// Returns further remarks on the result. The list is empty for kinds without notes.
            #[must_use]
            #[allow(unused_variables, reason = "some kinds lack the field")]
            pub fn notes(&self) -> &[String] {
                match self {
                    $(Self::$variant($document) => $notes,)*
                }
            }

            /// Returns the key of the list that contains the rows of the document, which `hpt --format csv` prints.
            /// Returns `None` for the summary of a watch, because the documents of the intervals contain the rows.
            #[must_use]
            pub const fn rows_key(&self) -> Option<&'static str> {
                match self {
                    $(Self::$variant(_) => $rows,)*
                }
            }
        }

        $(impl From<$type> for Document {
            fn from(document: $type) -> Self {
                Self::$variant(document)
            }
        })*

        /// The text of each schema.
        pub(crate) const SCHEMAS: &[(&str, &str)] =
            &[$($(($kind, include_str!(concat!("../schema/", $kind, ".json"))),)+)*];

        /// The function that generates each schema.
        #[cfg(feature = "schema")]
        pub(crate) const GENERATORS: &[(&str, fn() -> schemars::Schema)] =
            &[$($(($kind, documents!(@generate $type $($generate)?)),)+)*];
    };
    (@generate $type:ident) => { crate::generated::generated::<$type> };
    (@generate $type:ident $generate:path) => { $generate };
}

documents! {
    /// `hpt bench`.
    Bench(BenchDocument as document): "bench",
    rows: Some("results"), interrupted: document.interrupted, limits: &document.limits, notes: &document.notes;
    /// `hpt calibrate`.
    Calibrate(CalibrateDocument as document): "calibrate",
    rows: Some("calibrations"), interrupted: document.interrupted, limits: &[], notes: &document.notes;
    /// `hpt capture`.
    Capture(CaptureDocument as document): "capture",
    rows: Some("files"), interrupted: false, limits: &[], notes: &[];
    /// `hpt check`.
    Check(CheckDocument as document): "check" by generated::check,
    rows: Some("results"), interrupted: document.interrupted, limits: &[], notes: &document.notes;
    /// `hpt clocksource`.
    Clocksource(ClocksourceDocument as document): "clocksource",
    rows: Some("sources"), interrupted: false, limits: &[], notes: &document.notes;
    /// `hpt clocksource compare` and `hpt clocksource set`.
    ClocksourceCost(ClocksourceCostDocument as document): "clocksource-compare" by generated::clocksource_compare | "clocksource-set" by generated::clocksource_set,
    rows: Some("results"), interrupted: document.interrupted, limits: &[], notes: &document.notes;
    /// `hpt compare`.
    Compare(CompareDocument as document): "compare",
    rows: Some("results"), interrupted: false, limits: &[], notes: &document.notes;
    /// `hpt doctor`.
    Doctor(DoctorDocument as document): "doctor",
    rows: Some("rules"), interrupted: document.interrupted, limits: &[], notes: &document.notes;
    /// `hpt doctor --try`.
    DoctorTry(DoctorTryDocument as document): "doctor-try",
    rows: Some("results"), interrupted: document.interrupted, limits: &[], notes: &document.notes;
    /// `hpt experiment`.
    Experiment(ExperimentDocument as document): "experiment",
    rows: Some("results"), interrupted: document.interrupted, limits: &[], notes: &document.notes;
    /// `hpt latency edges`.
    Edges(EdgesDocument as document): "latency-edges",
    rows: Some("results"), interrupted: document.interrupted, limits: &[], notes: &document.notes;
    /// `hpt latency gpio`.
    GpioLatency(GpioLatencyDocument as document): "latency-gpio" by generated::gpio_latency,
    rows: Some("results"), interrupted: document.end.interrupted, limits: &document.limits, notes: &document.notes;
    /// `hpt latency gpio --list`.
    GpioList(GpioListDocument as document): "latency-gpio-list",
    rows: Some("lines"), interrupted: false, limits: &[], notes: &document.notes;
    /// `hpt latency pairs`.
    Pairs(PairsDocument as document): "latency-pairs",
    rows: Some("results"), interrupted: document.interrupted, limits: &document.limits, notes: &document.notes;
    /// `hpt latency stall`.
    Stall(StallDocument as document): "latency-stall",
    rows: Some("results"), interrupted: document.end.interrupted, limits: &document.limits, notes: &document.notes;
    /// `hpt latency timer` and `hpt latency poll`.
    WakeLatency(WakeLatencyDocument as document): "latency-timer" by generated::timer | "latency-poll" by generated::poll,
    rows: Some("results"), interrupted: document.end.interrupted, limits: &document.limits, notes: &document.notes;
    /// `hpt probe`.
    Probe(ProbeDocument as document): "probe",
    rows: Some("sources"), interrupted: false, limits: &[], notes: &document.notes;
    /// `hpt read`.
    Read(ReadDocument as document): "read",
    rows: Some("results"), interrupted: document.interrupted, limits: &[], notes: &document.notes;
    /// `hpt report`.
    Report(ReportDocument as document): "report" by generated::report,
    rows: Some("parts"), interrupted: document.interrupted, limits: &[], notes: &document.notes;
    /// `hpt restore`.
    Restore(RestoreDocument as document): "restore",
    rows: Some("settings"), interrupted: false, limits: &[], notes: &document.notes;
    /// `hpt sleep`.
    Sleep(SleepDocument as document): "sleep",
    rows: Some("results"), interrupted: document.interrupted, limits: &document.limits, notes: &document.notes;
    /// `hpt sleep --curve`.
    SleepCurve(SleepCurveDocument as document): "sleep-curve",
    rows: Some("results"), interrupted: document.interrupted, limits: &[], notes: &document.notes;
    /// An interval of `hpt watch`.
    Watch(WatchDocument as document): "watch",
    rows: Some("sources"), interrupted: false, limits: &[], notes: &[];
    /// The summary of `hpt watch`.
    WatchSummary(WatchSummaryDocument as document): "watch-summary",
    rows: None, interrupted: document.interrupted, limits: &[], notes: &document.notes;
}

impl Document {
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
}
