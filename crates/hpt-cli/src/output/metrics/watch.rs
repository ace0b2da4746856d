//! The metrics of `hpt watch`, of its summary: sources beside the reference, and what a time daemon makes the kernel do.

use serde_json::Value;

use super::gauge::{Gauge, Sample, of_rows, ratio, rows, seconds, single, text, yes};

const SOURCE: [(&str, &str); 1] = [("source", "source")];

pub(super) fn gauges(document: &Value) -> Vec<Gauge> {
    let sources = rows(document, "sources");
    let synchronisation = &document["synchronisation"];
    let ends =
        |row: &Value, keys: [(&str, &str); 2], first: &[(&'static str, &str)], convert: fn(&Value) -> Option<f64>| {
            let labels: Vec<_> = first.iter().map(|&(label, key)| (label, text(&row[key]))).collect();
            let sample = |(end, key): (&str, &str)| {
                let labels = [labels.clone(), vec![("end", end.to_owned())]].concat();
                Some(Sample { labels, value: convert(&row[key])? })
            };
            keys.into_iter().filter_map(sample).collect::<Vec<_>>()
        };
    let rates = sources
        .iter()
        .flat_map(|row| ends(row, [("lowest", "lowest_ppm"), ("highest", "highest_ppm")], &SOURCE, ratio));
    let cpus = [("source", "source"), ("first_cpu", "first_cpu"), ("second_cpu", "second_cpu")];
    let cores = rows(document, "cores")
        .iter()
        .flat_map(|row| ends(row, [("least", "least_ns"), ("most", "most_ns")], &cpus, seconds));
    vec![
        single(
            ("hpt_watch_misbehaved", "", "Whether a source misbehaved beyond the limits: 1 yes, 0 no"),
            yes(&document["misbehaved"]),
        ),
        single(("hpt_watch_duration", "seconds", "How long the sources were watched"), document["watched_s"].as_f64()),
        of_rows(
            sources,
            &SOURCE,
            ("hpt_watch_offset", "seconds", "How far the source is ahead of the reference since the beginning"),
            |row| seconds(&row["offset_ns"]),
        ),
        of_rows(sources, &SOURCE, ("hpt_watch_offset_bound", "seconds", "How far that may be off"), |row| {
            seconds(&row["offset_bound_ns"])
        }),
        Gauge {
            name: "hpt_watch_frequency_error",
            unit: "ratio",
            help: "How far the source's rate was off beside the reference: the lowest and the highest of the intervals",
            samples: rates.collect(),
        },
        of_rows(sources, &SOURCE, ("hpt_watch_steps", "", "How often the source jumped"), |row| row["steps"].as_f64()),
        of_rows(sources, &SOURCE, ("hpt_watch_backwards", "", "How many readings went back"), |row| {
            row["backwards"].as_f64()
        }),
        of_rows(sources, &SOURCE, ("hpt_watch_faults", "", "How many intervals the source misbehaved in"), |row| {
            row["faults"].as_f64()
        }),
        Gauge {
            name: "hpt_watch_core_offset",
            unit: "seconds",
            help: "How far the second CPU's counter is ahead of the first's: what it is at least and at most",
            samples: cores.collect(),
        },
        single(
            ("hpt_synchronised", "", "Whether the kernel takes its clock for synchronised: 1 yes, 0 no"),
            yes(&synchronisation["synchronised"]),
        ),
        single(
            (
                "hpt_synchronisation_maximum_error",
                "seconds",
                "How far wall time may be off, as daemon and kernel reckon",
            ),
            seconds(&synchronisation["maximum_error_ns"]),
        ),
    ]
}
