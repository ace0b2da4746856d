//! One run of a measurement with a thread on each CPU. The threads start together and are supervised until they end.
//! The run also writes the result files. The caller provides the measurement.

use std::{
    io::{self, IsTerminal},
    sync::mpsc,
    thread,
    time::Duration,
};

use hpt_core::{Instant, sleep::WallOffset};
use hpt_document::{
    cpu_absence::CpuAbsence,
    head::Head,
    latency::{LatencyRunEnd, LatencyRunTime},
};
use hpt_realtime::Pinned;

use super::{
    live_lines::LiveLines,
    raw_samples::{Raw, RawSample},
    result_files::{ResultFiles, ResultOptions},
    run_length::RunLength,
    run_state::RunState,
    thread_group::{self, Member},
    warm_up::WarmUpOption,
};
use crate::{
    context::Context,
    document_head::head_of,
    exit::Failure,
    output::{self, Document, latency_files::ThreadLatencies, message, progress::Progress, rounded, saturating_nanos},
};

/// The interval at which the supervising thread checks for Ctrl-C and reads the clock.
const LOOK: Duration = Duration::from_millis(50);
/// The interval at which results are written during a run.
const INTERIM: Duration = Duration::from_secs(60);

/// The interval at which a supervising thread with a CPU of its own checks for requests.
const REQUESTS: Duration = Duration::from_secs(1);
/// The note in a result that SIGUSR1 asked for.
pub(crate) const SO_FAR: &str = "this is the result so far (SIGUSR1); the run continues";

/// Prints the result so far if SIGUSR1 has asked for it. A thread that measures calls this function only between samples.
pub(crate) fn answer_request(context: &Context, so_far: impl FnOnce() -> Option<Document>) {
    if !context.signals.take_request() {
        return;
    }
    match so_far() {
        Some(document) => output::print_so_far(document, context.format_of_request()),
        None => message::note("SIGUSR1: there is no result yet"),
    }
}

/// The frequency with which the calling thread checks the other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attention {
    /// The calling thread checks for Ctrl-C and reads the clock every 50 ms, and ends the run. If the clock
    /// is set, the calling thread wakes the threads that sleep until a time of day.
    Constant,
    /// The calling thread sleeps until another thread ends, but for at most a minute, or half a second on a
    /// terminal. It wakes up rarely, because each wake-up may disturb the other threads. The other threads
    /// check for Ctrl-C and read the clock themselves. The calling thread stays on `cpu`, if given.
    Rare { cpu: Option<usize> },
}

impl Attention {
    const fn cpu(self) -> Option<usize> {
        match self {
            Self::Constant => None,
            Self::Rare { cpu } => cpu,
        }
    }
}

/// A run, from its first thread to its last file.
pub(crate) struct Run<'a, S: RawSample> {
    context: &'a Context,
    /// The first keys of the document.
    pub(crate) head: Head,
    pub(crate) files: ResultFiles<'a>,
    raw: Option<Raw<S>>,
    pub(crate) shared: RunState,
    /// The lines that a terminal shows during the run.
    pub(crate) live: Option<LiveLines<'a>>,
}

impl<'a, S: RawSample> Run<'a, S> {
    /// Creates a run that starts now, with a document of this kind. `sleepers` is the number of threads
    /// that sleep and must be woken at the end of the run.
    pub(crate) fn new(
        kind: &'static str,
        context: &'a Context,
        (keeping, raw): (&'a ResultOptions, Option<Raw<S>>),
        sleepers: usize,
    ) -> Self {
        let (head, files, shared) = (head_of(kind, &context.host), keeping.files(context), keeping.shared(sleepers));
        Self { context, head, files, raw, shared, live: None }
    }

    /// Returns the file to which all samples are written.
    pub(crate) const fn raw(&self) -> Option<&Raw<S>> {
        self.raw.as_ref()
    }

    /// Runs each of `works` on a separate thread, and returns their results when all have ended.
    ///
    /// If a thread fails, the other threads are ended, because the measurement would be incomplete. `write`
    /// writes the current results every minute. `so_far` returns the current result, which SIGUSR1 asks for. `what` is
    /// the name of the samples on the progress bar.
    pub(crate) fn measure<W, T>(
        &self,
        (run_length, what, attention): (RunLength, &str, Attention),
        works: impl IntoIterator<Item = W>,
        write: impl Fn() -> Result<(), Failure>,
        so_far: impl Fn() -> Option<Document>,
    ) -> Result<Vec<T>, Failure>
    where
        W: FnOnce() -> Result<T, Failure> + Send,
        T: Send,
    {
        let started = Instant::now();
        let (tell, ended) = mpsc::channel();
        thread::scope(|scope| {
            let works = works.into_iter().map(|work| {
                let (tell, shared) = (tell.clone(), &self.shared);
                move || {
                    let outcome = work().inspect_err(|_| shared.end());
                    let _ = tell.send(());
                    outcome
                }
            });
            let members = thread_group::begin_together(scope, works)?;
            drop(tell);
            // This thread also draws, so it stays away from the measured CPUs.
            let live = self.live.as_ref().map(|live| live.cpu);
            let _spared = attention.cpu().or(live).and_then(|cpu| Pinned::new(cpu).ok());
            self.watch((run_length, what, attention), (&members, started), &ended, (write, so_far));
            if attention == Attention::Constant {
                self.shared.end_all(|| members.iter().all(Member::is_finished));
            }
            members.into_iter().map(Member::join).collect()
        })
    }

    /// Shows the progress, writes the current results every minute, and returns when the run should end.
    fn watch<T>(
        &self,
        (run_length, what, attention): (RunLength, &str, Attention),
        (members, mut written): (&[Member<'_, T>], Instant),
        ended: &mpsc::Receiver<()>,
        (write, so_far): (impl Fn() -> Result<(), Failure>, impl Fn() -> Option<Document>),
    ) {
        let expected = if attention == Attention::Constant { run_length.expected() } else { run_length.duration() };
        let progress = Progress::new(1_000, expected);
        progress.name(what);
        let mut course = self.live.as_ref().filter(|_| progress.is_visible()).map(LiveLines::course);
        let pace = if io::stderr().is_terminal() { LOOK * 10 } else { INTERIM };
        // On a CPU on which nothing is measured, waking up for a request disturbs no thread.
        let pace = if attention.cpu().is_some() { pace.min(REQUESTS) } else { pace };
        let (mut left, mut offset) = (members.len(), WallOffset::now());
        loop {
            let elapsed = self.shared.elapsed();
            let is_over = match attention {
                Attention::Constant => {
                    let is_long_enough = run_length.count.is_none() && elapsed >= run_length.duration();
                    let has_ended = is_long_enough || members.iter().all(Member::is_finished);
                    has_ended || self.context.interrupted() || !self.shared.goes_on()
                }
                Attention::Rare { .. } => left == 0,
            };
            if is_over {
                return;
            }
            progress.at_fraction(run_length.fraction(self.shared.done(), members.len(), elapsed));
            if let Some(lines) = course.as_mut().and_then(|course| course.update(progress.room())) {
                progress.show_lines(&lines);
            }
            if written.elapsed() >= INTERIM {
                written = Instant::now();
                // If this write fails, the final write also fails and reports the error.
                let _ = write();
            }
            answer_request(self.context, &so_far);
            match attention {
                Attention::Constant => {
                    let now = WallOffset::now();
                    if std::mem::replace(&mut offset, now).differs_from(now) {
                        self.shared.interrupt_all();
                    }
                    let left =
                        if run_length.count.is_none() { run_length.duration().saturating_sub(elapsed) } else { LOOK };
                    crate::pause::pause(LOOK.min(left));
                }
                Attention::Rare { .. } => match ended.recv_timeout(pace) {
                    Ok(()) => left -= 1,
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                    Err(mpsc::RecvTimeoutError::Disconnected) => return,
                },
            }
        }
    }

    /// Returns the start time and the duration as document fields.
    pub(crate) fn time(&self, elapsed: Duration, warm_up: WarmUpOption) -> LatencyRunTime {
        LatencyRunTime {
            started_at: self.files.began(),
            elapsed_s: rounded(elapsed.as_secs_f64()),
            warm_up_ns: saturating_nanos(warm_up.length()),
            warm_up_samples: self.shared.discarded(),
        }
    }

    /// Returns, as document fields, how the run ended.
    pub(crate) fn end(&self, absences: Vec<CpuAbsence>) -> LatencyRunEnd {
        LatencyRunEnd {
            stopped_at_ns: self.shared.stopped_at_ns(),
            interrupted: self.context.interrupted(),
            cpu_absences: absences,
        }
    }

    /// Writes all files for the last time. Returns a message for each failure; the result is printed nevertheless.
    pub(crate) fn finish(&mut self, threads: &[ThreadLatencies]) -> Vec<String> {
        self.files.finish(self.raw.take(), threads)
    }
}
