//! The saved data of a report: the parts, their command lines and their documents. Other documents are read as a report
//! with one part.

use std::path::Path;

use hpt_document::{
    Document, ReadError, SCHEMA,
    head::Head,
    report::{ReportDocument, ReportPart, ReportPartState},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::plan::PLANS;
use crate::{
    exit::{Failure, causes},
    output::{chart::Unreadable, files},
};

pub(super) const KIND: &str = "report";
/// The maximum size of a report, in bytes. The report of a machine with a hundred CPUs is about a hundredth of this
/// size.
const LARGEST: u64 = 256 << 20;

/// The kinds of documents that can be compared, each with the part of a report that it would be.
const COMPARED: [(&str, &str); 13] = [
    ("bench", "bench"),
    ("calibrate", "calibrate"),
    ("doctor", "doctor"),
    ("experiment", "experiment"),
    ("latency-gpio", "gpio"),
    ("latency-pairs", "pairs"),
    ("latency-poll", "poll"),
    ("latency-stall", "stall"),
    ("latency-timer", "timer"),
    ("probe", "probe"),
    ("sleep", "sleep"),
    ("sleep-curve", "sleep-curve"),
    ("watch-summary", "watch"),
];

/// A report, with typed access to its documents.
#[derive(Clone, Debug)]
pub(super) struct Report(pub(super) ReportDocument);

/// Returns the state of a part as text.
pub(super) const fn words(state: ReportPartState) -> &'static str {
    match state {
        ReportPartState::Measured => "measured",
        ReportPartState::Interrupted => "ended early",
        ReportPartState::NotStarted => "not started",
        ReportPartState::Failed => "failed",
    }
}

impl Report {
    /// Returns the document of a part, if the part was measured.
    pub(super) fn document<T: DeserializeOwned>(&self, part: &str) -> Result<Option<T>, Unreadable> {
        let Some(value) = self.0.documents.get(part) else { return Ok(None) };
        let kind = || value.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        T::deserialize(value).map(Some).map_err(|cause| Unreadable::Shape { kind: kind(), cause })
    }

    /// Returns the document of a part, which can be of any kind, if the part was measured.
    pub(super) fn any_document(&self, part: &str) -> Result<Option<Document>, Unreadable> {
        let Some(value) = self.0.documents.get(part) else { return Ok(None) };
        match Document::read(value) {
            Ok(document) => Ok(Some(document)),
            Err(ReadError::Shape { kind, source }) => Err(Unreadable::Shape { kind, cause: source }),
            Err(_) => Err(Unreadable::Kind),
        }
    }

    /// Reads a saved report. Fails with the reason if the file is not a valid report.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let value = serde_json::from_slice(&content(path)?).map_err(|cause| not_json(&cause));
        value.and_then(Self::of).map_err(|why| Failure::NotAReport { path: path.to_owned(), why })
    }

    /// Reads the documents of a file, one or several after another. Fails with the reason if one of them is invalid or
    /// contains nothing that can be compared.
    pub(super) fn read_all(path: &Path) -> Result<Vec<Self>, Failure> {
        let content = content(path)?;
        let values = serde_json::Deserializer::from_slice(&content).into_iter::<Value>();
        let values: Result<Vec<Value>, String> = values.map(|value| value.map_err(|cause| not_json(&cause))).collect();
        let runs = values.and_then(|values| {
            // `hpt watch` prints a document for each interval, and then the summary of all.
            let is_interval = |value: &&Value| value.get("kind").and_then(Value::as_str) == Some("watch");
            values.iter().filter(|value| !is_interval(value)).map(Self::of_any).collect::<Result<Vec<Self>, _>>()
        });
        match runs {
            Ok(runs) if !runs.is_empty() => Ok(runs),
            Ok(_) if content.is_empty() => Err(Failure::NotComparable {
                path: path.to_owned(),
                why: "it is truncated: the file is empty".to_owned(),
            }),
            Ok(_) => Err(Failure::NotComparable { path: path.to_owned(), why: "it contains no document".to_owned() }),
            Err(why) => Err(Failure::NotComparable { path: path.to_owned(), why }),
        }
    }

    fn of_any(value: &Value) -> Result<Self, String> {
        let kind = value.get("kind").and_then(Value::as_str).ok_or("it is not an hpt document")?;
        if kind == KIND {
            return Self::of(value.clone());
        }
        check_layout(value)?;
        let by_hpt = value.get("wait_method").and_then(Value::as_str) == Some("hpt");
        let part = match COMPARED.iter().find(|(known, _)| *known == kind) {
            Some(("latency-timer", _)) if by_hpt => "timer-hpt",
            Some((_, part)) => part,
            None => {
                let known = COMPARED.map(|(kind, _)| kind).join(", ");
                return Err(format!(
                    "a document of kind {kind:?} contains nothing to compare; expected report, {known}"
                ));
            }
        };
        let document = Document::read(value).map_err(|why| causes(&why))?;
        let machine =
            Head::deserialize(value).map_err(|why| format!("it does not describe the machine: {why}"))?.machine;
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let command = format!("hpt {}", kind.trim_end_matches("-summary").replacen('-', " ", 1));
        Ok(Self(ReportDocument {
            schema: SCHEMA,
            kind: KIND.to_owned(),
            hpt: text("hpt"),
            name: None,
            emulated_by: machine.emulated_by.clone(),
            machine,
            started_at: text("started_at"),
            elapsed_s: 0.0,
            interrupted: document.interrupted(),
            conditions: None,
            parts: vec![ReportPart {
                name: part.to_owned(),
                command,
                state: ReportPartState::Measured,
                reason: None,
                elapsed_s: 0.0,
            }],
            documents: [(part.to_owned(), value.clone())].into_iter().collect(),
            notes: document.notes().to_vec(),
        }))
    }

    fn of(value: Value) -> Result<Self, String> {
        match value.get("kind").and_then(Value::as_str) {
            Some(KIND) => {}
            Some(other) => return Err(format!("it is a document of kind {other:?}; `hpt report` writes reports")),
            None => return Err("it is not an hpt document".to_owned()),
        }
        check_layout(&value)?;
        let report: ReportDocument =
            serde_json::from_value(value).map_err(|cause| format!("its content does not match the schema: {cause}"))?;
        for (part, document) in &report.documents {
            let kind = document.get("kind").and_then(Value::as_str).unwrap_or_default();
            let is_known = PLANS.iter().any(|plan| plan.name == part && plan.kind == kind);
            if !is_known || document.get("schema").and_then(Value::as_u64) != Some(u64::from(SCHEMA)) {
                return Err(format!("this version of hpt does not support part {part:?} of the document"));
            }
            Head::deserialize(document).map_err(|why| {
                format!("its part {part:?} does not describe the machine on which it was measured: {why}")
            })?;
        }
        Ok(Self(report))
    }
}

fn content(path: &Path) -> Result<Vec<u8>, Failure> {
    files::read(path, LARGEST).map_err(|cause| Failure::Unreadable { path: path.to_owned(), cause })
}

fn not_json(cause: &serde_json::Error) -> String {
    if cause.is_eof() { format!("it is truncated: {cause}") } else { format!("not JSON: {cause}") }
}

/// Returns the reason if this version cannot read the layout of a document.
fn check_layout(value: &Value) -> Result<(), String> {
    match value.get("schema").and_then(Value::as_u64) {
        Some(schema) if schema == u64::from(SCHEMA) => Ok(()),
        Some(schema) => Err(other_layout(value, schema)),
        None => Err("it has no schema number, so its layout is unknown".to_owned()),
    }
}

/// Returns the reason for rejecting a report with another layout: the version of hpt that wrote it, and the layout that
/// this version reads.
fn other_layout(report: &Value, schema: u64) -> String {
    let writer = report.get("hpt").and_then(Value::as_str).unwrap_or("of an unknown version");
    let advice = if schema > u64::from(SCHEMA) {
        "read it with a newer version"
    } else {
        "read it with the version that wrote it, or measure again"
    };
    format!("hpt {writer} wrote it in layout {schema}, but this version reads layout {SCHEMA}; {advice}")
}

#[cfg(test)]
mod tests {
    use super::Report;

    #[test]
    fn a_file_that_is_not_a_report_is_refused_with_a_reason() {
        for (content, why) in [
            ("", "truncated"),
            (r#"{"schema": 2, "kind": "rep"#, "truncated"),
            ("report", "not JSON"),
            ("\u{0}\u{1}", "not JSON"),
            ("[1]", "not an hpt document"),
            (r#"{"schema": 2, "kind": "bench"}"#, "kind \"bench\""),
            (r#"{"kind": "report"}"#, "its layout is unknown"),
            (r#"{"schema": 3, "kind": "report"}"#, "newer version"),
            (
                r#"{"schema": 1, "kind": "report", "hpt": "0.1.0"}"#,
                "hpt 0.1.0 wrote it in layout 1, but this version reads layout 2; read it with the version that wrote it",
            ),
            (r#"{"schema": 1, "kind": "report"}"#, "hpt of an unknown version wrote it in layout 1"),
            (r#"{"schema": 18446744073709551615, "kind": "report"}"#, "newer version"),
            (r#"{"schema": 2, "kind": "report"}"#, "does not match the schema: missing field"),
        ] {
            let value = serde_json::from_str(content).map_err(|cause| super::not_json(&cause));
            let said = value.and_then(Report::of).expect_err(content);
            assert!(said.contains(why), "{content}: {said}");
        }
    }
}
