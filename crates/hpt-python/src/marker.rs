//! Marks in the trace of the kernel.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    sync::OnceLock,
};

use pyo3::pyfunction;

const PATHS: [&str; 2] = ["/sys/kernel/tracing/trace_marker", "/sys/kernel/debug/tracing/trace_marker"];

/// Writes `text` to the trace of the kernel, as `hpt: text`, beside its events.
///
/// A newline or a NUL in it becomes a space, and the kernel cuts a long text, on most machines to some 1000 or 4000 bytes.
///
/// Returns whether it was written. That takes tracefs, and permission to write to its file trace_marker.
#[pyfunction]
pub(crate) fn mark(text: &str) -> bool {
    static MARKER: OnceLock<File> = OnceLock::new();
    let marker = MARKER.get().or_else(|| {
        let file = PATHS.iter().find_map(|path| OpenOptions::new().write(true).open(path).ok())?;
        Some(MARKER.get_or_init(|| file))
    });
    // One system call is one event, whose text ends at a NUL, and whose line at a newline.
    let text = text.replace(['\n', '\0'], " ");
    marker.is_some_and(|mut marker| marker.write(format!("hpt: {text}").as_bytes()).is_ok())
}
