//! `hpt latency stall`: when a thread that does nothing but look at the time is kept from it, for how long, and what moved meanwhile.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, SystemTime},
};

use clap::Args;
use hpt_core::{
    Instant, SourceId,
    clock::{self, SystemClock},
    diagnose::{Cause, Habits, stall_causes},
    measure::{
        Counter, CounterKind, CpuCounters, Lateness, Looking, Moved, Recurrence, Stall, Stalls, Told, Watched, Window,
        looking, watch_for_stalls,
    },
    realtime::{Conduct, Pinned, allowed_cpus},
    source::{self, Scope},
};
use serde::Serialize;
use serde_json::json;

use super::{
    keeping::{Keeping, ended_by},
    threads::{Threads, name_of},
};
use crate::{
    cli::after_help,
    context::Context,
    exit::Failure,
    lateness::{OfThread, bars, tail},
    long_run::{BACKLOG, Extent, Raw, RawSample, Shared, long, watch_without_disturbing},
    machine::Head,
    picture_option::PictureOption,
    rates::rate,
    realtime::Settings,
    render::{Align, Answer, Block, Cell, Column, Document, Table, remarks, rounded, short_time},
};

const EXAMPLES: &str = "  \
  hpt latency stall                            the highest CPU, for 10 s
  hpt latency stall --cpu all --above 50us --duration 1h
  hpt latency stall --cpu 3 --fifo 99 --accept-throttling --raw stalls.txt
  hpt latency stall --cpu 3 --fifo 99 --no-throttling --break-above 200us";
/// The kind of its document.
pub(super) const KIND: &str = "latency-stall";
const BY: &str = "hpt latency stall";
const RAW: &str = "Also write every stall to a file: the number of the CPU, when it began by CLOCK_MONOTONIC, how long it was and how uncertain that is, in nanoseconds, and \
                   what it was likely caused by; and `shared` where others came at the same time, among which what moved was shared out";

/// Without `--above`: what an interrupt takes on most machines is below, what is felt is above.
const ABOVE: Duration = Duration::from_micros(10);
/// A limit is so many usual steps of a source, without `--above`, and the least that it takes.
const STEPS: u64 = 4;
const LEAST_STEPS: u64 = 2;
/// Of each thread, the longest and the newest are told one by one.
const KEPT: usize = 100;
/// As many are shown to people.
const SHOWN: usize = 10;
/// All threads have to answer in this time for a file to be written while they go on, and it is looked so often whether they have.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOKS_FOR_COPIES: Duration = Duration::from_millis(50);
/// What is kept of what moved around one stall.
const MOVERS: usize = 12;

/// What takes a CPU away from a program that never gives it up
///
/// One thread on each CPU that is named reads a time source as fast as it can. Each gap between two readings that is longer than a limit is a stall: the thread did
/// not run. For each: when, how long, and which of the kernel's counters of this CPU moved meanwhile (interrupts, soft interrupts, switches to other threads, stolen
/// time), beside how often they move without a stall; over all: whether they come back after the same time.
#[derive(Debug, Args)]
#[command(after_help = after_help(EXAMPLES), mut_arg("raw", |raw| raw.help(RAW)))]
pub(crate) struct Arguments {
    /// Read this source [default: the one that hpt chooses]
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// A gap between two readings that is longer is a stall [default: 10us, or more for a source that takes longer to read]
    #[arg(long, value_name = "TIME", value_parser = limit)]
    above: Option<Duration>,
    /// Watch for so long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = long)]
    duration: Duration,
    /// End after so many stalls on each CPU, if they come within --duration
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    keeping: Keeping,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    pub(crate) picture: PictureOption,
}

fn limit(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 250ns or 10us"))?;
    let (least, most) = (Duration::from_nanos(100), Duration::from_secs(60));
    if (least..=most).contains(&time) { Ok(time) } else { Err("from 100ns to 1min".to_owned()) }
}

/// What is known of one stall beside its length.
#[derive(Clone, Debug)]
struct Beside {
    /// By the wall clock, as that was then.
    began: SystemTime,
    cause: Cause,
    moved: Moved,
    /// So many stalls share what moved.
    shared: usize,
}

/// What one thread found.
#[derive(Clone, Debug)]
struct Account {
    stalls: Stalls<Beside>,
    habits: Habits,
    /// By the places of [`Cause::NAMES`]: how many, and how long all together.
    causes: [(u64, u64); Cause::NAMES.len()],
}

impl Account {
    fn new() -> Self {
        Self { stalls: Stalls::keeping(KEPT), habits: Habits::default(), causes: Default::default() }
    }

    /// Takes a window, judged by those before it.
    fn record(&mut self, stalls: &[Stall], moved: &Moved, mut each: impl FnMut(&Stall, &Cause)) {
        let causes = stall_causes(stalls, moved, &self.habits);
        for (stall, cause) in stalls.iter().zip(causes) {
            let place = Cause::NAMES.iter().position(|name| *name == cause.name()).unwrap_or(0);
            self.causes[place].0 += 1;
            self.causes[place].1 = self.causes[place].1.saturating_add(stall.length_ns);
            each(stall, &cause);
            let mut moved = moved.clone();
            keep_the_most_unusual(&mut moved, &cause);
            let beside = Beside { began: stall.start.to_system_time(), cause, moved, shared: stalls.len() };
            self.stalls.record(*stall, beside);
        }
        self.habits.record(moved, !stalls.is_empty());
    }
}

/// First what the cause names, then what counted most.
fn keep_the_most_unusual(moved: &mut Moved, cause: &Cause) {
    let named: &[usize] = if let Cause::Interrupts(named) = cause { named } else { &[] };
    let rank = |place: usize| named.iter().position(|other| *other == place).unwrap_or(usize::MAX);
    if let Some(counts) = &mut moved.counts {
        counts.sort_by_key(|&(place, by)| (rank(place), std::cmp::Reverse(by)));
        counts.truncate(MOVERS);
    }
}

/// What a thread said at its end.
#[derive(Debug)]
struct Ended {
    cpu: Option<usize>,
    settings: Settings,
    account: Account,
    watched: Watched,
    looking: Looking,
    above_ns: u64,
    counters: Vec<Counter>,
    unread: Vec<(&'static str, String)>,
    counts_firmware: bool,
}

/// A stall on its way to a file.
#[derive(Debug)]
struct RawStall {
    stall: Stall,
    cause: &'static str,
    /// Others share what moved.
    shared: bool,
}

impl RawSample for RawStall {
    fn text(&self) -> String {
        let Self { stall, cause, shared } = self;
        let shared = if *shared { " shared" } else { "" };
        format!("{} {} {} {cause}{shared}", stall.start.as_nanoseconds(), stall.length_ns, stall.uncertain_ns)
    }
}

/// One CPU, for programs.
#[derive(Debug, Serialize)]
struct Row {
    cpu: Option<usize>,
    stalls: u64,
    stalled_ns: u64,
    elapsed_ns: u64,
    above_ns: u64,
    min_ns: Option<u64>,
    mean_ns: Option<f64>,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    p999_ns: Option<u64>,
    max_ns: Option<u64>,
    /// When the longest began, by CLOCK_MONOTONIC.
    max_at_ns: Option<u64>,
    period_ns: Option<u64>,
    period_p10_ns: Option<u64>,
    period_p90_ns: Option<u64>,
    period_followed: Option<u64>,
    period_of: Option<u64>,
    asking_ns: u64,
    questions: u64,
    longest_question_ns: u64,
    blind_below_ns: u64,
    went_back: u64,
    windows_with: u64,
    windows_without: u64,
    /// Whole microseconds and how many were as long.
    microseconds: Vec<(u64, u64)>,
    beyond: u64,
}

/// What is known of one CPU while it runs.
#[derive(Debug, Serialize)]
struct SoFar {
    cpu: Option<usize>,
    stalls: u64,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    p999_ns: Option<u64>,
    max_ns: Option<u64>,
}

#[derive(Debug, Serialize)]
struct CauseRow {
    cause: &'static str,
    stalls: u64,
    stalled_ns: u64,
}

#[derive(Debug, Serialize)]
struct CounterRow {
    cpu: Option<usize>,
    kind: &'static str,
    name: String,
    label: String,
    windows_with: u64,
    windows_without: u64,
    usual_hz: Option<f64>,
}

#[derive(Debug, Serialize)]
struct StallRow {
    cpu: Option<usize>,
    start_ns: u64,
    began: String,
    length_ns: u64,
    uncertain_ns: u64,
    cause: &'static str,
    window_ns: u64,
    shared: usize,
    voluntary: Option<u64>,
    involuntary: Option<u64>,
    major_faults: Option<u64>,
    waited_ns: Option<u64>,
    migrated: bool,
    stolen_ns: Option<u64>,
    firmware: Option<u64>,
    moved: Vec<(String, u64)>,
    #[serde(skip)]
    words: String,
}

#[derive(Debug, Serialize)]
struct Data {
    #[serde(flatten)]
    head: Head,
    thread: Settings,
    source: SourceId,
    read_ns: f64,
    step_ns: Option<u64>,
    began: String,
    elapsed_s: f64,
    broke_at_ns: Option<u64>,
    interrupted: bool,
    results: Vec<Row>,
    causes: Vec<CauseRow>,
    counters: Vec<CounterRow>,
    longest: Vec<StallRow>,
    newest: Vec<StallRow>,
    notes: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Document, Failure> {
    arguments.threads.realtime.listen(context)?;
    let cpus = arguments.threads.one_each(Conduct::Spins)?;
    arguments.keeping.check()?;
    let name = match &arguments.source {
        Some(name) => name.clone(),
        None => source::choose(&context.host)
            .map_err(|reason| Failure::Source { name: "a source".to_owned(), reason })?
            .0
            .as_dyn()
            .info()
            .id
            .to_string(),
    };
    // What belongs to the run and not to the measurement stays off the CPUs that are measured.
    let elsewhere = elsewhere(&cpus, &allowed_cpus());
    let raw = {
        let _there = elsewhere.and_then(|cpu| Pinned::to(cpu).ok());
        arguments.keeping.raw()?
    };
    let whole = arguments.threads.realtime.hold_around(context, &cpus, Conduct::Spins, BY)?;
    clock::prime();

    let head = Head::of(KIND, &context.host);
    let files = arguments.keeping.files(context);
    let (shared, wanted) = (arguments.keeping.shared(0), AtomicU64::new(0));
    let copies: Vec<_> = cpus.iter().map(|&cpu| Copied::new(cpu)).collect();
    let start = Instant::now();
    let (tell, ended) = mpsc::channel();
    let outcome = thread::scope(|scope| {
        let threads: Vec<_> = copies
            .iter()
            .map(|copy| {
                let (tell, raw, shared, wanted, name) = (tell.clone(), raw.as_ref(), &shared, &wanted, &name);
                let thread = OneThread { arguments, context, shared, wanted, copy, raw, cpu: copy.cpu };
                scope.spawn(move || {
                    // Without one of them the others are not what was asked for.
                    let outcome = thread.measure(name, start).inspect_err(|_| shared.end());
                    let _ = tell.send(());
                    outcome
                })
            })
            .collect();
        drop(tell);
        let _there = elsewhere.and_then(|cpu| Pinned::to(cpu).ok());
        let extent = Extent { interval: Duration::ZERO, duration: arguments.duration, count: arguments.count };
        watch_without_disturbing((extent, cpus.len(), "stalls"), &shared, start, &ended, || {
            if files.are_none() {
                return Ok(());
            }
            // What not all have answered for is not written: the file of the minute before, or of the run before, says more.
            copies_of_all(&copies, &wanted, PATIENCE).map_or(Ok(()), |threads| {
                let results: Vec<_> = threads.iter().map(so_far).collect();
                files.keep_metrics(&head, &json!({ "results": results }))?;
                files.write(&threads)
            })
        });
        let ended = threads.into_iter().map(|one| one.join().expect("a thread that measures does not panic"));
        ended.collect::<Result<Vec<Ended>, Failure>>()
    });
    let elapsed = start.elapsed();
    let ended = outcome?;
    let settings = Settings::of_several(&whole.settings(), ended.iter().map(|one| one.settings.clone()));
    let mut warnings = whole.end();
    let of_threads = |one: &Ended| OfThread { cpu: one.cpu, lateness: one.account.stalls.lengths().clone() };
    let threads: Vec<_> = ended.iter().map(of_threads).collect();
    warnings.extend(files.finish(raw, &threads));

    let mut all = Lateness::new();
    threads.iter().for_each(|thread| all.add(&thread.lateness));
    let mut notes =
        [context.notes(), settings.notes(), notes_of(&ended, elsewhere.is_none()), warnings.clone()].concat();
    notes.extend(shared.unmarked());
    let data = Data {
        head,
        thread: settings,
        source: SourceId::from(name),
        read_ns: rounded(ended.iter().map(|one| one.looking.read_ns).fold(0.0, f64::max)),
        step_ns: ended.iter().filter_map(|one| one.looking.step_ns).max(),
        began: files.began(),
        elapsed_s: rounded(elapsed.as_secs_f64()),
        broke_at_ns: shared.broke_at_ns(),
        interrupted: context.interrupted(),
        results: ended.iter().map(row).collect(),
        causes: cause_rows(&ended),
        counters: ended.iter().flat_map(counter_rows).collect(),
        longest: chosen(&ended, |account| account.stalls.longest().iter(), |row| std::cmp::Reverse(row.length_ns)),
        newest: chosen(&ended, |account| account.stalls.newest(), |row| std::cmp::Reverse(row.start_ns)),
        notes,
    };
    let answer = match (!warnings.is_empty(), data.broke_at_ns) {
        (true, _) => Answer::Unknown,
        (false, Some(_)) => Answer::No,
        (false, None) => Answer::Yes,
    };
    let blocks = page(&data, &all);
    Ok(Document { answer, warnings, ..Document::new(&data, "results", blocks) })
}

/// A CPU that nothing is measured on; none is needed where a thread may be anywhere.
fn elsewhere(measured: &[Option<usize>], allowed: &[usize]) -> Option<usize> {
    let is_free = |cpu: &&usize| !measured.contains(&Some(**cpu));
    if measured.contains(&None) { None } else { allowed.iter().find(is_free).copied() }
}

/// The counts of a thread as they were when it was asked for them.
#[derive(Debug)]
struct Copied {
    cpu: Option<usize>,
    /// How often it was asked for a copy when it made this one.
    answered: AtomicU64,
    lateness: Mutex<Lateness>,
}

impl Copied {
    fn new(cpu: Option<usize>) -> Self {
        Self { cpu, answered: AtomicU64::new(0), lateness: Mutex::new(Lateness::new()) }
    }

    fn answer(&self, lateness: &Lateness, wanted: u64) {
        self.lateness.lock().unwrap_or_else(PoisonError::into_inner).clone_from(lateness);
        self.answered.store(wanted, Ordering::Release);
    }

    fn of_thread(&self) -> OfThread {
        let lateness = self.lateness.lock().unwrap_or_else(PoisonError::into_inner).clone();
        OfThread { cpu: self.cpu, lateness }
    }
}

/// Asks all threads for their counts; `None` where one has not answered in this time.
fn copies_of_all(copies: &[Copied], wanted: &AtomicU64, patience: Duration) -> Option<Vec<OfThread>> {
    let number = wanted.fetch_add(1, Ordering::Relaxed) + 1;
    let end = std::time::Instant::now() + patience;
    // They look for it when they ask what moved, which is at least every second or so.
    while copies.iter().any(|copy| copy.answered.load(Ordering::Acquire) < number) {
        if std::time::Instant::now() >= end {
            return None;
        }
        thread::sleep(LOOKS_FOR_COPIES);
    }
    Some(copies.iter().map(Copied::of_thread).collect())
}

/// The thread of one CPU.
struct OneThread<'a> {
    arguments: &'a Arguments,
    context: &'a Context,
    shared: &'a Shared,
    /// How often a copy of the counts was asked for.
    wanted: &'a AtomicU64,
    copy: &'a Copied,
    raw: Option<&'a Raw<RawStall>>,
    cpu: Option<usize>,
}

impl OneThread<'_> {
    fn measure(&self, name: &str, start: Instant) -> Result<Ended, Failure> {
        let arguments = self.arguments;
        let held = arguments.threads.realtime.hold_thread(self.context, self.cpu, Conduct::Spins, BY)?;
        let settings = held.settings();
        // Here, because some sources belong to the thread that opens them.
        let opened = self.context.open(name)?;
        let source = opened.as_dyn();
        let id = source.info().id.clone();
        let shows_none = |why| Failure::ShowsNoStall { source_id: id.clone(), why };
        match source.info().scope {
            Scope::System | Scope::Core => {}
            Scope::Process | Scope::Thread => return Err(shows_none("it counts only while the thread runs")),
        }
        let reference = self.context.open("monotonic-raw")?;
        let rate = rate(source, reference.as_dyn()).ok_or_else(|| shows_none("it has no steady rate"))?;
        let looking = looking(source, rate, &SystemClock);
        let step_ns =
            looking.step_ns.ok_or_else(|| shows_none("it stands still, or moves more rarely than every 50 ms"))?;
        let above = self.above(&id, step_ns)?;
        let above_ns = u64::try_from(above.as_nanos()).unwrap_or(u64::MAX);

        let mut counters = CpuCounters::open(&self.context.host, self.cpu);
        let mut account = Account::new();
        let mut lines = self.raw.map(|raw| raw.of_thread(self.cpu));
        let limit_ns = arguments.keeping.limit_ns();
        let (end, mut found, mut copied) = (start.saturating_add(arguments.duration), 0_u64, 0);
        let go_on = |now| now < end && self.shared.goes_on() && !self.context.interrupted();
        let moved = || counters.moved(Instant::now().as_nanoseconds());
        let each = |window: Window<'_>| {
            let before = found;
            account.record(window.stalls, window.moved, |stall, cause| {
                if let Some(lines) = &mut lines {
                    lines.add(RawStall { stall: *stall, cause: cause.name(), shared: window.stalls.len() > 1 });
                }
                if stall.length_ns - stall.uncertain_ns > limit_ns {
                    self.shared.break_at(stall.start);
                }
                found += 1;
                self.shared.count_one();
            });
            let wanted = self.wanted.load(Ordering::Relaxed);
            // Lines are handed over at every so many of them.
            let busy = wanted != copied || (lines.is_some() && handed_over(before, found));
            if wanted != copied {
                copied = wanted;
                self.copy.answer(account.stalls.lengths(), wanted);
            }
            match (self.shared.goes_on() && arguments.count.is_none_or(|wanted| found < wanted), busy) {
                (false, _) => Told::End,
                (true, true) => Told::Busy,
                (true, false) => Told::GoOn,
            }
        };
        let watched = watch_for_stalls(source, rate, &SystemClock, above, go_on, moved, each);
        drop(lines);
        // Whoever ended has answered for good: the others may go on for long.
        self.copy.answer(account.stalls.lengths(), u64::MAX);
        Ok(Ended {
            cpu: self.cpu,
            settings,
            account,
            watched,
            looking,
            above_ns,
            counters: counters.counters().to_vec(),
            unread: counters.unread().to_vec(),
            counts_firmware: counters.counts_firmware(),
        })
    }

    /// The limit, which readings by themselves do not reach.
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

/// Whether lines were handed to the writer while so many became so many.
const fn handed_over(before: u64, now: u64) -> bool {
    before / BACKLOG as u64 != now / BACKLOG as u64
}

/// What else is to be said.
fn notes_of(ended: &[Ended], no_cpu_left: bool) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    let mut unread: Vec<_> = ended.iter().flat_map(|one| &one.unread).collect();
    unread.sort();
    unread.dedup();
    notes.extend(
        unread.iter().map(|(path, why)| format!("{path} could not be read ({why}): what it counts is not told")),
    );
    if no_cpu_left && ended.iter().all(|one| one.cpu.is_some()) {
        notes.push("a thread of hpt's own shares a CPU with the measurement: it wakes up once a minute, and more often for a terminal".to_owned());
    }
    let back: u64 = ended.iter().map(|one| one.watched.went_back).sum();
    if back > 0 {
        notes.push(format!("the source went back {back} times, which is no stall"));
    }
    notes
}

fn so_far(thread: &OfThread) -> SoFar {
    let lengths = &thread.lateness;
    let counts = lengths.counts();
    SoFar {
        cpu: thread.cpu,
        stalls: counts.samples(),
        p50_ns: counts.quantile(0.5),
        p99_ns: tail(counts, 0.99),
        p999_ns: tail(counts, 0.999),
        max_ns: lengths.latest().map(|longest| longest.late_ns),
    }
}

fn row(ended: &Ended) -> Row {
    let Ended { account, watched, .. } = ended;
    let lengths = account.stalls.lengths();
    let counts = lengths.counts();
    let period = account.stalls.recurrence();
    let of_period = |figure: fn(&Recurrence) -> u64| period.as_ref().map(figure);
    let (windows_with, windows_without) = account.habits.windows();
    let microseconds = (0..).zip(lengths.microseconds()).filter(|&(_, &count)| count > 0);
    Row {
        cpu: ended.cpu,
        stalls: counts.samples(),
        stalled_ns: account.stalls.stalled_ns(),
        elapsed_ns: watched.elapsed_ns,
        above_ns: ended.above_ns,
        min_ns: counts.quantile(0.0),
        mean_ns: lengths.mean_ns().map(rounded),
        p50_ns: counts.quantile(0.5),
        p99_ns: tail(counts, 0.99),
        p999_ns: tail(counts, 0.999),
        max_ns: lengths.latest().map(|longest| longest.late_ns),
        max_at_ns: lengths.latest().map(|longest| longest.deadline.as_nanoseconds()),
        period_ns: of_period(|period| period.period_ns),
        period_p10_ns: of_period(|period| period.p10_ns),
        period_p90_ns: of_period(|period| period.p90_ns),
        period_followed: of_period(|period| period.followed),
        period_of: of_period(|period| period.of),
        asking_ns: watched.asking_ns,
        questions: watched.questions,
        longest_question_ns: watched.longest_question_ns,
        blind_below_ns: watched.blind_below_ns,
        went_back: watched.went_back,
        windows_with,
        windows_without,
        microseconds: microseconds.map(|(us, &count)| (us, count)).collect(),
        beyond: lengths.beyond(),
    }
}

fn cause_rows(ended: &[Ended]) -> Vec<CauseRow> {
    let sum = |place: usize| {
        ended
            .iter()
            .map(|one| one.account.causes[place])
            .fold((0, 0_u64), |sum, one| (sum.0 + one.0, sum.1.saturating_add(one.1)))
    };
    let rows = Cause::NAMES.iter().enumerate().map(|(place, &cause)| {
        let (stalls, stalled_ns) = sum(place);
        CauseRow { cause, stalls, stalled_ns }
    });
    let mut rows: Vec<_> = rows.filter(|row| row.stalls > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.stalls));
    rows
}

const fn kind(counter: &Counter) -> &'static str {
    match counter.kind {
        CounterKind::SoftInterrupt => "soft-interrupt",
        // What later versions add is an interrupt of some kind.
        _ => "interrupt",
    }
}

/// Those that moved in a window with a stall; those that moved with stalls the most often in proportion come first.
fn counter_rows(ended: &Ended) -> Vec<CounterRow> {
    let habits = &ended.account.habits;
    let (with, without) = habits.windows();
    let mut rows: Vec<CounterRow> = (0..ended.counters.len())
        .map(|place| (&ended.counters[place], habits.of(place)))
        .filter(|(_, habit)| habit.with > 0)
        .map(|(counter, habit)| CounterRow {
            cpu: ended.cpu,
            kind: kind(counter),
            name: counter.name.clone(),
            label: counter.label.clone(),
            windows_with: habit.with,
            windows_without: habit.without,
            usual_hz: habit.usual_hz.map(rounded),
        })
        .collect();
    #[expect(clippy::cast_precision_loss, reason = "shares of windows")]
    let lift = |row: &CounterRow| {
        row.windows_with as f64 / with.max(1) as f64 - row.windows_without as f64 / without.max(1) as f64
    };
    rows.sort_by(|one, other| lift(other).total_cmp(&lift(one)));
    rows
}

/// Some of all threads, in one order, and no more than of one.
fn chosen<'a, I, K>(ended: &'a [Ended], of: impl Fn(&'a Account) -> I, order: impl Fn(&StallRow) -> K) -> Vec<StallRow>
where
    I: Iterator<Item = &'a (Stall, Beside)>,
    K: Ord,
{
    let rows = ended.iter().flat_map(|one| of(&one.account).map(|found| stall_row(one, found)));
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(order);
    rows.truncate(KEPT);
    rows
}

fn stall_row(ended: &Ended, (stall, beside): &(Stall, Beside)) -> StallRow {
    let moved = &beside.moved;
    let named = moved.counts.iter().flatten();
    let named = named.filter_map(|&(place, by)| Some((ended.counters.get(place)?, by)));
    StallRow {
        cpu: ended.cpu,
        start_ns: stall.start.as_nanoseconds(),
        began: humantime::format_rfc3339_micros(beside.began).to_string(),
        length_ns: stall.length_ns,
        uncertain_ns: stall.uncertain_ns,
        cause: beside.cause.name(),
        window_ns: moved.window_ns,
        shared: beside.shared,
        voluntary: moved.voluntary,
        involuntary: moved.involuntary,
        major_faults: moved.major_faults,
        waited_ns: moved.waited_ns,
        migrated: moved.migrated,
        stolen_ns: moved.stolen_ns,
        firmware: moved.firmware,
        moved: named.map(|(counter, by)| (counter.name.clone(), by)).collect(),
        words: words(beside, &ended.counters, ended.counts_firmware),
    }
}

/// What is likely, and by what that shows.
#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn words(beside: &Beside, counters: &[Counter], counts_firmware: bool) -> String {
    let moved = &beside.moved;
    let time = |ns: Option<u64>| short_time(ns.unwrap_or(0) as f64);
    let counted = |(place, by): &(usize, u64)| {
        let counter = counters.get(*place)?;
        let named = if counter.name.bytes().all(|byte| byte.is_ascii_digit()) && !counter.label.is_empty() {
            format!("{} ({})", counter.name, counter.label)
        } else {
            counter.name.clone()
        };
        Some(format!("{named} +{by}"))
    };
    let counts = |most: usize| {
        let counts = moved.counts.iter().flatten().filter_map(counted).take(most);
        counts.collect::<Vec<_>>().join(", ")
    };
    let words = match &beside.cause {
        Cause::KeptWaiting => match moved.waited_ns {
            Some(_) => format!("waited {} for the CPU, which others had", time(moved.waited_ns)),
            None => "others had the CPU".to_owned(),
        },
        Cause::Stopped => "was stopped: by a signal, a debugger or a freezer".to_owned(),
        Cause::PagedIn => "waited for a page from a disk".to_owned(),
        Cause::Migrated => "was moved to another CPU".to_owned(),
        Cause::Stolen => format!("the hypervisor ran others: {} stolen", time(moved.stolen_ns)),
        Cause::Firmware => format!("the firmware: SMI +{}", moved.firmware.unwrap_or(0)),
        Cause::Interrupts(named) => counts(named.len().min(3)),
        Cause::AsUsual => format!("nothing unusual: {}", counts(2)),
        Cause::Nothing if counts_firmware => "nothing moved: a hypervisor, or the processor itself".to_owned(),
        // Matched here as well: what later versions add is told by its name.
        Cause::Nothing => "nothing moved: below the kernel (firmware, hypervisor)".to_owned(),
        Cause::Untold => "nothing could be read".to_owned(),
        other => other.name().to_owned(),
    };
    let shared = if beside.shared > 1 { format!(" (of {} together)", beside.shared) } else { String::new() };
    format!("{words}{shared}")
}

/// What a kind of cause is called in the table of all.
fn cause_words(cause: &str) -> &'static str {
    match cause {
        "kept-waiting" => "waited for the CPU: others ran, or a quota was used up",
        "stopped" => "stopped: a signal, a debugger, a freezer",
        "paged-in" => "waited for a page from a disk",
        "migrated" => "moved to another CPU",
        "stolen" => "the hypervisor ran others (steal)",
        "firmware" => "the firmware (SMI)",
        "interrupts" => "interrupts that moved more than without a stall, if it ever was without",
        "as-usual" => "interrupts as at any time, nothing else",
        "nothing" => "nothing moved: below the kernel, or the processor",
        _ => "nothing could be read",
    }
}

#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn page(data: &Data, all: &Lateness) -> Vec<Block> {
    let time = |ns: Option<u64>| Cell::or_dash(ns.map(|ns| short_time(ns as f64)));
    let columns =
        ["CPU", "stalls", "above", "p50", "p99", "p99.9", "max", "% lost", "% not watched", "come back every"];
    let columns = columns.map(|name| Column(name, Align::Right)).to_vec();
    let rows = data.results.iter().map(|row| {
        let percent = |ns: u64| format!("{:.3}", ns as f64 / row.elapsed_ns.max(1) as f64 * 100.0);
        vec![
            Cell::plain(name_of(row.cpu)),
            Cell::plain(row.stalls.to_string()),
            time(Some(row.above_ns)),
            time(row.p50_ns),
            time(row.p99_ns),
            time(row.p999_ns),
            time(row.max_ns),
            Cell::plain(percent(row.stalled_ns)),
            Cell::plain(percent(row.asking_ns)),
            time(row.period_ns),
        ]
    });
    let mut blocks = vec![Block::Table(Table { columns, rows: rows.collect() })];
    blocks.extend(bars(all, ("length", "stalls")));
    if !data.causes.is_empty() {
        let columns = vec![
            Column("stalls", Align::Right),
            Column("lost", Align::Right),
            Column("what moved, and so the likely cause", Align::Left),
        ];
        let rows = data.causes.iter().map(|row| {
            vec![Cell::plain(row.stalls.to_string()), time(Some(row.stalled_ns)), Cell::plain(cause_words(row.cause))]
        });
        blocks.push(Block::Table(Table { columns, rows: rows.collect() }));
        blocks.push(Block::Table(longest(data)));
        blocks.extend(counters(data));
    }
    for row in data.results.iter().filter(|row| row.period_ns.is_some()) {
        let short = |ns: Option<u64>| short_time(ns.unwrap_or(0) as f64);
        blocks.push(Block::Text(format!(
            "On CPU {} they come back every {}: {} of {} were followed by another after that time (80 % of those within {} to {}).",
            name_of(row.cpu),
            short(row.period_ns),
            row.period_followed.unwrap_or(0),
            row.period_of.unwrap_or(0),
            short(row.period_p10_ns),
            short(row.period_p90_ns)
        )));
    }
    let cpus: Vec<_> = data.results.iter().filter_map(|row| row.cpu).collect();
    let thread = data.thread.words_of_threads(&cpus);
    let step = data.step_ns.map_or_else(String::new, |ns| format!(", steps by {}", short_time(ns as f64)));
    let blind_ns = data.results.iter().map(|row| row.blind_below_ns).max().unwrap_or(0);
    blocks.push(Block::Text(format!(
        "Gaps in a loop that does nothing but read {}: a read takes {}{step}. Watched for {:.1} s from {} on. {thread}. not watched: the time in which the kernel's counters were \
         read instead; a stall in it is seen if it is longer than {}. {}",
        data.source,
        short_time(data.read_ns),
        data.elapsed_s,
        data.began,
        short_time(blind_ns as f64),
        data.head.machine.line()
    )));
    blocks.extend(ended_by(data.broke_at_ns, "was too long: it began"));
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

/// The longest, with what moved.
#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn longest(data: &Data) -> Table {
    let columns = vec![
        Column("the longest began at", Align::Left),
        Column("CPU", Align::Right),
        Column("length", Align::Right),
        Column("what moved", Align::Left),
    ];
    let rows = data.longest.iter().take(SHOWN).map(|row| {
        // The day stands below.
        let began = row.began.split_once('T').map_or(row.began.as_str(), |(_, time)| time);
        let about = if row.uncertain_ns > 0 { "≤ " } else { "" };
        vec![
            Cell::plain(began),
            Cell::plain(name_of(row.cpu)),
            Cell::plain(format!("{about}{}", short_time(row.length_ns as f64))),
            Cell::plain(row.words.clone()),
        ]
    });
    Table { columns, rows: rows.collect() }
}

/// What moves with stalls more often than without.
fn counters(data: &Data) -> Option<Block> {
    let columns = vec![
        Column("counter", Align::Left),
        Column("CPU", Align::Right),
        Column("moved with a stall", Align::Right),
        Column("without", Align::Right),
        Column("a second without", Align::Right),
    ];
    let of = |row: &CounterRow| data.results.iter().find(|other| other.cpu == row.cpu);
    let shown = data.counters.iter().filter_map(|row| Some((row, of(row)?))).take(SHOWN);
    let rows = shown.map(|(row, of)| {
        let label = if row.label.is_empty() { "soft interrupt" } else { &row.label };
        let name = format!("{} ({label})", row.name);
        let hz = Cell::or_dash(row.usual_hz.map(|hz| format!("{hz:.1}")));
        vec![
            Cell::plain(name),
            Cell::plain(name_of(row.cpu)),
            Cell::plain(format!("{} of {}", row.windows_with, of.windows_with)),
            Cell::plain(format!("{} of {}", row.windows_without, of.windows_without)),
            hz,
        ]
    });
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then_some(Block::Table(Table { columns, rows }))
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU64, Ordering},
        thread,
        time::{Duration, SystemTime},
    };

    use hpt_core::{
        Frequency, Instant, SourceId,
        diagnose::Cause,
        measure::{Counter, CounterKind, Lateness, Moved, Stall, Wake, Watched, looking},
        testing::ManualSource,
    };

    use super::{
        Account, Copied, Data, Ended, OfThread, RawStall, cause_rows, cause_words, chosen, copies_of_all, counter_rows,
        elsewhere, limit, notes_of, page, row,
    };
    use crate::{
        long_run::RawSample,
        realtime::tests::example,
        render::{Document, golden},
    };

    const MS: u64 = 1_000_000;

    fn counters() -> Vec<Counter> {
        vec![
            Counter::new(CounterKind::Interrupt, "LOC", "Local timer interrupts"),
            Counter::new(CounterKind::Interrupt, "36", "virtio1-req.0"),
            Counter::new(CounterKind::SoftInterrupt, "BLOCK", ""),
        ]
    }

    fn moved(change: impl FnOnce(&mut Moved)) -> Moved {
        let mut moved = Moved::default();
        (moved.window_ns, moved.voluntary, moved.involuntary) = (20 * MS, Some(0), Some(0));
        (moved.waited_ns, moved.stolen_ns, moved.counts) = (Some(0), Some(0), Some(vec![(0, 5)]));
        change(&mut moved);
        moved
    }

    fn stall(at_ms: u64, length_ns: u64) -> Stall {
        Stall::new(Instant::from_nanoseconds(at_ms * MS), length_ns)
    }

    fn ended(cpu: Option<usize>, account: Account) -> Ended {
        let source = ManualSource::nanoseconds("by hand").stepping_by(30);
        let clock = ManualSource::nanoseconds("clock").stepping_by(1_280);
        let mut watched = Watched::default();
        (watched.elapsed_ns, watched.asking_ns, watched.questions) = (10_000 * MS, 40 * MS, 500);
        (watched.longest_question_ns, watched.blind_below_ns) = (90_000, 250_000);
        Ended {
            cpu,
            settings: example(),
            account,
            watched,
            looking: looking(&source, Frequency::GIGAHERTZ, &clock),
            above_ns: 10_000,
            counters: counters(),
            unread: vec![("/proc/thread-self/schedstat", "No such file or directory (os error 2)".to_owned())],
            counts_firmware: false,
        }
    }

    /// Two threads: one with stalls of every kind, one with a stall that comes back.
    fn both() -> [Ended; 2] {
        let mut account = Account::new();
        let mut quiet = |number: usize| {
            account.record(
                &[],
                &moved(|moved| moved.counts = Some([(0, 5), (2, 1)][..1 + number % 2].to_vec())),
                |_, _| {},
            );
        };
        (0..400).for_each(&mut quiet);
        let mut record = |stalls: &[Stall], moved: &Moved| account.record(stalls, moved, |_, _| {});
        record(&[stall(1_000, 2 * MS)], &moved(|moved| (moved.waited_ns, moved.involuntary) = (Some(2 * MS), Some(1))));
        record(&[stall(1_103, 30 * MS)], &moved(|moved| moved.voluntary = Some(1)));
        record(&[stall(1_207, 40_000)], &moved(|moved| moved.counts = Some(vec![(0, 5), (1, 1), (2, 2)])));
        record(&[stall(1_339, 12_000)], &moved(|_| {}));
        record(&[stall(1_476, 90_000)], &moved(|moved| moved.counts = Some(Vec::new())));
        record(&[stall(1_501, 15 * MS)], &moved(|moved| moved.stolen_ns = Some(10 * MS)));
        record(&[stall(1_602, 20_000), stall(1_603, 21_000)], &moved(|moved| moved.counts = None));
        let mut tick = Account::new();
        let often = moved(|moved| (moved.window_ns, moved.counts) = (4 * MS, Some(vec![(0, 1)])));
        (0..50).for_each(|number| tick.record(&[stall(4 * number, 11_000 + number)], &often, |_, _| {}));
        [ended(Some(0), account), ended(Some(1), tick)]
    }

    #[test]
    fn what_is_written_meanwhile_waits_until_every_thread_has_answered() {
        let copies = [Copied::new(Some(0)), Copied::new(Some(1))];
        let wanted = AtomicU64::new(0);
        let mut lengths = Lateness::new();
        lengths.record(Wake::new(Instant::from_nanoseconds(MS), 15_000));
        // The second has not: nothing is written.
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
        let samples = |of: Vec<OfThread>| of.iter().map(|one| one.lateness.counts().samples()).collect::<Vec<_>>();
        assert_eq!(written.map(samples), Some(vec![1, 1]), "what was counted until it was asked for");
        assert!(copies_of_all(&copies, &wanted, Duration::ZERO).is_none(), "an old answer is none");
    }

    #[test]
    fn a_line_of_a_stall_says_where_others_share_what_moved() {
        let line = |shared| RawStall { stall: stall(2, 30_000), cause: "stopped", shared }.text();
        assert_eq!(
            (line(false).as_str(), line(true).as_str()),
            ("2000000 30000 0 stopped", "2000000 30000 0 stopped shared")
        );
    }

    #[test]
    fn a_run_is_printed_to_the_letter() {
        let both = both();
        let mut all = Lateness::new();
        both.iter().for_each(|one| all.add(one.account.stalls.lengths()));
        let of_a_day = |mut rows: Vec<super::StallRow>| {
            // The wall clock of this machine is not in the example.
            for row in &mut rows {
                let at = SystemTime::UNIX_EPOCH + Duration::from_nanos(row.start_ns);
                row.began = humantime::format_rfc3339_micros(at).to_string();
            }
            rows
        };
        let data = Data {
            head: golden::head("latency-stall"),
            thread: example(),
            source: SourceId::new("tsc"),
            read_ns: 20.0,
            step_ns: Some(30),
            began: "2001-09-09T01:46:40Z".to_owned(),
            elapsed_s: 10.0,
            broke_at_ns: Some(1_103 * MS),
            interrupted: true,
            results: both.iter().map(row).collect(),
            causes: cause_rows(&both),
            counters: both.iter().flat_map(counter_rows).collect(),
            longest: of_a_day(chosen(&both, |one| one.stalls.longest().iter(), |row| std::cmp::Reverse(row.length_ns))),
            newest: of_a_day(chosen(&both, |one| one.stalls.newest(), |row| std::cmp::Reverse(row.start_ns)))
                .split_off(50),
            notes: [notes_of(&both, true), vec!["a note".to_owned()]].concat(),
        };
        golden::assert("latency-stall", &Document::new(&data, "results", page(&data, &all)));
    }

    #[test]
    fn every_stall_is_told_by_its_cause() {
        let both = both();
        let causes: Vec<_> = cause_rows(&both[..1]).iter().map(|row| (row.cause, row.stalls)).collect();
        let wanted = vec![
            ("untold", 2),
            ("kept-waiting", 1),
            ("stopped", 1),
            ("stolen", 1),
            ("interrupts", 1),
            ("as-usual", 1),
            ("nothing", 1),
        ];
        assert_eq!(causes, wanted);
        let words: Vec<_> = Cause::NAMES.iter().map(|name| cause_words(name)).collect();
        assert!(words.iter().enumerate().all(|(place, words_)| !words[..place].contains(words_)), "{words:?}");
        let counts: u64 = both.iter().map(row).map(|row| row.stalls).sum();
        assert_eq!(counts, cause_rows(&both).iter().map(|row| row.stalls).sum::<u64>());
    }

    #[test]
    fn what_belongs_to_the_run_stays_off_the_cpus_that_are_measured() {
        assert_eq!(elsewhere(&[Some(1)], &[0, 1]), Some(0));
        assert_eq!(elsewhere(&[Some(0), Some(1)], &[0, 1]), None);
        assert_eq!(elsewhere(&[None], &[0, 1]), None);
    }

    #[test]
    fn a_limit_is_read_or_refused() {
        assert_eq!((limit("250ns"), limit("10us")), (Ok(Duration::from_nanos(250)), Ok(Duration::from_micros(10))));
        assert!(["", "10", "99ns", "2min", "-1us"].iter().all(|wrong| limit(wrong).is_err()));
    }
}
