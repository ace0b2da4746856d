//! The metrics of `hpt calibrate`: the frequency of each source, with its worst-case bound.

use hpt_document::calibrate::{CalibrateDocument, CalibrationRow};

use super::gauge::{Gauge, Labels, of_rows, ratio, text, yes};

fn source(row: &CalibrationRow) -> Labels {
    vec![("source", row.source.clone()), ("reference", text(row.reference.as_ref()))]
}

pub(super) fn gauges(document: &CalibrateDocument) -> Vec<Gauge> {
    let rows = &document.calibrations;
    vec![
        of_rows(
            rows,
            source,
            ("hpt_calibration_succeeded", "", "Whether the frequency of the source was determined: 1 yes, 0 no"),
            |row| Some(yes(row.calibrated)),
        ),
        of_rows(
            rows,
            source,
            (
                "hpt_calibration_frequency",
                "hertz",
                "Frequency of the source, measured against the reference; no sample if it is unbounded",
            ),
            |row| row.frequency_hz,
        ),
        of_rows(
            rows,
            source,
            (
                "hpt_calibration_bound",
                "ratio",
                "Worst-case relative error of the measured frequency; no sample if it is unbounded",
            ),
            |row| row.bound_ppm.map(ratio),
        ),
        of_rows(
            rows,
            source,
            (
                "hpt_calibration_error",
                "ratio",
                "Relative deviation of the measured frequency from the nominal frequency",
            ),
            |row| row.error_ppm.map(ratio),
        ),
    ]
}
