//! The metrics of `hpt calibrate`: how fast each source ticks, and within what bound.

use serde_json::Value;

use super::gauge::{Gauge, of_rows, ratio, rows, yes};

const SOURCE: [(&str, &str); 2] = [("source", "source"), ("reference", "reference")];

pub(super) fn gauges(document: &Value) -> Vec<Gauge> {
    let rows = rows(document, "calibrations");
    vec![
        of_rows(
            rows,
            &SOURCE,
            ("hpt_calibration_succeeded", "", "Whether the source could be calibrated: 1 yes, 0 no"),
            |row| yes(&row["calibrated"]),
        ),
        of_rows(
            rows,
            &SOURCE,
            ("hpt_calibration_frequency", "hertz", "How fast the source ticks beside the reference"),
            |row| row["frequency_hz"].as_f64(),
        ),
        of_rows(
            rows,
            &SOURCE,
            (
                "hpt_calibration_bound",
                "ratio",
                "How far the frequency may be off at most, as a part of it; no sample where there is no bound",
            ),
            |row| ratio(&row["bound_ppm"]),
        ),
        of_rows(
            rows,
            &SOURCE,
            ("hpt_calibration_error", "ratio", "How far the frequency is from the stated one, as a part of that"),
            |row| ratio(&row["error_ppm"]),
        ),
    ]
}
