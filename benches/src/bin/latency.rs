//! How late is a thread woken, as `hpt latency timer` counts it and as cyclictest does? Both in turn, with the same CPU, priority and period, read from files of the
//! same form.

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
use hpt_core::{measure::cost_of_looking, realtime::allowed_cpus};
use serde::{Deserialize, Serialize};

const EXAMPLES: &str = "\
Examples:
  latency                            fifteen rounds of five seconds each
  latency --rounds 3 --time 1s       in a moment
  latency --hpt ./hpt --priority 50  another build of hpt, another priority";
const PROGRAMS: [&str; 2] = ["hpt", "cyclictest"];

/// Run hpt latency timer and cyclictest in turn, and tell how late each found its thread woken.
#[derive(Debug, Parser)]
#[command(max_term_width = 80, after_help = format!("{EXIT_CODES}\n\n{EXAMPLES}"))]
struct Args {
    /// Run each so many times
    #[arg(long, value_name = "N", default_value = "15", value_parser = count)]
    rounds: u64,
    /// For so long; whole seconds, because cyclictest knows no others
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    time: Duration,
    /// From one deadline to the next
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration)]
    interval: Duration,
    /// The priority, by SCHED_FIFO
    #[arg(long, value_name = "PRIORITY", default_value_t = 80, value_parser = clap::value_parser!(u8).range(1..=99))]
    priority: u8,
    /// The command hpt [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    hpt: Option<PathBuf>,
    #[command(flatten)]
    keep: Keep,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Found {
    interrupted: bool,
    interval_us: u128,
    seconds: u64,
    priority: u8,
    /// What a look at its clock adds to each of hpt's figures.
    look_ns: u64,
    /// A line for each program, a column for each round.
    runs: Vec<Vec<Run>>,
}

/// One run of one program, in whole microseconds as both count them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Run {
    samples: u64,
    p50_us: u64,
    p99_us: u64,
    max_us: u64,
    mean_us: f64,
}

/// The file that both write: cyclictest's, file_version 1.
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

/// Why a comparison cannot be had here.
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
    let (look_ns, _) = cost_of_looking();
    let found = Found {
        interrupted: interrupt.came(),
        interval_us: args.interval.as_micros(),
        seconds,
        priority: args.priority,
        look_ns,
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

/// It keeps all CPUs awake, unless told otherwise.
fn cyclictests(cpu: usize, seconds: u64, args: &Args, file: &Path) -> Command {
    let mut command = Command::new("cyclictest");
    command.args(["--quiet", "--mlockall", "--threads=1", "--histogram=10000"]);
    command.arg(format!("--affinity={cpu}")).arg(format!("--priority={}", args.priority));
    command.arg(format!("--interval={}", args.interval.as_micros())).arg(format!("--duration={seconds}"));
    command.arg(format!("--json={}", file.display()));
    command
}

/// Runs one, and reads what it wrote.
fn one(mut command: Command, file: &Path) -> Result<Run, Box<dyn Error>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = match command.stdin(Stdio::null()).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Lacking(format!("there is no {name}; Debian has cyclictest in rt-tests")).into());
        }
        output => output?,
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Lacking(format!("{name} was refused: {}", said.lines().next().unwrap_or("it said nothing"))).into());
    }
    let File { file_version, thread } = serde_json::from_str(&fs::read_to_string(file)?)?;
    let thread = thread.into_values().next().filter(|_| file_version == 1).ok_or("a file of another form")?;
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

/// Hpt's figure less cyclictest's, round by round: the median, and the limits that hold the true one in 95 of 100 cases, whatever its distribution; `None` of fewer
/// than six rounds.
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

/// A figure of a run, by its name.
type Figure = (&'static str, fn(&Run) -> f64);

#[expect(clippy::cast_precision_loss, reason = "microseconds")]
const FIGURES: [Figure; 4] = [
    ("p50", |run| run.p50_us as f64),
    ("p99", |run| run.p99_us as f64),
    ("mean", |run| run.mean_us),
    ("max", |run| run.max_us as f64),
];

impl Found {
    /// Broken when hpt's median or p99 is above cyclictest's by more than what a look costs and what runs differ by.
    fn outcome(&self) -> Outcome {
        #[expect(clippy::cast_precision_loss, reason = "nanoseconds")]
        let look_us = self.look_ns as f64 / 1_000.0;
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
            "{}\n\nHow late a thread was woken, in microseconds: {} rounds of {} s each, deadlines {} µs apart, SCHED_FIFO {}, memory locked, CPUs kept awake; {samples} wake-ups by hpt. \
             Medians over the rounds, in brackets the 10th and the 90th percentile; of the differences, taken within a round, the limits that hold the true median in 95 of 100 cases. \
             Both count whole microseconds. A look at the clock takes {} ns, and is in hpt's figures as in cyclictest's.\n",
            table(["what", "hpt latency timer", "cyclictest", "difference"], rows),
            self.runs[0].len(),
            self.seconds,
            self.interval_us,
            self.priority,
            self.look_ns,
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
    fn differences_are_taken_round_by_round() {
        let figure = |run: &Run| run.p50_us as f64;
        let runs = |hpts: &[u64]| vec![hpts.iter().map(|&us| run(us)).collect(), vec![run(10); hpts.len()]];
        assert_eq!(difference(&runs(&[10; 5]), figure), None);
        let fifteen: Vec<u64> = (3..18).collect();
        assert_eq!(difference(&runs(&fifteen), figure), Some((0.0, -4.0, 4.0)));
    }
}
