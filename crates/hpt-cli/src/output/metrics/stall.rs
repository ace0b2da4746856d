//! The metrics of `hpt latency stall`: how often and for how long a thread was kept from running, and by what.

use hpt_document::stall::{StallCauseRow, StallThreadRow};

use super::gauge::{Gauge, Labels, Part, cpu_label, of_parts, of_rows, seconds, whole};

/// The figures of a thread that has ended, or what is known of one that goes on.
#[derive(Clone, Debug, Default)]
pub(crate) struct StallFigures {
    pub(crate) cpu: Option<usize>,
    pub(crate) stalls: u64,
    pub(crate) p50_ns: Option<u64>,
    pub(crate) p99_ns: Option<u64>,
    pub(crate) p999_ns: Option<u64>,
    pub(crate) max_ns: Option<u64>,
    /// Known at the end.
    pub(crate) ended: Option<EndedFigures>,
}

/// What is known of a thread at its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedFigures {
    above_ns: u64,
    elapsed_ns: u64,
    stalled_ns: u64,
    asking_ns: u64,
}

impl From<&StallThreadRow> for StallFigures {
    fn from(row: &StallThreadRow) -> Self {
        let ended = EndedFigures {
            above_ns: row.above_ns,
            elapsed_ns: row.elapsed_ns,
            stalled_ns: row.stalled_ns,
            asking_ns: row.asking_ns,
        };
        Self {
            cpu: row.cpu,
            stalls: row.stalls,
            p50_ns: row.p50_ns,
            p99_ns: row.p99_ns,
            p999_ns: row.p999_ns,
            max_ns: row.max_ns,
            ended: Some(ended),
        }
    }
}

const PARTS: [Part<StallFigures>; 4] =
    [("0.5", |row| row.p50_ns), ("0.99", |row| row.p99_ns), ("0.999", |row| row.p999_ns), ("1", |row| row.max_ns)];

fn cpu(row: &StallFigures) -> Labels {
    vec![cpu_label(row.cpu)]
}

/// A part of the time that a thread watched.
fn part(row: &StallFigures, ns: fn(EndedFigures) -> u64) -> Option<f64> {
    let ended = row.ended.filter(|ended| ended.elapsed_ns > 0)?;
    Some(whole(ns(ended)) / whole(ended.elapsed_ns))
}

pub(crate) fn gauges(rows: &[StallFigures], causes: &[StallCauseRow]) -> Vec<Gauge> {
    vec![
        of_rows(rows, cpu, ("hpt_stalls", "", "How many stalls there were"), |row| Some(whole(row.stalls))),
        of_rows(rows, cpu, ("hpt_stall_limit", "seconds", "What is longer is a stall"), |row| {
            row.ended.map(|ended| seconds(whole(ended.above_ns)))
        }),
        of_parts(
            rows,
            cpu,
            &PARTS,
            ("hpt_stall_length", "How long stalls were: what this part of them did not exceed, and of 1 the longest"),
        ),
        of_rows(
            rows,
            cpu,
            ("hpt_stall_time", "ratio", "The part of the time in which the thread was stalled"),
            |row| part(row, |ended| ended.stalled_ns),
        ),
        of_rows(
            rows,
            cpu,
            ("hpt_stall_unwatched", "ratio", "The part of the time in which hpt asked what moved instead of watching"),
            |row| part(row, |ended| ended.asking_ns),
        ),
        of_rows(
            causes,
            |row| vec![("cause", row.cause.clone())],
            ("hpt_stall_causes", "", "How many stalls of all CPUs had this likely cause"),
            |row| Some(whole(row.stalls)),
        ),
    ]
}
