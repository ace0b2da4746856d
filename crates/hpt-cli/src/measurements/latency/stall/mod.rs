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
    Instant, SourceId,
    clock::{self, SystemClock},
    source::{self, Scope},
};
use hpt_document::{
    conditions::Conditions, cpu_absence::CpuAbsence, explain::Explanation, latency::LatencyThread, not_run::NotRun,
    stall::StallDocument,
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
    measurements::{CommonOptions, CpuOption},
    output::{
        Answer, Document, chart_option::ChartOption, latency_files::ThreadLatencies, metrics, one_or_many, rounded,
        saturating_nanos,
    },
    sampling::{
        conditions::{ConditionOptions, ConditionsThread, unmeasured_cpu},
        cpu_absences,
        cpu_options::CpuOptions,
        explain::{self, Awaited, ExplainOptions, Explaining, MeasuredThread},
        limits::{
            option::{LimitOptions, STALL_HELP, of_stall},
            quantity::Accepted,
            verdict::{self, verdicts},
        },
        live_lines::{LiveLines, Snapshot},
        load::{LoadOptions, in_phases},
        not_run,
        raw_samples::{BACKLOG, Backlog, Raw, RawSample},
        realtime_settings::EffectiveSettings,
        result_files::ResultOptions,
        run::{Attention, Run, SO_FAR},
        run_length::{RunLength, USUAL, long},
        run_state::RunState,
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

fn run_once(arguments: &StallArguments, context: &Context) -> Result<Document, Failure> {
    // No signal may end hpt before the trace is removed.
    if arguments.explain.is_requested() {
        context.signals.listen_until_the_end()?;
    } else {
        arguments.threads.realtime.listen(context)?;
    }
    context.signals.listen_for_requests()?;
    let (cpus, refused) = arguments.threads.one_each(context, Behavior::Spins)?;
    arguments.keeping.check()?;
    let name = match &arguments.source {
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

    let above = (arguments.keeping.limit_ns(), Awaited::Clock);
    let explaining = arguments.explain.begin(&cpus, arguments.limits.limits(), above);
    let conditions = ConditionsThread::begin(context, &cpus);
    let wanted = AtomicU64::new(0);
    let copies: Vec<_> = cpus.iter().map(|&cpu| Copied::new(cpu)).collect();
    let mut run = Run::new(KIND, context, (&arguments.keeping, raw), 0);
    run.live = LiveLines::of(&cpus, || copies.iter().map(Copied::snapshot).collect());
    let start = Instant::now();
    let works = copies.iter().map(|copy| {
        let (shared, raw) = (&run.shared, run.raw());
        let explaining = &explaining;
        let thread = OneThread { arguments, context, shared, wanted: &wanted, copy, raw, explaining, cpu: copy.cpu };
        let name = &name;
        move || thread.measure(name, start)
    });
    let run_length = RunLength { interval: Duration::ZERO, duration: arguments.duration, count: arguments.count };
    let asked = StallRequest { arguments, context, source: &name, no_cpu_left: unmeasured_cpu.is_none() };
    let write = || {
        if run.files.are_none() {
            return Ok(());
        }
        // The counts are written only if all threads have responded. Otherwise, the existing file, from a minute
        // earlier or from the previous run, is more useful.
        copies_of_all(&copies, &wanted, PATIENCE).map_or(Ok(()), |threads| {
            let results: Vec<_> = threads.iter().map(so_far).collect();
            run.files.keep_metrics(&run.head, metrics::stall::gauges(&results, &[]))?;
            run.files.write(&threads)
        })
    };
    let result_so_far = || {
        copies_of_all(&copies, &wanted, PATIENCE)?;
        let outcomes: Option<Vec<_>> = copies.iter().map(Copied::outcome).collect();
        let outcomes = outcomes?;
        let settings =
            EffectiveSettings::of_several(&outcomes.first()?.settings, outcomes.iter().map(|one| one.settings.clone()));
        let remarks = vec![SO_FAR.to_owned(), "the blind time is known only at the end".to_owned()];
        let (data, words) = asked.data(&run, &outcomes, (settings, remarks, run.shared.elapsed()));
        let blocks = page(&data, &words, &all_of(&outcomes));
        Some(Document::new(data, blocks))
    };
    let attention = Attention::Rare { cpu: unmeasured_cpu };
    let outcome = run.measure((run_length, "stalls", attention), works, write, result_so_far);
    let elapsed = start.elapsed().saturating_sub(arguments.warm_up.length());
    let conditions = conditions.end();
    let ended = outcome?;
    let settings = EffectiveSettings::of_several(&whole.settings(), ended.iter().map(|one| one.settings.clone()));
    let measured = MeasuredThread { cpus: &cpus, thread: &settings.thread, behavior: Behavior::Spins };
    let explanation = explaining.end(context, measured);
    let mut warnings = whole.end();
    let of_threads =
        |one: &ThreadOutcome| ThreadLatencies { cpu: one.cpu, latencies: one.account.stalls.lengths().clone() };
    let threads: Vec<_> = ended.iter().map(of_threads).collect();
    warnings.extend(run.finish(&threads));
    let (mut data, words) = asked.data(&run, &ended, (settings, warnings.clone(), elapsed));
    // A stall above --stop-above counts even if a file could not be written.
    let answer = match (data.end.stopped_at_ns, warnings.is_empty()) {
        (Some(_), _) => Answer::No,
        (None, false) => Answer::Unknown,
        (None, true) => Answer::Yes,
    };
    let answer = answer.and(verdict::answer(&data.limits));
    data.conditions = conditions;
    data.explanation = explanation;
    let remarks = (&mut data.notes, &mut *data.limits);
    let answer = arguments.conditions.judge(&data.conditions, remarks, answer);
    let blocks = page(&data, &words, &all_of(&ended));
    Ok(Document { answer, warnings, ..Document::new(data, blocks) })
}

/// Returns the lengths of the stalls of all threads together.
fn all_of(ended: &[ThreadOutcome]) -> Latencies {
    let mut all = Latencies::new();
    ended.iter().for_each(|one| all.add(one.account.stalls.lengths()));
    all
}

/// The request: the parts of the document that are known before the run.
struct StallRequest<'a> {
    arguments: &'a StallArguments,
    context: &'a Context,
    source: &'a str,
    /// Whether every CPU runs a measuring thread.
    no_cpu_left: bool,
}

impl StallRequest<'_> {
    /// Returns the document, at the end of the run or before, and the likely causes of its longest stalls. `remarks` are
    /// warnings, or remarks on the state of the run.
    fn data(
        &self,
        run: &Run<'_, RawStall>,
        ended: &[ThreadOutcome],
        (settings, remarks, elapsed): (EffectiveSettings, Vec<String>, Duration),
    ) -> (StallDocument, Vec<String>) {
        let Self { arguments, context, source, no_cpu_left } = *self;
        let mut notes = [context.notes(), settings.notes(), notes_of(ended, no_cpu_left), remarks].concat();
        let absences: Vec<CpuAbsence> = ended.iter().flat_map(ThreadOutcome::absences).collect();
        let stalls: u64 = ended.iter().map(|one| one.on_other_cpus.stalls).sum();
        let stalls = format!("{stalls} {} in total", one_or_many(stalls, "stall", "stalls"));
        notes.extend(cpu_absences::notes(
            &absences,
            [
                &format!("measurement window there is not counted ({stalls})"),
                &format!("measurement windows there are not counted ({stalls})"),
            ],
        ));
        notes.extend(not_run::note_on_included(
            ended.iter().map(|one| (one.cpu, &one.not_run)),
            "the stalls above include this time",
        ));
        notes.extend(run.shared.unmarked());
        notes.extend(arguments.warm_up.note(run.shared.discarded()).map(|note| note.replacen("sample", "stall", 1)));
        let (time, end) = (run.time(elapsed, arguments.warm_up), run.end(absences));
        let longest = chosen(ended, |account| account.stalls.longest().iter(), |row| std::cmp::Reverse(row.length_ns));
        let newest = chosen(ended, |account| account.stalls.newest(), |row| std::cmp::Reverse(row.start_ns));
        let (longest, words): (Vec<_>, Vec<_>) = longest.into_iter().unzip();
        let limits = verdicts(arguments.limits.limits(), &ended.iter().map(limited_row).collect::<Vec<_>>());
        let data = StallDocument {
            head: run.head.clone(),
            measuring: LatencyThread { thread: settings.thread, source: source.to_owned() },
            read_ns: rounded(ended.iter().map(|one| one.poll_cost.read_ns).fold(0.0, f64::max)),
            step_p90_ns: ended.iter().filter_map(|one| one.poll_cost.step_ns).max(),
            time,
            end,
            conditions: Conditions::default(),
            explanation: Explanation::default(),
            loaded: None,
            limits,
            results: ended.iter().map(row).collect(),
            causes: cause_rows(ended),
            counters: ended.iter().flat_map(counter_rows).collect(),
            longest,
            newest: newest.into_iter().map(|(row, _)| row).collect(),
            notes,
        };
        (data, words)
    }
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

struct OneThread<'a> {
    arguments: &'a StallArguments,
    context: &'a Context,
    shared: &'a RunState,
    /// The number of requests for a copy of the counts.
    wanted: &'a AtomicU64,
    copy: &'a Copied,
    raw: Option<&'a Raw<RawStall>>,
    explaining: &'a Explaining,
    cpu: Option<usize>,
}

impl OneThread<'_> {
    fn measure(&self, name: &str, start: Instant) -> Result<ThreadOutcome, Failure> {
        let arguments = self.arguments;
        let held = arguments.threads.realtime.hold_thread(self.context, self.cpu, Behavior::Spins, BY)?;
        let settings = held.settings();
        // Open the source here, because some sources belong to the thread that opens them.
        let opened = self.context.open(name)?;
        let source = opened.as_dyn();
        let id = source.info().id.clone();
        let shows_none = |why| Failure::ShowsNoStall { source_id: id.clone(), why };
        match source.info().scope {
            Scope::System | Scope::Core => {}
            Scope::Process | Scope::Thread => return Err(shows_none("it counts only while the thread runs")),
        }
        let reference = self.context.open("monotonic-raw")?;
        let rate = frequency_of(source, reference.as_dyn()).ok_or_else(|| shows_none("it has no constant rate"))?;
        let poll_cost = poll_cost(source, rate, &SystemClock);
        let step_ns =
            poll_cost.step_ns.ok_or_else(|| shows_none("it advances less often than once every 50 ms, or never"))?;
        let above = self.above(&id, step_ns)?;
        let above_ns = saturating_nanos(above);

        let mut counters = CpuCounters::open(&self.context.host, self.cpu);
        let start = start.saturating_add(arguments.warm_up.length());
        if Instant::now() < start {
            let check = |now| continue_if(now < start && self.shared.goes_on() && !self.context.interrupted());
            let deltas = || counters.read_deltas(Instant::now().nanos_since(Instant::EPOCH));
            let watch = StallWatch::new(source, rate).with_threshold(above);
            watch.with_check(check).with_counters(deltas).run(|window| {
                self.shared.discard(window.stalls.len() as u64);
                ControlFlow::Continue(CallbackTime::Checked)
            });
        }
        let (listed, unreadable, counts_firmware) =
            (counters.counters().to_vec(), counters.unreadable().to_vec(), counters.counts_firmware());
        let began = Instant::now();
        let outcome_of = |account, on_other_cpus, absences, elapsed: Duration| {
            let mut watched = StallWatchStats::default();
            watched.elapsed_ns = saturating_nanos(elapsed);
            ThreadOutcome {
                cpu: self.cpu,
                settings: settings.clone(),
                account,
                on_other_cpus,
                absences,
                not_run: NotRun::default(),
                watched,
                poll_cost,
                above_ns,
                counters: listed.clone(),
                unreadable: unreadable.clone(),
                counts_firmware,
            }
        };
        let mut account = Account::new();
        let mut lengths = Backlog::new(&self.copy.lengths, Lengths::record);
        let mut lines = self.raw.map(|raw| raw.of_thread(self.cpu));
        let mut feed = self.explaining.feed(self.cpu);
        let limit_ns = arguments.keeping.limit_ns();
        let (end, mut found, mut copied) = (start.saturating_add(arguments.duration.unwrap_or(USUAL)), 0_u64, 0);
        let mut presence = self.cpu.map(|cpu| PinWatch::new(cpu, &self.context.host));
        let mut on_other_cpus = OnOtherCpus::default();
        let check = |now| continue_if(now < end && self.shared.goes_on() && !self.context.interrupted());
        let deltas = || counters.read_deltas(Instant::now().nanos_since(Instant::EPOCH));
        let each = |window: Window<'_>| {
            let before = found;
            // This check follows the read of the counter files, which takes far longer. It does not affect the polling
            // loop.
            let stayed = presence.as_mut().is_none_or(|presence| presence.stayed(start.elapsed()));
            if !on_other_cpus.is_own(stayed, &window) {
                // Pinning the thread to its CPU again moves the thread, which does not count as a stall.
                self.shared.check()?;
                return ControlFlow::Continue(CallbackTime::Excluded);
            }
            account.record(window.stalls, window.deltas, |stall, cause| {
                if let Some(lines) = &mut lines {
                    lines.add(RawStall { stall: *stall, cause: cause.name(), shared: window.stalls.len() > 1 });
                }
                if let Some(feed) = &mut feed {
                    feed.offer(stall.start.nanos_since(Instant::EPOCH), stall.length_ns);
                }
                lengths.add(*stall);
                if stall.length_ns - stall.uncertainty_ns > limit_ns {
                    self.shared.stop_at(stall.start);
                }
                found += 1;
                self.shared.count_one();
            });
            let wanted = self.wanted.load(Ordering::Relaxed);
            // Lines are handed over in batches.
            let busy = wanted != copied || (lines.is_some() && handed_over(before, found));
            if wanted != copied {
                copied = wanted;
                let absences = presence.as_ref().map_or_else(Vec::new, |presence| presence.absences().to_vec());
                let so_far = outcome_of(account.clone(), on_other_cpus, absences, began.elapsed());
                *self.copy.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(so_far);
                self.copy.answer(account.stalls.lengths(), wanted);
            }
            continue_if(self.shared.goes_on() && arguments.count.is_none_or(|wanted| found < wanted))?;
            ControlFlow::Continue(if busy { CallbackTime::Excluded } else { CallbackTime::Checked })
        };
        let mut not_run = NotRunWatch::of_spinning_thread(&self.context.host, self.cpu);
        self.shared.begin(began);
        let watch = StallWatch::new(source, rate).with_threshold(above);
        let watched = watch.with_check(check).with_counters(deltas).run(each);
        let not_run = not_run::field_of(&not_run.read());
        drop((lines, lengths));
        let absences = presence.map_or_else(Vec::new, |presence| presence.absences().to_vec());
        // Publish the final counts of this thread now, because other threads may continue for a long time.
        let last = outcome_of(account.clone(), on_other_cpus, absences.clone(), began.elapsed());
        *self.copy.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
        self.copy.answer(account.stalls.lengths(), u64::MAX);
        Ok(ThreadOutcome {
            not_run,
            watched,
            counters: counters.counters().to_vec(),
            unreadable: counters.unreadable().to_vec(),
            counts_firmware: counters.counts_firmware(),
            ..outcome_of(account, on_other_cpus, absences, Duration::ZERO)
        })
    }

    /// Returns the threshold, which is larger than the steps of the source.
    fn above(&self, id: &SourceId, step_ns: u64) -> Result<Duration, Failure> {
        let least = Duration::from_nanos(step_ns * LEAST_STEPS);
        match self.arguments.above {
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
