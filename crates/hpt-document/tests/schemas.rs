//! The files in schema/ match the types, and each kind of document has one.

use std::{collections::BTreeSet, fs, path::PathBuf};

use hpt_document::{Document, ReadError, SCHEMA, generated, schema};
use serde_json::{Value, json};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("schema")
}

#[test]
fn the_schemas_in_the_docs_are_those_of_the_types() {
    for kind in schema::kinds() {
        let path = folder().join(format!("{kind}.json"));
        let schema = generated::of(kind).expect("the kind is listed");
        let expected = serde_json::to_string_pretty(&schema).expect("a value has a text form") + "\n";
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, expected).expect("schema/ exists");
        } else {
            let found = fs::read_to_string(&path).unwrap_or_default();
            assert!(
                found == expected,
                "{} does not match the types; run with UPDATE_DOCS=1 to update it",
                path.display()
            );
        }
    }
}

#[test]
fn there_is_no_schema_of_another_kind() {
    let entries = fs::read_dir(folder()).expect("schema/ exists");
    let names = entries.map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8"));
    let files: BTreeSet<String> = names.collect();
    let kinds: BTreeSet<String> = schema::kinds().map(|kind| format!("{kind}.json")).collect();
    assert_eq!(files, kinds);
    assert_eq!((schema::of("weather"), generated::of("weather")), (None, None));
}

#[test]
fn every_kind_with_a_schema_can_be_read() {
    for kind in schema::kinds() {
        let empty = Document::read(&json!({ "kind": kind }));
        assert!(matches!(&empty, Err(ReadError::Shape { kind: said, .. }) if said == kind), "{kind}: {empty:?}");
    }
    assert!(matches!(Document::read(&json!({ "kind": "weather" })), Err(ReadError::UnknownKind(_))));
    assert!(matches!(Document::read(&json!({ "kind": 1 })), Err(ReadError::NoKind)));
}

#[test]
fn fields_of_later_versions_are_ignored() {
    let mut capture = json!({ "schema": SCHEMA, "kind": "capture", "file": "a", "files": [] });
    let read = |value: &Value| Document::read(value).expect("a capture");
    let known = read(&capture);
    capture["surprise"] = json!(true);
    assert_eq!(read(&capture), known);
}
