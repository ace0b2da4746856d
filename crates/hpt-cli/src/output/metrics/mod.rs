//! A document's figures as metrics: names, units, labels and help, one kind of document per file. They are documented in docs/metrics.md, and are as stable as the
//! schemas. Made of the document's JSON alone, so that no figure is there twice.

mod calibrate;
mod doctor;
mod gpio;
mod probe;
mod stall;
mod timer_poll;
mod watch;

use serde_json::Value;

/// A gauge with all its samples. What is counted is counted within one run, and so is a gauge too.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Gauge {
    /// Without the unit, which is appended.
    pub(super) name: &'static str,
    /// `seconds`, `hertz`, `ratio`; empty of counts and of yes and no.
    pub(super) unit: &'static str,
    pub(super) help: &'static str,
    pub(super) samples: Vec<Sample>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) labels: Vec<(&'static str, String)>,
    pub(super) value: f64,
}

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

/// One gauge of a list of rows, with these keys of a row as labels. Rows that have no such figure have no sample.
fn of_rows<'a>(
    rows: impl IntoIterator<Item = &'a Value>,
    labels: &[(&'static str, &str)],
    (name, unit, help): (&'static str, &'static str, &'static str),
    figure: impl Fn(&Value) -> Option<f64>,
) -> Gauge {
    let sample = |row: &Value| {
        let labels = labels.iter().map(|&(label, key)| (label, text(&row[key]))).collect();
        Some(Sample { labels, value: figure(row)? })
    };
    Gauge { name, unit, help, samples: rows.into_iter().filter_map(sample).collect() }
}

/// One gauge of the parts of distributions, in seconds: for each row what these parts of its samples did not exceed, by their keys.
fn of_parts(
    rows: &[Value],
    labels: &[(&'static str, &str)],
    parts: &[(&str, &str)],
    (name, help): (&'static str, &'static str),
) -> Gauge {
    let samples = rows.iter().flat_map(|row| {
        parts.iter().filter_map(|&(part, key)| {
            let of_row = labels.iter().map(|&(label, key)| (label, text(&row[key])));
            Some(Sample { labels: of_row.chain([("part", part.to_owned())]).collect(), value: seconds(&row[key])? })
        })
    });
    Gauge { name, unit: "seconds", help, samples: samples.collect() }
}

/// A thread that stayed nowhere has no CPU, and a label is not empty.
fn name_any_cpu(gauges: &mut [Gauge]) {
    for (label, value) in gauges.iter_mut().flat_map(|gauge| &mut gauge.samples).flat_map(|sample| &mut sample.labels) {
        if *label == "cpu" && value.is_empty() {
            "any".clone_into(value);
        }
    }
}

/// One figure of the whole document.
fn single((name, unit, help): (&'static str, &'static str, &'static str), value: Option<f64>) -> Gauge {
    let samples = value.map(|value| Sample { labels: Vec::new(), value }).into_iter().collect();
    Gauge { name, unit, help, samples }
}

fn rows<'a>(document: &'a Value, key: &str) -> &'a [Value] {
    document[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Nanoseconds as seconds.
fn seconds(ns: &Value) -> Option<f64> {
    ns.as_f64().map(|ns| ns / 1e9)
}

/// Parts per million as a ratio.
fn ratio(ppm: &Value) -> Option<f64> {
    ppm.as_f64().map(|ppm| ppm / 1e6)
}

/// Yes as 1, no as 0.
fn yes(value: &Value) -> Option<f64> {
    value.as_bool().map(|is| f64::from(u8::from(is)))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use serde_json::{Value, json};

    use super::{KINDS, are_of, machine, of, of_rows};

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

    #[test]
    fn what_was_not_measured_has_no_sample() {
        let rows = [json!({ "id": "a", "n": 1.5 }), json!({ "id": "b", "n": null }), json!({ "id": 3 })];
        let gauge = of_rows(&rows, &[("source", "id")], ("hpt_n", "", "n"), |row| row["n"].as_f64());
        assert_eq!(gauge.samples.len(), 1);
        assert_eq!((gauge.samples[0].labels[0].1.as_str(), gauge.samples[0].value), ("a", 1.5));
    }
}
