//! One JSON document, ending in a newline: indented, or a line of its own where there are several.

use super::Document;

pub(super) fn render(document: &Document) -> String {
    let text = if document.one_of_several { serde_json::to_string } else { serde_json::to_string_pretty };
    let mut text = text(&document.data).expect("a value has a text form");
    text.push('\n');
    text
}
