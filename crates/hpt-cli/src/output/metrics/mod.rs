//! The figures of a document as metrics with names, units, labels and help texts: one kind of document per file.
//! docs/metrics.md describes the metrics, which are as stable as the schemas. They are derived only from the document,
//! so that no figure is computed twice.

mod calibrate;
mod conditions;
mod doctor;
pub(crate) mod gauge;
pub(crate) mod gpio;
mod probe;
pub(crate) mod stall;
pub(crate) mod timer_poll;
mod watch;

use hpt_document::{Document, conditions::Conditions, head::Head};

use self::{
    gauge::{Gauge, Sample, text},
    stall::StallFigures,
};

const KINDS: [&str; 8] =
    ["probe", "calibrate", "doctor", "latency-timer", "latency-poll", "latency-stall", "latency-gpio", "watch-summary"];

pub(super) fn are_of(kind: &str) -> bool {
    KINDS.contains(&kind)
}

/// Returns the metrics of a document, or `None` for a kind without metrics.
pub(super) fn of(document: &Document) -> Option<Vec<Gauge>> {
    let (head, mut gauges) = figures(document)?;
    gauges.extend(conditions_of(document).map(|found| conditions::gauges(&head.kind, found)).into_iter().flatten());
    Some(complete(head, gauges))
}

/// Returns the gauges of a document, and the keys at its start, which describe the machine.
fn figures(document: &Document) -> Option<(&Head, Vec<Gauge>)> {
    Some(match document {
        Document::Probe(document) => (&document.head, probe::gauges(document)),
        Document::Calibrate(document) => (&document.head, calibrate::gauges(document)),
        Document::Doctor(document) => (&document.head, doctor::gauges(document)),
        Document::WakeLatency(document) => {
            (&document.head, timer_poll::gauges(document.wait_method, &document.results))
        }
        Document::Stall(document) => {
            let rows: Vec<StallFigures> = document.results.iter().map(StallFigures::from).collect();
            (&document.head, stall::gauges(&rows, &document.causes))
        }
        Document::GpioLatency(document) => {
            let lines = (&document.output_line, &document.input_line);
            (&document.head, gpio::gauges(lines, &document.results, Some(document.lost), Some(&document.not_run)))
        }
        Document::WatchSummary(document) => (&document.head, watch::gauges(document)),
        _ => return None,
    })
}

/// Returns what may have spoiled the measurement of a document.
fn conditions_of(document: &Document) -> Option<&Conditions> {
    match document {
        Document::WakeLatency(document) => Some(&document.conditions),
        Document::Stall(document) => Some(&document.conditions),
        Document::GpioLatency(document) => Some(&document.conditions),
        _ => None,
    }
}

/// Returns all metrics of a document: first the gauge that describes the machine, then all `gauges` that have
/// samples.
pub(crate) fn complete(head: &Head, mut gauges: Vec<Gauge>) -> Vec<Gauge> {
    gauges.insert(0, machine(head));
    gauges.retain(|gauge| !gauge.samples.is_empty());
    gauges
}

/// Returns the gauge that describes the measured machine.
fn machine(head: &Head) -> Gauge {
    let machine = &head.machine;
    let labels = vec![
        // A collector reads the files of several commands from one directory. No two files may contain the same sample.
        ("document", head.kind.clone()),
        ("version", head.hpt.clone()),
        ("architecture", machine.architecture.clone()),
        ("cpu", text(machine.cpu.as_ref())),
        ("board", text(machine.board.as_ref())),
        ("hypervisor", text(machine.hypervisor.as_ref())),
        ("kernel_release", machine.kernel_release.clone()),
    ];
    Gauge {
        name: "hpt_machine_info",
        unit: "",
        help: "The machine and the version of hpt that produced the other metrics; always 1",
        samples: vec![Sample { labels, value: 1.0 }],
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use hpt_document::{Document, SCHEMA, capture::CaptureDocument, conditions::Conditions};

    use super::{KINDS, are_of, conditions, figures, machine, of};

    /// Names, units and help are stable: docs/metrics.md lists all of them, and no others.
    #[test]
    fn every_metric_has_a_unique_description() {
        // `timer` and `poll` have the same metrics.
        let once = KINDS.iter().filter(|kind| **kind != "latency-poll");
        let mut all = vec![machine(&crate::golden::head("probe"))];
        for document in once.map(|kind| crate::golden::empty(kind)) {
            let (_, gauges) = figures(&document).expect("it is listed");
            all.extend(gauges);
        }
        all.extend(conditions::gauges("latency-timer", &Conditions::default()));
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
        let page = fs::read_to_string(page).expect("docs/metrics.md");
        let documented: Vec<_> = page.lines().filter(|line| line.starts_with("| `hpt_")).collect();
        for gauge in &all {
            let unit = if gauge.unit.is_empty() { String::new() } else { format!("_{}", gauge.unit) };
            let (name, help) = (format!("| `{}{unit}` |", gauge.name), format!("| {} |", gauge.help));
            let line = documented.iter().find(|line| line.starts_with(&name));
            assert!(line.is_some_and(|line| line.ends_with(&help)), "{name} {help}");
        }
        assert_eq!(documented.len(), all.len());
    }

    #[test]
    fn a_document_without_monitoring_figures_has_no_metrics() {
        let document =
            CaptureDocument { schema: SCHEMA, kind: "capture".to_owned(), file: String::new(), files: Vec::new() };
        assert_eq!(of(&Document::from(document)), None);
        assert!(!are_of("restore") && are_of("latency-gpio"));
    }
}
