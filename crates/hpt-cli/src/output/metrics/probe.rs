//! The metrics of `hpt probe`: which sources there are, and which clock source the kernel uses.

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
    let chosen = document.choice.source.as_ref();
    vec![
        of_rows(
            sources,
            source,
            ("hpt_source_usable", "", "Whether the time source can be used: 1 yes, 0 no"),
            |row| Some(yes(row.available)),
        ),
        of_rows(
            sources,
            source,
            ("hpt_source_chosen", "", "Whether hpt would choose the source: 1 yes, 0 no"),
            |row| Some(yes(chosen == Some(&row.id))),
        ),
        of_rows(
            sources,
            |row| vec![("source", row.id.clone()), ("stated_by", text(row.frequency_stated_by.as_ref()))],
            ("hpt_source_frequency", "hertz", "How fast the source ticks, as somebody states it or as it was measured"),
            |row| row.frequency_hz,
        ),
        of_rows(
            sources,
            source,
            ("hpt_source_resolution", "seconds", "The resolution that the source claims"),
            |row| row.resolution_ns.map(seconds),
        ),
        of_rows(
            sources,
            source,
            ("hpt_source_granularity", "seconds", "The smallest step that was seen between two reads"),
            |row| row.granularity_ns.map(seconds),
        ),
        of_rows(sources, source, ("hpt_source_read_cost", "seconds", "What one read takes in a row of them"), |row| {
            row.read_cost_ns.map(seconds)
        }),
        kernel(&document.head.machine),
        single(
            ("hpt_clock_gettime_vdso", "", "Whether the vDSO serves clock_gettime: 1 yes, 0 it is a system call"),
            document.clock_gettime_read_path.as_ref().map(|path| yes(path == "vdso")),
        ),
        single(
            ("hpt_instant_bound", "seconds", "How far hpt's Instant may be from CLOCK_MONOTONIC"),
            document.instant.as_ref().map(|instant| seconds(whole(instant.bound_ns))),
        ),
    ]
}

/// The kernel's clock sources, those that it has.
fn kernel(machine: &Machine) -> Gauge {
    let samples = machine.clock_sources_available.iter().flatten().map(|name| Sample {
        labels: vec![("clock_source", name.clone())],
        value: yes(machine.clock_source.as_ref() == Some(name)),
    });
    Gauge {
        name: "hpt_kernel_clock_source",
        unit: "",
        help: "The kernel's clock sources: 1 the one in use, 0 one that could be used",
        samples: samples.collect(),
    }
}
