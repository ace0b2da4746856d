//! The saved data of a report: the parts, their command lines and their documents.

use std::path::Path;

use hpt_document::{
    Document, ReadError, SCHEMA,
    head::Head,
    report::{ReportDocument, ReportPartState},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::plan::PLANS;
use crate::{
    exit::Failure,
    output::{chart::Unreadable, files},
};

pub(super) const KIND: &str = "report";
/// The maximum size of a report, in bytes. The report of a machine with a hundred CPUs is about a hundredth of this
/// size.
const LARGEST: u64 = 256 << 20;

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
        let not = |why: String| Failure::NotAReport { path: path.to_owned(), why };
        let content =
            files::read(path, LARGEST).map_err(|cause| Failure::Unreadable { path: path.to_owned(), cause })?;
        Self::of(&content).map_err(not)
    }

    fn of(content: &[u8]) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(content).map_err(|cause| {
            if cause.is_eof() { format!("it is truncated: {cause}") } else { format!("not JSON: {cause}") }
        })?;
        match value.get("kind").and_then(Value::as_str) {
            Some(KIND) => {}
            Some(other) => return Err(format!("it is a document of kind {other:?}; `hpt report` writes reports")),
            None => return Err("it is not an hpt document".to_owned()),
        }
        match value.get("schema").and_then(Value::as_u64) {
            Some(schema) if schema == u64::from(SCHEMA) => {}
            Some(schema) => return Err(other_layout(&value, schema)),
            None => return Err("it has no schema number, so its layout is unknown".to_owned()),
        }
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
            let said = Report::of(content.as_bytes()).expect_err(content);
            assert!(said.contains(why), "{content}: {said}");
        }
    }
}
