//! Compares output with stored snapshots. The printed documents have fixed values. Only the tests of subcommands use
//! this module.

use std::path::Path;

use hpt_core::Host;
use hpt_document::head::Head;
use hpt_sys::host::Capture;
use serde_json::Value;

use crate::{
    document_head::head_of,
    output::{Block, Document, Format, Look, Tone, rendered},
};

/// Returns a system snapshot for use in test documents.
pub(crate) fn host() -> Host {
    captured("amd-epyc-zen3-kvm")
}

/// Returns the system snapshot with that name.
pub(crate) fn captured(name: &str) -> Host {
    let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hpt-sys/tests/hosts");
    let capture = Capture::open(&hosts.join(format!("{name}.capture")));
    let capture = capture.expect("the snapshot is one of the test data files of hpt-core");
    let facts = serde_json::from_str(capture.facts()).expect("hpt wrote the facts");
    Host::captured(capture, facts)
}

/// Returns the first keys of a document about the machine of [`host`]. The version is fixed, so that the output is the
/// same in every release.
pub(crate) fn head(kind: &str) -> Head {
    let mut head = head_of(kind, &host());
    "0.0.0".clone_into(&mut head.hpt);
    head
}

/// Returns the simplest value that a schema allows: null if permitted, otherwise an empty value or zero.
fn least(schema: &Value, definitions: &Value) -> Value {
    let names = |key: &str| schema.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        _ => names("type").iter().filter_map(Value::as_str).collect(),
    };
    if let Some(reference) = schema["$ref"].as_str() {
        return least(&definitions[reference.trim_start_matches("#/$defs/")], definitions);
    }
    if let Some(constant) = schema.get("const") {
        return constant.clone();
    }
    let is_nullable = types.contains(&"null") || names("enum").contains(&Value::Null);
    let ways = [names("anyOf"), names("oneOf")].concat();
    if is_nullable || ways.iter().any(|way| way["type"] == "null") {
        return Value::Null;
    }
    if let Some(first) = names("enum").first() {
        return first.clone();
    }
    if let Some(first) = ways.first() {
        return least(first, definitions);
    }
    match types.first().copied() {
        Some("object") => {
            let required = names("required").iter().filter_map(Value::as_str);
            required.map(|key| (key.to_owned(), least(&schema["properties"][key], definitions))).collect()
        }
        Some("array") if schema["minItems"].as_u64().unwrap_or(0) > 0 => {
            vec![least(&schema["items"], definitions)].into()
        }
        Some("array") => Vec::<Value>::new().into(),
        Some("string") => "".into(),
        Some("boolean") => false.into(),
        Some("integer") => schema["minimum"].as_u64().unwrap_or(0).into(),
        _ => schema["minimum"].as_f64().unwrap_or(1.0).into(),
    }
}

/// Returns a document of this kind without results.
pub(crate) fn empty(kind: &str) -> hpt_document::Document {
    let schema = hpt_document::schema::of(kind).expect("every kind has a schema");
    let schema: Value = serde_json::from_str(schema).expect("a schema is JSON");
    let mut document = least(&schema, &schema["$defs"]);
    let head = serde_json::to_value(head(kind)).expect("names have a JSON form");
    let keys = document.as_object_mut().expect("it is one");
    keys.extend(head.as_object().expect("it is one").clone());
    hpt_document::Document::read(&document).expect("the schema has every field that a document needs")
}

/// Returns the numbers in a text, each with its unit if it has one. A number is a word that begins with a digit.
fn numbers(text: &str) -> Vec<String> {
    const UNITS: [&str; 11] = ["ns", "µs", "ms", "s", "Hz", "kHz", "MHz", "GHz", "ppm", "%", "°C"];
    let bare = |word: &'_ str| word.trim_matches(|letter| "()[],.;:".contains(letter)).to_owned();
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace().peekable();
        while let Some(word) = words.next() {
            let number = bare(word);
            if !number.trim_start_matches(['-', '+', '±', '<']).starts_with(|first: char| first.is_ascii_digit()) {
                continue;
            }
            match words.peek().map(|&next| bare(next)).filter(|next| UNITS.contains(&next.as_str())) {
                Some(unit) => found.push(format!("{number} {unit}")),
                None => found.push(number),
            }
        }
    }
    found.sort();
    found
}

/// Returns the commands to copy that a text contains.
fn commands(blocks: &[Block]) -> Vec<String> {
    let of = |block: &Block| match block {
        Block::Section(_, rows) => rows.concat(),
        Block::Table(table) => table.rows.concat(),
        Block::Detail(_) | Block::Facts(_) | Block::Headline(_) | Block::Text(_) => Vec::new(),
    };
    let cells = blocks.iter().flat_map(of);
    cells.filter(|cell| cell.1 == Tone::Command).map(|cell| cell.0).collect()
}

/// Asserts that a narrow terminal shows every number of a wide one, in one piece and with its unit.
#[track_caller]
pub(crate) fn assert_numbers_are_whole(name: &str, document: &Document) {
    let shown = |width| rendered(document, Format::Human, Look { width, color: false, verbose: true });
    let wide = numbers(&shown(400));
    for width in [40, 60] {
        let narrow_text = shown(width);
        let narrow = numbers(&narrow_text);
        let count = |list: &[String], number: &String| list.iter().filter(|one| *one == number).count();
        let broken: Vec<_> = wide.iter().filter(|number| count(&narrow, number) < count(&wide, number)).collect();
        assert!(broken.is_empty(), "{name}: broken at {width} columns: {broken:?}\n{narrow_text}");
        // A command is one line, however long, so that it can be copied.
        let commands = commands(&document.blocks);
        let is_command = |line: &str| commands.iter().any(|command| line.ends_with(command.as_str()));
        let lines = narrow_text.lines().filter(|line| !is_command(line));
        let widest = lines.map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(widest <= width.into(), "{name}: {widest} columns of {width}\n{narrow_text}");
    }
}

/// Asserts that CSV has a header even without rows, and that it is the same with and without rows.
#[track_caller]
fn assert_csv_has_a_header(name: &str, document: &Document) {
    let data = serde_json::to_value(&document.data).expect("a document has a JSON form");
    let kind = data["kind"].as_str().expect("every document has a kind");
    let header = |document: &Document| {
        let text = rendered(document, Format::Csv, Look { width: 80, color: false, verbose: false });
        text.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(header(document), header(&Document::new(empty(kind), Vec::new())), "{name}");
}

#[test]
fn csv_of_every_kind_has_a_header_without_nested_lists_even_if_it_has_no_rows() {
    // The intervals of a watch have the rows.
    for kind in hpt_document::schema::kinds().filter(|kind| *kind != "watch-summary") {
        let text = rendered(
            &Document::new(empty(kind), Vec::new()),
            Format::Csv,
            Look { width: 80, color: false, verbose: false },
        );
        let header: Vec<&str> = text.trim_end().split(',').collect();
        assert!(header.len() > 1 && text.lines().count() == 1, "{kind}: {text:?}");
        for nested in ["histogram_us", "histogram_ns", "time_series", "heat_map", "distribution", "fixes"] {
            assert!(!header.contains(&nested), "{kind}: {text}");
        }
    }
}

/// Compares the output in every format with its snapshot.
#[track_caller]
pub(crate) fn assert(name: &str, document: &Document) {
    assert_numbers_are_whole(name, document);
    assert_csv_has_a_header(name, document);
    let text = |format| rendered(document, format, Look { width: 80, color: false, verbose: false });
    insta::with_settings!({ snapshot_path => "../tests/it/snapshots", prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(format!("{name}-human"), text(Format::Human));
        let verbose = rendered(document, Format::Human, Look { width: 80, color: false, verbose: true });
        if verbose != text(Format::Human) {
            insta::assert_snapshot!(format!("{name}-verbose"), verbose);
        }
        insta::assert_snapshot!(format!("{name}-json"), text(Format::Json));
        insta::assert_snapshot!(format!("{name}-csv"), text(Format::Csv));
        let metrics = text(Format::Openmetrics);
        if !metrics.is_empty() {
            insta::assert_snapshot!(format!("{name}-openmetrics"), metrics);
        }
    });
}
