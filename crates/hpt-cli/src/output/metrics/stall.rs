//! The metrics of `hpt latency stall`: CPU stalls, their lengths and their likely causes.

use hpt_document::{
    quantiles::{Quantiles, StallList},
    stall::{StallCauseRow, StallThreadRow},
};

use super::gauge::{Gauge, Labels, cpu_label, of_quantiles, of_rows, quantile_levels, seconds, whole};

/// The figures of one thread, which may still be running.
#[derive(Clone, Debug, Default)]
pub(crate) struct StallFigures {
    pub(crate) cpu: Option<usize>,
    pub(crate) stalls: u64,
    pub(crate) quantiles: Quantiles<StallList>,
    pub(crate) max_ns: Option<u64>,
    /// The figures that are known only after the thread has ended; `None` until then.
    pub(crate) ended: Option<EndedFigures>,
}

/// The figures that are known only after a thread has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedFigures {
    threshold_ns: u64,
    elapsed_ns: u64,
    stalled_ns: u64,
    sampling_ns: u64,
    not_run: Option<f64>,
}

impl From<&StallThreadRow> for StallFigures {
    fn from(row: &StallThreadRow) -> Self {
        let ended = EndedFigures {
            threshold_ns: row.threshold_ns,
            elapsed_ns: row.elapsed_ns,
            stalled_ns: row.stalled_ns,
            sampling_ns: row.sampling_ns,
            not_run: row.not_run.share,
        };
        Self {
            cpu: row.cpu,
            stalls: row.stalls,
            quantiles: row.quantiles.clone(),
            max_ns: row.max_ns,
            ended: Some(ended),
        }
    }
}

fn cpu(row: &StallFigures) -> Labels {
    vec![cpu_label(row.cpu)]
}

/// Returns a duration as a fraction of the run time of the thread.
fn fraction(row: &StallFigures, ns: fn(EndedFigures) -> u64) -> Option<f64> {
    let ended = row.ended.filter(|ended| ended.elapsed_ns > 0)?;
    Some(whole(ns(ended)) / whole(ended.elapsed_ns))
}

pub(crate) fn gauges(rows: &[StallFigures], causes: &[StallCauseRow]) -> Vec<Gauge> {
    vec![
        of_rows(rows, cpu, ("hpt_stalls", "", "Number of CPU stalls"), |row| Some(whole(row.stalls))),
        of_rows(
            rows,
            cpu,
            ("hpt_stall_threshold", "seconds", "Threshold above which a gap between two reads is a stall"),
            |row| row.ended.map(|ended| seconds(whole(ended.threshold_ns))),
        ),
        of_quantiles(
            rows,
            cpu,
            |row| quantile_levels(&row.quantiles, row.max_ns),
            ("hpt_stall_length", "Length of CPU stalls by quantile; quantile 1 is the maximum"),
        ),
        of_rows(rows, cpu, ("hpt_stall_time", "ratio", "Fraction of the run time lost to stalls"), |row| {
            fraction(row, |ended| ended.stalled_ns)
        }),
        of_rows(
            rows,
            cpu,
            (
                "hpt_stall_blind",
                "ratio",
                "Fraction of the run time in which hpt read kernel counters instead of polling",
            ),
            |row| fraction(row, |ended| ended.sampling_ns),
        ),
        of_rows(
            rows,
            cpu,
            (
                "hpt_stall_not_run",
                "ratio",
                "Fraction of the run time in which the thread did not run, according to the kernel",
            ),
            |row| row.ended?.not_run,
        ),
        of_rows(
            causes,
            |row| vec![("cause", row.cause.clone())],
            ("hpt_stall_causes", "", "Number of stalls on all CPUs, by likely cause"),
            |row| Some(whole(row.stalls)),
        ),
    ]
}
