//! The recording of a run: from the request to the report. The threads that measure offer their late samples; a reader
//! thread explains them.

use std::{
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

use hpt_sys::signals::this_thread;

use super::{
    TraceError,
    instance::online_cpus,
    part::LateSample,
    reader::{self, Reader},
    report::TraceReport,
    request::Request,
    shared::{PENDING, SharedSamples, touched},
};

/// The maximum number of samples that wait for the reader.
const WAITING: usize = 65_536;

/// A recording. Dropping this value ends it and removes its tracefs instance.
#[derive(Debug)]
pub struct Tracing {
    shared: Arc<SharedSamples>,
    reader: Option<JoinHandle<TraceReport>>,
}

impl Tracing {
    /// Begins to record the requested CPUs. Creates a private tracefs instance, so that other traces are not affected.
    ///
    /// # Errors
    ///
    /// Returns [`TraceError`] if the kernel's trace cannot be recorded.
    pub fn begin(request: &Request) -> Result<Self, TraceError> {
        let mut request = request.clone();
        if request.cpus.is_empty() {
            request.cpus = online_cpus();
        }
        let shared = Arc::new(SharedSamples::new());
        let reader = Reader::new(Arc::clone(&shared), request)?;
        let reader = reader::start(reader)
            .map_err(|cause| TraceError::Refused { file: "trace_pipe_raw (no thread)".to_owned(), cause })?;
        Ok(Self { shared, reader: Some(reader) })
    }

    /// Returns the means by which the calling thread offers its samples. `cpu` is the CPU to which it is pinned.
    #[must_use]
    pub fn feed(&self, cpu: Option<usize>) -> Feed {
        let thread = this_thread();
        self.shared.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Feed { shared: Arc::clone(&self.shared), thread: (thread, cpu), pending: touched() }
    }

    /// Ends the recording, removes its tracefs instance, and returns the explained samples.
    #[must_use]
    pub fn end(mut self) -> TraceReport {
        self.finish().unwrap_or_default()
    }

    fn finish(&mut self) -> Option<TraceReport> {
        self.shared.end();
        self.reader.take().and_then(|reader| reader.join().ok())
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

/// The means by which a thread offers its samples. Never blocks for the reader while it measures.
#[derive(Debug)]
pub struct Feed {
    shared: Arc<SharedSamples>,
    /// The thread, and its CPU.
    thread: (i32, Option<usize>),
    pending: Vec<LateSample>,
}

impl Feed {
    /// Offers a sample of the thread that created this value: its deadline on `CLOCK_MONOTONIC`, and its latency, both in
    /// nanoseconds. A sample that is too short to be explained costs one comparison.
    pub fn offer(&mut self, deadline_ns: u64, latency_ns: u64) {
        if latency_ns < self.shared.least_ns.load(Ordering::Relaxed) {
            return;
        }
        if self.pending.len() >= PENDING {
            self.shared.skipped.fetch_add(1, Ordering::Relaxed);
        } else {
            self.pending.push(LateSample::new(self.thread, deadline_ns, latency_ns));
        }
        if let Ok(mut samples) = self.shared.samples.try_lock() {
            Self::hand_over(&mut self.pending, &mut samples, &self.shared.skipped);
        }
    }

    fn hand_over(pending: &mut Vec<LateSample>, samples: &mut Vec<LateSample>, skipped: &AtomicU64) {
        let room = WAITING.saturating_sub(samples.len()).min(pending.len());
        samples.extend(pending.drain(..room));
        skipped.fetch_add(pending.len() as u64, Ordering::Relaxed);
        pending.clear();
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let mut samples = self.shared.samples.lock().unwrap_or_else(PoisonError::into_inner);
        Self::hand_over(&mut self.pending, &mut samples, &self.shared.skipped);
    }
}
