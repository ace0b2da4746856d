//! The captured machines in `tests/hosts`. The functions panic if a capture is missing or not valid.

use std::{
    fs,
    path::{Path, PathBuf},
};

#[cfg(feature = "serde")]
use crate::host::Host;
use crate::host::{Capture, Entry};

/// Returns the directory with the captures.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts")
}

/// Returns the file of a captured machine.
#[must_use]
pub fn path_of(name: &str) -> PathBuf {
    folder().join(format!("{name}.capture"))
}

/// Returns a captured machine, including the files of the one it is derived from.
#[must_use]
pub fn capture_of(name: &str) -> Capture {
    Capture::open(&path_of(name)).unwrap_or_else(|refused| panic!("{refused:?}"))
}

/// Returns the machine in a capture.
#[cfg(feature = "serde")]
#[must_use]
pub fn machine_of(capture: Capture) -> Host {
    let facts = serde_json::from_str(capture.facts()).expect("the facts are what hpt capture writes");
    Host::captured(capture, facts)
}

/// Returns a captured machine as a host.
#[cfg(feature = "serde")]
#[must_use]
pub fn host(name: &str) -> Host {
    machine_of(capture_of(name))
}

/// Returns the paths of the files in a capture.
#[must_use]
pub fn files(capture: &Capture) -> Vec<String> {
    let is_file = |entry: &Entry| matches!(entry, Entry::File(_));
    capture.entries().filter(|(_, entry)| is_file(entry)).map(|(path, _)| path.to_owned()).collect()
}

/// Returns the content of a file in a capture.
#[must_use]
pub fn content<'a>(capture: &'a Capture, path: &str) -> &'a [u8] {
    match capture.get(path) {
        Some(Entry::File(content)) => content,
        other => panic!("{path}: {other:?}"),
    }
}

/// Writes a file in a capture.
pub fn write(capture: &mut Capture, path: &str, content: impl AsRef<[u8]>) {
    capture.insert(path, Entry::File(content.as_ref().to_vec())).expect("a sound path");
}

/// Returns the names of all captured machines, in ascending order.
#[must_use]
pub fn all() -> Vec<String> {
    let entries = fs::read_dir(folder()).expect("the captured machines are beside the tests");
    let names = entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> =
        names.map(|name| name.strip_suffix(".capture").expect("all of them are captures").to_owned()).collect();
    names.sort();
    assert!(names.len() >= 10, "{names:?}");
    names
}
