//! Compares the cost and the latency of each way to read time with the bare instruction.
//! Prints a table, or JSON for a record. `hpt_benches::rounds` does the measurement.

use std::{
    env,
    error::Error,
    fs,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::Parser;
use hpt_benches::{
    Skipped,
    bare::{Counter, Fence},
    ours::{self, Ours},
    pairs,
    report::{Machine, Method, Provenance, Report, SCHEMA, lines},
    rivals,
    rounds::{Effort, Times},
};
use hpt_core::{Host, PosixClock, PosixId};

/// The rounds of `cargo bench`: a few seconds if a read takes tens of nanoseconds. Uses many short
/// batches instead of a few long ones, because a fenced loop keeps its initial pace for a whole
/// batch (see [`hpt_benches::rounds::order`]).
const ROUNDS: usize = 3000;
const READS_PER_BATCH: u64 = 2000;
/// If a read takes a microsecond, there are fewer rounds.
const LONGEST_RACE: Duration = Duration::from_secs(8);
/// The rounds of `cargo test`, which only checks that every contender runs.
const TRIAL: Effort = Effort { rounds: 2, longest: LONGEST_RACE, reads_per_batch: 20 };

/// Compare ways to read time with the bare instruction.
#[derive(Debug, Parser)]
struct Args {
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Print the JSON in <RECORD> as Markdown, without measuring
    #[arg(long, value_name = "RECORD", conflicts_with = "json")]
    markdown: Option<PathBuf>,
    /// Maximum number of rounds of each of the three comparisons
    #[arg(long, value_name = "N", default_value_t = ROUNDS)]
    rounds: usize,
    /// Number of reads, or pairs of reads, in each batch
    #[arg(long, value_name = "N", default_value_t = READS_PER_BATCH)]
    reads: u64,
    /// Date for the record
    #[arg(long, value_name = "YYYY-MM-DD")]
    date: Option<String>,
    /// Commit for the record
    #[arg(long, value_name = "COMMIT")]
    commit: Option<String>,
    /// Compiler version for the record
    #[arg(long, value_name = "VERSION")]
    rustc: Option<String>,
    /// Passed by `cargo bench`, but not by `cargo test`
    #[arg(long, hide = true)]
    bench: bool,
    /// The name that `cargo bench NAME` passes to every bench
    #[arg(hide = true)]
    filter: Option<String>,
}

fn main() -> ExitCode {
    // `cargo test` passes no arguments, or options of the test harness.
    if !env::args().any(|argument| argument == "--bench") {
        return finish(trial());
    }
    let args = Args::parse();
    if args.filter.as_ref().is_some_and(|filter| !"ratios".contains(filter.as_str())) {
        return ExitCode::SUCCESS;
    }
    finish(answer(args))
}

fn finish(result: Result<(), Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ratios: {error}");
            ExitCode::from(2)
        }
    }
}

fn answer(args: Args) -> Result<(), Box<dyn Error>> {
    let effort = Effort { rounds: args.rounds, longest: LONGEST_RACE, reads_per_batch: args.reads };
    let provenance = Provenance { date: args.date, commit: args.commit, rustc: args.rustc };
    print(&match (args.markdown, args.json) {
        (Some(record), _) => serde_json::from_slice::<Report>(&fs::read(record)?)?.record(),
        (None, true) => serde_json::to_string_pretty(&race(effort, provenance)?)? + "\n",
        (None, false) => race(effort, provenance)?.table(),
    })
}

/// Runs too briefly for meaningful figures, so it prints none.
fn trial() -> Result<(), Box<dyn Error>> {
    let report = race(TRIAL, Provenance::default())?;
    print(&format!("{} contenders ran; use `cargo bench` to time them\n", report.contenders.len()))
}

/// Prints `text`. A closed pipe is not an error.
fn print(text: &str) -> Result<(), Box<dyn Error>> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn race(effort: Effort, provenance: Provenance) -> Result<Report, Box<dyn Error>> {
    let host = Host::live();
    let mut skipped = Vec::new();
    let mut skip = |name: &str, reason: String| skipped.push(Skipped { name: name.to_owned(), reason });
    let pinned = match hpt_benches::pin() {
        Ok(pinned) => Some(pinned),
        Err(reason) => {
            skip("pinned to one CPU", reason.to_string());
            None
        }
    };
    let stopwatch = PosixClock::open(&host, PosixId::MonotonicRaw)?;
    let ours = Ours::open(&host);
    let mut contenders = Vec::new();
    match rivals::bare(&host) {
        Ok(bare) => contenders.extend(bare),
        Err(reason) => skip(Counter::PLAIN, reason.to_owned()),
    }
    match &ours {
        Ok(ours) => contenders.extend(ours.contenders()),
        Err(reason) => skip("hpt: the counter and its clock", reason.to_string()),
    }
    contenders.extend(rivals::rivals());
    let fence = Fence::detect();
    let in_a_row = Times::in_a_row(&contenders, effort, &stopwatch);
    let fenced = fence.map(|fence| Times::fenced(&contenders, effort, &stopwatch, fence));
    let mut pairs = Vec::new();
    pairs.extend(Counter::detect(&host).map(pairs::bare).into_iter().flatten());
    pairs.extend(ours::pairs());
    pairs.extend(rivals::pairs());
    let times_of_pairs = fence.map(|fence| Times::pairs(&pairs, effort, &stopwatch, fence));
    Ok(Report {
        schema: SCHEMA,
        provenance,
        machine: Machine::of(&host, pinned.as_ref().map(hpt_realtime::Pinned::cpu)),
        method: Method {
            rounds_in_a_row: in_a_row.rounds(),
            rounds_fenced: fenced.as_ref().map_or(0, Times::rounds),
            rounds_of_pairs: times_of_pairs.as_ref().map_or(0, Times::rounds),
            reads_per_batch: effort.reads_per_batch,
            timed_by: PosixId::MonotonicRaw.source_id().to_string(),
            fence: fence.map(|_| Fence::NAME.to_owned()),
        },
        contenders: lines(&contenders, &in_a_row, fenced.as_ref()),
        pairs: times_of_pairs.map(|times| pairs::lines(&pairs, &times)).unwrap_or_default(),
        skipped,
    })
}
