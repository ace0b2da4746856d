//! The metrics of `hpt latency timer` and `hpt latency poll`: how late a thread knew.

use hpt_document::{
    latency::LatencyFigures,
    wake_latency::{WaitMethod, WakeLatencyRow},
};

use super::gauge::{Gauge, Labels, cpu_label, of_parts, of_rows, seconds, whole};

/// The quantiles of a distribution that a function finds in a row.
macro_rules! parts {
    ($figures:path) => {
        [
            ("0.5", |row| Some($figures(row).p50_ns)),
            ("0.99", |row| $figures(row).p99_ns),
            ("0.999", |row| $figures(row).p999_ns),
            ("0.9999", |row| $figures(row).p9999_ns),
            ("0.99999", |row| $figures(row).p99999_ns),
            ("1", |row| Some($figures(row).max_ns)),
        ]
    };
}
pub(super) use parts;

fn cpu(row: &WakeLatencyRow) -> Labels {
    vec![cpu_label(row.cpu)]
}

fn figures(row: &WakeLatencyRow) -> &LatencyFigures {
    &row.figures
}

pub(crate) fn gauges(by: WaitMethod, rows: &[WakeLatencyRow]) -> Vec<Gauge> {
    let mut gauges = vec![
        of_parts(
            rows,
            cpu,
            &parts!(figures),
            (
                "hpt_wakeup_latency",
                "How late the thread was: what this part of the wake-ups did not exceed, and of 1 the latest",
            ),
        ),
        of_rows(rows, cpu, ("hpt_wakeup_latency_mean", "seconds", "How late the thread was on average"), |row| {
            Some(seconds(row.figures.mean_ns))
        }),
        of_rows(rows, cpu, ("hpt_wakeup_samples", "", "How many wake-ups the other figures are of"), |row| {
            Some(whole(row.figures.samples))
        }),
        of_rows(
            rows,
            cpu,
            ("hpt_wakeup_missed", "", "How many deadlines had passed before they were waited for"),
            |row| Some(whole(row.figures.missed)),
        ),
    ];
    // How it waited tells runs apart.
    for sample in gauges.iter_mut().flat_map(|gauge| &mut gauge.samples) {
        sample.labels.insert(0, ("by", by.name().to_owned()));
    }
    gauges
}
