//! The metrics of `hpt calibrate`: how fast each source ticks, and within what bound.

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
            ("hpt_calibration_succeeded", "", "Whether the source could be calibrated: 1 yes, 0 no"),
            |row| Some(yes(row.calibrated)),
        ),
        of_rows(
            rows,
            source,
            ("hpt_calibration_frequency", "hertz", "How fast the source ticks beside the reference"),
            |row| row.frequency_hz,
        ),
        of_rows(
            rows,
            source,
            (
                "hpt_calibration_bound",
                "ratio",
                "How far the frequency may be off at most, as a part of it; no sample where there is no bound",
            ),
            |row| row.bound_ppm.map(ratio),
        ),
        of_rows(
            rows,
            source,
            ("hpt_calibration_error", "ratio", "How far the frequency is from the stated one, as a part of that"),
            |row| row.error_ppm.map(ratio),
        ),
    ]
}
