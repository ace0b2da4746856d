//! The metrics of `hpt latency timer` and `hpt latency poll`: how late a thread knew.

use serde_json::Value;

use super::gauge::{Gauge, name_any_cpu, of_parts, of_rows, rows, seconds, text};

const CPU: [(&str, &str); 1] = [("cpu", "cpu")];
/// The parts of a distribution, and their keys.
pub(super) const PARTS: [(&str, &str); 6] = [
    ("0.5", "p50_ns"),
    ("0.99", "p99_ns"),
    ("0.999", "p999_ns"),
    ("0.9999", "p9999_ns"),
    ("0.99999", "p99999_ns"),
    ("1", "max_ns"),
];

pub(super) fn gauges(document: &Value) -> Vec<Gauge> {
    let rows = rows(document, "results");
    let mut gauges = vec![
        of_parts(
            rows,
            &CPU,
            &PARTS,
            (
                "hpt_wakeup_latency",
                "How late the thread was: what this part of the wake-ups did not exceed, and of 1 the latest",
            ),
        ),
        of_rows(rows, &CPU, ("hpt_wakeup_latency_mean", "seconds", "How late the thread was on average"), |row| {
            seconds(&row["mean_ns"])
        }),
        of_rows(rows, &CPU, ("hpt_wakeup_samples", "", "How many wake-ups the other figures are of"), |row| {
            row["samples"].as_f64()
        }),
        of_rows(
            rows,
            &CPU,
            ("hpt_wakeup_missed", "", "How many deadlines had passed before they were waited for"),
            |row| row["missed"].as_f64(),
        ),
    ];
    name_any_cpu(&mut gauges);
    // How it waited tells runs apart.
    for sample in gauges.iter_mut().flat_map(|gauge| &mut gauge.samples) {
        sample.labels.insert(0, ("by", text(&document["by"])));
    }
    gauges
}
