//! The metrics of `hpt probe`: which sources there are, and which clock source the kernel uses.

use serde_json::Value;

use super::gauge::{Gauge, Sample, of_rows, rows, seconds, single, text, yes};

const SOURCE: [(&str, &str); 1] = [("source", "id")];

pub(super) fn gauges(document: &Value) -> Vec<Gauge> {
    let sources = rows(document, "sources");
    let chosen = &document["choice"]["source"];
    vec![
        of_rows(
            sources,
            &SOURCE,
            ("hpt_source_usable", "", "Whether the time source can be used: 1 yes, 0 no"),
            |row| yes(&row["available"]),
        ),
        of_rows(
            sources,
            &SOURCE,
            ("hpt_source_chosen", "", "Whether hpt would choose the source: 1 yes, 0 no"),
            |row| Some(f64::from(u8::from(row["id"] == *chosen))),
        ),
        of_rows(
            sources,
            &[("source", "id"), ("stated_by", "frequency_stated_by")],
            ("hpt_source_frequency", "hertz", "How fast the source ticks, as somebody states it or as it was measured"),
            |row| row["frequency_hz"].as_f64(),
        ),
        of_rows(
            sources,
            &SOURCE,
            ("hpt_source_resolution", "seconds", "The resolution that the source claims"),
            |row| seconds(&row["resolution_ns"]),
        ),
        of_rows(
            sources,
            &SOURCE,
            ("hpt_source_granularity", "seconds", "The smallest step that was seen between two reads"),
            |row| seconds(&row["granularity_ns"]),
        ),
        of_rows(sources, &SOURCE, ("hpt_source_read_cost", "seconds", "What one read takes in a row of them"), |row| {
            seconds(&row["read_cost_ns"])
        }),
        kernel(document),
        single(
            ("hpt_clock_gettime_vdso", "", "Whether the vDSO serves clock_gettime: 1 yes, 0 it is a system call"),
            document["clock_gettime_read_path"].as_str().map(|path| f64::from(u8::from(path == "vdso"))),
        ),
        single(
            ("hpt_instant_bound", "seconds", "How far hpt's Instant may be from CLOCK_MONOTONIC"),
            seconds(&document["instant"]["bound_ns"]),
        ),
    ]
}

/// The kernel's clock sources, those that it has.
fn kernel(document: &Value) -> Gauge {
    let machine = &document["machine"];
    let samples = rows(machine, "clock_sources_available").iter().map(|name| Sample {
        labels: vec![("clock_source", text(name))],
        value: f64::from(u8::from(*name == machine["clock_source"])),
    });
    Gauge {
        name: "hpt_kernel_clock_source",
        unit: "",
        help: "The kernel's clock sources: 1 the one in use, 0 one that could be used",
        samples: samples.collect(),
    }
}
