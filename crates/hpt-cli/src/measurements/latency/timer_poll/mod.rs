//! `hpt latency timer` and `hpt latency poll`: measure how late a thread detects its deadlines.

mod document;
mod terminal;
mod time_of_day;

use serde::{Deserialize, Serialize};
use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use clap::{Args, ValueEnum};
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
use hpt_instrument::measure::{
    Interrupter, Latencies, NotRunWatch, ReadOverhead, Waiting, Wake, Wakes, clock_read_overhead,
    wall_clock_read_overhead,
};
use hpt_realtime::{Behavior, PinWatch};
use jiff::Zoned;

use self::{
    document::row,
    terminal::page,
    time_of_day::{TimeOfDay, time_of_day},
};
use crate::{
    arguments::{Codes, after_help},
    context::{Context, DEVICE, continue_if},
    exit::Failure,
    measurements::{CommonOptions, CpuOption},
    output::{
        Block, Document,
        chart_option::{self, ChartOption},
        latency_files::ThreadLatencies,
        metrics::{self, gauge::Gauge},
        one_or_many, saturating_nanos,
    },
    sampling::{
        conditions::ConditionOptions,
        cpu_absences,
        cpu_options::{CpuOptions, place_of},
        explain::{Awaited, ExplainOptions},
        finished::Finished,
        gpio_pulse::{Pulse, PulseOptions},
        late_deadlines::LateDeadlines,
        limits::{
            option::LimitOptions,
            quantity::Accepted,
            verdict::{LimitedRow, verdicts},
        },
        live_lines::Snapshot,
        load::{LoadOptions, in_phases},
        not_run,
        observers::{Explained, Observation},
        raw_samples::Backlog,
        realtime_settings::EffectiveSettings,
        result_files::ResultOptions,
        run::{self, Attention, Probe, Run, RunReport, RunSettings, RunThread},
        run_length::{RunLength, ThreadProgress},
        time_series::TimeSeries,
        warm_up::{SAMPLES, WarmUpOption},
    },
};

const TIMER_EXAMPLES: &str = "  \
  hpt latency timer                            one CPU, every millisecond, 10 s
  sudo hpt latency timer --cpu all -P f:80 --dma-latency 0 --duration 1h
  hpt latency timer --duration 1m --limit p99=500us,max=20ms,missed=0
  hpt latency timer --at 23:59:50 --interval 1s --duration 20s
  sudo hpt latency timer -P f:80 --stop-above 100us --write cyclictest=run.hist";
const TIMER_EXAMPLE: &str = "Example: sudo hpt latency timer -c all -P f:80 --load cpu --explain -d 1h";
const POLL_EXAMPLES: &str = "  \
  hpt latency poll                        one CPU, every millisecond, 10 s
  sudo hpt latency poll --cpu 3 -P f:99 --no-throttling --duration 18h \\
    --write line=counts";
const POLL_EXAMPLE: &str = "Example: sudo hpt latency poll -P f:99 --no-throttling --load cpu --explain";
/// The kind of the `hpt latency timer` document.
pub(super) const TIMER: &str = "latency-timer";
/// The kind of the `hpt latency poll` document.
pub(super) const POLL: &str = "latency-poll";
const RAW: &str = "Also write every wake-up to FILE: CPU number; deadline and latency in nanoseconds";

/// Measure wake-up latency at periodic deadlines
///
/// One thread on each CPU sleeps until a deadline, reads the clock, records the latency, and sleeps
/// until the next deadline, one interval later. By default, each sleep is a single system call.
/// cyclictest measures the same latency.
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_help = TIMER_EXAMPLE, after_long_help = after_help(Codes::measuring(Some("a sample exceeded --stop-above, or a quantity its --limit")), TIMER_EXAMPLES))]
pub(crate) struct TimerArguments {
    #[command(flatten)]
    common: Common,
    /// Sleep method: kernel or hpt
    ///
    /// kernel: sleep with one system call. hpt: sleep with hpt's Sleeper, which wakes up before the deadline and then
    /// spins until the deadline.
    #[arg(long, value_enum, value_name = "METHOD", default_value = "kernel", hide_possible_values = true)]
    by: WakerKind,
}

/// Measure how late a polling thread detects deadlines
///
/// One busy-polling thread on each CPU reads the clock continuously. Everything that takes the CPU
/// away from this thread adds latency: interrupts, kernel work, other programs or a hypervisor.
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_help = POLL_EXAMPLE, after_long_help = after_help(Codes::measuring(Some("a sample exceeded --stop-above, or a quantity its --limit")), POLL_EXAMPLES))]
pub(crate) struct PollArguments {
    #[command(flatten)]
    common: Common,
}

/// A tool that counts missed deadlines differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
enum Tool {
    Cyclictest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
enum WakerKind {
    Kernel,
    Hpt,
}

#[derive(Debug, Args, Serialize, Deserialize)]
#[command(mut_arg("raw", |raw| raw.help(RAW)))]
struct Common {
    #[command(flatten)]
    run_length: RunLength,
    #[command(flatten)]
    warm_up: WarmUpOption,
    #[command(flatten)]
    threads: CpuOptions,
    /// Start at this time of day
    ///
    /// For example 12:30, 12:30:15.5 or 2030-01-31T12:30:15Z; local time if no time zone is given.
    /// The start time and the deadlines follow the wall clock, even if it is stepped.
    #[arg(long, value_name = "TIME", value_parser = time_of_day, hide_short_help = true)]
    at: Option<TimeOfDay>,
    /// Clock that timestamps the samples
    ///
    /// A counter, or monotonic (the kernel's clock) [default: monotonic with --by kernel, otherwise
    /// the source that hpt's Instant uses]
    #[arg(short, long, value_name = "NAME", conflicts_with = "at", hide_short_help = true)]
    source: Option<String>,
    /// Count like another tool: cyclictest
    ///
    /// cyclictest: a missed deadline is no sample. By default, a deadline that passed before the thread waited for it
    /// is a sample: the time from the deadline until the thread ran.
    #[arg(long = "as", value_enum, value_name = "TOOL", hide_possible_values = true, hide_short_help = true)]
    as_tool: Option<Tool>,
    #[command(flatten)]
    limits: LimitOptions,
    #[command(flatten)]
    keeping: ResultOptions,
    #[command(flatten)]
    conditions: ConditionOptions,
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    explain: ExplainOptions,
    #[command(flatten)]
    pulse: PulseOptions,
    #[command(flatten)]
    pub(crate) chart: ChartOption,
}

pub(crate) fn timer(arguments: &TimerArguments, context: &Context) -> Result<Document, Failure> {
    let waiting = match arguments.by {
        WakerKind::Kernel => Waiting::Blocking,
        WakerKind::Hpt => Waiting::Precise,
    };
    run(waiting, &arguments.common, context)
}

pub(crate) fn poll(arguments: &PollArguments, context: &Context) -> Result<Document, Failure> {
    run(Waiting::Polling, &arguments.common, context)
}

impl Common {
    fn options(&mut self) -> CommonOptions<'_> {
        CommonOptions {
            limits: Some((self.limits.limits_mut(), Accepted::LATENCY)),
            has_length: self.run_length.is_given(),
            duration: Some(&mut self.run_length.duration),
            cpu: CpuOption::Several(&mut self.threads.cpu),
            realtime: Some(&self.threads.realtime),
            load: Some(&self.load),
            explain: Some(&mut self.explain),
            ..CommonOptions::default()
        }
    }
}

impl TimerArguments {
    pub(super) fn common(&mut self) -> CommonOptions<'_> {
        CommonOptions { spins: false, ..self.common.options() }
    }

    pub(crate) fn chart(&self) -> Option<chart_option::ChartFile<'_>> {
        self.common.chart.file()
    }
}

impl PollArguments {
    pub(super) fn common(&mut self) -> CommonOptions<'_> {
        CommonOptions { spins: true, ..self.common.options() }
    }

    pub(crate) fn chart(&self) -> Option<chart_option::ChartFile<'_>> {
        self.common.chart.file()
    }
}

/// Returns whether a thread blocks or busy-waits between deadlines at this interval.
fn conduct(waiting: Waiting, interval: Duration) -> Behavior {
    // The margin of a Sleeper, or the time that a thread needs to block and wake up. A shorter interval leaves no time
    // to block.
    let spins_below = match waiting {
        Waiting::Polling => Duration::MAX,
        Waiting::Precise => Duration::from_micros(500),
        _ => Duration::from_micros(50),
    };
    if interval < spins_below { Behavior::Spins } else { Behavior::Blocks }
}

/// The results of one thread. The measuring thread waits for a reader of the counts only if its backlog is full.
struct Counts {
    cpu: Option<usize>,
    found: Mutex<WakeResults>,
    /// Available after the settings of the thread were applied.
    outcome: Mutex<Option<WakeOutcome>>,
}

/// The settings of a thread and, after it has ended, what kept it from its CPU.
#[derive(Clone)]
struct WakeOutcome {
    settings: EffectiveSettings,
    absences: Vec<CpuAbsence>,
    not_run: NotRun,
}

/// The latencies of the wake-ups, and their time series.
struct WakeResults {
    latencies: Latencies,
    time_series: TimeSeries,
    last_ns: Option<u64>,
}

impl WakeResults {
    fn new() -> Self {
        Self { latencies: Latencies::new(), time_series: TimeSeries::new(), last_ns: None }
    }

    fn record(&mut self, wake: Wake) {
        if !wake.clock_was_set {
            self.time_series.record(LateDeadlines::of(&wake));
            self.last_ns = Some(wake.latency_ns);
        }
        self.latencies.record(wake);
    }
}

/// The default clock of a thread that sleeps with the kernel's timer. A counter would be slower: its conversion to time
/// is valid for at most a millisecond, so every sample would include the computation of a new conversion.
const KERNELS_OWN: &str = "monotonic";

/// A guard that selects the source of hpt's clock. Dropping the guard restores the previous source.
struct TimedBy<'a> {
    before: SourceId,
    context: &'a Context,
}

impl<'a> TimedBy<'a> {
    fn source(name: &str, context: &'a Context) -> Result<Self, Failure> {
        let before = clock::source().id;
        clock::use_source(context.open(name)?).map_err(|refused| Failure::NotTheClock(name.to_owned(), refused))?;
        Ok(Self { before, context })
    }
}

impl Drop for TimedBy<'_> {
    fn drop(&mut self) {
        // If the previous source is no longer accepted, the current source remains active.
        if let Ok(opened) = self.context.open(self.before.as_str()) {
            let _ = clock::use_source(opened);
        }
    }
}

fn run(waiting: Waiting, arguments: &Common, context: &Context) -> Result<Document, Failure> {
    let (cpus, _) = arguments.threads.one_each(context, conduct(waiting, arguments.run_length.interval))?;
    in_phases(&arguments.load, context, (&cpus, 1), || run_once(waiting, arguments, context))
}

fn run_once(waiting: Waiting, arguments: &Common, context: &Context) -> Result<Finished<WakeLatencyDocument>, Failure> {
    // No signal may end hpt before the pulse line is restored and the trace is removed.
    let is_restored = arguments.pulse.is_requested() || arguments.explain.is_requested();
    arguments.threads.realtime.listen_for_all(is_restored, context)?;
    let behavior = conduct(waiting, arguments.run_length.interval);
    let by = if waiting == Waiting::Polling { "hpt latency poll" } else { "hpt latency timer" };
    let (cpus, refused) = arguments.threads.one_each(context, behavior)?;
    if arguments.pulse.is_requested() && cpus.len() > 1 {
        return Err(Failure::Usage("--pulse requires a single thread: use --cpu with one CPU, or with `any`"));
    }
    arguments.keeping.check()?;
    let timed_by = match &arguments.source {
        Some(name) => Some(TimedBy::source(name, context)?),
        None if waiting == Waiting::Blocking && arguments.at.is_none() => TimedBy::source(KERNELS_OWN, context).ok(),
        None => None,
    };
    let at = match arguments.at.as_ref().map(|at| at.after(&Zoned::now())) {
        Some(None) => return Err(Failure::Past(arguments.at.as_ref().map(ToString::to_string).unwrap_or_default())),
        Some(at) => at,
        None => None,
    };
    let pulse = arguments.pulse.open(&context.host)?;
    let about_pulse = pulse.as_ref().map(Pulse::about);
    // Create the file for raw samples only after all checks that need no thread.
    let raw = arguments.keeping.raw()?;
    let whole = arguments.threads.realtime.hold_around(context, &cpus, behavior, by)?.without_cpus(refused);
    clock::prime();
    let reads = if at.is_some() { wall_clock_read_overhead() } else { clock_read_overhead() };
    let counts = cpus.iter().map(|&cpu| Counts::of(cpu)).collect();
    let probe = WakeProbe { arguments, context, waiting, by, at, reads, counts, about_pulse, pulse };
    let settings = RunSettings { raw, whole: Some(whole), ..settings_of(waiting, arguments, &cpus) };
    let finished = run::run(probe, settings, context);
    drop(timed_by);
    finished
}

/// Returns what distinguishes this run from those of other measurements.
fn settings_of<'a>(waiting: Waiting, arguments: &'a Common, cpus: &'a [Option<usize>]) -> RunSettings<'a, Wake> {
    let explained = Explained {
        options: arguments.explain,
        limits: arguments.limits.limits(),
        stop_above_ns: arguments.keeping.limit_ns(),
        awaited: if waiting == Waiting::Blocking { Awaited::Timer } else { Awaited::Clock },
        behavior: conduct(waiting, arguments.run_length.interval),
    };
    RunSettings {
        kind: if waiting == Waiting::Polling { POLL } else { TIMER },
        observation: Observation { cpus, conditions: arguments.conditions, explained: Some(explained) },
        run_length: arguments.run_length,
        warm_up: arguments.warm_up,
        attention: Attention::Constant,
        sleepers: cpus.len(),
        keeping: &arguments.keeping,
        raw: None,
        whole: None,
    }
}

/// A measurement of wake-ups.
struct WakeProbe<'a> {
    arguments: &'a Common,
    context: &'a Context,
    waiting: Waiting,
    by: &'static str,
    at: Option<SystemTime>,
    reads: ReadOverhead,
    counts: Vec<Counts>,
    about_pulse: Option<(String, GpioDrive)>,
    /// The line that is toggled, until it is restored.
    pulse: Option<Pulse>,
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
        let note = is_instants.then(|| self.context.note_of_a_device(&format!("--source {DEVICE}"))).flatten();
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

impl Counts {
    fn of(cpu: Option<usize>) -> Self {
        Self { cpu, found: Mutex::new(WakeResults::new()), outcome: Mutex::new(None) }
    }

    fn snapshot(&self) -> Snapshot {
        // The thread that measures does not wait for this copy.
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        Snapshot { cpu: self.cpu, latencies: found.latencies.clone(), last_ns: found.last_ns }
    }

    fn copy(&self) -> ThreadLatencies {
        // The counts are consistent even if a thread panicked.
        let latencies = self.found.lock().unwrap_or_else(PoisonError::into_inner).latencies.clone();
        ThreadLatencies { cpu: self.cpu, latencies }
    }

    fn row(&self, not_run: NotRun) -> Option<WakeLatencyRow> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        row(self.cpu, (&found.latencies, &found.time_series), not_run)
    }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpt_core::Instant;
    use hpt_instrument::measure::Wake;

    use super::WakeResults;

    /// Returns the number of page faults of this thread that needed no disk.
    fn page_faults() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux has it");
        let fields = stat.rsplit(')').next().expect("fields follow the name");
        // proc(5): minflt is field 10, and the state after the name is field 3.
        fields.split_whitespace().nth(7).and_then(|count| count.parse().ok()).expect("a number")
    }

    fn record_all(found: &mut WakeResults) {
        for at in 0..20_000_u64 {
            let deadline = Instant::EPOCH + Duration::from_micros(at * 500);
            // From 1 ns to 8 s.
            found.record(Wake::new(deadline, 1 << (at % 34)));
        }
    }

    #[test]
    fn no_sample_waits_for_a_page_fault() {
        // The code is faulted in, as in a rehearsal.
        record_all(&mut WakeResults::new());
        let mut found = WakeResults::new();
        let before = page_faults();
        record_all(&mut found);
        let faults = page_faults() - before;
        assert!(found.latencies.histogram().samples() >= 20_000);
        assert!(faults < 8, "{faults} page faults");
    }
}
