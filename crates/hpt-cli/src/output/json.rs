//! A JSON document with a trailing newline. A single document is indented; if there are several documents, each is on
//! one line.

use serde_json::Value;

/// Returns the document as JSON. If `one_of_several` is true, the JSON is on one line.
pub(super) fn render(data: &Value, one_of_several: bool) -> String {
    let text = if one_of_several { serde_json::to_string } else { serde_json::to_string_pretty };
    let mut text = obeyed_by_no_terminal(text(data).expect("a value has a text form"));
    text.push('\n');
    text
}

/// Escapes the control characters from 127 to 159, which occur only in strings. The control characters below 32 are
/// already escaped in JSON.
fn obeyed_by_no_terminal(text: String) -> String {
    let is_obeyed = |letter: char| letter.is_control() && letter != '\n';
    if !text.contains(is_obeyed) {
        return text;
    }
    let mut kept = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_obeyed(letter) { kept.push_str(&format!("\\u{:04x}", u32::from(letter))) } else { kept.push(letter) }
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::render;

    #[test]
    fn a_document_has_no_terminal_escapes_and_keeps_its_content() {
        let data = json!({ "rows": [{ "a": "\u{9b}31m\u{7f}\u{1b}[2J\u{7}" }] });
        let text = render(&data, false);
        assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'), "{text:?}");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), data);
    }
}
