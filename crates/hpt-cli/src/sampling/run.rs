//! What the threads of a run share with the one that watches them, and what that one does until they end.
//! Measures nothing.

use std::{
    env,
    io::{self, IsTerminal},
    path::Path,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use hpt_core::{Instant, measure::Rouser, sleep::WallOffset};

use super::{extent::Extent, trace_marker::Trace};
use crate::{context::Context, exit::Failure, output::progress::Progress};

/// Looks at Ctrl-C and at the clock come so often.
const LOOK: Duration = Duration::from_millis(50);
/// A thread that is to end, and may sleep, is roused so often.
const ROUSE_AGAIN: Duration = Duration::from_millis(5);
/// What was measured until then is kept so often.
const INTERIM: Duration = Duration::from_secs(60);

/// What the threads of a run share with the one that watches.
#[derive(Debug, Default)]
pub(crate) struct Shared {
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

impl Shared {
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

    fn rouse(&self) {
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

/// The command line for files, on one line and in UTF-8 whatever it is.
pub(crate) fn command_line() -> String {
    let arguments: Vec<_> = env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    arguments.join(" ").replace(char::is_control, " ")
}

/// Shows how far the run is, keeps what was measured every minute, and comes back when it is to end. Threads that sleep until a time of day are roused when the clock is
/// set.
pub(crate) fn watch(
    (extent, threads, what): (Extent, usize, &str),
    context: &Context,
    shared: &Shared,
    all_ended: impl Fn() -> bool,
    write: impl Fn() -> Result<(), Failure>,
) {
    let expected = match extent.count {
        Some(count) => extent.interval.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX)),
        None => extent.duration,
    };
    let progress = Progress::new(1_000, expected);
    progress.name(what);
    let mut kept = Instant::now();
    let mut offset = WallOffset::now();
    loop {
        let elapsed = shared.elapsed();
        let is_over = extent.count.is_none() && elapsed >= extent.duration;
        if is_over || all_ended() || context.interrupted() || !shared.goes_on() {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
        let fraction = match extent.count {
            Some(count) => shared.done.load(Ordering::Relaxed) as f64 / (count as f64 * threads as f64),
            None => elapsed.as_secs_f64() / extent.duration.as_secs_f64(),
        };
        progress.at_fraction(fraction);
        if kept.elapsed() >= INTERIM {
            kept = Instant::now();
            // The last one tells of it.
            let _ = write();
        }
        let now = WallOffset::now();
        if std::mem::replace(&mut offset, now).differs_from(now) {
            shared.rouse();
        }
        let left = if extent.count.is_none() { extent.duration.saturating_sub(elapsed) } else { LOOK };
        thread::sleep(LOOK.min(left));
    }
}

/// The same for threads that every wake-up of another one may disturb: wakes up when one of them has ended, which it tells by `ended`, to keep what was measured,
/// and where a terminal shows how far it is. They look at Ctrl-C by themselves.
pub(crate) fn watch_without_disturbing(
    (extent, threads, what): (Extent, usize, &str),
    shared: &Shared,
    start: Instant,
    ended: &mpsc::Receiver<()>,
    write: impl Fn() -> Result<(), Failure>,
) {
    let progress = Progress::new(1_000, extent.duration);
    progress.name(what);
    let pace = if io::stderr().is_terminal() { LOOK * 10 } else { INTERIM };
    let (mut kept, mut left) = (start, threads);
    while left > 0 {
        match ended.recv_timeout(pace) {
            Ok(()) => left -= 1,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
        #[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
        let fraction = match extent.count {
            Some(count) => shared.done.load(Ordering::Relaxed) as f64 / (count as f64 * threads as f64),
            None => shared.elapsed().as_secs_f64() / extent.duration.as_secs_f64(),
        };
        progress.at_fraction(fraction);
        if kept.elapsed() >= INTERIM {
            kept = Instant::now();
            // The last one tells of it.
            let _ = write();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, thread, time::Duration};

    use hpt_core::Instant;

    use super::Shared;
    use crate::sampling::trace_marker::Trace;

    #[test]
    fn nothing_has_passed_before_it_begins() {
        let shared = Shared::new(None, 0);
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
        let shared = Shared::marking(Trace::open(folder.path()));
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
        let without = Shared::marking(Trace::open(&folder.path().join("not there")));
        without.break_at(Instant::from_nanoseconds(5));
        assert!(without.unmarked().is_some_and(|why| why.contains("takes root")));
    }
}
