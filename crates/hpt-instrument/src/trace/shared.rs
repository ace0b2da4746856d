//! The state that the measuring threads share with the reader.

use std::{
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use super::part::LateSample;

/// The maximum number of samples that wait in the measuring thread.
pub(super) const PENDING: usize = 1_024;

/// Returns an empty list whose memory was written once, so that no late sample delays the next one by page faults.
pub(super) fn touched() -> Vec<LateSample> {
    let mut samples = vec![std::hint::black_box(LateSample::new((0, None), 0, 0)); PENDING];
    samples.clear();
    samples
}

/// The state that the measuring threads share with the reader.
#[derive(Debug)]
pub(super) struct SharedSamples {
    /// The latency from which on a sample is of interest, in nanoseconds.
    pub(super) least_ns: AtomicU64,
    pub(super) samples: Mutex<Vec<LateSample>>,
    /// The threads that measure.
    pub(super) threads: Mutex<Vec<i32>>,
    pub(super) skipped: AtomicU64,
    pub(super) ends: AtomicBool,
    end: (Mutex<bool>, Condvar),
}

impl SharedSamples {
    pub(super) fn new() -> Self {
        Self {
            least_ns: AtomicU64::new(0),
            samples: Mutex::new(touched()),
            threads: Mutex::new(Vec::new()),
            skipped: AtomicU64::new(0),
            ends: AtomicBool::new(false),
            end: (Mutex::new(false), Condvar::new()),
        }
    }

    pub(super) fn take(&self) -> Vec<LateSample> {
        // The list keeps its memory, so that the measuring threads neither allocate nor fault.
        self.samples.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    /// Waits for the end of the run. Returns `Some` if it has come.
    pub(super) fn wait(&self, interval: Duration) -> Option<bool> {
        let (ended, condition) = &self.end;
        let ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
        if *ended {
            return Some(true);
        }
        let (ended, _) = condition.wait_timeout(ended, interval).unwrap_or_else(PoisonError::into_inner);
        ended.then_some(true)
    }

    pub(super) fn end(&self) {
        self.ends.store(true, Ordering::Release);
        *self.end.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.end.1.notify_all();
    }
}
