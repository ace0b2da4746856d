//! The remarks on the result of a step.

use hpt_document::check::CheckStep;

/// Returns the remarks on the result of a step, such as a condition that spoiled it.
pub(super) fn notes_of(step: &CheckStep) -> impl Iterator<Item = &str> {
    let notes = step.document.as_ref().and_then(|document| document["notes"].as_array());
    notes.into_iter().flatten().filter_map(serde_json::Value::as_str)
}
