//! The metrics of `hpt watch`, from its summary: the comparison of the sources with the reference, and the state of
//! clock synchronization.

use hpt_document::watch::{CpuOffset, WatchSummaryDocument, WatchSummaryRow};

use super::gauge::{Gauge, Labels, Sample, of_rows, ratio, seconds, single, whole, yes};

fn source(row: &WatchSummaryRow) -> Labels {
    vec![("source", row.source.clone())]
}

/// Returns one sample for each end of a range, with the labels of the row and a label that distinguishes the two ends.
fn ends(labels: &Labels, label: &'static str, ends: [(&str, Option<f64>); 2]) -> Vec<Sample> {
    let sample = |(end, value): (&str, Option<f64>)| {
        let labels = [labels.clone(), vec![(label, end.to_owned())]].concat();
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
    ends(&labels, "bound", [("lower", Some(seconds(row.min_ns))), ("upper", Some(seconds(row.max_ns)))])
}

pub(super) fn gauges(document: &WatchSummaryDocument) -> Vec<Gauge> {
    let sources = &document.sources;
    let synchronization = &document.synchronization;
    let rates = sources.iter().flat_map(|row| {
        ends(&source(row), "extreme", [("min", row.lowest_ppm.map(ratio)), ("max", row.highest_ppm.map(ratio))])
    });
    vec![
        single(("hpt_watch_faulty", "", "Whether a source exceeded a limit: 1 yes, 0 no"), Some(yes(document.faulty))),
        single(
            ("hpt_watch_duration", "seconds", "Duration of the watch, including time in suspend"),
            Some(document.elapsed_s),
        ),
        of_rows(
            sources,
            source,
            ("hpt_watch_offset", "seconds", "Offset from the reference, accumulated since the last interruption"),
            |row| row.offset.offset_ns.map(seconds),
        ),
        of_rows(
            sources,
            source,
            ("hpt_watch_offset_bound", "seconds", "Worst-case bound on the error of the offset"),
            |row| row.offset.offset_bound_ns.map(seconds),
        ),
        Gauge {
            name: "hpt_watch_frequency_error",
            unit: "ratio",
            help: "Lowest and highest frequency error in any interval, relative to the reference",
            samples: rates.collect(),
        },
        of_rows(sources, source, ("hpt_watch_steps", "", "Number of steps beyond the limit"), |row| {
            Some(whole(row.steps.steps))
        }),
        of_rows(
            sources,
            source,
            ("hpt_watch_backward_steps", "", "Number of readings lower than the previous one"),
            |row| Some(whole(row.steps.backward_steps)),
        ),
        of_rows(sources, source, ("hpt_watch_faults", "", "Number of faults of the source"), |row| {
            Some(whole(row.faults))
        }),
        Gauge {
            name: "hpt_watch_core_offset",
            unit: "seconds",
            help: "Offset of the second CPU's counter from the first CPU's counter: lower and upper bounds",
            samples: document.cores.iter().flat_map(core_offset).collect(),
        },
        single(
            ("hpt_synchronized", "", "Whether the kernel considers its clock synchronized: 1 yes, 0 no"),
            synchronization.synchronized.map(yes),
        ),
        single(
            (
                "hpt_synchronization_maximum_error",
                "seconds",
                "Maximum error of wall-clock time, as the kernel reports it",
            ),
            synchronization.maximum_error_ns.map(|ns| seconds(whole(ns))),
        ),
    ]
}
