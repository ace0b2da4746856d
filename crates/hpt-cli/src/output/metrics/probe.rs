//! The metrics of `hpt probe`: the time sources and the kernel's clocksources.

use hpt_document::{
    head::Machine,
    probe::{ProbeDocument, ProbeRow},
};

use super::gauge::{Gauge, Labels, Sample, of_rows, seconds, single, text, whole, yes};

fn source(row: &ProbeRow) -> Labels {
    vec![("source", row.id.clone())]
}

pub(super) fn gauges(document: &ProbeDocument) -> Vec<Gauge> {
    let sources = &document.sources;
    let recommended = document.recommendation.source.as_ref();
    vec![
        of_rows(sources, source, ("hpt_source_usable", "", "Whether the time source is usable: 1 yes, 0 no"), |row| {
            Some(yes(row.available))
        }),
        of_rows(
            sources,
            source,
            ("hpt_source_recommended", "", "Whether hpt recommends the time source: 1 yes, 0 no"),
            |row| Some(yes(recommended == Some(&row.id))),
        ),
        of_rows(
            sources,
            |row| vec![("source", row.id.clone()), ("origin", text(row.frequency_origin.as_ref()))],
            ("hpt_source_frequency", "hertz", "Frequency of the time source, nominal or measured"),
            |row| row.frequency_hz,
        ),
        of_rows(
            sources,
            source,
            ("hpt_source_resolution", "seconds", "Resolution that the time source reports"),
            |row| row.resolution_ns.map(seconds),
        ),
        of_rows(
            sources,
            source,
            ("hpt_source_granularity", "seconds", "Observed granularity: the smallest step between two reads"),
            |row| row.granularity_ns.map(seconds),
        ),
        of_rows(sources, source, ("hpt_source_read_cost", "seconds", "Mean time of one back-to-back read"), |row| {
            row.read_cost_ns.map(seconds)
        }),
        kernel(&document.head.machine),
        single(
            ("hpt_clock_gettime_vdso", "", "Whether the vDSO serves clock_gettime: 1 yes, 0 no (system call)"),
            document.clock_gettime_read_path.as_ref().map(|path| yes(path == "vdso")),
        ),
        single(
            ("hpt_instant_bound", "seconds", "Worst-case difference between hpt's Instant and CLOCK_MONOTONIC"),
            document.instant.as_ref().map(|instant| seconds(whole(instant.bound_ns))),
        ),
    ]
}

/// Returns the gauge of the clocksources that the kernel offers.
fn kernel(machine: &Machine) -> Gauge {
    let samples = machine.available_clocksources.iter().flatten().map(|name| Sample {
        labels: vec![("clocksource", name.clone())],
        value: yes(machine.clocksource.as_ref() == Some(name)),
    });
    Gauge {
        name: "hpt_kernel_clocksource",
        unit: "",
        help: "The kernel's clocksources: 1 active, 0 available but not active",
        samples: samples.collect(),
    }
}
