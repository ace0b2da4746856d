//! The metrics of `hpt doctor`: what is in the way.

use serde_json::Value;

use super::gauge::{Gauge, Sample, of_rows, rows, single, text, yes};

pub(super) fn gauges(document: &Value) -> Vec<Gauge> {
    let found = rows(document, "rules").iter().filter(|row| row["severity"].is_string());
    let counts = [("major", "major"), ("minor", "minor"), ("to-know", "to_know")];
    let counts = counts.into_iter().filter_map(|(severity, key)| {
        Some(Sample { labels: vec![("severity", severity.to_owned())], value: document[key].as_f64()? })
    });
    vec![
        single(
            (
                "hpt_doctor_in_the_way",
                "",
                "Whether something is in the way: 1 yes, 0 no; no sample where that cannot be told",
            ),
            yes(&document["in_the_way"]),
        ),
        Gauge {
            name: "hpt_doctor_findings",
            unit: "",
            help: "How many rules found something, by how much that matters",
            samples: counts.collect(),
        },
        of_rows(
            found,
            &[("rule", "rule"), ("theme", "theme"), ("severity", "severity"), ("certain", "certain")],
            ("hpt_doctor_finding", "", "A rule that found something; always 1"),
            |row| Some(text(&row["rule"])).filter(|rule| !rule.is_empty()).map(|_| 1.0),
        ),
    ]
}
