//! `hpt latency timer` and `hpt latency poll`: how late a thread knows that a moment has come.

use std::{
    fs::OpenOptions,
    io::Write,
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, SystemTime},
};

use clap::{Args, ValueEnum};
use hpt_core::{
    Instant, SourceId, clock,
    measure::{Lateness, Waiting, Wake, cost_of_looking, wakes},
    realtime::{Conduct, allowed_cpus},
};
use serde::Serialize;

use crate::{
    cli::after_help,
    context::Context,
    exit::{Failure, causes},
    lateness::{About, OfThread, Wanted, bars, wanted},
    machine::Machine,
    progress::Progress,
    realtime::{RealtimeOptions, Settings},
    render::{Align, Answer, Block, Cell, Column, Document, Table, remarks, rounded, short_time},
};

const TIMER_EXAMPLES: &str = "  \
  hpt latency timer                            one CPU, every millisecond, 10 s
  hpt latency timer --cpu all --fifo 80 --awake --duration 1h
  hpt latency timer --fifo 80 --break-above 100us --write cyclictest=run.hist";
const POLL_EXAMPLES: &str = "  \
  hpt latency poll                        one CPU, every millisecond, 10 s
  hpt latency poll --cpu 3 --fifo 99 --no-throttling --duration 18h --write line=counts";

/// Looks at Ctrl-C and at the clock come so often.
const LOOK: Duration = Duration::from_millis(50);
/// What was measured until then is kept so often.
const INTERIM: Duration = Duration::from_secs(60);
const NOTHING_LEFT: &str = "real-time threads that never wait, on every CPU and without throttling, would stop the machine; leave out a CPU (--cpu), or --no-throttling (with \
                            --accept-throttling the kernel keeps a part of each second for others)";
/// Wake-ups that are not counted yet, while somebody reads the counts.
const BACKLOG: usize = 4_096;

/// How late a thread is woken at a deadline
///
/// One thread on each CPU that is named sleeps until a deadline, looks at the clock, counts how late it is, and sleeps until the next one, a period after
/// the last. What other programs call wake-up latency; beside cyclictest.
#[derive(Debug, Args)]
#[command(after_help = after_help(TIMER_EXAMPLES))]
pub(crate) struct TimerArguments {
    /// Sleep by the kernel's timer, or by hpt's `Sleeper`, which is woken before the deadline and looks at the clock from then on
    #[arg(long, value_enum, default_value = "kernel")]
    by: By,
    #[command(flatten)]
    common: Common,
}

/// How late a program that looks at the clock all the time knows that a moment has come
///
/// One thread on each CPU that is named does nothing but look. What makes it late is what takes the CPU away from it: interrupts, the kernel's own work, other
/// programs, a hypervisor.
#[derive(Debug, Args)]
#[command(after_help = after_help(POLL_EXAMPLES))]
pub(crate) struct PollArguments {
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    Kernel,
    Hpt,
}

#[derive(Debug, Args)]
struct Common {
    /// From one deadline to the next
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = period)]
    interval: Duration,
    /// Measure for so long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = long, conflicts_with = "count")]
    duration: Duration,
    /// Measure so many deadlines on each CPU, for as long as that takes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Run on these CPUs, each with a thread of its own; `all`, or `any` for one thread that is not pinned [default: the highest allowed]
    #[arg(long, value_name = "CPU,...", value_parser = cpus, allow_hyphen_values = true)]
    cpu: Option<Cpus>,
    /// End as soon as one is later than this, and leave a mark in the kernel's trace
    #[arg(long, value_name = "TIME", value_parser = long)]
    break_above: Option<Duration>,
    /// Also write the counts to a file: cyclictest, cyclictest-json, hdr, line. While it runs, they are written every minute
    #[arg(long, value_name = "FORM=FILE", value_parser = wanted)]
    write: Vec<Wanted>,
    /// Also write every wake-up to a file: the number of the CPU, the deadline and how late it was, in nanoseconds
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,
    #[command(flatten)]
    realtime: RealtimeOptions,
}

/// The CPUs of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cpus {
    Any,
    All,
    These(Vec<usize>),
}

fn cpus(text: &str) -> Result<Cpus, String> {
    match text {
        "any" => return Ok(Cpus::Any),
        "all" => return Ok(Cpus::All),
        _ => {}
    }
    let numbers: Result<Vec<_>, _> = text.split(',').map(str::parse).collect();
    let mut numbers = numbers.map_err(|_| "numbers of CPUs with commas, `all` or `any`".to_owned())?;
    numbers.sort_unstable();
    numbers.dedup();
    Ok(Cpus::These(numbers))
}

fn period(text: &str) -> Result<Duration, String> {
    limited(text, Duration::from_micros(10), Duration::from_secs(3_600), "from 10us to 1h")
}

fn long(text: &str) -> Result<Duration, String> {
    limited(text, Duration::from_micros(1), Duration::from_secs(365 * 24 * 3_600), "from 1us to 365days")
}

fn limited(text: &str, least: Duration, most: Duration, limits: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 250us or 1h"))?;
    if (least..=most).contains(&time) { Ok(time) } else { Err(limits.to_owned()) }
}

pub(crate) fn timer(arguments: &TimerArguments, context: &Context) -> Result<Document, Failure> {
    let waiting = match arguments.by {
        By::Kernel => Waiting::Parked,
        By::Hpt => Waiting::Precise,
    };
    run("latency-timer", waiting, &arguments.common, context)
}

pub(crate) fn poll(arguments: &PollArguments, context: &Context) -> Result<Document, Failure> {
    run("latency-poll", Waiting::Polling, &arguments.common, context)
}

/// One CPU, or all of them, for programs.
#[derive(Debug, Serialize)]
struct Row {
    cpu: Option<usize>,
    samples: u64,
    missed: u64,
    min_ns: u64,
    mean_ns: f64,
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    p9999_ns: u64,
    p99999_ns: u64,
    max_ns: u64,
    /// When the latest was due, by CLOCK_MONOTONIC.
    max_at_ns: u64,
    /// Whole microseconds and how many were late by so much.
    microseconds: Vec<(u64, u64)>,
    beyond: u64,
}

#[derive(Debug, Serialize)]
struct Data {
    schema: u32,
    kind: &'static str,
    hpt: &'static str,
    machine: Machine,
    interval_ns: u64,
    by: &'static str,
    thread: Settings,
    source: SourceId,
    look_ns: u64,
    step_ns: Option<u64>,
    began: String,
    elapsed_s: f64,
    broke_at_ns: Option<u64>,
    interrupted: bool,
    results: Vec<Row>,
    notes: Vec<String>,
}

/// What the threads of a run share with the one that watches.
struct Shared {
    ends: AtomicBool,
    done: AtomicU64,
    /// The deadline of the wake-up that was too late, in nanoseconds; zero as long as none was.
    broke_at_ns: AtomicU64,
}

/// One thread's counts. The thread that measures does not wait for the one that reads.
struct Counts {
    cpu: Option<usize>,
    lateness: Mutex<Lateness>,
}

fn run(kind: &'static str, waiting: Waiting, arguments: &Common, context: &Context) -> Result<Document, Failure> {
    arguments.realtime.listen(context)?;
    let cpus: Vec<Option<usize>> = match &arguments.cpu {
        Some(Cpus::Any) => vec![None],
        Some(Cpus::All) => allowed_cpus().into_iter().map(Some).collect(),
        Some(Cpus::These(cpus)) => cpus.iter().copied().map(Some).collect(),
        // The kernel does not let a thread by SCHED_DEADLINE be pinned.
        None if arguments.realtime.is_by_deadline() => vec![None],
        None => vec![allowed_cpus().last().copied()],
    };
    let conduct = if waiting == Waiting::Polling { Conduct::Spins } else { Conduct::Waits };
    let by = if waiting == Waiting::Polling { "hpt latency poll" } else { "hpt latency timer" };
    if conduct == Conduct::Spins && arguments.realtime.leaves_nothing() && cpus.len() >= allowed_cpus().len() {
        return Err(Failure::Usage(NOTHING_LEFT));
    }
    for wanted in &arguments.write {
        wanted.check()?;
    }
    let raw = arguments.raw.as_ref().map(|path| Raw::create(path)).transpose()?;
    let whole = arguments.realtime.hold_around(context, &cpus, conduct, by)?;
    clock::prime();
    let (look_ns, step_ns) = cost_of_looking();

    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let machine = Machine::of(&context.host);
    let began = SystemTime::now();
    let shared = Shared { ends: AtomicBool::new(false), done: AtomicU64::new(0), broke_at_ns: AtomicU64::new(0) };
    let counts: Vec<_> = cpus.iter().map(|&cpu| Counts { cpu, lateness: Mutex::new(Lateness::new()) }).collect();
    let about = |ended| About {
        command: &command,
        began,
        ended,
        kernel_release: &context.host.facts().kernel_release,
        kernel_version: &context.host.facts().kernel_version,
    };
    let write = || -> Result<(), Failure> {
        let threads: Vec<_> = counts.iter().map(Counts::copy).collect();
        arguments.write.iter().try_for_each(|wanted| wanted.write(&threads, about(SystemTime::now())))
    };
    let start = Instant::now();
    let outcome = thread::scope(|scope| {
        let threads: Vec<_> = counts
            .iter()
            .map(|counts| {
                scope.spawn(|| {
                    let held = arguments.realtime.hold_thread(context, counts.cpu, conduct, by);
                    // Without one of them the others are not what was asked for.
                    let held = held.inspect_err(|_| shared.ends.store(true, Ordering::Relaxed))?;
                    let settings = held.settings();
                    measure(counts, waiting, arguments, start, &shared, raw.as_ref());
                    Ok(settings)
                })
            })
            .collect();
        watch(
            arguments,
            context,
            &shared,
            start,
            cpus.len(),
            || threads.iter().all(thread::ScopedJoinHandle::is_finished),
            write,
        );
        shared.ends.store(true, Ordering::Relaxed);
        let ended = threads.into_iter().map(|one| one.join().expect("a thread that measures does not panic"));
        ended.collect::<Result<Vec<Settings>, Failure>>()
    });
    let elapsed = start.elapsed();
    let settings = Settings::of_several(&whole.settings(), outcome?);
    let mut warnings = whole.end();
    // What was measured is printed, also where it cannot be kept.
    let kept = [raw.map_or(Ok(()), Raw::finish), write()];
    warnings.extend(kept.iter().filter_map(|kept| kept.as_ref().err()).map(|failure| causes(failure)));

    let threads: Vec<_> = counts.iter().map(Counts::copy).collect();
    let mut all = Lateness::new();
    threads.iter().for_each(|thread| all.add(&thread.lateness));
    let results = threads.iter().filter_map(|thread| row(thread.cpu, &thread.lateness)).collect();
    let broke_at_ns = Some(shared.broke_at_ns.load(Ordering::Relaxed)).filter(|&ns| ns > 0);
    let mut notes = [context.notes(), settings.notes(), warnings.clone()].concat();
    if broke_at_ns.is_some() && mark_the_trace(broke_at_ns).is_none() {
        notes.push("no mark was left in the kernel's trace: /sys/kernel/tracing cannot be written; it takes root, and tracefs mounted".to_owned());
    }
    let data = Data {
        schema: 1,
        kind,
        hpt: env!("CARGO_PKG_VERSION"),
        machine,
        interval_ns: u64::try_from(arguments.interval.as_nanos()).unwrap_or(u64::MAX),
        by: match waiting {
            Waiting::Polling => "looking",
            Waiting::Precise => "hpt",
            _ => "kernel",
        },
        thread: settings,
        source: clock::source().0,
        look_ns,
        step_ns,
        began: humantime::format_rfc3339_seconds(began).to_string(),
        elapsed_s: rounded(elapsed.as_secs_f64()),
        broke_at_ns,
        interrupted: context.interrupted(),
        results,
        notes,
    };
    let answer = match (data.results.is_empty() || !warnings.is_empty(), broke_at_ns) {
        (true, _) => Answer::Unknown,
        (false, Some(_)) => Answer::No,
        (false, None) => Answer::Yes,
    };
    let blocks = page(&data, &all);
    Ok(Document { answer, warnings, ..Document::new(&data, "results", blocks) })
}

impl Counts {
    fn copy(&self) -> OfThread {
        // A thread that panicked left whole counts.
        let lateness = self.lateness.lock().unwrap_or_else(PoisonError::into_inner).clone();
        OfThread { cpu: self.cpu, lateness }
    }
}

/// The thread of one CPU.
fn measure(counts: &Counts, waiting: Waiting, arguments: &Common, start: Instant, shared: &Shared, raw: Option<&Raw>) {
    // By itself: the thread that watches may not come to run before this one ends.
    let end = if arguments.count.is_none() {
        start.saturating_add(arguments.duration)
    } else {
        Instant::from_nanoseconds(u64::MAX)
    };
    let limit_ns = arguments.break_above.map_or(u64::MAX, |limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
    let mut backlog = Vec::with_capacity(BACKLOG);
    let mut lines = raw.map(|raw| raw.of_thread(counts.cpu));
    let mut count = 0;
    let first = Instant::now() + arguments.interval.min(Duration::from_millis(1));
    let go_on = || !shared.ends.load(Ordering::Relaxed);
    wakes(first, arguments.interval, waiting, go_on, |wake| {
        backlog.push(wake);
        // Somebody copies the counts: this one can wait.
        if let Ok(mut lateness) = counts.lateness.try_lock() {
            backlog.drain(..).for_each(|wake| lateness.record(wake));
        } else if backlog.len() == BACKLOG {
            let mut lateness = counts.lateness.lock().unwrap_or_else(PoisonError::into_inner);
            backlog.drain(..).for_each(|wake| lateness.record(wake));
        }
        if let Some(lines) = &mut lines {
            lines.add(wake);
        }
        count += 1;
        shared.done.fetch_add(1, Ordering::Relaxed);
        if wake.late_ns > limit_ns {
            shared.broke_at_ns.store(wake.deadline.as_nanoseconds().max(1), Ordering::Relaxed);
            shared.ends.store(true, Ordering::Relaxed);
        }
        go_on() && wake.deadline < end && arguments.count.is_none_or(|wanted| count < wanted)
    });
    let mut lateness = counts.lateness.lock().unwrap_or_else(PoisonError::into_inner);
    backlog.drain(..).for_each(|wake| lateness.record(wake));
}

/// Shows how far the run is, keeps what was measured every minute, and comes back when it is to end.
fn watch(
    arguments: &Common,
    context: &Context,
    shared: &Shared,
    start: Instant,
    threads: usize,
    all_ended: impl Fn() -> bool,
    write: impl Fn() -> Result<(), Failure>,
) {
    let expected = match arguments.count {
        Some(count) => arguments.interval.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX)),
        None => arguments.duration,
    };
    let progress = Progress::new(1_000, expected);
    progress.name("wake-ups");
    let mut kept = start;
    loop {
        let elapsed = start.elapsed();
        let is_over = arguments.count.is_none() && elapsed >= arguments.duration;
        if is_over || all_ended() || context.interrupted() || shared.ends.load(Ordering::Relaxed) {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
        let fraction = match arguments.count {
            Some(count) => shared.done.load(Ordering::Relaxed) as f64 / (count as f64 * threads as f64),
            None => elapsed.as_secs_f64() / arguments.duration.as_secs_f64(),
        };
        progress.at_fraction(fraction);
        if kept.elapsed() >= INTERIM {
            kept = Instant::now();
            // The last one tells of it.
            let _ = write();
        }
        let left = if arguments.count.is_none() { arguments.duration.saturating_sub(elapsed) } else { LOOK };
        thread::sleep(LOOK.min(left));
    }
}

/// A mark where it broke, and no more traces after it; `None` where there is no trace.
fn mark_the_trace(broke_at_ns: Option<u64>) -> Option<()> {
    let write = |name: &str, text: &str| {
        let mut file = OpenOptions::new().write(true).open(format!("/sys/kernel/tracing/{name}")).ok()?;
        file.write_all(text.as_bytes()).ok()
    };
    write("trace_marker", &format!("hpt latency: too late for {}", broke_at_ns?))?;
    write("tracing_on", "0")
}

/// Every wake-up, written by a thread of its own.
struct Raw {
    lines: mpsc::Sender<String>,
    writer: thread::JoinHandle<std::io::Result<()>>,
    path: PathBuf,
}

/// The wake-ups of one thread on their way there.
struct RawLines {
    cpu: Option<usize>,
    lines: mpsc::Sender<String>,
    gathered: Vec<Wake>,
}

impl Raw {
    fn create(path: &std::path::Path) -> Result<Self, Failure> {
        let failed = |cause| Failure::Write { path: path.to_owned(), cause };
        let mut file = std::io::BufWriter::new(std::fs::File::create(path).map_err(failed)?);
        let (lines, written) = mpsc::channel::<String>();
        let writer = thread::spawn(move || {
            for text in written {
                file.write_all(text.as_bytes())?;
            }
            file.flush()
        });
        Ok(Self { lines, writer, path: path.to_owned() })
    }

    fn of_thread(&self, cpu: Option<usize>) -> RawLines {
        RawLines { cpu, lines: self.lines.clone(), gathered: Vec::with_capacity(BACKLOG) }
    }

    fn finish(self) -> Result<(), Failure> {
        drop(self.lines);
        let written = self.writer.join().expect("the writer does not panic");
        written.map_err(|cause| Failure::Write { path: self.path, cause })
    }
}

impl RawLines {
    fn add(&mut self, wake: Wake) {
        self.gathered.push(wake);
        if self.gathered.len() == BACKLOG {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let cpu = self.cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
        let line = |wake: Wake| format!("{cpu} {} {}\n", wake.deadline.as_nanoseconds(), wake.late_ns);
        // A writer that failed says so at the end.
        let _ = self.lines.send(self.gathered.drain(..).map(line).collect());
    }
}

impl Drop for RawLines {
    fn drop(&mut self) {
        self.hand_over();
    }
}

fn row(cpu: Option<usize>, lateness: &Lateness) -> Option<Row> {
    let counts = lateness.counts();
    let latest = lateness.latest()?;
    let quantile = |part| counts.quantile(part).unwrap_or(0);
    let microseconds = (0..).zip(lateness.microseconds()).filter(|&(_, &count)| count > 0);
    Some(Row {
        cpu,
        samples: counts.samples(),
        missed: lateness.missed(),
        min_ns: quantile(0.0),
        mean_ns: rounded(lateness.mean_ns()?),
        p50_ns: quantile(0.5),
        p99_ns: quantile(0.99),
        p999_ns: quantile(0.999),
        p9999_ns: quantile(0.9999),
        p99999_ns: quantile(0.99999),
        max_ns: latest.late_ns,
        max_at_ns: latest.deadline.as_nanoseconds(),
        microseconds: microseconds.map(|(us, &count)| (us, count)).collect(),
        beyond: lateness.beyond(),
    })
}

#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn page(data: &Data, all: &Lateness) -> Vec<Block> {
    let columns = ["CPU", "samples", "min", "mean", "p50", "p99", "p99.9", "p99.99", "max", "missed"];
    let columns = columns.map(|name| Column(name, Align::Right)).to_vec();
    let cells = |name: String, row: &Row| {
        let time = |ns: u64| Cell::plain(short_time(ns as f64));
        vec![
            Cell::plain(name),
            Cell::plain(row.samples.to_string()),
            time(row.min_ns),
            Cell::plain(short_time(row.mean_ns)),
            time(row.p50_ns),
            time(row.p99_ns),
            time(row.p999_ns),
            time(row.p9999_ns),
            time(row.max_ns),
            Cell::plain(row.missed.to_string()),
        ]
    };
    let name = |cpu: Option<usize>| cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
    let mut rows: Vec<_> = data.results.iter().map(|row| cells(name(row.cpu), row)).collect();
    if data.results.len() > 1 {
        rows.extend(row(None, all).map(|row| cells("all".to_owned(), &row)));
    }
    let mut blocks = vec![Block::Table(Table { columns, rows })];
    blocks.extend(bars(all));
    let how = match data.by {
        "looking" => "a thread that looks at the clock all the time knew of deadlines",
        "hpt" => "a thread was there at deadlines, by hpt's Sleeper,",
        _ => "the kernel woke a thread at deadlines",
    };
    let cpus: Vec<_> = data.results.iter().filter_map(|row| row.cpu).collect();
    let thread = match cpus.as_slice() {
        [] => data.thread.words(None),
        [cpu] => data.thread.words(Some(*cpu)),
        _ => data.thread.words(None).replacen("Not pinned", "A thread on each CPU", 1),
    };
    let step = data.step_ns.map_or_else(String::new, |ns| format!(" and steps by {}", short_time(ns as f64)));
    blocks.push(Block::Text(format!(
        "How late {how} {} apart, for {:.1} s from {} on. {thread}. missed: deadlines that had passed before they were waited for. \
         Time by {}: a look at it takes {}{step}, and is in every figure. {}",
        short_time(data.interval_ns as f64),
        data.elapsed_s,
        data.began,
        data.source,
        short_time(data.look_ns as f64),
        data.machine.line()
    )));
    if let Some(ns) = data.broke_at_ns {
        blocks.push(Block::Text(format!(
            "Ended by the first that was too late: it was due at {ns} ns of CLOCK_MONOTONIC."
        )));
    }
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpt_core::{SourceId, measure::Lateness};

    use super::{Cpus, Data, cpus, long, page, period, row};
    use crate::{
        lateness,
        machine::Machine,
        realtime::tests::example,
        render::{Document, golden},
    };

    #[test]
    fn a_run_is_printed_to_the_letter() {
        let threads = lateness::tests::threads();
        let mut all = Lateness::new();
        threads.iter().for_each(|thread| all.add(&thread.lateness));
        let data = Data {
            schema: 1,
            kind: "latency-timer",
            hpt: "0.0.0",
            machine: Machine::of(&golden::host()),
            interval_ns: 1_000_000,
            by: "kernel",
            thread: example(),
            source: SourceId::new("tsc"),
            look_ns: 21,
            step_ns: Some(10),
            began: "2001-09-09T01:46:40Z".to_owned(),
            elapsed_s: 60.0,
            broke_at_ns: Some(1_000_000_000),
            interrupted: true,
            results: threads.iter().filter_map(|thread| row(thread.cpu, &thread.lateness)).collect(),
            notes: vec!["a note".to_owned()],
        };
        golden::assert("latency-timer", &Document::new(&data, "results", page(&data, &all)));
    }

    #[test]
    fn cpus_and_times_are_read_or_refused() {
        assert_eq!(
            (cpus("all"), cpus("any"), cpus("2,0,2")),
            (Ok(Cpus::All), Ok(Cpus::Any), Ok(Cpus::These(vec![0, 2])))
        );
        assert_eq!((period("10us"), long("18h")), (Ok(Duration::from_micros(10)), Ok(Duration::from_secs(18 * 3_600))));
        assert!(["", "a", "-1", "1,", "0-3"].iter().all(|wrong| cpus(wrong).is_err()));
        assert!(["1us", "2h", "1"].iter().all(|wrong| period(wrong).is_err()) && long("2years").is_err());
    }
}
