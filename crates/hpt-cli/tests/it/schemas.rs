//! Every JSON document matches its schema in hpt-document/schema and survives a round trip through its
//! type. The columns of every CSV are the keys of the JSON rows, without nested lists.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use serde_json::Value;

use crate::support::{host, hosts, hpt, json, measuring_doctor, run, stdout, unsafe_calls::interrupt};

#[track_caller]
pub(crate) fn validate(document: &Value) {
    let kind = document["kind"].as_str().expect("every document names its kind");
    let schema = hpt_document::schema::of(kind).unwrap_or_else(|| panic!("{kind} has no schema"));
    let schema: Value = serde_json::from_str(schema).expect("a schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema is a schema");
    let errors: Vec<String> =
        validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{kind}: {errors:?}\n{document:#}");
    assert_eq!(document["schema"], hpt_document::SCHEMA);
    // The type loses nothing of the document.
    let read = hpt_document::Document::read(document).unwrap_or_else(|error| panic!("{kind}: {error}"));
    assert_eq!(serde_json::to_value(read).expect("numbers, names and lists"), *document);
}

#[test]
fn live_documents_are_valid() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (store, capture) = (folder.path().join("store"), folder.path().join("my.capture"));
    let (store, capture) = (store.to_str().expect("UTF-8"), capture.to_str().expect("UTF-8"));
    for arguments in [
        &["probe"][..],
        &["probe", "tsc"],
        &["capture", capture],
        &["calibrate", "--duration", "20ms", "--save", "--state-dir", store],
        &["calibrate", "--saved", "--state-dir", store],
        &["calibrate", "--duration", "1ms", "--source", "thread-cpu,monotonic-coarse"],
        &["read", "realtime", "realtime-coarse", "-n", "3", "-i", "200us"],
        &["bench", "--count", "1000"],
        &["sleep", "--count", "3"],
        &["sleep", "--curve", "--count", "3"],
        &["latency", "timer", "--count", "20", "--cpu", "all"],
        &["latency", "timer", "--count", "20", "--by", "hpt", "--cpu", "any"],
        &["latency", "poll", "--count", "20"],
        &["latency", "pairs", "--count", "3", "--interval", "0s,1ms/2ms"],
        &["latency", "stall", "--duration", "200ms", "--cpu", "all"],
        &["experiment"],
        &["latency", "stall", "--duration", "50ms", "--cpu", "any", "--above", "50s"],
        &["latency", "gpio", "--list"],
        &["clocksource"],
        &["doctor"],
        &["doctor", "--cpu", "0"],
        &["doctor", "--host", capture],
        &["restore", "--journal", store],
    ] {
        validate(&json(&run(&[arguments, &["--format", "json"]].concat())));
    }
    validate(measuring_doctor());
}

#[test]
fn documents_of_captured_machines_are_valid() {
    for name in hosts() {
        for subcommand in ["probe", "clocksource", "doctor"] {
            validate(&json(&run(&[subcommand, "--host", &host(&name), "--format", "json"])));
        }
    }
}

#[test]
fn a_watch_prints_one_document_per_line() {
    // It runs until two intervals have been printed.
    let mut watch = hpt();
    watch.args(["watch", "--interval", "200ms", "--format", "json"]).stdout(Stdio::piped());
    let mut watch = watch.spawn().expect("the binary was built");
    let mut lines = BufReader::new(watch.stdout.take().expect("piped")).lines();
    let mut lines = lines.by_ref().map(|line| line.expect("UTF-8"));
    let mut printed: Vec<String> = lines.by_ref().take(2).collect();
    interrupt(watch.id());
    printed.extend(lines);
    assert!(watch.wait().expect("started").success(), "{printed:?}");
    let document = |line: &String| serde_json::from_str::<Value>(line).expect("a document a line");
    let documents: Vec<Value> = printed.iter().map(document).inspect(validate).collect();
    assert!(documents.len() > 2, "{documents:?}");
    let kinds: Vec<&str> = documents.iter().map(|document| document["kind"].as_str().expect("a kind")).collect();
    let (last, intervals) = kinds.split_last().expect("a summary at least");
    assert!(*last == "watch-summary" && intervals.iter().all(|kind| *kind == "watch"), "{kinds:?}");
    let rows = stdout(&run(&["watch", "--duration", "500ms", "--interval", "200ms", "--format", "csv"]));
    let keys: Vec<&str> = documents[0]["sources"][0].as_object().expect("a row").keys().map(String::as_str).collect();
    assert_eq!(rows.lines().next(), Some(keys.join(",").as_str()));
    assert_eq!(rows.lines().filter(|line| line.starts_with("interval,")).count(), 1, "{rows}");
    assert!(rows.lines().count() > 2, "{rows}");
}

#[test]
fn printed_examples_are_valid() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/snapshots");
    let mut examples = 0;
    for entry in std::fs::read_dir(folder).expect("the snapshots are beside the tests") {
        let path = entry.expect("readable").path();
        if path.to_string_lossy().ends_with("-json.snap") {
            let text = std::fs::read_to_string(&path).expect("readable");
            let printed = text.split_once("\n---\n").expect("a snapshot has a head").1;
            // A stream has one document per line.
            let documents = serde_json::Deserializer::from_str(printed).into_iter::<Value>();
            for document in documents {
                validate(&document.unwrap_or_else(|error| panic!("{}: {error}", path.display())));
                examples += 1;
            }
        }
    }
    assert!(examples >= 6, "{examples}");
}

#[test]
fn a_document_with_another_structure_is_refused() {
    let mut document = json(&run(&["probe", "--format", "json"]));
    document["sources"][0]["surprise"] = Value::Bool(true);
    let schema = hpt_document::schema::of("probe").expect("a kind of document");
    let schema: Value = serde_json::from_str(schema).expect("a schema is JSON");
    assert!(!jsonschema::is_valid(&schema, &document));
}

#[test]
fn csv_has_the_keys_of_the_rows_for_columns() {
    for (arguments, rows) in [
        (&["probe"][..], "sources"),
        (&["calibrate", "--duration", "5ms", "--source", "monotonic"], "calibrations"),
        (&["read", "monotonic", "thread-cpu", "--count", "2"], "results"),
        (&["bench", "--count", "1000", "--source", "monotonic"], "results"),
        (&["sleep", "--count", "2", "--length", "100us"], "results"),
        (&["sleep", "--curve", "--count", "2", "--length", "100us"], "results"),
        (&["latency", "timer", "--count", "2"], "results"),
        (&["latency", "pairs", "--count", "2", "--source", "monotonic"], "results"),
        (&["latency", "stall", "--duration", "50ms"], "results"),
        (&["clocksource"], "sources"),
        (&["doctor"], "rules"),
    ] {
        let document = json(&run(&[arguments, &["--format", "json"]].concat()));
        let all = document[rows].as_array().expect("rows");
        let keys = all[0].as_object().expect("a row").keys().map(String::as_str);
        // Lists of lists or of objects are left out. The lists of these names are empty in short measurements.
        let often_empty = ["histogram_us", "histogram_ns", "intervals", "time_series", "heat_map", "fixes"];
        let is_nested = |key: &str| all.iter().any(|row| row[key][0].is_object() || row[key][0].is_array());
        let keys: Vec<&str> = keys.filter(|key| !often_empty.contains(key) && !is_nested(key)).collect();
        let keys = keys.join(",");
        let csv = stdout(&run(&[arguments, &["--format", "csv"]].concat()));
        assert_eq!(csv.lines().next(), Some(keys.as_str()));
        assert!(csv.lines().count() > 1, "{csv}");
    }
}
