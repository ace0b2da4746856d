//! Checks whether `hpt latency stall` finds every injected stall, with the correct time and length.
//! Injects stalls with signals from another CPU, and with a thread of higher priority on the same
//! CPU.

use std::{
    error::Error,
    fs,
    path::PathBuf,
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use clap::Parser;
use hpt_benches::{
    bare::signal,
    programs::{EXIT_CODES, Interrupt, Keep, Outcome, count, exit_code, table},
};
use hpt_core::{Instant, Sleeper};
use hpt_realtime::{Fifo, Pinned, allowed_cpus};
use serde::Serialize;

const EXAMPLES: &str = "\
Examples:
  stalls --no-throttling            a hundred stalls, as root
  stalls --count 20 --hpt ./hpt     another build of hpt";

/// hpt's priority; the injector's priorities are higher.
const PRIORITY: u8 = 50;
/// The permitted delay of the found begin and end after the injector's timestamps.
const SLACK_NS: u64 = 100_000;
/// The permitted difference between the clocks of the two processes, each within its bound.
const CLOCKS_NS: u64 = 2_000;
/// The time after which hpt is in its loop, once it runs under SCHED_FIFO.
const SETTLED: Duration = Duration::from_millis(1_500);

/// Inject stalls into `hpt latency stall`, and compare what it finds with what was injected.
#[derive(Debug, Parser)]
#[command(max_term_width = 80, after_help = format!("{EXIT_CODES}\n\n{EXAMPLES}"))]
struct Args {
    /// The hpt command [default: the one in the directory of this program]
    #[arg(long, value_name = "FILE")]
    hpt: Option<PathBuf>,
    /// Number of stalls: half with SIGSTOP and SIGCONT, half with a thread of higher priority on
    /// the same CPU
    #[arg(long, value_name = "N", default_value = "100", value_parser = count)]
    count: u64,
    /// Disable real-time throttling during the run, because it causes stalls, too
    #[arg(long)]
    no_throttling: bool,
    #[command(flatten)]
    keep: Keep,
}

/// An injected stall. It began between the first two timestamps, and ended after the third. All are
/// in CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, Serialize)]
struct Made {
    kind: &'static str,
    begins_from_ns: u64,
    begins_until_ns: u64,
    ends_from_ns: u64,
    ends_until_ns: u64,
}

/// A stall as hpt found it.
#[derive(Clone, Debug, Serialize)]
struct Found {
    start_ns: u64,
    length_ns: u64,
    uncertainty_ns: u64,
    cause: String,
}

/// An injected stall, and the stall that hpt found for it.
#[derive(Clone, Debug, Serialize)]
struct Line {
    made: Made,
    found: Option<Found>,
    is_within: bool,
}

#[derive(Clone, Debug, Serialize)]
struct Outcomes {
    made: usize,
    found: usize,
    within: usize,
    others: usize,
    interrupted: bool,
    lines: Vec<Line>,
}

fn main() -> ExitCode {
    exit_code("stalls", run(Args::parse()))
}

fn run(args: Args) -> Result<Outcome, Box<dyn Error>> {
    let interrupt = Interrupt::listen()?;
    let allowed = allowed_cpus();
    let [here, .., there] = allowed[..] else {
        return Err("skipped: requires two CPUs, one for the stalls and one for the injector".into());
    };
    drop(Fifo::new(PRIORITY).map_err(|error| format!("skipped: {error}"))?);
    let raw = std::env::temp_dir().join(format!("hpt-stalls-{}", std::process::id()));
    let beside = std::env::current_exe()?.with_file_name("hpt");
    let mut command = Command::new(args.hpt.unwrap_or(beside));
    command.args(["latency", "stall", "--duration", "1h", "--above", "50us", "--format", "json"]);
    command.args(["--cpu", &there.to_string(), "--fifo", &PRIORITY.to_string(), "--raw"]).arg(&raw);
    command.arg(if args.no_throttling { "--no-throttling" } else { "--accept-throttling" });
    let mut watching = Watching(command.stdout(Stdio::null()).spawn()?);
    let process = watching.0.id();
    let thread = loop {
        if let Some(status) = watching.0.try_wait()? {
            return Err(format!("hpt ended prematurely: {status}").into());
        }
        if let Some(thread) = real_time_thread(process) {
            break thread;
        }
        thread::sleep(Duration::from_millis(10));
    };
    thread::sleep(SETTLED);
    let made = make((process, thread), args.count, (here, there), &interrupt);
    // Ends hpt, whatever the result is.
    signal::interrupt(watching.0.id())?;
    watching.0.wait()?;
    let made = made?;
    let found = parse(&fs::read_to_string(&raw)?)?;
    let _ = fs::remove_file(&raw);
    let outcomes = compare(&made, &found, interrupt.came());
    args.keep.publish("stalls", Some(there), &outcomes, &text(&outcomes, &found))?;
    Ok(match (outcomes.made, outcomes.within == outcomes.made) {
        (0, _) => Outcome::Unknown,
        (_, true) => Outcome::Kept,
        (_, false) => Outcome::Broken,
    })
}

/// A process that is killed when this program ends.
struct Watching(Child);

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the thread of the process that runs under SCHED_FIFO, which is the one that measures.
fn real_time_thread(process: u32) -> Option<u32> {
    // proc_pid_stat(5): the policy is field 41; the state, after the name in parentheses, is field
    // 3.
    const POLICY: usize = 41 - 3;
    let tasks = fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten();
    let is_fifo = |stat: &str| {
        let policy = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(POLICY));
        policy == Some("1")
    };
    let mut fifo = tasks.filter(|task| fs::read_to_string(task.path().join("stat")).is_ok_and(|stat| is_fifo(&stat)));
    fifo.next()?.file_name().to_str()?.parse().ok()
}

fn make(
    process: (u32, u32),
    count: u64,
    cpus: (usize, usize),
    interrupt: &Interrupt,
) -> Result<Vec<Made>, Box<dyn Error>> {
    let mut made = Vec::new();
    // Identical in every run: lengths from 1 to 10 ms, pauses from 5 to 50 ms.
    let mut seed = 1_u64;
    let mut random = |from_us: u64, to_us: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_micros(from_us + (seed >> 33) % (to_us - from_us))
    };
    for number in 0..count {
        if interrupt.came() {
            break;
        }
        let (pause, length) = (random(5_000, 50_000), random(1_000, 10_000));
        thread::sleep(pause);
        made.push(if number % 2 == 0 { by_signal(process, cpus.0, length)? } else { by_hog(cpus, length)? });
    }
    // Time for hpt to find the last stall.
    thread::sleep(Duration::from_millis(50));
    Ok(made)
}

/// Stops the process from another CPU.
fn by_signal((process, thread): (u32, u32), cpu: usize, length: Duration) -> Result<Made, Box<dyn Error>> {
    let _there = Pinned::new(cpu)?;
    let _first = Fifo::new(PRIORITY + 20)?;
    let begins_from = Instant::now();
    signal::stop(process, thread)?;
    let begins_until = Instant::now();
    let mut sleeper = Sleeper::new();
    let _ = sleeper.sleep_until(begins_until + length);
    let ends_from = Instant::now();
    signal::go_on(process)?;
    let ends_until = Instant::now();
    Ok(Made::new("SIGSTOP", [begins_from, begins_until, ends_from, ends_until]))
}

/// Occupies the CPU with a thread that does not yield.
fn by_hog(cpus: (usize, usize), length: Duration) -> Result<Made, Box<dyn Error>> {
    let hog = thread::spawn(move || -> Result<Made, Box<dyn Error + Send + Sync>> {
        // The policy first: a thread with default scheduling would not run on that CPU.
        let first = Fifo::new(PRIORITY + 10)?;
        let begins_from = Instant::now();
        let there = Pinned::new(cpus.1)?;
        let begins_until = Instant::now();
        let end = begins_until + length;
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        let ends_from = Instant::now();
        drop(there);
        let away = Pinned::new(cpus.0)?;
        let ends_until = Instant::now();
        drop((away, first));
        Ok(Made::new("hog", [begins_from, begins_until, ends_from, ends_until]))
    });
    let made = hog.join().map_err(|_| "the hog panicked")?;
    Ok(made.map_err(|error| error.to_string())?)
}

impl Made {
    fn new(kind: &'static str, stamps: [Instant; 4]) -> Self {
        let [begins_from_ns, begins_until_ns, ends_from_ns, ends_until_ns] =
            stamps.map(|stamp| stamp.as_nanos().cast_unsigned());
        Self { kind, begins_from_ns, begins_until_ns, ends_from_ns, ends_until_ns }
    }

    /// Returns whether `found` is this stall: it includes the middle.
    const fn is(&self, found: &Found) -> bool {
        let middle = self.begins_until_ns / 2 + self.ends_from_ns / 2;
        found.start_ns <= middle && middle <= found.start_ns + found.length_ns
    }

    /// Returns whether `found` has the correct begin and end.
    const fn is_within(&self, found: &Found) -> bool {
        let end_ns = found.start_ns + found.length_ns;
        found.start_ns + CLOCKS_NS + found.uncertainty_ns >= self.begins_from_ns
            && found.start_ns <= self.begins_until_ns + SLACK_NS
            && end_ns + CLOCKS_NS >= self.ends_from_ns
            && end_ns <= self.ends_until_ns + SLACK_NS
    }
}

/// Parses the lines of `--raw`.
fn parse(text: &str) -> Result<Vec<Found>, Box<dyn Error>> {
    let line = |line: &str| -> Result<Found, Box<dyn Error>> {
        let words: Vec<&str> = line.split(' ').collect();
        let &[_, start, length, uncertain, cause, ..] = words.as_slice() else {
            return Err(format!("hpt wrote an invalid line: {line}").into());
        };
        let (start_ns, length_ns, uncertainty_ns) = (start.parse()?, length.parse()?, uncertain.parse()?);
        Ok(Found { start_ns, length_ns, uncertainty_ns, cause: cause.to_owned() })
    };
    text.lines().map(line).collect()
}

fn compare(made: &[Made], found: &[Found], interrupted: bool) -> Outcomes {
    let line = |made: &Made| {
        let found = found.iter().find(|found| made.is(found)).cloned();
        Line { made: *made, is_within: found.as_ref().is_some_and(|found| made.is_within(found)), found }
    };
    let lines: Vec<Line> = made.iter().map(line).collect();
    let all_found = lines.iter().filter(|line| line.found.is_some()).count();
    Outcomes {
        made: made.len(),
        found: all_found,
        within: lines.iter().filter(|line| line.is_within).count(),
        others: found.iter().filter(|found| !made.iter().any(|made| made.is(found))).count(),
        interrupted,
        lines,
    }
}

/// Formats the time from `b` to `a`, in microseconds.
#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn us_after(a: u64, b: u64) -> String {
    format!("{:+.1}", a.cast_signed().wrapping_sub(b.cast_signed()) as f64 / 1_000.0)
}

fn text(outcomes: &Outcomes, found: &[Found]) -> String {
    let rows = outcomes.lines.iter().enumerate().map(|(number, line)| {
        let Line { made, found, is_within } = line;
        let length = us_after(made.ends_until_ns, made.begins_from_ns);
        let [start, end, length_found, cause] = match found {
            Some(found) => {
                let end_ns = found.start_ns + found.length_ns;
                [
                    us_after(found.start_ns, made.begins_from_ns),
                    us_after(end_ns, made.ends_from_ns),
                    us_after(end_ns, found.start_ns),
                    found.cause.clone(),
                ]
            }
            None => ["-", "-", "-", "not found"].map(str::to_owned),
        };
        let verdict = if *is_within { "yes" } else { "NO" };
        let stamps =
            [us_after(made.begins_until_ns, made.begins_from_ns), us_after(made.ends_until_ns, made.ends_from_ns)];
        let [begins, ends] = stamps;
        let at = format!("{:.6}", Duration::from_nanos(made.begins_from_ns).as_secs_f64());
        [
            (number + 1).to_string(),
            made.kind.to_owned(),
            at,
            length,
            length_found,
            begins,
            start,
            ends,
            end,
            cause,
            verdict.to_owned(),
        ]
    });
    let head =
        ["#", "injected with", "at, s", "length", "found", "began ≤", "found", "ended ≤", "found", "cause", "within"];
    let longest = found.iter().map(|found| found.length_ns).max().unwrap_or(0);
    format!(
        "{}\n\n{} injected, {} found, {} within the timestamps and 100 µs; {} others, which were not injected. In microseconds. began, ended: \
         the time from the first timestamp to the second, and from the first to the begin or end that hpt found. The longest stall that hpt \
         found: {} µs.\n",
        table(head, rows),
        outcomes.made,
        outcomes.found,
        outcomes.within,
        outcomes.others,
        longest / 1_000
    )
}
