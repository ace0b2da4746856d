//! The measurement on each thread, and the document that the threads' results make.

use std::{
    sync::PoisonError,
    time::{Duration, SystemTime},
};

use hpt_core::{Instant, SourceId, clock};
use hpt_document::{
    conditions::Conditions,
    cpu_absence::CpuAbsence,
    explain::Explanation,
    gpio_line::GpioDrive,
    latency::{ClockReads, LatencyThread},
    not_run::NotRun,
    wake_latency::{MissedDeadlines, WaitMethod, WakeLatencyDocument, WakeLatencyRow},
};
use hpt_instrument::measure::{Interrupter, Latencies, NotRunWatch, ReadOverhead, Waiting, Wake, Wakes};
use hpt_realtime::{Behavior, PinWatch};

use super::{
    arguments::Common,
    results::{Counts, WakeOutcome, WakeResults},
    terminal::page,
};
use crate::{
    context::{Context, continue_if},
    exit::Failure,
    output::{
        Block,
        latency_files::ThreadLatencies,
        metrics::{self, gauge::Gauge},
        one_or_many, saturating_nanos,
    },
    sampling::{
        cpu_absences,
        cpu_options::place_of,
        gpio_pulse::Pulse,
        limits::verdict::{LimitedRow, verdicts},
        live_lines::Snapshot,
        not_run,
        raw_samples::Backlog,
        realtime_settings::EffectiveSettings,
        run::{Probe, Run, RunReport, RunThread},
        run_length::ThreadProgress,
        warm_up::SAMPLES,
    },
};

/// A measurement of wake-ups.
pub(super) struct WakeProbe<'a> {
    pub(super) arguments: &'a Common,
    pub(super) context: &'a Context,
    pub(super) waiting: Waiting,
    pub(super) by: &'static str,
    pub(super) at: Option<SystemTime>,
    pub(super) reads: ReadOverhead,
    pub(super) counts: Vec<Counts>,
    pub(super) about_pulse: Option<(String, GpioDrive)>,
    /// The line that is toggled, until it is restored.
    pub(super) pulse: Option<Pulse>,
}

impl Probe for WakeProbe<'_> {
    type Sample = Wake;
    type Outcome = WakeOutcome;
    type Data = WakeLatencyDocument;

    fn sample(&self, thread: RunThread<'_, Wake>) -> Result<WakeOutcome, Failure> {
        let Self { arguments, context, waiting, at, .. } = *self;
        let counts = &self.counts[thread.number];
        let held = arguments.threads.realtime.hold_thread(
            context,
            counts.cpu,
            conduct(waiting, arguments.run_length.interval),
            self.by,
        )?;
        let mut outcome = WakeOutcome { settings: held.settings(), absences: Vec::new(), not_run: NotRun::default() };
        *counts.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome.clone());
        let mut presence = counts.cpu.map(|cpu| PinWatch::new(cpu, &context.host));
        let mut watch = match (waiting, at) {
            // The thread sleeps until then. That is neither time for which it is ready nor part of the run.
            (_, Some(_)) => NotRunWatch::of_blocking_thread(&context.host, None),
            (Waiting::Polling, None) => NotRunWatch::of_spinning_thread(&context.host, counts.cpu),
            (_, None) => NotRunWatch::of_blocking_thread(&context.host, counts.cpu),
        };
        self.take_samples(counts, &thread, presence.as_mut())?;
        let not_run = if at.is_some() { watch.read_over(thread.shared.elapsed()) } else { watch.read() };
        outcome.absences = presence.as_ref().map_or_else(Vec::new, cpu_absences::all_of);
        outcome.not_run = not_run;
        Ok(outcome)
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        self.counts.iter().map(Counts::snapshot).collect()
    }

    fn counts(&self) -> Option<Vec<ThreadLatencies>> {
        Some(self.counts.iter().map(Counts::copy).collect())
    }

    fn gauges(&self, _: &[ThreadLatencies]) -> Vec<Gauge> {
        let rows = self.counts.iter().filter_map(|counts| counts.row(NotRun::default()));
        metrics::timer_poll::gauges(waited_by(self.waiting), &rows.collect::<Vec<_>>())
    }

    fn outcomes_so_far(&self) -> Option<Vec<WakeOutcome>> {
        let outcome = |counts: &Counts| counts.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.counts.iter().map(outcome).collect()
    }

    fn settings(outcome: &WakeOutcome) -> &EffectiveSettings {
        &outcome.settings
    }

    fn restore(&mut self, _: &[WakeOutcome]) -> Vec<String> {
        self.pulse.take().map(Pulse::end).unwrap_or_default()
    }

    fn row(&self, run: &Run<'_, Wake>, outcomes: &[WakeOutcome], state: RunReport) -> WakeLatencyDocument {
        let Self { arguments, waiting, at, ref reads, .. } = *self;
        let threads: Vec<_> = self.counts.iter().map(Counts::copy).collect();
        let both = self.counts.iter().zip(outcomes);
        let results: Vec<_> = both.filter_map(|(counts, outcome)| counts.row(outcome.not_run.clone())).collect();
        let absences: Vec<CpuAbsence> = outcomes.iter().flat_map(|outcome| outcome.absences.clone()).collect();
        let limited = threads.iter().map(|thread| LimitedRow::of_latencies(place_of(thread.cpu), &thread.latencies));
        let limits = verdicts(arguments.limits.limits(), &limited.collect::<Vec<_>>());
        let notes = [
            self.context.notes(),
            state.settings.notes(),
            state.remarks,
            self.notes(&results, &absences),
            run.notes(SAMPLES),
            self.note_of_a_device(),
        ];
        let timed_by = if at.is_some() { SourceId::new("realtime") } else { clock::source().id };
        let (pulse, pulse_drive) = self.about_pulse.clone().unzip();
        WakeLatencyDocument {
            head: run.head.clone(),
            interval_ns: saturating_nanos(arguments.run_length.interval),
            at: at.map(|at| humantime::format_rfc3339(at).to_string()),
            wait_method: waited_by(waiting),
            missed_deadlines: arguments.as_tool.map_or(MissedDeadlines::Counted, |_| MissedDeadlines::LeftOut),
            pulse,
            pulse_drive,
            measuring: LatencyThread { thread: state.settings.thread, source: timed_by.to_string() },
            reads: ClockReads { clock_read_ns: reads.overhead_ns, clock_granularity_ns: reads.granularity_ns },
            time: run.time(state.elapsed),
            end: run.end(absences),
            conditions: Conditions::default(),
            explanation: Explanation::default(),
            loaded: None,
            limits,
            results,
            notes: notes.concat(),
        }
    }

    fn page(&self, data: &WakeLatencyDocument, _: &[WakeOutcome]) -> Vec<Block> {
        page(data, &self.all())
    }
}

impl WakeProbe<'_> {
    /// Returns the latencies of all threads together.
    fn all(&self) -> Latencies {
        let mut all = Latencies::new();
        self.counts.iter().for_each(|counts| all.add(&counts.copy().latencies));
        all
    }

    /// Returns notes on wake-ups that are not counted, and on time in which a thread did not run.
    fn notes(&self, results: &[WakeLatencyRow], absences: &[CpuAbsence]) -> Vec<String> {
        let mut notes = Vec::new();
        let set = self.all().clock_was_set();
        if set > 0 {
            let affected = one_or_many(set, "wake-up is", "wake-ups are");
            notes.push(format!("the wall clock was set during the run; {set} affected {affected} not counted"));
        }
        notes.extend(cpu_absences::notes(absences, ["wake-up there is not counted", "wake-ups there are not counted"]));
        let not_run = results.iter().map(|row| (row.cpu, &row.not_run));
        notes.extend(not_run::note_on_included(not_run, "the latencies above include this time"));
        notes
    }

    /// Returns a note if a device is faster to read than the clock that hpt's Instant uses here.
    fn note_of_a_device(&self) -> Vec<String> {
        let is_instants = self.arguments.source.is_none() && self.at.is_none() && self.waiting != Waiting::Blocking;
        let note = is_instants.then(|| self.context.note_of_a_device(|device| format!("--source {device}"))).flatten();
        note.into_iter().collect()
    }
}

const fn waited_by(waiting: Waiting) -> WaitMethod {
    match waiting {
        Waiting::Polling => WaitMethod::Polling,
        Waiting::Precise => WaitMethod::Hpt,
        _ => WaitMethod::Kernel,
    }
}

/// Returns whether a thread blocks or busy-waits between deadlines at this interval.
pub(super) fn conduct(waiting: Waiting, interval: Duration) -> Behavior {
    // The margin of a Sleeper, or the time that a thread needs to block and wake up. A shorter interval leaves no time
    // to block.
    let spins_below = match waiting {
        Waiting::Polling => Duration::MAX,
        Waiting::Precise => Duration::from_micros(500),
        _ => Duration::from_micros(50),
    };
    if interval < spins_below { Behavior::Spins } else { Behavior::Blocks }
}

/// The number of wake-ups before the run, and the time from one to the next.
const REHEARSED: (u32, Duration) = (3, Duration::from_micros(500));

/// Runs the loop a few times without counting, so that its code and its memory are faulted in. On a slow processor, the
/// page faults would otherwise delay the first samples of the run by more than a millisecond.
fn rehearse(waiting: Waiting, interrupter: &Interrupter) -> Result<(), Failure> {
    let (mut left, interval) = REHEARSED;
    let mut found = WakeResults::new();
    let wakes = Wakes::new(interval).with_waiting(waiting).with_interrupter(interrupter);
    let rehearsed = wakes.with_start(Instant::now() + interval).run(|wake| {
        found.record(wake);
        left -= 1;
        continue_if(left > 0)
    });
    std::hint::black_box(&found);
    rehearsed.map(drop).map_err(Failure::SleepRefused)
}

impl WakeProbe<'_> {
    /// Takes the samples of the calling thread.
    fn take_samples(
        &self,
        counts: &Counts,
        thread: &RunThread<'_, Wake>,
        mut presence: Option<&mut PinWatch<'_>>,
    ) -> Result<(), Failure> {
        let Self { arguments, waiting, at, .. } = *self;
        let (shared, interrupter) = (thread.shared, thread.shared.interrupter(thread.number));
        let pulse = self.pulse.as_ref();
        rehearse(waiting, interrupter)?;
        let limit_ns = arguments.keeping.limit_ns();
        let mut backlog = Backlog::new(&counts.found, WakeResults::record);
        let mut lines = thread.raw.map(|raw| raw.of_thread(counts.cpu));
        let mut feed = thread.observers.feed(counts.cpu);
        // This thread checks the end time itself, because the supervising thread may not be scheduled in time.
        let mut thread_progress = ThreadProgress::of(arguments.run_length);
        let (mut warm_up, mut first_deadline) = (arguments.warm_up.of_thread(), None);
        let each = |mut wake: Wake| {
            if arguments.as_tool.is_some() {
                wake.period_ns = 0;
            }
            if let Some(pulse) = pulse {
                let _ = pulse.toggle();
            }
            if warm_up.includes(wake.deadline) {
                shared.discard(1);
                return continue_if(shared.goes_on());
            }
            // This code runs after the clock read that determines the latency, so no sample includes its duration. It
            // needs no further clock read.
            let woken = wake.deadline.saturating_add(Duration::from_nanos(wake.latency_ns));
            let since = woken.saturating_duration_since(*first_deadline.get_or_insert(wake.deadline));
            let is_there = presence.as_mut().is_none_or(|presence| presence.is_there(since));
            let counts = is_there && !wake.clock_was_set;
            if wake.latency_ns > limit_ns && counts {
                shared.stop_at(wake.deadline);
            }
            if let Some(began) = thread_progress.begins(wake, Instant::now) {
                shared.begin(began);
            }
            if let Some(feed) = feed.as_mut().filter(|_| counts) {
                feed.offer(wake.deadline.nanos_since(Instant::EPOCH), wake.latency_ns);
            }
            // Wake-ups on another CPU are not counted for this CPU.
            if is_there {
                backlog.add(wake);
            }
            if let Some(lines) = lines.as_mut().filter(|_| counts) {
                lines.add(wake);
            }
            shared.count_one();
            continue_if(thread_progress.goes_on_after(wake) && shared.goes_on())
        };
        let interval = arguments.run_length.interval;
        let wakes =
            Wakes::new(interval).with_waiting(waiting).with_interrupter(interrupter).with_check(|| shared.check());
        let wakes = match at {
            Some(at) => wakes.with_wall_start(at),
            None => wakes.with_start(Instant::now() + interval.min(Duration::from_millis(1))),
        };
        wakes.run(each).map_err(Failure::SleepRefused)
    }
}
