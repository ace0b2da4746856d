//! The recording of a run: from the request to the report. The threads that measure offer their late samples; a reader
//! thread explains them.

use std::{
    mem,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

use hpt_sys::{signals::this_thread, wait::timer_slack};

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
        Feed { shared: Arc::clone(&self.shared), thread: (thread, cpu), slack_ns: 0, pending: touched() }
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
    /// Its timer slack at the last late sample, in nanoseconds.
    slack_ns: u64,
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
            // The slack may be changed from outside, so it is read after each late sample. It may have been lowered since
            // the wait began.
            #[allow(clippy::unnecessary_cast, clippy::cast_lossless, reason = "it has 32 bits on 32-bit processors")]
            let slack_ns = timer_slack().map_or(0, |slack| slack as u64);
            let before_ns = mem::replace(&mut self.slack_ns, slack_ns);
            let sample = LateSample::new(self.thread, deadline_ns, latency_ns);
            self.pending.push(LateSample { slack_ns: slack_ns.max(before_ns), ..sample });
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
