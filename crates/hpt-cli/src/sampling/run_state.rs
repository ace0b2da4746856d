//! What the threads of a run share with the one that watches them: when it began and ends, and how
//! far it is.
//! Measures nothing.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use hpt_core::{Instant, measure::Rouser};

use super::trace_marker::Trace;

/// A thread that is to end, and may sleep, is roused so often.
const ROUSE_AGAIN: Duration = Duration::from_millis(5);

/// What the threads of a run share with the one that watches.
#[derive(Debug, Default)]
pub(crate) struct RunState {
    ends: AtomicBool,
    done: AtomicU64,
    /// When the first thread began to measure, in nanoseconds; zero before.
    began_ns: AtomicU64,
    /// One for each thread, which may sleep for long.
    rousers: Vec<Rouser>,
    /// The moment of the sample that was too late, in nanoseconds; zero as long as none was.
    broke_at_ns: AtomicU64,
    /// Where a mark is wanted and can be left.
    trace: Option<Trace>,
}

impl RunState {
    /// What may end by a sample later than this, and has so many threads that sleep.
    pub(crate) fn new(break_above: Option<Duration>, sleepers: usize) -> Self {
        let trace = break_above.and_then(|_| Trace::open(Path::new("/sys/kernel/tracing")));
        Self { rousers: (0..sleepers).map(|_| Rouser::default()).collect(), ..Self::marking(trace) }
    }

    fn marking(trace: Option<Trace>) -> Self {
        Self { trace, ..Self::default() }
    }

    /// What rouses one of the threads that sleep.
    pub(crate) fn rouser(&self, thread: usize) -> &Rouser {
        &self.rousers[thread]
    }

    /// Wakes the threads that sleep.
    pub(super) fn rouse(&self) {
        self.rousers.iter().for_each(Rouser::rouse);
    }

    /// A thread begins to measure; the first one counts.
    pub(crate) fn begin(&self, when: Instant) {
        let _ = self.began_ns.compare_exchange(0, when.as_nanoseconds().max(1), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// How long it has been measured.
    pub(crate) fn elapsed(&self) -> Duration {
        match self.began_ns.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            began_ns => Instant::from_nanoseconds(began_ns).elapsed(),
        }
    }

    /// Ends the run, and comes back when all threads have ended.
    pub(crate) fn end_all(&self, all_ended: impl Fn() -> bool) {
        self.end();
        // Once is not enough: who is about to sleep is not roused.
        while !all_ended() {
            self.rouse();
            thread::sleep(ROUSE_AGAIN);
        }
    }

    pub(crate) fn goes_on(&self) -> bool {
        !self.ends.load(Ordering::Relaxed)
    }

    pub(crate) fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    pub(crate) fn count_one(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of samples of all threads until now.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Ends the run by a sample that was too late, and was due then; the first one counts, and marks the trace right here.
    pub(crate) fn break_at(&self, due: Instant) {
        let was_first =
            self.broke_at_ns.compare_exchange(0, due.as_nanoseconds().max(1), Ordering::Relaxed, Ordering::Relaxed);
        if let (Ok(_), Some(trace)) = (was_first, &self.trace) {
            trace.mark(due);
        }
        self.end();
    }

    pub(crate) fn broke_at_ns(&self) -> Option<u64> {
        Some(self.broke_at_ns.load(Ordering::Relaxed)).filter(|&ns| ns > 0)
    }

    /// What is to be said where a run was to leave a mark in the kernel's trace, and could not.
    pub(crate) fn unmarked(&self) -> Option<String> {
        self.broke_at_ns()?;
        let is_marked = self.trace.as_ref().is_some_and(|trace| trace.is_marked.load(Ordering::Relaxed));
        let unmarked = "no mark was left in the kernel's trace: /sys/kernel/tracing cannot be written; it takes root, and tracefs mounted";
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
    fn nothing_has_passed_before_it_begins() {
        let shared = RunState::new(None, 0);
        assert_eq!(shared.elapsed(), Duration::ZERO);
        let began = Instant::now();
        shared.begin(began);
        shared.begin(began + Duration::from_secs(3_600));
        thread::sleep(Duration::from_millis(1));
        assert!(shared.elapsed() >= Duration::from_millis(1));
    }

    #[test]
    fn the_first_that_was_too_late_ends_it_and_marks_the_trace_at_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("it is there");
        for name in ["trace_marker", "tracing_on"] {
            fs::write(folder.path().join(name), "").expect("ours");
        }
        let shared = RunState::marking(Trace::open(folder.path()));
        assert_eq!((shared.goes_on(), shared.broke_at_ns(), shared.unmarked()), (true, None, None));
        thread::scope(|scope| {
            let first = scope.spawn(|| shared.break_at(Instant::from_nanoseconds(7)));
            first.join().expect("no panic");
            assert_eq!(
                (read("trace_marker").as_str(), read("tracing_on").as_str()),
                ("hpt latency: too late for 7", "0")
            );
            scope.spawn(|| shared.break_at(Instant::from_nanoseconds(5)));
        });
        assert_eq!((shared.goes_on(), shared.broke_at_ns(), shared.unmarked()), (false, Some(7), None));
        assert_eq!(read("trace_marker"), "hpt latency: too late for 7");
        let without = RunState::marking(Trace::open(&folder.path().join("not there")));
        without.break_at(Instant::from_nanoseconds(5));
        assert!(without.unmarked().is_some_and(|why| why.contains("takes root")));
    }
}
