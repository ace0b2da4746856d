//! One JSON document, indented, ending in a newline.

use super::Document;

pub(super) fn render(document: &Document) -> String {
    let mut text = serde_json::to_string_pretty(&document.data).expect("a value has a text form");
    text.push('\n');
    text
}
