//! One run of a measurement on a thread for each CPU: the threads start together, are watched until
//! they end, and their files are written.
//! Measures nothing: what a thread does is handed in.

use std::{
    io::{self, IsTerminal},
    sync::mpsc,
    thread,
    time::Duration,
};

use hpt_core::{Instant, realtime::Pinned, sleep::WallOffset};

use super::{
    raw_samples::{Raw, RawSample},
    result_files::{ResultFiles, ResultOptions},
    run_length::Extent,
    run_state::RunState,
    thread_group::{self, Member},
};
use crate::{
    context::Context,
    document_head::head_of,
    exit::Failure,
    output::{latency_files::ThreadLatencies, progress::Progress, rounded},
};
use hpt_document::{
    away::Away,
    head::Head,
    latency::{LatencyRunEnd, LatencyRunTime},
};

/// Interval at which the watching thread looks at Ctrl-C and at the clock.
const LOOK: Duration = Duration::from_millis(50);
/// Interval at which results are written during a run.
const INTERIM: Duration = Duration::from_secs(60);

/// How the calling thread watches the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attention {
    /// It looks at Ctrl-C and at the clock every 50 ms, and ends the run. When the clock is set, it
    /// wakes threads that sleep until a time of day.
    Constant,
    /// It sleeps until a thread ends, a minute at most or half a second on a terminal, because each
    /// of its wake-ups may disturb the others. They look at Ctrl-C and at the clock themselves. It
    /// stays on `cpu`, if there is one to spare.
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
    /// What the document begins with.
    pub(crate) head: Head,
    pub(crate) files: ResultFiles<'a>,
    raw: Option<Raw<S>>,
    pub(crate) shared: RunState,
}

impl<'a, S: RawSample> Run<'a, S> {
    /// A run that begins now, with a document of this kind. `sleepers` threads sleep, and have to
    /// be woken at its end.
    pub(crate) fn new(
        kind: &'static str,
        context: &'a Context,
        (keeping, raw): (&'a ResultOptions, Option<Raw<S>>),
        sleepers: usize,
    ) -> Self {
        let (head, files, shared) = (head_of(kind, &context.host), keeping.files(context), keeping.shared(sleepers));
        Self { context, head, files, raw, shared }
    }

    /// The file of all samples.
    pub(crate) const fn raw(&self) -> Option<&Raw<S>> {
        self.raw.as_ref()
    }

    /// Does each of the works on a thread of its own, and returns what they return when all have
    /// ended.
    ///
    /// One that fails ends the others: without it they are not what was asked for. `write` writes
    /// what was measured until then, every minute; `what` is the name of the samples on the
    /// progress bar.
    pub(crate) fn measure<W, T>(
        &self,
        (extent, what, attention): (Extent, &str, Attention),
        works: impl IntoIterator<Item = W>,
        write: impl Fn() -> Result<(), Failure>,
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
            let _spared = attention.cpu().and_then(|cpu| Pinned::to(cpu).ok());
            self.watch((extent, what, attention), (&members, started), &ended, write);
            if attention == Attention::Constant {
                self.shared.end_all(|| members.iter().all(Member::is_finished));
            }
            members.into_iter().map(Member::join).collect()
        })
    }

    /// Shows how far the run is, writes what was measured every minute, and returns when it is to
    /// end.
    fn watch<T>(
        &self,
        (extent, what, attention): (Extent, &str, Attention),
        (members, mut written): (&[Member<'_, T>], Instant),
        ended: &mpsc::Receiver<()>,
        write: impl Fn() -> Result<(), Failure>,
    ) {
        let expected = if attention == Attention::Constant { extent.expected() } else { extent.duration };
        let progress = Progress::new(1_000, expected);
        progress.name(what);
        let pace = if io::stderr().is_terminal() { LOOK * 10 } else { INTERIM };
        let (mut left, mut offset) = (members.len(), WallOffset::now());
        loop {
            let elapsed = self.shared.elapsed();
            let is_over = match attention {
                Attention::Constant => {
                    let is_long_enough = extent.count.is_none() && elapsed >= extent.duration;
                    let has_ended = is_long_enough || members.iter().all(Member::is_finished);
                    has_ended || self.context.interrupted() || !self.shared.goes_on()
                }
                Attention::Rare { .. } => left == 0,
            };
            if is_over {
                return;
            }
            progress.at_fraction(extent.fraction(self.shared.done(), members.len(), elapsed));
            if written.elapsed() >= INTERIM {
                written = Instant::now();
                // If this fails, the last one fails as well, and reports it.
                let _ = write();
            }
            match attention {
                Attention::Constant => {
                    let now = WallOffset::now();
                    if std::mem::replace(&mut offset, now).differs_from(now) {
                        self.shared.rouse();
                    }
                    let left = if extent.count.is_none() { extent.duration.saturating_sub(elapsed) } else { LOOK };
                    thread::sleep(LOOK.min(left));
                }
                Attention::Rare { .. } => match ended.recv_timeout(pace) {
                    Ok(()) => left -= 1,
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                    Err(mpsc::RecvTimeoutError::Disconnected) => return,
                },
            }
        }
    }

    /// Writes all files for the last time, and returns what could not be written: the result is
    /// printed nevertheless.
    /// When it began, and how long it took, for programs.
    pub(crate) fn time(&self, elapsed: Duration) -> LatencyRunTime {
        LatencyRunTime { began: self.files.began(), elapsed_s: rounded(elapsed.as_secs_f64()) }
    }

    /// How it ended, for programs.
    pub(crate) fn end(&self, away: Vec<Away>) -> LatencyRunEnd {
        LatencyRunEnd { broke_at_ns: self.shared.broke_at_ns(), interrupted: self.context.interrupted(), away }
    }

    pub(crate) fn finish(&mut self, threads: &[ThreadLatencies]) -> Vec<String> {
        self.files.finish(self.raw.take(), threads)
    }
}
