//! The metrics of `hpt latency timer` and `hpt latency poll`: wake-up and polling latency.

use hpt_document::wake_latency::{WaitMethod, WakeLatencyRow};

use super::gauge::{Gauge, Labels, cpu_label, of_quantiles, of_rows, quantile_levels, seconds, whole};

fn cpu(row: &WakeLatencyRow) -> Labels {
    vec![cpu_label(row.cpu)]
}

pub(crate) fn gauges(wait_method: WaitMethod, rows: &[WakeLatencyRow]) -> Vec<Gauge> {
    let mut gauges = vec![
        of_quantiles(
            rows,
            cpu,
            |row| quantile_levels(&row.figures.quantiles, Some(row.figures.max_ns)),
            ("hpt_wakeup_latency", "Wake-up latency by quantile; quantile 1 is the maximum"),
        ),
        of_rows(rows, cpu, ("hpt_wakeup_latency_mean", "seconds", "Mean wake-up latency"), |row| {
            Some(seconds(row.figures.mean_ns))
        }),
        of_rows(rows, cpu, ("hpt_wakeup_samples", "", "Number of deadlines measured, including missed ones"), |row| {
            Some(whole(row.figures.samples))
        }),
        of_rows(
            rows,
            cpu,
            (
                "hpt_wakeup_deadlines_missed",
                "",
                "Number of deadlines that had passed before the thread waited for them",
            ),
            |row| Some(whole(row.figures.missed)),
        ),
        of_rows(
            rows,
            cpu,
            ("hpt_wakeup_not_run", "ratio", "Fraction of the run time in which the thread was ready but did not run"),
            |row| row.not_run.share,
        ),
    ];
    // The label for the wait method distinguishes the runs.
    for sample in gauges.iter_mut().flat_map(|gauge| &mut gauge.samples) {
        sample.labels.insert(0, ("wait_method", wait_method.name().to_owned()));
    }
    gauges
}
