//! The state that the threads of a run share with the supervising thread: its start, its end and its progress.

use std::{
    ops::ControlFlow,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use hpt_core::Instant;
use hpt_instrument::measure::Interrupter;
use hpt_sys::cast::signed;

use super::trace_marker::Trace;
use crate::context::continue_if;

/// The interval at which sleeping threads are woken repeatedly at the end of a run.
const INTERRUPT_AGAIN: Duration = Duration::from_millis(5);

/// The state that the threads of a run share with the supervising thread.
#[derive(Debug, Default)]
pub(crate) struct RunState {
    ends: AtomicBool,
    done: AtomicU64,
    /// The number of samples of the warm-up.
    discarded: AtomicU64,
    /// The time at which the first thread started to measure, in nanoseconds, or zero before that time.
    began_ns: AtomicU64,
    /// One interrupter for each thread that may sleep for a long time.
    interrupters: Vec<Interrupter>,
    /// The deadline of the sample that exceeded the limit, in nanoseconds, or zero if no sample
    /// exceeded the limit.
    stopped_at_ns: AtomicU64,
    /// The kernel's trace, or `None` if no mark was requested or if the trace cannot be opened.
    trace: Option<Trace>,
}

impl RunState {
    /// Creates the state of a run with this number of sleeping threads. A sample above `break_above` ends the run.
    pub(crate) fn new(break_above: Option<Duration>, sleepers: usize) -> Self {
        let trace = break_above.and_then(|_| Trace::open(Path::new("/sys/kernel/tracing")));
        Self { interrupters: (0..sleepers).map(|_| Interrupter::default()).collect(), ..Self::marking(trace) }
    }

    fn marking(trace: Option<Trace>) -> Self {
        Self { trace, ..Self::default() }
    }

    /// Returns the interrupter of a sleeping thread.
    pub(crate) fn interrupter(&self, thread: usize) -> &Interrupter {
        &self.interrupters[thread]
    }

    /// Wakes the sleeping threads.
    pub(super) fn interrupt_all(&self) {
        self.interrupters.iter().for_each(Interrupter::interrupt);
    }

    /// Records the start of the measurement. Only the first call has an effect.
    pub(crate) fn begin(&self, when: Instant) {
        let _ = self.began_ns.compare_exchange(
            0,
            when.nanos_since(Instant::EPOCH).max(1),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    /// Returns the duration of the measurement so far.
    pub(crate) fn elapsed(&self) -> Duration {
        match self.began_ns.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            began_ns => Instant::from_nanos(signed(began_ns)).elapsed(),
        }
    }

    /// Ends the run, and returns when all threads have ended.
    pub(crate) fn end_all(&self, all_ended: impl Fn() -> bool) {
        self.end();
        // Waking the threads once is not enough, because a thread that is about to sleep would not be woken.
        while !all_ended() {
            self.interrupt_all();
            crate::pause::pause(INTERRUPT_AGAIN);
        }
    }

    pub(crate) fn goes_on(&self) -> bool {
        !self.ends.load(Ordering::Relaxed)
    }

    /// Returns `Break` if the run has ended.
    pub(crate) fn check(&self) -> ControlFlow<()> {
        continue_if(self.goes_on())
    }

    pub(crate) fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    pub(crate) fn count_one(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts samples of the warm-up.
    pub(crate) fn discard(&self, samples: u64) {
        self.discarded.fetch_add(samples, Ordering::Relaxed);
    }

    /// Returns the number of samples that were discarded because they belong to the warm-up.
    pub(crate) fn discarded(&self) -> u64 {
        self.discarded.load(Ordering::Relaxed)
    }

    /// Returns the number of samples of all threads so far.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Ends the run because a sample with this deadline exceeded the limit. The first call
    /// marks the trace immediately; later calls do not change the recorded deadline.
    pub(crate) fn stop_at(&self, due: Instant) {
        let was_first = self.stopped_at_ns.compare_exchange(
            0,
            due.nanos_since(Instant::EPOCH).max(1),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if let (Ok(_), Some(trace)) = (was_first, &self.trace) {
            trace.mark(due);
        }
        self.end();
    }

    pub(crate) fn stopped_at_ns(&self) -> Option<u64> {
        Some(self.stopped_at_ns.load(Ordering::Relaxed)).filter(|&ns| ns > 0)
    }

    /// Returns a note if the run could not mark the kernel's trace.
    pub(crate) fn unmarked(&self) -> Option<String> {
        self.stopped_at_ns()?;
        let is_marked = self.trace.as_ref().is_some_and(|trace| trace.is_marked.load(Ordering::Relaxed));
        let unmarked = "cannot mark the kernel's trace: cannot write to /sys/kernel/tracing; this requires root and a mounted tracefs";
        (!is_marked).then(|| unmarked.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, thread, time::Duration};

    use hpt_core::Instant;

    use super::RunState;
    use crate::sampling::trace_marker::Trace;

    #[test]
    fn no_time_elapses_before_the_start() {
        let shared = RunState::new(None, 0);
        assert_eq!(shared.elapsed(), Duration::ZERO);
        let began = Instant::now();
        shared.begin(began);
        shared.begin(began + Duration::from_secs(3_600));
        thread::sleep(Duration::from_millis(1));
        assert!(shared.elapsed() >= Duration::from_millis(1));
    }

    #[test]
    fn the_first_excessive_latency_ends_the_run_and_marks_the_trace_at_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("it is there");
        for name in ["trace_marker", "tracing_on"] {
            fs::write(folder.path().join(name), "").expect("ours");
        }
        let shared = RunState::marking(Trace::open(folder.path()));
        assert_eq!((shared.goes_on(), shared.stopped_at_ns(), shared.unmarked()), (true, None, None));
        thread::scope(|scope| {
            let first = scope.spawn(|| shared.stop_at(Instant::from_nanos(7)));
            first.join().expect("no panic");
            assert_eq!(
                (read("trace_marker").as_str(), read("tracing_on").as_str()),
                ("hpt latency: limit exceeded at 7", "0")
            );
            scope.spawn(|| shared.stop_at(Instant::from_nanos(5)));
        });
        assert_eq!((shared.goes_on(), shared.stopped_at_ns(), shared.unmarked()), (false, Some(7), None));
        assert_eq!(read("trace_marker"), "hpt latency: limit exceeded at 7");
        let without = RunState::marking(Trace::open(&folder.path().join("not there")));
        without.stop_at(Instant::from_nanos(5));
        assert!(without.unmarked().is_some_and(|why| why.contains("requires root")));
    }
}
