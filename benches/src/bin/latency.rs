//! Compares the wake-up latency measured by `hpt latency timer` with that measured by cyclictest.
//! Runs both in turn, with the same CPU, priority and period, and reads their files, which have the
//! same format.

use std::{
    collections::BTreeMap,
    error::Error,
    fmt, fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use clap::Parser;
use hpt_benches::{
    programs::{EXIT_CODES, Interrupt, Keep, Outcome, count, duration, exit_code, table},
    rounds::{Quantiles, order},
};
use hpt_instrument::measure::clock_read_overhead;
use hpt_realtime::allowed_cpus;
use serde::{Deserialize, Serialize};

const EXAMPLES: &str = "\
Examples:
  latency                            fifteen rounds of five seconds each
  latency --rounds 3 --time 1s       a few seconds
  latency --hpt ./hpt --priority 50  another build of hpt, another priority";
const PROGRAMS: [&str; 2] = ["hpt", "cyclictest"];

/// Run hpt latency timer and cyclictest in turn, and compare the wake-up latency.
#[derive(Debug, Parser)]
#[command(max_term_width = 80, after_help = format!("{EXIT_CODES}\n\n{EXAMPLES}"))]
struct Args {
    /// Number of runs of each program
    #[arg(long, value_name = "N", default_value = "15", value_parser = count)]
    rounds: u64,
    /// Run time in whole seconds, because cyclictest supports no others
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    time: Duration,
    /// Interval between deadlines
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration)]
    interval: Duration,
    /// Priority under SCHED_FIFO
    #[arg(long, value_name = "PRIORITY", default_value_t = 80, value_parser = clap::value_parser!(u8).range(1..=99))]
    priority: u8,
    /// The hpt command [default: the one in the directory of this program]
    #[arg(long, value_name = "FILE")]
    hpt: Option<PathBuf>,
    #[command(flatten)]
    keep: Keep,
}

#[derive(Debug, Serialize)]
struct Found {
    interrupted: bool,
    interval_us: u128,
    seconds: u64,
    priority: u8,
    /// The read overhead of its clock, which is included in each of hpt's figures.
    read_ns: u64,
    /// A row for each program, a column for each round.
    runs: Vec<Vec<Run>>,
}

/// One run of one program, in whole microseconds, as both programs count them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Run {
    samples: u64,
    p50_us: u64,
    p99_us: u64,
    max_us: u64,
    mean_us: f64,
}

/// The file that both programs write: cyclictest's format, file_version 1.
#[derive(Debug, Deserialize)]
struct File {
    file_version: u32,
    thread: BTreeMap<String, Thread>,
}

#[derive(Debug, Deserialize)]
struct Thread {
    histogram: BTreeMap<String, u64>,
    cycles: u64,
    max: u64,
    avg: f64,
}

/// The reason why the comparison is skipped.
#[derive(Debug)]
struct Lacking(String);

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "skipped: {}", self.0)
    }
}

impl Error for Lacking {}

fn main() -> ExitCode {
    exit_code("latency", run(Args::parse()))
}

fn run(args: Args) -> Result<Outcome, Box<dyn Error>> {
    let interrupt = Interrupt::listen()?;
    let beside = std::env::current_exe()?.with_file_name("hpt");
    let hpt = args.hpt.clone().unwrap_or(beside);
    let cpu = allowed_cpus().last().copied().unwrap_or(0);
    let seconds = args.time.as_secs().max(1);
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("run.json");
    let mut runs = vec![Vec::new(); PROGRAMS.len()];
    'rounds: for round in 0..usize::try_from(args.rounds)? {
        let mut these = [None; PROGRAMS.len()];
        for program in order(round, PROGRAMS.len()) {
            let command = if program == 0 {
                hpts(&hpt, cpu, seconds, &args, &file)
            } else {
                cyclictests(cpu, seconds, &args, &file)
            };
            let run = one(command, &file);
            if interrupt.came() {
                break 'rounds;
            }
            these[program] = Some(run?);
        }
        for (runs, run) in runs.iter_mut().zip(these) {
            runs.extend(run);
        }
    }
    let read_ns = clock_read_overhead().overhead_ns;
    let found = Found {
        interrupted: interrupt.came(),
        interval_us: args.interval.as_micros(),
        seconds,
        priority: args.priority,
        read_ns,
        runs,
    };
    args.keep.publish("latency", Some(cpu), &found, &found.text())?;
    Ok(found.outcome())
}

fn hpts(hpt: &Path, cpu: usize, seconds: u64, args: &Args, file: &Path) -> Command {
    let mut command = Command::new(hpt);
    command.args(["latency", "timer", "--dma-latency", "0", "--mlockall"]);
    command.arg(format!("--cpu={cpu}")).arg(format!("--fifo={}", args.priority));
    command.arg(format!("--interval={}us", args.interval.as_micros())).arg(format!("--duration={seconds}s"));
    command.arg(format!("--write=cyclictest-json={}", file.display()));
    command
}

/// Returns the command line of cyclictest, which disables deep idle states by default.
fn cyclictests(cpu: usize, seconds: u64, args: &Args, file: &Path) -> Command {
    let mut command = Command::new("cyclictest");
    command.args(["--quiet", "--mlockall", "--threads=1", "--histogram=10000"]);
    command.arg(format!("--affinity={cpu}")).arg(format!("--priority={}", args.priority));
    command.arg(format!("--interval={}", args.interval.as_micros())).arg(format!("--duration={seconds}"));
    command.arg(format!("--json={}", file.display()));
    command
}

/// Runs a program, and reads its result.
fn one(mut command: Command, file: &Path) -> Result<Run, Box<dyn Error>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = match command.stdin(Stdio::null()).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Lacking(format!("{name} is not installed (cyclictest is in Debian's rt-tests)")).into());
        }
        output => output?,
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Lacking(format!("{name} failed: {}", said.lines().next().unwrap_or("no message"))).into());
    }
    let File { file_version, thread } = serde_json::from_str(&fs::read_to_string(file)?)?;
    let thread = thread.into_values().next().filter(|_| file_version == 1).ok_or("the file has another format")?;
    let mut counts: Vec<(u64, u64)> = thread
        .histogram
        .iter()
        .map(|(us, &count)| Ok((us.parse()?, count)))
        .collect::<Result<_, std::num::ParseIntError>>()?;
    counts.sort_unstable();
    let quantile = |percent: u64| {
        let rank = (thread.cycles * percent).div_ceil(100);
        let mut seen = 0;
        let class = counts.iter().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        class.map_or(thread.max, |&(us, _)| us)
    };
    Ok(Run {
        samples: thread.cycles,
        p50_us: quantile(50),
        p99_us: quantile(99),
        max_us: thread.max,
        mean_us: thread.avg,
    })
}

/// Returns hpt's figure minus cyclictest's, per round: the median and its 95 % confidence interval,
/// for any distribution; `None` for fewer than six rounds.
fn difference(runs: &[Vec<Run>], figure: fn(&Run) -> f64) -> Option<(f64, f64, f64)> {
    let mut differences: Vec<_> =
        runs[0].iter().zip(&runs[1]).map(|(hpts, other)| figure(hpts) - figure(other)).collect();
    differences.sort_by(f64::total_cmp);
    let rounds = differences.len();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "few, and not negative"
    )]
    let left_out = ((rounds as f64 - 1.96 * (rounds as f64).sqrt()) / 2.0).floor().max(0.0) as usize;
    (rounds >= 6).then(|| (differences[rounds / 2], differences[left_out], differences[rounds - 1 - left_out]))
}

/// A figure of a run, with its name.
type Figure = (&'static str, fn(&Run) -> f64);

#[expect(clippy::cast_precision_loss, reason = "microseconds")]
const FIGURES: [Figure; 4] = [
    ("p50", |run| run.p50_us as f64),
    ("p99", |run| run.p99_us as f64),
    ("mean", |run| run.mean_us),
    ("max", |run| run.max_us as f64),
];

impl Found {
    /// Returns `Broken` if hpt's median or p99 exceeds cyclictest's by more than the read overhead
    /// and the variation between runs.
    fn outcome(&self) -> Outcome {
        #[expect(clippy::cast_precision_loss, reason = "nanoseconds")]
        let look_us = self.read_ns as f64 / 1_000.0;
        let least = |(_, figure): &Figure| difference(&self.runs, *figure).map(|(_, least, _)| least);
        let least: Option<Vec<_>> = FIGURES[..2].iter().map(least).collect();
        match least {
            None => Outcome::Unknown,
            Some(least) if least.iter().all(|&least| least <= look_us) => Outcome::Kept,
            Some(_) => Outcome::Broken,
        }
    }

    fn text(&self) -> String {
        let rows = FIGURES.map(|(name, figure)| {
            let of = |program: usize| Quantiles::spread(Quantiles::of(self.runs[program].iter().map(figure)));
            let difference = difference(&self.runs, figure);
            let difference = difference
                .map_or("–".to_owned(), |(median, least, most)| format!("{median:.2} ({least:.2} to {most:.2})"));
            [name.to_owned(), of(0), of(1), difference]
        });
        let samples: u64 = self.runs[0].iter().map(|run| run.samples).sum();
        format!(
            "{}\n\nWake-up latency in microseconds: {} rounds of {} s each, interval {} µs, SCHED_FIFO {}, memory locked, deep idle states \
             disabled; {samples} wake-ups measured by hpt. Medians over the rounds; in parentheses, the 10th and 90th percentile, or for the \
             differences, which are computed within a round, the 95 % confidence interval of the median. Both programs count whole \
             microseconds. The read overhead of the clock is {} ns, which is included in the figures of hpt and of cyclictest.\n",
            table(["what", "hpt latency timer", "cyclictest", "difference"], rows),
            self.runs[0].len(),
            self.seconds,
            self.interval_us,
            self.priority,
            self.read_ns,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Run, difference};

    fn run(p50_us: u64) -> Run {
        Run { samples: 1, p50_us, p99_us: 0, max_us: 0, mean_us: 0.0 }
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "a few")]
    fn differences_are_computed_per_round() {
        let figure = |run: &Run| run.p50_us as f64;
        let runs = |hpts: &[u64]| vec![hpts.iter().map(|&us| run(us)).collect(), vec![run(10); hpts.len()]];
        assert_eq!(difference(&runs(&[10; 5]), figure), None);
        let fifteen: Vec<u64> = (3..18).collect();
        assert_eq!(difference(&runs(&fifteen), figure), Some((0.0, -4.0, 4.0)));
    }
}
