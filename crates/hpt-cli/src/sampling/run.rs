//! What measurements share that may run for days: how long they run, who ends them, what is shown and kept meanwhile.
//! Measures nothing.

use std::{
    env,
    fs::{File, OpenOptions},
    io::{self, IsTerminal, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use clap::Args;
use hpt_core::{
    Instant,
    measure::{Rouser, Wake},
    sleep::WallOffset,
};

use crate::{
    context::Context,
    exit::Failure,
    output::{
        files::{self, Made, Patient},
        progress::Progress,
    },
};

/// Looks at Ctrl-C and at the clock come so often.
const LOOK: Duration = Duration::from_millis(50);
/// A thread that is to end, and may sleep, is roused so often.
const ROUSE_AGAIN: Duration = Duration::from_millis(5);
/// What was measured until then is kept so often.
const INTERIM: Duration = Duration::from_secs(60);
/// Samples that are not counted yet, while somebody reads the counts, or that are not written yet.
pub(crate) const BACKLOG: usize = 4_096;

/// Full vectors on their way to a file. Where more wait, it takes less than is measured.
const MOST_BATCHES: usize = 64;
/// Empty ones that a thread has at hand from the beginning.
const SPARE_VECTORS: usize = 4;
/// What is still to be written at the end has so long.
const LONGEST_FINISH: Duration = Duration::from_secs(10);

/// From one sample to the next.
pub(crate) fn period(text: &str) -> Result<Duration, String> {
    limited(text, Duration::from_micros(10), Duration::from_secs(3_600), "from 10us to 1h")
}

/// Any other time.
pub(crate) fn long(text: &str) -> Result<Duration, String> {
    limited(text, Duration::from_micros(1), Duration::from_secs(365 * 24 * 3_600), "from 1us to 365days")
}

fn limited(text: &str, least: Duration, most: Duration, limits: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 250us or 1h"))?;
    if (least..=most).contains(&time) { Ok(time) } else { Err(limits.to_owned()) }
}

/// How long a run takes.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Extent {
    /// From one sample to the next
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = period)]
    pub(crate) interval: Duration,
    /// Measure for so long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = long, conflicts_with = "count")]
    pub(crate) duration: Duration,
    /// Measure so many, on each CPU that is named, for as long as that takes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
}

impl Extent {
    /// When a thread is to end by itself.
    pub(crate) fn end(&self, start: Instant) -> Instant {
        if self.count.is_none() { start.saturating_add(self.duration) } else { Instant::from_nanoseconds(u64::MAX) }
    }
}

/// How far one thread is. A run begins with its first moment, which may be a time of day, and its length is told by CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stint {
    extent: Extent,
    end: Option<Instant>,
    count: u64,
}

impl Stint {
    pub(crate) const fn of(extent: Extent) -> Self {
        Self { extent, end: None, count: 0 }
    }

    /// When it began, told by the first sample alone, which was handed over `now`.
    pub(crate) fn begins(&mut self, sample: Wake, now: impl FnOnce() -> Instant) -> Option<Instant> {
        if self.end.is_some() {
            return None;
        }
        // Where the clock was set, nobody knows when the moment was due.
        let begins = if sample.clock_was_set { now() } else { sample.deadline };
        self.end = Some(self.extent.end(begins));
        Some(begins)
    }

    /// Counts a sample, and says whether there are more to come.
    pub(crate) fn goes_on_after(&mut self, wake: Wake) -> bool {
        self.count += 1;
        self.end.is_none_or(|end| wake.deadline < end) && self.extent.count.is_none_or(|wanted| self.count < wanted)
    }
}

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

/// The kernel's trace, opened before the run: a mark that comes late is behind what was in the way, or that is overwritten.
#[derive(Debug)]
struct Trace {
    marker: File,
    switch: File,
    is_marked: AtomicBool,
}

impl Trace {
    fn open(folder: &Path) -> Option<Self> {
        let open = |name: &str| OpenOptions::new().write(true).open(folder.join(name)).ok();
        Some(Self { marker: open("trace_marker")?, switch: open("tracing_on")?, is_marked: AtomicBool::new(false) })
    }

    /// A mark where it broke, and no more traces after it.
    fn mark(&self, due: Instant) {
        let text = format!("hpt latency: too late for {}", due.as_nanoseconds());
        let marked = (&self.marker).write_all(text.as_bytes()).and_then(|()| (&self.switch).write_all(b"0"));
        self.is_marked.store(marked.is_ok(), Ordering::Relaxed);
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

/// Samples on their way into counts that somebody else reads: the thread that measures does not wait for that.
#[derive(Debug)]
pub(crate) struct Backlog<'a, C, S> {
    counts: &'a Mutex<C>,
    record: fn(&mut C, S),
    waiting: Vec<S>,
}

impl<'a, C, S> Backlog<'a, C, S> {
    pub(crate) fn new(counts: &'a Mutex<C>, record: fn(&mut C, S)) -> Self {
        Self { counts, record, waiting: Vec::with_capacity(BACKLOG) }
    }

    pub(crate) fn add(&mut self, sample: S) {
        self.waiting.push(sample);
        // Somebody copies the counts: this one can wait.
        if let Ok(mut counts) = self.counts.try_lock() {
            self.waiting.drain(..).for_each(|sample| (self.record)(&mut counts, sample));
        } else if self.waiting.len() == BACKLOG {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.drain(..).for_each(|sample| (self.record)(&mut counts, sample));
    }
}

impl<C, S> Drop for Backlog<'_, C, S> {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Refuses to write two things into one file.
pub(crate) fn distinct<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<(), Failure> {
    let mut seen = Vec::new();
    for path in paths {
        let path =
            std::fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned());
        let is_device = std::fs::metadata(&path).is_ok_and(|what| !what.is_file());
        if seen.contains(&path) && !is_device {
            return Err(Failure::Usage("--raw and --write, or two of --write, name the same file"));
        }
        seen.push(path);
    }
    Ok(())
}

/// Every sample, written by a thread of its own: the one that measures hands full vectors over, and gets empty ones back.
#[derive(Debug)]
pub(crate) struct Raw<S> {
    batches: mpsc::SyncSender<Batch<S>>,
    dropped: Arc<AtomicU64>,
    writer: thread::JoinHandle<io::Result<()>>,
    path: PathBuf,
    made: Made,
}

/// Samples of one thread, and where to send the empty vector.
#[derive(Debug)]
struct Batch<S> {
    cpu: Option<usize>,
    samples: Vec<S>,
    back: mpsc::Sender<Vec<S>>,
}

/// What is written of a sample, behind the number of the CPU.
pub(crate) trait RawSample: Send + 'static {
    fn text(&self) -> String;
}

impl RawSample for Wake {
    fn text(&self) -> String {
        format!("{} {}", self.deadline.as_nanoseconds(), self.late_ns)
    }
}

/// The samples of one thread on their way there.
#[derive(Debug)]
pub(crate) struct RawLines<S: RawSample> {
    cpu: Option<usize>,
    gathered: Vec<S>,
    batches: mpsc::SyncSender<Batch<S>>,
    dropped: Arc<AtomicU64>,
    back: (mpsc::Sender<Vec<S>>, mpsc::Receiver<Vec<S>>),
}

impl<S: RawSample> Raw<S> {
    /// Opens the file, and refuses one that takes nothing: a pipe that nobody reads. What stands in it is left alone until samples come.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let failed = |cause| Failure::Write { path: path.to_owned(), cause };
        // Without waiting: opening a pipe to write would wait for a program that reads it, and no signal would end that.
        let (file, made) = files::open(path).map_err(failed)?;
        let mut file = Patient::new(file, Duration::MAX);
        let (batches, filled) = mpsc::sync_channel::<Batch<S>>(MOST_BATCHES);
        let writer = thread::Builder::new().spawn(move || {
            let mut is_empty = false;
            for Batch { cpu, mut samples, back } in filled {
                if !std::mem::replace(&mut is_empty, true) && file.file().metadata()?.is_file() {
                    file.file().set_len(0)?;
                }
                let cpu = cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
                let text: String = samples.drain(..).map(|sample| format!("{cpu} {}\n", sample.text())).collect();
                // A thread that has ended takes nothing back.
                let _ = back.send(samples);
                file.write_all(text.as_bytes())?;
            }
            let about = file.file().metadata()?;
            if about.is_file() && about.nlink() == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::NotFound,
                    "it was removed during the run, and the samples with it",
                ));
            }
            Ok(())
        });
        let writer = writer.map_err(Failure::NoThread)?;
        Ok(Self { batches, dropped: Arc::default(), writer, path: path.to_owned(), made })
    }

    pub(crate) fn of_thread(&self, cpu: Option<usize>) -> RawLines<S> {
        let back = mpsc::channel();
        for _ in 0..SPARE_VECTORS {
            let _ = back.0.send(Vec::with_capacity(BACKLOG));
        }
        let (batches, dropped) = (self.batches.clone(), Arc::clone(&self.dropped));
        RawLines { cpu, gathered: Vec::with_capacity(BACKLOG), batches, dropped, back }
    }

    /// Waits for what is still to be written, but not for ever: the result is to be printed, whoever does not read.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let Self { batches, dropped, writer, path, made } = self;
        made.keep();
        drop(batches);
        let begun = Instant::now();
        while !writer.is_finished() {
            if begun.elapsed() > LONGEST_FINISH {
                return Err(Failure::Unwritten { path });
            }
            thread::sleep(Duration::from_millis(5));
        }
        match (writer.join().expect("the writer does not panic"), dropped.load(Ordering::Relaxed)) {
            (Err(cause), _) => Err(Failure::Write { path, cause }),
            (Ok(()), 0) => Ok(()),
            (Ok(()), samples) => Err(Failure::Dropped { path, samples }),
        }
    }
}

impl<S: RawSample> RawLines<S> {
    pub(crate) fn add(&mut self, sample: S) {
        self.gathered.push(sample);
        if self.gathered.len() == BACKLOG {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let empty = self.back.1.try_recv().unwrap_or_else(|_| Vec::with_capacity(BACKLOG));
        let samples = std::mem::replace(&mut self.gathered, empty);
        let count = samples.len() as u64;
        match self.batches.try_send(Batch { cpu: self.cpu, samples, back: self.back.0.clone() }) {
            // A writer that failed says so at the end.
            Ok(()) | Err(mpsc::TrySendError::Disconnected(_)) => {}
            Err(mpsc::TrySendError::Full(batch)) => {
                self.dropped.fetch_add(count, Ordering::Relaxed);
                let mut samples = batch.samples;
                samples.clear();
                let _ = self.back.0.send(samples);
            }
        }
    }
}

impl<S: RawSample> Drop for RawLines<S> {
    fn drop(&mut self) {
        self.hand_over();
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Mutex, thread, time::Duration};

    use hpt_core::{Instant, measure::Wake};

    use super::{BACKLOG, Backlog, Extent, Shared, Stint, Trace, long, period};

    #[test]
    fn times_are_read_or_refused() {
        assert_eq!((period("10us"), long("18h")), (Ok(Duration::from_micros(10)), Ok(Duration::from_secs(18 * 3_600))));
        assert!(["1us", "2h", "1"].iter().all(|wrong| period(wrong).is_err()) && long("2years").is_err());
    }

    #[test]
    fn samples_wait_while_somebody_reads_the_counts_and_none_is_lost() {
        let counts = Mutex::new(Vec::new());
        let mut backlog = Backlog::new(&counts, |counts: &mut Vec<usize>, sample| counts.push(sample));
        backlog.add(0);
        assert_eq!(*counts.lock().expect("nobody panicked"), [0]);
        {
            let reading = counts.lock().expect("nobody panicked");
            (1..BACKLOG).for_each(|sample| backlog.add(sample));
            assert_eq!(*reading, [0]);
        }
        drop(backlog);
        assert!(counts.lock().expect("nobody panicked").iter().copied().eq(0..BACKLOG));
    }

    #[test]
    fn a_run_begins_with_its_first_moment_and_is_as_long_as_it_is() {
        let at_s = |seconds: u64| Instant::from_nanoseconds(seconds * 1_000_000_000);
        let wake = |due_s: u64| Wake::new(at_s(due_s), 1_000);
        let extent = Extent { interval: Duration::from_secs(1), duration: Duration::from_secs(3), count: None };
        // Hours later than when it was asked for, or earlier: what the wall clock showed meanwhile does not matter.
        for first_s in [5, 50_000] {
            let mut stint = Stint::of(extent);
            assert_eq!(stint.begins(wake(first_s), || at_s(first_s)), Some(at_s(first_s)));
            assert_eq!(stint.begins(wake(first_s + 1), || at_s(first_s + 1)), None);
            let goes_on = [0, 1, 2, 3].map(|since_s| stint.goes_on_after(wake(first_s + since_s)));
            assert_eq!(goes_on, [true, true, true, false]);
        }
        // Set beyond the beginning: due an hour ago, as the clock has it, and begun now.
        let mut stint = Stint::of(extent);
        let mut first = Wake::new(at_s(100), 3_600_000_000_000);
        first.clock_was_set = true;
        assert_eq!(stint.begins(first, || at_s(3_700)), Some(at_s(3_700)));
        assert!(stint.goes_on_after(first) && stint.goes_on_after(wake(3_701)) && !stint.goes_on_after(wake(3_703)));
        let mut counted = Stint::of(Extent { count: Some(2), ..extent });
        counted.begins(wake(5), || at_s(5));
        assert!(counted.goes_on_after(wake(5)) && !counted.goes_on_after(wake(1_000)));
    }

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
