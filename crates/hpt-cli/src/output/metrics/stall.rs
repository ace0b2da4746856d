//! The metrics of `hpt latency stall`: how often and for how long a thread was kept from running, and by what.

use serde_json::Value;

use super::gauge::{Gauge, of_parts, of_rows, rows, seconds};

const CPU: [(&str, &str); 1] = [("cpu", "cpu")];
const PARTS: [(&str, &str); 4] = [("0.5", "p50_ns"), ("0.99", "p99_ns"), ("0.999", "p999_ns"), ("1", "max_ns")];

pub(super) fn gauges(document: &Value) -> Vec<Gauge> {
    let rows_of_cpus = rows(document, "results");
    let part = |row: &Value, key: &str| Some(row[key].as_f64()? / row["elapsed_ns"].as_f64().filter(|&ns| ns > 0.0)?);
    let mut gauges = vec![
        of_rows(rows_of_cpus, &CPU, ("hpt_stalls", "", "How many stalls there were"), |row| row["stalls"].as_f64()),
        of_rows(rows_of_cpus, &CPU, ("hpt_stall_limit", "seconds", "What is longer is a stall"), |row| {
            seconds(&row["above_ns"])
        }),
        of_parts(
            rows_of_cpus,
            &CPU,
            &PARTS,
            ("hpt_stall_length", "How long stalls were: what this part of them did not exceed, and of 1 the longest"),
        ),
        of_rows(
            rows_of_cpus,
            &CPU,
            ("hpt_stall_time", "ratio", "The part of the time in which the thread was stalled"),
            |row| part(row, "stalled_ns"),
        ),
        of_rows(
            rows_of_cpus,
            &CPU,
            ("hpt_stall_unwatched", "ratio", "The part of the time in which hpt asked what moved instead of watching"),
            |row| part(row, "asking_ns"),
        ),
    ];
    super::gauge::name_any_cpu(&mut gauges);
    gauges.push(of_rows(
        rows(document, "causes"),
        &[("cause", "cause")],
        ("hpt_stall_causes", "", "How many stalls of all CPUs had this likely cause"),
        |row| row["stalls"].as_f64(),
    ));
    gauges
}
