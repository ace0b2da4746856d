//! Transfer of samples out of the measuring thread: into shared counts, and into a file with one line per sample. The
//! measuring thread never waits for the file, and waits for a reader of the counts only if its own backlog is full.

use std::{
    hint,
    io::{self, Write},
    mem::MaybeUninit,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use hpt_core::Instant;
use hpt_instrument::measure::Wake;

use crate::{
    exit::Failure,
    output::files::{self, CreatedFile, Patient, WriteError},
};

/// The number of samples that a thread can buffer while another thread reads the counts, or before it hands them over
/// to the writer.
pub(crate) const BACKLOG: usize = 4_096;

/// The maximum number of full vectors that wait to be written. If the writer is too slow, further vectors are dropped.
const MOST_BATCHES: usize = 64;
/// The number of empty vectors that a thread has at the start.
const SPARE_VECTORS: usize = 4;
/// The time limit for writing the remaining samples at the end.
const LONGEST_FINISH: Duration = Duration::from_secs(10);

/// Returns a vector whose memory was written once, so that no sample waits for a page fault.
fn empty_backlog<S>() -> Vec<S> {
    let mut samples = Vec::with_capacity(BACKLOG);
    samples.spare_capacity_mut().iter_mut().for_each(|place| *place = hint::black_box(MaybeUninit::zeroed()));
    samples
}

/// Samples to be added to counts that another thread reads. The measuring thread waits for the reader only if the
/// backlog is full.
#[derive(Debug)]
pub(crate) struct Backlog<'a, C, S> {
    counts: &'a Mutex<C>,
    record: fn(&mut C, S),
    waiting: Vec<S>,
}

impl<'a, C, S> Backlog<'a, C, S> {
    pub(crate) fn new(counts: &'a Mutex<C>, record: fn(&mut C, S)) -> Self {
        Self { counts, record, waiting: empty_backlog() }
    }

    pub(crate) fn add(&mut self, sample: S) {
        self.waiting.push(sample);
        // If another thread is copying the counts, the sample remains in the backlog.
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

/// Rejects paths that name the same file.
pub(crate) fn distinct<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<(), Failure> {
    let mut seen = Vec::new();
    for path in paths {
        let path =
            std::fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned());
        let is_device = std::fs::metadata(&path).is_ok_and(|what| !what.is_file());
        if seen.contains(&path) && !is_device {
            return Err(Failure::Usage("--raw and --write, or two --write options, name the same file"));
        }
        seen.push(path);
    }
    Ok(())
}

/// A file of all samples, written by a separate thread. Measuring threads hand over full vectors,
/// and receive empty ones.
#[derive(Debug)]
pub(crate) struct Raw<S> {
    batches: mpsc::SyncSender<Batch<S>>,
    dropped: Arc<AtomicU64>,
    writer: thread::JoinHandle<io::Result<()>>,
    path: PathBuf,
    made: CreatedFile,
}

/// Samples of one thread, and the channel that returns the empty vector.
#[derive(Debug)]
struct Batch<S> {
    cpu: Option<usize>,
    samples: Vec<S>,
    back: mpsc::Sender<Vec<S>>,
}

/// A sample that can be written to a file, on a line of its own.
pub(crate) trait RawSample: Send + 'static {
    /// The first line of the file, with its end; empty if there is none.
    const HEADER: &'static str = "";

    /// Returns the figures of the sample.
    fn text(&self) -> String;

    /// Returns the line of a sample that was taken on this CPU.
    fn line(&self, cpu: &str) -> String {
        format!("{cpu} {}\n", self.text())
    }
}

impl RawSample for Wake {
    fn text(&self) -> String {
        format!("{} {}", self.deadline.nanos_since(Instant::EPOCH), self.latency_ns)
    }
}

/// The samples of one thread that have not been handed over to the writer.
#[derive(Debug)]
pub(crate) struct RawLines<S: RawSample> {
    cpu: Option<usize>,
    gathered: Vec<S>,
    batches: mpsc::SyncSender<Batch<S>>,
    dropped: Arc<AtomicU64>,
    back: (mpsc::Sender<Vec<S>>, mpsc::Receiver<Vec<S>>),
}

impl<S: RawSample> Raw<S> {
    /// Opens the file. Fails for a pipe without a reader. An existing file keeps its content until the first samples
    /// are written.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let failed = |cause| Failure::Write(WriteError { path: path.to_owned(), cause });
        // The file is opened in non-blocking mode. Otherwise, opening a pipe would wait for a reader, and no signal
        // would end the wait.
        let (file, made) = files::open(path).map_err(failed)?;
        let mut file = Patient::new(file, Duration::MAX);
        let (batches, filled) = mpsc::sync_channel::<Batch<S>>(MOST_BATCHES);
        let writer = thread::Builder::new().name("raw-samples".to_owned()).spawn(move || {
            let mut is_empty = false;
            for Batch { cpu, mut samples, back } in filled {
                if !std::mem::replace(&mut is_empty, true) {
                    if file.file().metadata()?.is_file() {
                        file.file().set_len(0)?;
                    }
                    file.write_all(S::HEADER.as_bytes())?;
                }
                let cpu = cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
                let text: String = samples.drain(..).map(|sample| sample.line(&cpu)).collect();
                // This fails if the measuring thread has ended.
                let _ = back.send(samples);
                file.write_all(text.as_bytes())?;
            }
            let about = file.file().metadata()?;
            if about.is_file() && about.nlink() == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::NotFound,
                    "the file was removed during the run, together with the samples",
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
            let _ = back.0.send(empty_backlog());
        }
        let (batches, dropped) = (self.batches.clone(), Arc::clone(&self.dropped));
        RawLines { cpu, gathered: empty_backlog(), batches, dropped, back }
    }

    /// Waits until the remaining samples are written, with a time limit. The result is printed even if the reader of a
    /// pipe stalls.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let Self { batches, dropped, writer, path, made } = self;
        made.keep();
        drop(batches);
        let begun = Instant::now();
        while !writer.is_finished() {
            if begun.elapsed() > LONGEST_FINISH {
                return Err(Failure::Unwritten { path });
            }
            crate::pause::pause(Duration::from_millis(5));
        }
        match (writer.join().expect("the writer does not panic"), dropped.load(Ordering::Relaxed)) {
            (Err(cause), _) => Err(Failure::Write(WriteError { path, cause })),
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
        let empty = self.back.1.try_recv().unwrap_or_else(|_| empty_backlog());
        let samples = std::mem::replace(&mut self.gathered, empty);
        let count = samples.len() as u64;
        match self.batches.try_send(Batch { cpu: self.cpu, samples, back: self.back.0.clone() }) {
            // A writer that has failed reports its error at the end.
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
    use std::sync::Mutex;

    use super::{BACKLOG, Backlog};

    #[test]
    fn no_sample_is_lost_while_the_counts_are_read() {
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
}
