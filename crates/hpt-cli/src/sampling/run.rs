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
    finished::{Finished, ResultDocument},
    live_lines::{LiveLines, Snapshot},
    observers::{Observation, Observers},
    raw_samples::{Raw, RawSample},
    realtime_settings::{EffectiveSettings, SettingsGuard},
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
    output::{
        self, Block, Document, latency_files::ThreadLatencies, message, metrics::gauge::Gauge, progress::Progress,
        rounded, saturating_nanos,
    },
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

/// A measurement with one or several threads: how a thread takes samples, the document with their rows, and its page.
pub(crate) trait Probe: Sync {
    /// A sample, as a line of a file.
    type Sample: RawSample;
    /// The value that a thread returns at its end.
    type Outcome: Send;
    type Data: ResultDocument;

    /// The remark on what is known only at the end of the run, if anything is.
    const LATER: Option<&'static str> = None;

    /// Takes samples on the calling thread until the run ends.
    fn sample(&self, thread: RunThread<'_, Self::Sample>) -> Result<Self::Outcome, Failure>;

    /// Returns the results of each thread so far, for the lines on a terminal.
    fn snapshots(&self) -> Vec<Snapshot>;

    /// Returns the counts of each thread; `None` if a thread does not respond.
    fn counts(&self) -> Option<Vec<ThreadLatencies>>;

    /// Returns the metrics of a run that continues.
    fn gauges(&self, counts: &[ThreadLatencies]) -> Vec<Gauge>;

    /// Returns the outcome of each thread if it ended now; `None` if a thread has not begun, or does not respond.
    fn outcomes_so_far(&self) -> Option<Vec<Self::Outcome>>;

    /// Returns the settings of a thread, as the kernel reported them.
    fn settings(outcome: &Self::Outcome) -> &EffectiveSettings;

    /// Restores what the measurement itself changed. Returns warnings, one for each failure.
    fn restore(&mut self, outcomes: &[Self::Outcome]) -> Vec<String>;

    /// Returns the document, at the end of the run or before.
    fn row(&self, run: &Run<'_, Self::Sample>, outcomes: &[Self::Outcome], state: RunReport) -> Self::Data;

    fn page(&self, data: &Self::Data, outcomes: &[Self::Outcome]) -> Vec<Block>;
}

/// The state of a run that its document describes.
pub(crate) struct RunReport {
    pub(crate) settings: EffectiveSettings,
    /// Warnings, or remarks on the state of the run.
    pub(crate) remarks: Vec<String>,
    pub(crate) elapsed: Duration,
}

/// A measuring thread of a run.
pub(crate) struct RunThread<'a, S: RawSample> {
    /// The place of the thread among all threads.
    pub(crate) number: usize,
    pub(crate) shared: &'a RunState,
    /// The file to which all samples are written.
    pub(crate) raw: Option<&'a Raw<S>>,
    pub(crate) observers: &'a Observers<'a>,
}

/// The properties that distinguish a run from those of other measurements.
pub(crate) struct RunSettings<'a, S: RawSample> {
    /// The kind of its document.
    pub(crate) kind: &'static str,
    pub(crate) observation: Observation<'a>,
    pub(crate) run_length: RunLength,
    pub(crate) warm_up: WarmUpOption,
    pub(crate) attention: Attention,
    /// The number of threads that sleep, and must be woken at the end.
    pub(crate) sleepers: usize,
    pub(crate) keeping: &'a ResultOptions,
    pub(crate) raw: Option<Raw<S>>,
    /// The settings of the system, which are restored at the end.
    pub(crate) whole: Option<SettingsGuard>,
}

/// Makes a measurement: runs its threads to their end, and returns its document, its answer and its page.
pub(crate) fn run<P: Probe>(
    mut probe: P,
    mut settings: RunSettings<'_, P::Sample>,
    context: &Context,
) -> Result<Finished<P::Data>, Failure> {
    let cpus = settings.observation.cpus;
    let whole = settings.whole.take();
    let of_whole = whole.as_ref().map(SettingsGuard::settings);
    let in_effect = |outcomes: &[P::Outcome]| {
        let of_threads: Vec<EffectiveSettings> = outcomes.iter().map(P::settings).cloned().collect();
        let whole = of_whole.as_ref().or(of_threads.first()).cloned().expect("a run has a thread");
        EffectiveSettings::of_several(&whole, of_threads)
    };
    let observers = Observers::begin(context, &settings.observation);
    let mut run = Run::new(settings, context);
    let outcomes = {
        let live = LiveLines::of(cpus, || probe.snapshots());
        let works = (0..cpus.len()).map(|number| {
            let (probe, shared, raw, observers) = (&probe, &run.shared, run.raw.as_ref(), &observers);
            move || probe.sample(RunThread { number, shared, raw, observers })
        });
        let write = || {
            if run.files.are_none() {
                return Ok(());
            }
            // The existing file, from a minute earlier or from the previous run, is more useful than incomplete counts.
            let Some(counts) = probe.counts() else { return Ok(()) };
            run.files.keep_metrics(&run.head, probe.gauges(&counts))?;
            run.files.write(&counts)
        };
        let so_far = || {
            let outcomes = probe.outcomes_so_far().filter(|outcomes| !outcomes.is_empty())?;
            let state = RunReport {
                settings: in_effect(&outcomes),
                remarks: [SO_FAR].into_iter().chain(P::LATER).map(str::to_owned).collect(),
                elapsed: run.shared.elapsed(),
            };
            let data = probe.row(&run, &outcomes, state);
            let blocks = probe.page(&data, &outcomes);
            Some(Document::new(data, blocks))
        };
        let during = Meanwhile { live: live.as_ref(), write: &write, so_far: &so_far };
        run.measure(works, P::Data::SAMPLES.1, &during)?
    };
    let (elapsed, settings) = (run.shared.elapsed(), in_effect(&outcomes));
    let observed = observers.end(Some(&settings));
    let mut warnings = whole.map(SettingsGuard::end).unwrap_or_default();
    warnings.extend(probe.restore(&outcomes));
    warnings.extend(run.finish(&probe.counts().unwrap_or_default()));
    let data = probe.row(&run, &outcomes, RunReport { settings, remarks: warnings.clone(), elapsed });
    Ok(Finished::new(data, warnings, observed, |data| probe.page(data, &outcomes)))
}

/// A run, from its first thread to its last file.
pub(crate) struct Run<'a, S: RawSample> {
    context: &'a Context,
    /// The first keys of the document.
    pub(crate) head: Head,
    run_length: RunLength,
    warm_up: WarmUpOption,
    attention: Attention,
    files: ResultFiles<'a>,
    raw: Option<Raw<S>>,
    pub(crate) shared: RunState,
}

/// The work of the supervising thread during the run.
struct Meanwhile<'a> {
    /// The lines that a terminal shows during the run.
    live: Option<&'a LiveLines<'a>>,
    /// Writes the current results.
    write: &'a dyn Fn() -> Result<(), Failure>,
    /// Returns the current result, which SIGUSR1 asks for.
    so_far: &'a dyn Fn() -> Option<Document>,
}

impl<'a, S: RawSample> Run<'a, S> {
    /// Creates a run that starts now.
    fn new(settings: RunSettings<'a, S>, context: &'a Context) -> Self {
        let RunSettings { kind, run_length, warm_up, attention, sleepers, keeping, raw, .. } = settings;
        let (head, files, shared) = (head_of(kind, &context.host), keeping.files(context), keeping.shared(sleepers));
        Self { context, head, run_length, warm_up, attention, files, raw, shared }
    }

    /// Runs each of `works` on a separate thread, and returns their results when all have ended.
    ///
    /// If a thread fails, the other threads are ended, because the measurement would be incomplete. `what` is the name
    /// of the samples on the progress bar.
    fn measure<W, T>(
        &self,
        works: impl IntoIterator<Item = W>,
        what: &str,
        meanwhile: &Meanwhile<'_>,
    ) -> Result<Vec<T>, Failure>
    where
        W: FnOnce() -> Result<T, Failure> + Send,
        T: Send,
    {
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
            let live = meanwhile.live.map(|live| live.cpu);
            let _spared = self.attention.cpu().or(live).and_then(|cpu| Pinned::new(cpu).ok());
            let progress = Progress::new(1_000, self.expected());
            progress.name(what);
            self.watch(&members, &ended, &progress, meanwhile);
            if self.attention == Attention::Constant {
                self.shared.end_all(|| members.iter().all(Member::is_finished));
            }
            members.into_iter().map(Member::join).collect()
        })
    }

    fn expected(&self) -> Duration {
        if self.attention == Attention::Constant { self.run_length.expected() } else { self.run_length.duration() }
    }

    /// Shows the progress, writes the current results every minute, and returns when the run should end.
    fn watch<T>(
        &self,
        members: &[Member<'_, T>],
        ended: &mpsc::Receiver<()>,
        progress: &Progress,
        meanwhile: &Meanwhile<'_>,
    ) {
        let mut course = meanwhile.live.filter(|_| progress.is_visible()).map(LiveLines::course);
        let pace = if io::stderr().is_terminal() { LOOK * 10 } else { INTERIM };
        // On a CPU on which nothing is measured, waking up for a request disturbs no thread.
        let pace = if self.attention.cpu().is_some() { pace.min(REQUESTS) } else { pace };
        let (mut left, mut offset, mut written) = (members.len(), WallOffset::now(), Instant::now());
        while !self.is_over(members, left) {
            let elapsed = self.shared.elapsed();
            progress.at_fraction(self.run_length.fraction(self.shared.done(), members.len(), elapsed));
            if let Some(lines) = course.as_mut().and_then(|course| course.update(progress.room())) {
                progress.show_lines(&lines);
            }
            if written.elapsed() >= INTERIM {
                written = Instant::now();
                // If this write fails, the final write also fails and reports the error.
                let _ = (meanwhile.write)();
            }
            answer_request(self.context, meanwhile.so_far);
            match self.attention {
                Attention::Constant => {
                    let now = WallOffset::now();
                    if std::mem::replace(&mut offset, now).differs_from(now) {
                        self.shared.interrupt_all();
                    }
                    let left = self.run_length.left(elapsed).unwrap_or(LOOK);
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

    /// Returns whether the run should end. `left` is the number of threads that have not announced their end.
    fn is_over<T>(&self, members: &[Member<'_, T>], left: usize) -> bool {
        match self.attention {
            Attention::Constant => {
                let is_long_enough = self.run_length.left(self.shared.elapsed()) == Some(Duration::ZERO);
                let has_ended = is_long_enough || members.iter().all(Member::is_finished);
                has_ended || self.context.interrupted() || !self.shared.goes_on()
            }
            Attention::Rare { .. } => left == 0,
        }
    }

    /// Returns the start time and the duration as document fields.
    pub(crate) fn time(&self, elapsed: Duration) -> LatencyRunTime {
        LatencyRunTime {
            started_at: self.files.began(),
            elapsed_s: rounded(elapsed.as_secs_f64()),
            warm_up_ns: saturating_nanos(self.warm_up.length()),
            warm_up_samples: self.shared.discarded(),
        }
    }

    /// Returns notes on the run itself: a trace that was not marked, and samples that were discarded.
    pub(crate) fn notes(&self, samples: (&str, &str)) -> Vec<String> {
        self.shared.unmarked().into_iter().chain(self.warm_up.note(self.shared.discarded(), samples)).collect()
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
    fn finish(&mut self, threads: &[ThreadLatencies]) -> Vec<String> {
        self.files.finish(self.raw.take(), threads)
    }
}
