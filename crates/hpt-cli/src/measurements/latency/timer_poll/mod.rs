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
use hpt_realtime::{Absence, Behavior, PinWatch};
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
        Answer, Document,
        chart_option::{self, ChartOption},
        latency_files::ThreadLatencies,
        metrics, one_or_many, rounded, saturating_nanos,
    },
    sampling::{
        conditions::{ConditionOptions, ConditionsThread},
        cpu_absences,
        cpu_options::{CpuOptions, place_of},
        explain::{Awaited, ExplainOptions, Feed, MeasuredThread},
        gpio_pulse::{Pulse, PulseOptions},
        late_deadlines::LateDeadlines,
        limits::{
            option::LimitOptions,
            quantity::Accepted,
            verdict::{self, LimitedRow, verdicts},
        },
        live_lines::{LiveLines, Snapshot},
        load::{LoadOptions, in_phases},
        not_run,
        raw_samples::{Backlog, Raw},
        realtime_settings::EffectiveSettings,
        result_files::ResultOptions,
        run::{Attention, Run, SO_FAR},
        run_length::{RunLength, ThreadProgress},
        run_state::RunState,
        time_series::TimeSeries,
        warm_up::WarmUpOption,
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
    run(TIMER, waiting, &arguments.common, context)
}

pub(crate) fn poll(arguments: &PollArguments, context: &Context) -> Result<Document, Failure> {
    run(POLL, Waiting::Polling, &arguments.common, context)
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

/// The counts of one thread. The measuring thread waits for a reader of the counts only if its backlog is full.
struct Counts {
    cpu: Option<usize>,
    found: Mutex<WakeResults>,
    /// The periods during which the thread was not on its CPU, available after the thread has ended.
    absences: Mutex<Vec<Absence>>,
    /// The time during which the thread did not run, available after the thread has ended.
    not_run: Mutex<NotRun>,
    /// The settings of the thread, available after they were applied.
    settings: Mutex<Option<EffectiveSettings>>,
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

fn run(kind: &'static str, waiting: Waiting, arguments: &Common, context: &Context) -> Result<Document, Failure> {
    let (cpus, _) = arguments.threads.one_each(context, conduct(waiting, arguments.run_length.interval))?;
    in_phases(&arguments.load, context, (&cpus, 1), || run_once(kind, waiting, arguments, context))
}

fn run_once(kind: &'static str, waiting: Waiting, arguments: &Common, context: &Context) -> Result<Document, Failure> {
    // No signal may end hpt before the pulse line is restored and the trace is removed.
    if arguments.pulse.is_requested() || arguments.explain.is_requested() {
        context.signals.listen_until_the_end()?;
    } else {
        arguments.threads.realtime.listen(context)?;
    }
    context.signals.listen_for_requests()?;
    let conduct = conduct(waiting, arguments.run_length.interval);
    let by = if waiting == Waiting::Polling { "hpt latency poll" } else { "hpt latency timer" };
    let (cpus, refused) = arguments.threads.one_each(context, conduct)?;
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
    // Create the file for raw samples only after all checks that need no thread.
    let raw = arguments.keeping.raw()?;
    let whole = arguments.threads.realtime.hold_around(context, &cpus, conduct, by)?.without_cpus(refused);
    clock::prime();
    let reads = if at.is_some() { wall_clock_read_overhead() } else { clock_read_overhead() };

    let awaited = if waiting == Waiting::Blocking { Awaited::Timer } else { Awaited::Clock };
    let above = (arguments.keeping.limit_ns(), awaited);
    let explaining = arguments.explain.begin(&cpus, arguments.limits.limits(), above);
    let conditions = ConditionsThread::begin(context, &cpus);
    let counts: Vec<_> = cpus.iter().map(|&cpu| Counts::of(cpu)).collect();
    let mut run = Run::new(kind, context, (&arguments.keeping, raw), cpus.len());
    run.live = LiveLines::of(&cpus, || counts.iter().map(Counts::snapshot).collect());
    let works = counts.iter().enumerate().map(|(number, counts)| {
        let (run, pulse, explaining) = (&run, pulse.as_ref(), &explaining);
        move || {
            let held = arguments.threads.realtime.hold_thread(context, counts.cpu, conduct, by)?;
            let settings = held.settings();
            *counts.settings.lock().unwrap_or_else(PoisonError::into_inner) = Some(settings.clone());
            let presence = counts.cpu.map(|cpu| PinWatch::new(cpu, &context.host));
            let shared = (&run.shared, run.shared.interrupter(number));
            let mut watch = match (waiting, at) {
                // The thread sleeps until then. That is neither time for which it is ready nor part of the run.
                (_, Some(_)) => NotRunWatch::of_blocking_thread(&context.host, None),
                (Waiting::Polling, None) => NotRunWatch::of_spinning_thread(&context.host, counts.cpu),
                (_, None) => NotRunWatch::of_blocking_thread(&context.host, counts.cpu),
            };
            measure(
                counts,
                (waiting, at),
                arguments,
                shared,
                (run.raw(), pulse, explaining.feed(counts.cpu)),
                presence,
            )?;
            let mut times = watch.read();
            if at.is_some() {
                times.wall = run.shared.elapsed();
            }
            *counts.not_run.lock().unwrap_or_else(PoisonError::into_inner) = not_run::field_of(&times);
            Ok(settings)
        }
    });
    let asked = WakeRequest { arguments, context, waiting, at, reads };
    let so_far = || {
        let settings: Vec<_> = counts.iter().filter_map(Counts::settings).collect();
        let first = settings.first()?.clone();
        let settings = EffectiveSettings::of_several(&first, settings);
        let pulse = pulse.as_ref().map(Pulse::about);
        let data = asked.data(&run, &counts, (settings, vec![SO_FAR.to_owned()], pulse));
        let blocks = page(&data, &all_of(&counts));
        Some(Document::new(data, blocks))
    };
    let write = || {
        let threads: Vec<_> = counts.iter().map(Counts::copy).collect();
        let results: Vec<_> = counts.iter().filter_map(Counts::row).collect();
        run.files.keep_metrics(&run.head, metrics::timer_poll::gauges(waited_by(waiting), &results))?;
        run.files.write(&threads)
    };
    let outcome = run.measure((arguments.run_length, "wake-ups", Attention::Constant), works, write, so_far);
    let ended = run.shared.elapsed();
    let conditions = conditions.end();
    let settings = EffectiveSettings::of_several(&whole.settings(), outcome?);
    let measured = MeasuredThread { cpus: &cpus, thread: &settings.thread, behavior: conduct };
    let explanation = explaining.end(context, measured);
    let mut warnings = whole.end();
    let about_pulse = pulse.as_ref().map(Pulse::about);
    warnings.extend(pulse.map(Pulse::end).unwrap_or_default());
    let threads: Vec<_> = counts.iter().map(Counts::copy).collect();
    warnings.extend(run.finish(&threads));
    let mut data = asked.data(&run, &counts, (settings, warnings.clone(), about_pulse));
    data.time.elapsed_s = rounded(ended.as_secs_f64());
    drop(timed_by);
    // A sample above --stop-above counts even if a file could not be written.
    let answer = match (data.end.stopped_at_ns, data.results.is_empty() || !warnings.is_empty()) {
        (Some(_), _) => Answer::No,
        (None, true) => Answer::Unknown,
        (None, false) => Answer::Yes,
    };
    let answer = answer.and(verdict::answer(&data.limits));
    data.conditions = conditions;
    data.explanation = explanation;
    let remarks = (&mut data.notes, &mut *data.limits);
    let answer = arguments.conditions.judge(&data.conditions, remarks, answer);
    let blocks = page(&data, &all_of(&counts));
    Ok(Document { answer, warnings, ..Document::new(data, blocks) })
}

/// Returns the latencies of all threads together.
fn all_of(counts: &[Counts]) -> Latencies {
    let mut all = Latencies::new();
    counts.iter().for_each(|counts| all.add(&counts.copy().latencies));
    all
}

/// The request, and the read overhead of the clock: the parts of the document that are known before the run.
struct WakeRequest<'a> {
    arguments: &'a Common,
    context: &'a Context,
    waiting: Waiting,
    at: Option<SystemTime>,
    reads: ReadOverhead,
}

impl WakeRequest<'_> {
    /// Returns the document, at the end of the run or before. `remarks` are warnings, or remarks on the state of the
    /// run.
    fn data(
        &self,
        run: &Run<'_, Wake>,
        counts: &[Counts],
        (settings, remarks, pulse): (EffectiveSettings, Vec<String>, Option<(String, GpioDrive)>),
    ) -> WakeLatencyDocument {
        let Self { arguments, context, waiting, at, ref reads } = *self;
        let threads: Vec<_> = counts.iter().map(Counts::copy).collect();
        let all = all_of(counts);
        let results: Vec<_> = counts.iter().filter_map(Counts::row).collect();
        let mut notes = [context.notes(), settings.notes(), remarks].concat();
        if all.clock_was_set() > 0 {
            notes.push(format!(
                "the wall clock was set during the run; {} affected {} not counted",
                all.clock_was_set(),
                one_or_many(all.clock_was_set(), "wake-up is", "wake-ups are")
            ));
        }
        let absences: Vec<CpuAbsence> = counts.iter().flat_map(Counts::absences).collect();
        notes
            .extend(cpu_absences::notes(&absences, ["wake-up there is not counted", "wake-ups there are not counted"]));
        let not_run = results.iter().map(|row| (row.cpu, &row.not_run));
        notes.extend(not_run::note_on_included(not_run, "the latencies above include this time"));
        notes.extend(run.shared.unmarked());
        notes.extend(arguments.warm_up.note(run.shared.discarded()));
        let is_instants = arguments.source.is_none() && at.is_none() && waiting != Waiting::Blocking;
        notes.extend(is_instants.then(|| context.note_of_a_device(&format!("--source {DEVICE}"))).flatten());
        let limited = threads.iter().map(|thread| LimitedRow::of_latencies(place_of(thread.cpu), &thread.latencies));
        let limits = verdicts(arguments.limits.limits(), &limited.collect::<Vec<_>>());
        let timed_by = if at.is_some() { SourceId::new("realtime") } else { clock::source().id };
        WakeLatencyDocument {
            head: run.head.clone(),
            interval_ns: saturating_nanos(arguments.run_length.interval),
            at: at.map(|at| humantime::format_rfc3339(at).to_string()),
            wait_method: waited_by(waiting),
            missed_deadlines: arguments.as_tool.map_or(MissedDeadlines::Counted, |_| MissedDeadlines::LeftOut),
            pulse_drive: pulse.as_ref().map(|(_, drive)| *drive),
            pulse: pulse.map(|(line, _)| line),
            measuring: LatencyThread { thread: settings.thread, source: timed_by.to_string() },
            reads: ClockReads { clock_read_ns: reads.overhead_ns, clock_granularity_ns: reads.granularity_ns },
            time: run.time(run.shared.elapsed(), arguments.warm_up),
            end: run.end(absences),
            conditions: Conditions::default(),
            explanation: Explanation::default(),
            loaded: None,
            limits,
            results,
            notes,
        }
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
        Self {
            cpu,
            found: Mutex::new(WakeResults::new()),
            absences: Mutex::new(Vec::new()),
            not_run: Mutex::new(NotRun::default()),
            settings: Mutex::new(None),
        }
    }

    fn settings(&self) -> Option<EffectiveSettings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn absences(&self) -> Vec<CpuAbsence> {
        let absences = self.absences.lock().unwrap_or_else(PoisonError::into_inner);
        self.cpu
            .map_or_else(Vec::new, |cpu| absences.iter().map(|absence| cpu_absences::field_of(cpu, absence)).collect())
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

    fn row(&self) -> Option<WakeLatencyRow> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let not_run = self.not_run.lock().unwrap_or_else(PoisonError::into_inner).clone();
        row(self.cpu, (&found.latencies, &found.time_series), not_run)
    }
}

/// Runs the measurement on the calling thread.
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

fn measure(
    counts: &Counts,
    (waiting, at): (Waiting, Option<SystemTime>),
    arguments: &Common,
    (shared, interrupter): (&RunState, &Interrupter),
    (raw, pulse, mut feed): (Option<&Raw<Wake>>, Option<&Pulse>, Option<Feed>),
    mut presence: Option<PinWatch<'_>>,
) -> Result<(), Failure> {
    rehearse(waiting, interrupter)?;
    let limit_ns = arguments.keeping.limit_ns();
    let mut backlog = Backlog::new(&counts.found, WakeResults::record);
    let mut lines = raw.map(|raw| raw.of_thread(counts.cpu));
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
        // This code runs after the clock read that determines the latency, so no sample includes its duration. It needs
        // no further clock read.
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
    let wakes = Wakes::new(interval).with_waiting(waiting).with_interrupter(interrupter).with_check(|| shared.check());
    let wakes = match at {
        Some(at) => wakes.with_wall_start(at),
        None => wakes.with_start(Instant::now() + interval.min(Duration::from_millis(1))),
    };
    let waited = wakes.run(each);
    if let Some(presence) = presence {
        *counts.absences.lock().unwrap_or_else(PoisonError::into_inner) = presence.absences().to_vec();
    }
    waited.map_err(Failure::SleepRefused)
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
