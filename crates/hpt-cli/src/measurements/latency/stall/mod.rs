//! `hpt latency stall`: measures when and for how long a busy-polling thread did not run, and which kernel counters
//! increased during that time.

mod account;
mod document;
mod terminal;

use serde::{Deserialize, Serialize};
use std::{
    ops::ControlFlow,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use clap::Args;
use hpt_core::{
    Frequency, Instant, SourceId, TimeSource,
    clock::{self, SystemClock},
    source::{self, Scope},
};
use hpt_document::{
    conditions::Conditions,
    cpu_absence::CpuAbsence,
    explain::Explanation,
    latency::LatencyThread,
    not_run::NotRun,
    stall::{StallDocument, StallRow},
};
use hpt_instrument::measure::{
    CallbackTime, CpuCounters, Latencies, NotRunWatch, Stall, StallWatch, StallWatchStats, Wake, Window, poll_cost,
};
use hpt_realtime::{Behavior, PinWatch, Pinned, allowed_cpus};

use self::{
    account::{Account, OnOtherCpus, ThreadOutcome, notes_of},
    document::{cause_rows, chosen, counter_rows, limited_row, row, so_far},
    terminal::page,
};
use crate::{
    arguments::{Codes, after_help, at_least_one, duration_in},
    context::{Context, continue_if},
    exit::Failure,
    measurements::common_options::{CommonOptions, CpuOption},
    output::{
        Block, Document,
        chart_option::ChartOption,
        latency_files::ThreadLatencies,
        metrics::{self, gauge::Gauge},
        one_or_many, rounded, saturating_nanos,
    },
    sampling::{
        conditions::{ConditionOptions, unmeasured_cpu},
        cpu_absences,
        cpu_options::CpuOptions,
        explain::{self, Awaited, ExplainOptions},
        finished::{Finished, ResultDocument},
        limits::{
            option::{LimitOptions, STALL_HELP, of_stall},
            quantity::Accepted,
            verdict::verdicts,
        },
        live_lines::Snapshot,
        load::{LoadOptions, in_phases},
        not_run,
        observers::{Explained, Observation},
        raw_samples::{BACKLOG, Backlog, RawSample},
        realtime_settings::EffectiveSettings,
        result_files::ResultOptions,
        run::{self, Attention, Probe, Run, RunReport, RunSettings, RunThread},
        run_length::{RunLength, USUAL, long},
        warm_up::WarmUpOption,
    },
    source_rate::frequency_of,
};

const EXAMPLES: &str = "  \
  hpt latency stall                            watch the highest CPU for 10 s
  hpt latency stall --cpu all --above 50us --duration 1h
  sudo hpt latency stall --cpu 3 -P f:99 --accept-throttling --raw stalls.txt
  sudo hpt latency stall --cpu 3 -P f:99 --no-throttling --stop-above 200us";
const EXAMPLE: &str = "Example: sudo hpt latency stall -P f:99 --no-throttling --load cpu --explain";
/// The kind of the `hpt latency stall` document.
pub(super) const KIND: &str = "latency-stall";
const BY: &str = "hpt latency stall";
const RAW: &str = "Also write every stall to FILE: CPU number; start (CLOCK_MONOTONIC), length and uncertainty, in nanoseconds; \
                   likely cause; and `shared` if several stalls share the counter increases";

/// The default threshold: longer than an interrupt takes on most machines, and shorter than a delay that users notice.
const ABOVE: Duration = Duration::from_micros(10);
/// The minimum default threshold, as a multiple of the usual step of the source.
const STEPS: u64 = 4;
/// The minimum value of `--above`, as a multiple of the usual step of the source.
const LEAST_STEPS: u64 = 2;

/// The time limit for all threads to respond. If it is exceeded, no file is written during the run.
const PATIENCE: Duration = Duration::from_secs(10);
/// The interval between two checks for responses.
const LOOKS_FOR_COPIES: Duration = Duration::from_millis(50);

/// Find CPU stalls of a busy thread, and their causes
///
/// Measures OS noise, as rtla osnoise does. One thread on each CPU reads a time source as fast as
/// possible. If the gap between two reads exceeds the threshold, the thread did not run: this is a
/// stall. hpt lists the longest stalls with their time and length, and with the kernel counters of
/// the CPU that increased during the stall: interrupts, softirqs, context switches and steal time.
/// For comparison, hpt reports how often these counters increase without a stall. It also reports
/// the period of periodic stalls.
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_help = EXAMPLE, after_long_help = after_help(Codes::measuring(Some("a stall exceeded --stop-above, or a quantity its --limit")), EXAMPLES), mut_arg("raw", |raw| raw.help(RAW)), mut_arg("limit", |limit| limit.long_help(STALL_HELP).value_parser(of_stall)), mut_arg("explain", |explain| explain.long_help(explain::STALL_HELP)))]
pub(crate) struct StallArguments {
    /// Source to read [default: chosen by hpt]
    #[arg(short, long, value_name = "NAME")]
    source: Option<String>,
    /// Gaps longer than TIME are stalls [default: 10us]
    ///
    /// The default is higher for a coarse source.
    #[arg(long, value_name = "TIME", value_parser = limit)]
    above: Option<Duration>,
    /// Run time [default: 10s]
    #[arg(short, long, value_name = "TIME", value_parser = long)]
    duration: Option<Duration>,
    /// Stop after N stalls on each CPU
    ///
    /// The run ends after --duration even if hpt has found fewer stalls.
    #[arg(short = 'n', long, value_name = "N", value_parser = at_least_one::<u64>)]
    count: Option<u64>,
    #[command(flatten)]
    warm_up: WarmUpOption,
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
    threads: CpuOptions,
    #[command(flatten)]
    pub(crate) chart: ChartOption,
}

impl StallArguments {
    pub(in crate::measurements) fn common(&mut self) -> CommonOptions<'_> {
        CommonOptions {
            limits: Some((self.limits.limits_mut(), Accepted::STALL)),
            has_length: self.duration.is_some() || self.count.is_some(),
            duration: Some(&mut self.duration),
            cpu: CpuOption::Several(&mut self.threads.cpu),
            realtime: Some(&self.threads.realtime),
            spins: true,
            load: Some(&self.load),
            explain: Some(&mut self.explain),
            ..CommonOptions::default()
        }
    }
}

fn limit(text: &str) -> Result<Duration, String> {
    duration_in(text, (Duration::from_nanos(100), Duration::from_secs(60)), ("between 100ns and 1min", "250ns or 10us"))
}

/// A stall to be written to a file.
#[derive(Debug)]
struct RawStall {
    stall: Stall,
    cause: &'static str,
    /// Whether other stalls share the counter increases.
    shared: bool,
}

impl RawSample for RawStall {
    fn text(&self) -> String {
        let Self { stall, cause, shared } = self;
        let shared = if *shared { " shared" } else { "" };
        format!(
            "{} {} {} {cause}{shared}",
            stall.start.nanos_since(Instant::EPOCH),
            stall.length_ns,
            stall.uncertainty_ns
        )
    }
}

pub(crate) fn run(arguments: &StallArguments, context: &Context) -> Result<Document, Failure> {
    let (cpus, _) = arguments.threads.one_each(context, Behavior::Spins)?;
    in_phases(&arguments.load, context, (&cpus, 1), || run_once(arguments, context))
}

fn run_once(arguments: &StallArguments, context: &Context) -> Result<Finished<StallDocument>, Failure> {
    // No signal may end hpt before the trace is removed.
    arguments.threads.realtime.listen_for_all(arguments.explain.is_requested(), context)?;
    let (cpus, refused) = arguments.threads.one_each(context, Behavior::Spins)?;
    arguments.keeping.check()?;
    let source = match &arguments.source {
        Some(name) => name.clone(),
        None => source::choose(&context.host)
            .map_err(|reason| Failure::Source { name: "a source".to_owned(), reason })?
            .id()
            .to_string(),
    };
    // All other threads of the run avoid the measured CPUs.
    let unmeasured_cpu = unmeasured_cpu(&cpus, &allowed_cpus());
    let raw = {
        let _there = unmeasured_cpu.and_then(|cpu| Pinned::new(cpu).ok());
        arguments.keeping.raw()?
    };
    let whole = arguments.threads.realtime.hold_around(context, &cpus, Behavior::Spins, BY)?.without_cpus(refused);
    clock::prime();
    let explained = Explained {
        options: arguments.explain,
        limits: arguments.limits.limits(),
        stop_above_ns: arguments.keeping.limit_ns(),
        awaited: Awaited::Clock,
        behavior: Behavior::Spins,
    };
    let settings = RunSettings {
        kind: KIND,
        observation: Observation { cpus: &cpus, conditions: arguments.conditions, explained: Some(explained) },
        run_length: RunLength { interval: Duration::ZERO, duration: arguments.duration, count: arguments.count },
        warm_up: arguments.warm_up,
        attention: Attention::Rare { cpu: unmeasured_cpu },
        sleepers: 0,
        keeping: &arguments.keeping,
        raw,
        whole: Some(whole),
    };
    let probe = StallProbe {
        arguments,
        context,
        source: &source,
        no_cpu_left: unmeasured_cpu.is_none(),
        start: Instant::now(),
        wanted: AtomicU64::new(0),
        copies: cpus.iter().map(|&cpu| Copied::new(cpu)).collect(),
    };
    run::run(probe, settings, context)
}

/// A measurement of stalls.
struct StallProbe<'a> {
    arguments: &'a StallArguments,
    context: &'a Context,
    source: &'a str,
    /// Whether every CPU runs a measuring thread.
    no_cpu_left: bool,
    start: Instant,
    /// The number of requests for a copy of the counts.
    wanted: AtomicU64,
    copies: Vec<Copied>,
}

impl Probe for StallProbe<'_> {
    type Sample = RawStall;
    type Outcome = ThreadOutcome;
    type Data = StallDocument;

    const LATER: Option<&'static str> = Some("the blind time is known only at the end");

    fn sample(&self, thread: RunThread<'_, RawStall>) -> Result<ThreadOutcome, Failure> {
        let copy = &self.copies[thread.number];
        MeasuringThread { probe: self, thread: &thread, copy, cpu: copy.cpu }.measure()
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        self.copies.iter().map(Copied::snapshot).collect()
    }

    fn counts(&self) -> Option<Vec<ThreadLatencies>> {
        copies_of_all(&self.copies, &self.wanted, PATIENCE)
    }

    fn gauges(&self, counts: &[ThreadLatencies]) -> Vec<Gauge> {
        metrics::stall::gauges(&counts.iter().map(so_far).collect::<Vec<_>>(), &[])
    }

    fn outcomes_so_far(&self) -> Option<Vec<ThreadOutcome>> {
        copies_of_all(&self.copies, &self.wanted, PATIENCE)?;
        self.copies.iter().map(Copied::outcome).collect()
    }

    fn settings(outcome: &ThreadOutcome) -> &EffectiveSettings {
        &outcome.settings
    }

    fn restore(&mut self, _: &[ThreadOutcome]) -> Vec<String> {
        Vec::new()
    }

    fn row(&self, run: &Run<'_, RawStall>, outcomes: &[ThreadOutcome], state: RunReport) -> StallDocument {
        let absences: Vec<CpuAbsence> = outcomes.iter().flat_map(ThreadOutcome::absences).collect();
        let notes = [
            self.context.notes(),
            state.settings.notes(),
            notes_of(outcomes, self.no_cpu_left),
            state.remarks,
            notes_on_absences(outcomes, &absences),
            run.notes(StallDocument::SAMPLES),
        ];
        let longest = longest(outcomes).into_iter().map(|(row, _)| row).collect();
        let newest = chosen(outcomes, |account| account.stalls.newest(), |row| std::cmp::Reverse(row.start_ns));
        let limits = verdicts(self.arguments.limits.limits(), &outcomes.iter().map(limited_row).collect::<Vec<_>>());
        StallDocument {
            head: run.head.clone(),
            measuring: LatencyThread { thread: state.settings.thread, source: self.source.to_owned() },
            read_ns: rounded(outcomes.iter().map(|one| one.poll_cost.read_ns).fold(0.0, f64::max)),
            step_p90_ns: outcomes.iter().filter_map(|one| one.poll_cost.step_ns).max(),
            time: run.time(state.elapsed),
            end: run.end(absences),
            conditions: Conditions::default(),
            explanation: Explanation::default(),
            loaded: None,
            limits,
            results: outcomes.iter().map(row).collect(),
            causes: cause_rows(outcomes),
            counters: outcomes.iter().flat_map(counter_rows).collect(),
            longest,
            newest: newest.into_iter().map(|(row, _)| row).collect(),
            notes: notes.concat(),
        }
    }

    fn page(&self, data: &StallDocument, outcomes: &[ThreadOutcome]) -> Vec<Block> {
        let mut all = Latencies::new();
        outcomes.iter().for_each(|one| all.add(one.account.stalls.lengths()));
        let words: Vec<String> = longest(outcomes).into_iter().map(|(_, words)| words).collect();
        page(data, &words, &all)
    }
}

/// Returns the longest stalls of all threads, each with its likely cause as text.
fn longest(outcomes: &[ThreadOutcome]) -> Vec<(StallRow, String)> {
    chosen(outcomes, |account| account.stalls.longest().iter(), |row| std::cmp::Reverse(row.length_ns))
}

/// Returns notes on time that threads spent on other CPUs, or in which they did not run.
fn notes_on_absences(outcomes: &[ThreadOutcome], absences: &[CpuAbsence]) -> Vec<String> {
    let stalls: u64 = outcomes.iter().map(|one| one.on_other_cpus.stalls).sum();
    let stalls = format!("{stalls} {} in total", one_or_many(stalls, "stall", "stalls"));
    let windows = [
        &format!("measurement window there is not counted ({stalls})")[..],
        &format!("measurement windows there are not counted ({stalls})"),
    ];
    let not_run = outcomes.iter().map(|one| (one.cpu, &one.not_run));
    let not_run = not_run::note_on_included(not_run, "the stalls above include this time");
    cpu_absences::notes(absences, windows).into_iter().chain(not_run).collect()
}

/// The lengths of the stalls so far, for the line on a terminal.
#[derive(Debug)]
struct Lengths {
    latencies: Latencies,
    last_ns: Option<u64>,
}

impl Lengths {
    fn record(&mut self, stall: Stall) {
        self.latencies.record(Wake::new(stall.start, stall.length_ns));
        self.last_ns = Some(stall.length_ns);
    }
}

/// A copy of a thread's counts, made at the request of another thread.
#[derive(Debug)]
struct Copied {
    cpu: Option<usize>,
    lengths: Mutex<Lengths>,
    /// The number of the request that this copy answers.
    answered: AtomicU64,
    latencies: Mutex<Latencies>,
    /// The results of the thread at that time. The statistics of its polling are known only at the end.
    outcome: Mutex<Option<ThreadOutcome>>,
}

impl Copied {
    fn new(cpu: Option<usize>) -> Self {
        Self {
            cpu,
            lengths: Mutex::new(Lengths { latencies: Latencies::new(), last_ns: None }),
            answered: AtomicU64::new(0),
            latencies: Mutex::new(Latencies::new()),
            outcome: Mutex::new(None),
        }
    }

    fn snapshot(&self) -> Snapshot {
        // The thread that measures does not wait for this copy.
        let lengths = self.lengths.lock().unwrap_or_else(PoisonError::into_inner);
        Snapshot { cpu: self.cpu, latencies: lengths.latencies.clone(), last_ns: lengths.last_ns }
    }

    fn answer(&self, latencies: &Latencies, wanted: u64) {
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner).clone_from(latencies);
        self.answered.store(wanted, Ordering::Release);
    }

    /// Makes the results of the thread so far available. `wanted` is the number of the request that this answers.
    fn publish(&self, outcome: &ThreadOutcome, presence: Option<&PinWatch<'_>>, elapsed: Duration, wanted: u64) {
        let mut so_far = outcome.clone();
        so_far.watched.elapsed_ns = saturating_nanos(elapsed);
        so_far.absences = presence.map_or_else(Vec::new, |presence| presence.absences().to_vec());
        let lengths = so_far.account.stalls.lengths().clone();
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(so_far);
        self.answer(&lengths, wanted);
    }

    fn outcome(&self) -> Option<ThreadOutcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn of_thread(&self) -> ThreadLatencies {
        let latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ThreadLatencies { cpu: self.cpu, latencies }
    }
}

/// Requests the counts of all threads. Returns `None` if a thread does not respond within `patience`.
fn copies_of_all(copies: &[Copied], wanted: &AtomicU64, patience: Duration) -> Option<Vec<ThreadLatencies>> {
    let number = wanted.fetch_add(1, Ordering::Relaxed) + 1;
    let end = std::time::Instant::now() + patience;
    // Threads check for requests when they read the counters, about once per second or more often.
    while copies.iter().any(|copy| copy.answered.load(Ordering::Acquire) < number) {
        if std::time::Instant::now() >= end {
            return None;
        }
        crate::pause::pause(LOOKS_FOR_COPIES);
    }
    Some(copies.iter().map(Copied::of_thread).collect())
}

/// A measuring thread.
struct MeasuringThread<'a> {
    probe: &'a StallProbe<'a>,
    thread: &'a RunThread<'a, RawStall>,
    copy: &'a Copied,
    cpu: Option<usize>,
}

/// The source that a thread reads, and what its gaps are compared with.
#[derive(Clone, Copy)]
struct Polled<'a> {
    source: &'a dyn TimeSource,
    rate: Frequency,
    above: Duration,
}

impl MeasuringThread<'_> {
    fn measure(&self) -> Result<ThreadOutcome, Failure> {
        let StallProbe { arguments, context, .. } = *self.probe;
        let held = arguments.threads.realtime.hold_thread(context, self.cpu, Behavior::Spins, BY)?;
        // Open the source here, because some sources belong to the thread that opens them.
        let opened = context.open(self.probe.source)?;
        let source = opened.as_dyn();
        let id = source.info().id.clone();
        let shows_none = |why| Failure::ShowsNoStall { source_id: id.clone(), why };
        match source.info().scope {
            Scope::System | Scope::Core => {}
            Scope::Process | Scope::Thread => return Err(shows_none("it counts only while the thread runs")),
        }
        let reference = context.open("monotonic-raw")?;
        let rate = frequency_of(source, reference.as_dyn()).ok_or_else(|| shows_none("it has no constant rate"))?;
        let poll_cost = poll_cost(source, rate, &SystemClock);
        let step_ns =
            poll_cost.step_ns.ok_or_else(|| shows_none("it advances less often than once every 50 ms, or never"))?;
        let polled = Polled { source, rate, above: self.above(&id, step_ns)? };
        let mut counters = CpuCounters::open(&context.host, self.cpu);
        let start = self.probe.start.saturating_add(arguments.warm_up.length());
        self.warm_up(polled, &mut counters, start);
        let outcome = ThreadOutcome {
            cpu: self.cpu,
            settings: held.settings(),
            account: Account::new(),
            on_other_cpus: OnOtherCpus::default(),
            absences: Vec::new(),
            not_run: NotRun::default(),
            watched: StallWatchStats::default(),
            poll_cost,
            above_ns: saturating_nanos(polled.above),
            counters: counters.counters().to_vec(),
            unreadable: counters.unreadable().to_vec(),
            counts_firmware: counters.counts_firmware(),
        };
        self.watch(polled, &mut counters, start, outcome)
    }

    fn warm_up(&self, polled: Polled<'_>, counters: &mut CpuCounters, start: Instant) {
        if Instant::now() >= start {
            return;
        }
        let (shared, context) = (self.thread.shared, self.probe.context);
        let check = |now| continue_if(now < start && shared.goes_on() && !context.interrupted());
        let deltas = || counters.read_deltas(Instant::now().nanos_since(Instant::EPOCH));
        let watch = StallWatch::new(polled.source, polled.rate).with_threshold(polled.above);
        watch.with_check(check).with_counters(deltas).run(|window| {
            shared.discard(window.stalls.len() as u64);
            ControlFlow::Continue(CallbackTime::Checked)
        });
    }

    /// Watches for stalls until the run ends. `outcome` is that of a thread that has just begun.
    fn watch(
        &self,
        polled: Polled<'_>,
        counters: &mut CpuCounters,
        start: Instant,
        mut outcome: ThreadOutcome,
    ) -> Result<ThreadOutcome, Failure> {
        let StallProbe { arguments, context, ref wanted, .. } = *self.probe;
        let shared = self.thread.shared;
        let mut lengths = Backlog::new(&self.copy.lengths, Lengths::record);
        let mut lines = self.thread.raw.map(|raw| raw.of_thread(self.cpu));
        let mut feed = self.thread.observers.feed(self.cpu);
        let limit_ns = arguments.keeping.limit_ns();
        let end = start.saturating_add(arguments.duration.unwrap_or(USUAL));
        let (mut found, mut copied, began) = (0_u64, 0, Instant::now());
        let mut presence = self.cpu.map(|cpu| PinWatch::new(cpu, &context.host));
        let check = |now| continue_if(now < end && shared.goes_on() && !context.interrupted());
        let deltas = || counters.read_deltas(Instant::now().nanos_since(Instant::EPOCH));
        let each = |window: Window<'_>| {
            let before = found;
            // This check follows the read of the counter files, which takes far longer. It does not affect the polling
            // loop.
            let stayed = presence.as_mut().is_none_or(|presence| presence.stayed(start.elapsed()));
            if !outcome.on_other_cpus.is_own(stayed, &window) {
                // Pinning the thread to its CPU again moves the thread, which does not count as a stall.
                shared.check()?;
                return ControlFlow::Continue(CallbackTime::Excluded);
            }
            outcome.account.record(window.stalls, window.deltas, |stall, cause| {
                if let Some(lines) = &mut lines {
                    lines.add(RawStall { stall: *stall, cause: cause.name(), shared: window.stalls.len() > 1 });
                }
                if let Some(feed) = &mut feed {
                    feed.offer(stall.start.nanos_since(Instant::EPOCH), stall.length_ns);
                }
                lengths.add(*stall);
                if stall.length_ns - stall.uncertainty_ns > limit_ns {
                    shared.stop_at(stall.start);
                }
                found += 1;
                shared.count_one();
            });
            let asked = wanted.load(Ordering::Relaxed);
            // Lines are handed over in batches.
            let busy = asked != copied || (lines.is_some() && handed_over(before, found));
            if asked != copied {
                copied = asked;
                self.copy.publish(&outcome, presence.as_ref(), began.elapsed(), asked);
            }
            continue_if(shared.goes_on() && arguments.count.is_none_or(|wanted| found < wanted))?;
            ControlFlow::Continue(if busy { CallbackTime::Excluded } else { CallbackTime::Checked })
        };
        let mut not_run = NotRunWatch::of_spinning_thread(&context.host, self.cpu);
        shared.begin(began);
        let watch = StallWatch::new(polled.source, polled.rate).with_threshold(polled.above);
        let watched = watch.with_check(check).with_counters(deltas).run(each);
        outcome.not_run = not_run.read();
        drop((lines, lengths));
        // Publish the final counts of this thread now, because other threads may continue for a long time.
        self.copy.publish(&outcome, presence.as_ref(), began.elapsed(), u64::MAX);
        outcome.absences = presence.map_or_else(Vec::new, |presence| presence.absences().to_vec());
        outcome.watched = watched;
        // Counters may have appeared in the meantime.
        outcome.counters = counters.counters().to_vec();
        outcome.unreadable = counters.unreadable().to_vec();
        outcome.counts_firmware = counters.counts_firmware();
        Ok(outcome)
    }

    /// Returns the threshold, which is larger than the steps of the source.
    fn above(&self, id: &SourceId, step_ns: u64) -> Result<Duration, Failure> {
        let least = Duration::from_nanos(step_ns * LEAST_STEPS);
        match self.probe.arguments.above {
            None => Ok(ABOVE.max(Duration::from_nanos(step_ns * STEPS))),
            Some(above) if above >= least => Ok(above),
            Some(_) => Err(Failure::TooFine {
                source_id: id.clone(),
                step: humantime::format_duration(Duration::from_nanos(step_ns)).to_string().replace(' ', ""),
                least: humantime::format_duration(least).to_string().replace(' ', ""),
            }),
        }
    }
}

/// Returns whether lines were handed to the writer between these two counts.
const fn handed_over(before: u64, now: u64) -> bool {
    before / BACKLOG as u64 != now / BACKLOG as u64
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU64, Ordering},
        thread,
        time::Duration,
    };

    use hpt_core::Instant;
    use hpt_instrument::measure::{Latencies, Stall, Wake};

    use super::{Copied, RawStall, ThreadLatencies, copies_of_all, limit};
    use crate::sampling::raw_samples::RawSample;

    const MS: u64 = 1_000_000;

    #[test]
    fn output_during_the_run_waits_for_a_response_from_every_thread() {
        let copies = [Copied::new(Some(0)), Copied::new(Some(1))];
        let wanted = AtomicU64::new(0);
        let mut lengths = Latencies::new();
        lengths.record(Wake::new(Instant::EPOCH + Duration::from_nanos(MS), 15_000));
        // The second thread has not responded, so nothing is written.
        copies[0].answer(&lengths, 1);
        assert!(copies_of_all(&copies, &wanted, Duration::ZERO).is_none());
        let written = thread::scope(|scope| {
            let writer = scope.spawn(|| copies_of_all(&copies, &wanted, Duration::from_secs(60)));
            while wanted.load(Ordering::Relaxed) < 2 {
                thread::yield_now();
            }
            copies[0].answer(&lengths, u64::MAX);
            copies[1].answer(&lengths, 2);
            writer.join().expect("it does not panic")
        });
        let samples =
            |of: Vec<ThreadLatencies>| of.iter().map(|one| one.latencies.histogram().samples()).collect::<Vec<_>>();
        assert_eq!(written.map(samples), Some(vec![1, 1]), "the counts at the time of the request");
        assert!(copies_of_all(&copies, &wanted, Duration::ZERO).is_none(), "an old response does not count");
    }

    #[test]
    fn a_line_of_a_stall_shows_whether_other_stalls_share_its_evidence() {
        let line = |shared| {
            RawStall {
                stall: Stall::new(Instant::EPOCH + Duration::from_nanos(2 * MS), 30_000),
                cause: "stopped",
                shared,
            }
            .text()
        };
        assert_eq!(
            (line(false).as_str(), line(true).as_str()),
            ("2000000 30000 0 stopped", "2000000 30000 0 stopped shared")
        );
    }

    #[test]
    fn a_limit_is_parsed_or_refused() {
        assert_eq!((limit("250ns"), limit("10us")), (Ok(Duration::from_nanos(250)), Ok(Duration::from_micros(10))));
        assert!(["", "10", "99ns", "2min", "-1us"].iter().all(|wrong| limit(wrong).is_err()));
    }
}
