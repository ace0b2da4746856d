//! The JSON Schema of each kind of document.

use serde_json::Value;

use crate::document::SCHEMAS;

/// Returns the kinds of documents.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    SCHEMAS.iter().map(|&(kind, _)| kind)
}

/// Returns the text of the JSON Schema (draft 2020-12) of a kind of document, or `None` if there is no such kind.
///
/// The schema describes the documents that hpt writes: all fields that hpt always writes are required,
/// and unknown fields are not allowed. To accept documents of later versions, a reader must ignore
/// unknown fields, as [`Document::read`](crate::Document::read) does.
#[must_use]
pub fn of(kind: &str) -> Option<&'static str> {
    SCHEMAS.iter().find(|(name, _)| *name == kind).map(|&(_, text)| text)
}

/// Returns the names of the columns that `hpt --format csv` prints for a document of a kind: the keys of its rows, in
/// order. `rows` is the key of the list of rows ([`Document::rows_key`](crate::Document::rows_key)). Lists of lists
/// and lists of objects, for example histograms, are not columns. Returns no columns if there is no such kind or list.
#[must_use]
pub fn columns(kind: &str, rows: &str) -> Vec<String> {
    let Some(schema) = of(kind).and_then(|text| serde_json::from_str::<Value>(text).ok()) else { return Vec::new() };
    let row = resolved(&schema["properties"][rows]["items"], &schema);
    let Some(properties) = row["properties"].as_object() else { return Vec::new() };
    let is_nested = |property: &Value| {
        let item = resolved(&property["items"], &schema);
        item["type"] == "array" || item["type"] == "object"
    };
    properties.iter().filter(|(_, property)| !is_nested(property)).map(|(name, _)| name.clone()).collect()
}

/// Returns the definition that a schema refers to, or the schema itself if it is not a reference.
fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let name = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix("#/$defs/"));
    name.map_or(schema, |name| &root["$defs"][name])
}
