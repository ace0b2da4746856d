//! The metrics of `hpt watch`, of its summary: sources beside the reference, and what a time daemon makes the kernel do.

use hpt_document::watch::{CpuOffset, WatchSummaryDocument, WatchSummaryRow};

use super::gauge::{Gauge, Labels, Sample, of_rows, ratio, seconds, single, whole, yes};

fn source(row: &WatchSummaryRow) -> Labels {
    vec![("source", row.source.clone())]
}

/// The two ends of a range, with the labels of its row.
fn ends(labels: &Labels, ends: [(&str, Option<f64>); 2]) -> Vec<Sample> {
    let sample = |(end, value): (&str, Option<f64>)| {
        let labels = [labels.clone(), vec![("end", end.to_owned())]].concat();
        Some(Sample { labels, value: value? })
    };
    ends.into_iter().filter_map(sample).collect()
}

fn core_offset(row: &CpuOffset) -> Vec<Sample> {
    let labels = vec![
        ("source", row.source.clone()),
        ("first_cpu", row.first_cpu.to_string()),
        ("second_cpu", row.second_cpu.to_string()),
    ];
    ends(&labels, [("least", Some(seconds(row.least_ns))), ("most", Some(seconds(row.most_ns)))])
}

pub(super) fn gauges(document: &WatchSummaryDocument) -> Vec<Gauge> {
    let sources = &document.sources;
    let synchronisation = &document.synchronisation;
    let rates = sources.iter().flat_map(|row| {
        ends(&source(row), [("lowest", row.lowest_ppm.map(ratio)), ("highest", row.highest_ppm.map(ratio))])
    });
    vec![
        single(
            ("hpt_watch_misbehaved", "", "Whether a source misbehaved beyond the limits: 1 yes, 0 no"),
            Some(yes(document.misbehaved)),
        ),
        single(("hpt_watch_duration", "seconds", "How long the sources were watched"), Some(document.watched_s)),
        of_rows(
            sources,
            source,
            ("hpt_watch_offset", "seconds", "How far the source is ahead of the reference since the beginning"),
            |row| row.offset.offset_ns.map(seconds),
        ),
        of_rows(sources, source, ("hpt_watch_offset_bound", "seconds", "How far that may be off"), |row| {
            row.offset.offset_bound_ns.map(seconds)
        }),
        Gauge {
            name: "hpt_watch_frequency_error",
            unit: "ratio",
            help: "How far the source's rate was off beside the reference: the lowest and the highest of the intervals",
            samples: rates.collect(),
        },
        of_rows(sources, source, ("hpt_watch_steps", "", "How often the source jumped"), |row| {
            Some(whole(row.steps.steps))
        }),
        of_rows(sources, source, ("hpt_watch_backwards", "", "How many readings went back"), |row| {
            Some(whole(row.steps.backwards))
        }),
        of_rows(sources, source, ("hpt_watch_faults", "", "How many intervals the source misbehaved in"), |row| {
            Some(whole(row.faults))
        }),
        Gauge {
            name: "hpt_watch_core_offset",
            unit: "seconds",
            help: "How far the second CPU's counter is ahead of the first's: what it is at least and at most",
            samples: document.cores.iter().flat_map(core_offset).collect(),
        },
        single(
            ("hpt_synchronised", "", "Whether the kernel takes its clock for synchronised: 1 yes, 0 no"),
            synchronisation.synchronised.map(yes),
        ),
        single(
            (
                "hpt_synchronisation_maximum_error",
                "seconds",
                "How far wall time may be off, as daemon and kernel reckon",
            ),
            synchronisation.maximum_error_ns.map(|ns| seconds(whole(ns))),
        ),
    ]
}
