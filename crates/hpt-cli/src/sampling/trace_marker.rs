//! A mark in the kernel's trace at the sample that ended a run.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use hpt_core::Instant;

/// The kernel's trace. It is opened before the run, so that the mark is written without delay. Otherwise, the
/// kernel might overwrite the cause of the latency first.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) marker: File,
    pub(super) switch: File,
    pub(super) is_marked: AtomicBool,
}

impl Trace {
    pub(super) fn open(folder: &Path) -> Option<Self> {
        let open = |name: &str| OpenOptions::new().write(true).open(folder.join(name)).ok();
        Some(Self { marker: open("trace_marker")?, switch: open("tracing_on")?, is_marked: AtomicBool::new(false) })
    }

    /// Marks the trace at the sample that exceeded the limit, and stops tracing.
    pub(super) fn mark(&self, due: Instant) {
        let text = format!("hpt latency: limit exceeded at {}", due.nanos_since(Instant::EPOCH));
        let marked = (&self.marker).write_all(text.as_bytes()).and_then(|()| (&self.switch).write_all(b"0"));
        self.is_marked.store(marked.is_ok(), Ordering::Relaxed);
    }
}
