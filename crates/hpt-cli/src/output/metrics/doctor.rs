//! The metrics of `hpt doctor`: what is in the way.

use hpt_document::doctor::{DoctorDocument, DoctorSeverity};

use super::gauge::{Gauge, Sample, of_rows, single, whole, yes};

pub(super) fn gauges(document: &DoctorDocument) -> Vec<Gauge> {
    let found = document.rules.iter().filter(|rule| rule.severity.is_some());
    let counts = [
        (DoctorSeverity::Major, document.major),
        (DoctorSeverity::Minor, document.minor),
        (DoctorSeverity::ToKnow, document.to_know),
    ];
    let counts = counts.map(|(severity, count)| Sample {
        labels: vec![("severity", severity.name().to_owned())],
        value: whole(count),
    });
    vec![
        single(
            (
                "hpt_doctor_in_the_way",
                "",
                "Whether something is in the way: 1 yes, 0 no; no sample where that cannot be told",
            ),
            document.in_the_way.map(yes),
        ),
        Gauge {
            name: "hpt_doctor_findings",
            unit: "",
            help: "How many rules found something, by how much that matters",
            samples: counts.into(),
        },
        of_rows(
            found,
            |rule| {
                let severity = rule.severity.map_or("", DoctorSeverity::name).to_owned();
                let certain = rule.certain.map_or_else(String::new, |is| is.to_string());
                vec![
                    ("rule", rule.rule.clone()),
                    ("theme", rule.theme.clone()),
                    ("severity", severity),
                    ("certain", certain),
                ]
            },
            ("hpt_doctor_finding", "", "A rule that found something; always 1"),
            |_| Some(1.0),
        ),
    ]
}
