//! The metrics of `hpt doctor`: the problems that were found.

use hpt_document::doctor::{DoctorDocument, Severity};

use super::gauge::{Gauge, Sample, of_rows, single, whole, yes};

pub(super) fn gauges(document: &DoctorDocument) -> Vec<Gauge> {
    let found = document.rules.iter().filter(|rule| rule.severity.is_some());
    let counts = [(Severity::High, document.high), (Severity::Low, document.low), (Severity::Info, document.info)];
    let counts = counts.map(|(severity, count)| Sample {
        labels: vec![("severity", severity.name().to_owned())],
        value: whole(count),
    });
    vec![
        single(
            ("hpt_doctor_problems_found", "", "Whether a problem was found: 1 yes, 0 no; no sample if that is unknown"),
            document.problems_found.map(yes),
        ),
        Gauge { name: "hpt_doctor_findings", unit: "", help: "Number of findings by severity", samples: counts.into() },
        of_rows(
            found,
            |rule| {
                let severity = rule.severity.map_or("", Severity::name).to_owned();
                let certain = rule.certain.map_or_else(String::new, |is| is.to_string());
                vec![
                    ("rule", rule.rule.clone()),
                    ("theme", rule.theme.clone()),
                    ("severity", severity),
                    ("certain", certain),
                ]
            },
            ("hpt_doctor_finding", "", "A finding of a rule; always 1"),
            |_| Some(1.0),
        ),
    ]
}
