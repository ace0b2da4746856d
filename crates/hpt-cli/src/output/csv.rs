//! The rows of a document as CSV: a header, followed by one line per row. The columns are the keys of the JSON rows,
//! except for lists of lists and of objects, for example histograms. Items of other lists are joined with `; `.

use serde_json::Value;

use super::text::without_escapes;

/// Formats these columns of the rows. A document without columns has no rows, and yields no text.
pub(super) fn render(columns: &[String], rows: &[Value]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut written = if columns.is_empty() { Ok(()) } else { writer.write_record(columns) };
    for row in rows {
        written = written.and_then(|()| writer.write_record(columns.iter().map(|column| field(row.get(column)))));
    }
    written.expect("writing to memory does not fail, and every row has the columns of the header");
    let bytes = writer.into_inner().expect("writing to memory does not fail");
    String::from_utf8(bytes).expect("every field is text")
}

fn field(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => data_only(text),
        Some(Value::Array(list)) => list.iter().map(|item| field(Some(item))).collect::<Vec<_>>().join("; "),
        Some(other) => other.to_string(),
    }
}

/// Makes text safe for spreadsheets (formulas) and terminals (control characters), because the text may come from a
/// file that another user created. Follows the OWASP advice on CSV injection.
fn data_only(text: &str) -> String {
    let is_number = text.parse::<f64>().is_ok();
    let quote = if !is_number && text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    format!("{quote}{}", without_escapes(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::render;

    fn columns(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn commas_quotes_lists_and_missing_values_round_trip() {
        let data = [
            json!({ "id": "a", "note": "one, \"two\"", "n": 1.5, "list": ["x", "y"] }),
            json!({ "id": "b", "note": null, "n": null, "list": [] }),
        ];
        let text = render(&columns(&["id", "note", "n", "list"]), &data);
        assert_eq!(text, "id,note,n,list\na,\"one, \"\"two\"\"\",1.5,x; y\nb,,,\n");
    }

    #[test]
    fn text_that_a_spreadsheet_would_evaluate_is_quoted_but_numbers_are_not() {
        let data = [
            json!({ "a": "=HYPERLINK(\"x\")", "b": "@SUM(1)", "c": "+cmd", "d": "-cmd", "e": "-1.5", "f": -2, "g": ["=1", "b"], "h": "\u{1b}[2J" }),
        ];
        let text = render(&columns(&["a", "b", "c", "d", "e", "f", "g", "h"]), &data);
        let row = text.lines().nth(1).expect("a row");
        assert_eq!(row, "\"'=HYPERLINK(\"\"x\"\")\",'@SUM(1),'+cmd,'-cmd,-1.5,-2,'=1; b,\\u{1b}[2J");
    }

    #[test]
    fn a_header_is_printed_even_without_rows() {
        assert_eq!(render(&columns(&["a", "b"]), &[]), "a,b\n");
        assert_eq!(render(&[], &[]), "");
    }
}
