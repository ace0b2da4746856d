//! A document's figures as metrics: names, units, labels and help, one kind of document per file. They are documented in docs/metrics.md, and are as stable as the
//! schemas. Made of the document's JSON alone, so that no figure is there twice.

mod calibrate;
mod doctor;
pub(super) mod gauge;
mod gpio;
mod probe;
mod stall;
mod timer_poll;
mod watch;

use serde_json::Value;

use self::gauge::{Gauge, Sample, text};

/// The figures of one kind of document.
type Figures = fn(&Value) -> Vec<Gauge>;

/// The kinds of documents that have metrics.
const KINDS: [(&str, Figures); 8] = [
    ("probe", probe::gauges),
    ("calibrate", calibrate::gauges),
    ("doctor", doctor::gauges),
    ("latency-timer", timer_poll::gauges),
    ("latency-poll", timer_poll::gauges),
    ("latency-stall", stall::gauges),
    ("latency-gpio", gpio::gauges),
    ("watch-summary", watch::gauges),
];

/// The figures of that kind; `None` of one that has none.
fn figures(kind: &str) -> Option<Figures> {
    KINDS.iter().find(|(name, _)| *name == kind).map(|&(_, figures)| figures)
}

/// Whether documents of that kind have metrics.
pub(super) fn are_of(kind: &str) -> bool {
    figures(kind).is_some()
}

/// The metrics of a document; `None` of a kind that has none.
pub(super) fn of(document: &Value) -> Option<Vec<Gauge>> {
    let figures = figures(document.get("kind")?.as_str()?)?;
    let mut gauges = figures(document);
    gauges.insert(0, machine(document));
    gauges.retain(|gauge| !gauge.samples.is_empty());
    Some(gauges)
}

/// What the figures were taken on.
fn machine(document: &Value) -> Gauge {
    let machine = &document["machine"];
    let labels = [
        // Files of several commands stand side by side in a collector's folder: none has a sample of another's.
        ("document", &document["kind"]),
        ("version", &document["hpt"]),
        ("architecture", &machine["architecture"]),
        ("cpu", &machine["cpu"]),
        ("board", &machine["board"]),
        ("hypervisor", &machine["hypervisor"]),
        ("kernel_release", &machine["kernel_release"]),
    ];
    let labels = labels.map(|(label, value)| (label, text(value))).to_vec();
    Gauge {
        name: "hpt_machine_info",
        unit: "",
        help: "The machine and the version of hpt that the other metrics are of; always 1",
        samples: vec![Sample { labels, value: 1.0 }],
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use serde_json::{Value, json};

    use super::{KINDS, are_of, machine, of};

    /// Names, units and help are a promise: docs/metrics.md has all of them, and no others.
    #[test]
    fn every_metric_is_documented_in_its_own_words() {
        let nothing = Value::Null;
        // Timer and poll have the same ones.
        let once = KINDS.iter().filter(|(kind, _)| *kind != "latency-poll");
        let all = once.flat_map(|(_, figures)| figures(&nothing));
        let all: Vec<_> = [machine(&nothing)].into_iter().chain(all).collect();
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
    fn a_document_without_figures_for_a_fleet_has_no_metrics() {
        assert_eq!(of(&json!({ "kind": "restore" })), None);
        assert!(!are_of("restore") && are_of("latency-gpio"));
        assert_eq!(of(&json!({})), None);
    }
}
