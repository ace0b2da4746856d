//! Measures the time from the entry of `main` to the first right reading of each clock, in new
//! processes. Starts the programs first-reading-* from its own directory in turn, and reads no
//! clock except its stopwatch.

use std::{env, error::Error, io, path::Path, process::Command, process::ExitCode};

use clap::Parser;
use hpt_benches::{
    programs::{EXIT_CODES, Interrupt, Keep, Outcome, count, exit_code, table},
    rounds::order,
    startup::{FirstReading, FirstReadings, StartUp},
    tails::Tails,
};
use hpt_core::{Host, PosixClock, PosixId, TimeSource};
use serde::Serialize;

const EXAMPLES: &str = "\
Examples:
  cargo build --profile dist --package hpt-benches --bins
  startup                     a thousand processes for each clock
  startup --starts 100        some seconds in all";

/// The clocks, as in the names of their programs. `nothing` reads no clock: it is the empty
/// program.
const CLOCKS: [&str; 6] = ["nothing", "hpt", "std", "quanta", "minstant", "fastant"];

/// Start many processes for each clock, and report the cost of the first reading.
#[derive(Debug, Parser)]
#[command(max_term_width = 80, after_help = format!("{EXIT_CODES}\n\n{EXAMPLES}"))]
struct Args {
    /// Number of processes for each clock
    #[arg(long, value_name = "N", default_value = "1000", value_parser = count)]
    starts: u64,
    #[command(flatten)]
    keep: Keep,
}

#[derive(Debug, Serialize)]
struct Found {
    interrupted: bool,
    clocks: Vec<StartUp>,
}

fn main() -> ExitCode {
    exit_code("startup", run(Args::parse()))
}

fn run(args: Args) -> Result<Outcome, Box<dyn Error>> {
    let interrupt = Interrupt::listen()?;
    let stopwatch = PosixClock::open(&Host::live(), PosixId::MonotonicRaw)?;
    let program = env::current_exe()?;
    let folder = program.parent().ok_or("the directory of this program is unknown")?;
    let mut readings: [FirstReadings; CLOCKS.len()] = Default::default();
    for round in (0..usize::try_from(args.starts)?).take_while(|_| !interrupt.came()) {
        for at in order(round, CLOCKS.len()) {
            // Ctrl-C also ends the process that was just started, so that it prints no result.
            match start(folder, CLOCKS[at], &stopwatch) {
                Ok((reading, wall_ns)) => readings[at].add(reading, wall_ns),
                Err(_) if interrupt.came() => break,
                Err(error) => return Err(error),
            }
        }
    }
    let clocks = CLOCKS.iter().zip(&readings).map(|(name, readings)| readings.start_up(name)).collect();
    let found = Found { interrupted: interrupt.came(), clocks };
    args.keep.publish("startup", None, &found, &found.text())?;
    Ok(if found.clocks.iter().all(StartUp::is_right) { Outcome::Kept } else { Outcome::Broken })
}

/// Runs one process. Returns its result, and the time from its start to its end in nanoseconds.
fn start(folder: &Path, clock: &str, stopwatch: &PosixClock) -> Result<(FirstReading, u64), Box<dyn Error>> {
    let program = folder.join(format!("first-reading-{clock}"));
    let start = stopwatch.ticks_start();
    let output = Command::new(&program).output();
    let wall_ns = stopwatch.ticks_end().wrapping_sub(start);
    let output = output.map_err(|error| missing(&program, &error))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let reading =
        FirstReading::parse(&said).ok_or_else(|| format!("{}: {}: {said}", program.display(), output.status))?;
    Ok((reading, wall_ns))
}

fn missing(program: &Path, error: &io::Error) -> String {
    format!("{}: {error}; run `cargo build --profile dist --package hpt-benches --bins`", program.display())
}

impl Found {
    fn text(&self) -> String {
        let rows = self.clocks.iter().map(|clock| {
            let median_99_worst = |tails| {
                let [p50, p99, _, _, worst] = Tails::cells(tails, 0);
                format!("{p50} / {p99} / {worst}")
            };
            let right = match (clock.right, clock.off) {
                (Some(right), Some(off)) if right < off.samples => {
                    format!("{right} of {}, worst {:.0} ns off", off.samples, off.worst_ns)
                }
                (Some(right), Some(off)) => format!("{right} of {}", off.samples),
                _ => "–".to_owned(),
            };
            [
                clock.name.to_owned(),
                clock.wall.map_or(0, |wall| wall.samples).to_string(),
                median_99_worst(clock.wall),
                median_99_worst(clock.cpu),
                median_99_worst(clock.process_wall),
                median_99_worst(clock.process_cpu),
                right,
            ]
        });
        let header =
            ["first reading", "starts", "main to reading, ns", "CPU, ns", "process, ns", "process CPU, ns", "right"];
        format!(
            "{}\n\np50 / p99 / worst. Main to reading: measured between two system calls, whose overhead is the first line. Process: from its \
             start to its end, measured by its parent. Process CPU: from its start to the reading, including code before `main`. Right: number of \
             readings between the two readings of CLOCK_MONOTONIC around them, for clocks with the same epoch.\n",
            table(header, rows)
        )
    }
}
