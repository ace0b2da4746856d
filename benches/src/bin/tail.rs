//! Measures the tail latency of single reads, including those in which Instant is compared with the
//! kernel's clock again.
//! Times every read separately, between two bare ordered reads of the counter. Interruptions are
//! included for all clocks alike.

use std::{error::Error, hint::black_box, process::ExitCode};

use clap::Parser;
use hpt_benches::{
    bare::{Counter, Fence, clock_monotonic},
    ours::Ours,
    programs::{EXIT_CODES, Interrupt, Keep, Outcome, count, exit_code, table},
    rounds::order,
    tails::{Samples, Tails},
};
use hpt_core::{Host, Instant, clock};
use serde::Serialize;

const EXAMPLES: &str = "\
Examples:
  tail                        ten million reads of each
  tail --reads 1e6            a second in all
  tail --json tail.json       for a record";

/// Time single reads of the clocks, and report the slowest.
#[derive(Debug, Parser)]
#[command(max_term_width = 80, after_help = format!("{EXIT_CODES}\n\n{EXAMPLES}"))]
struct Args {
    /// Number of reads of each clock, for example 1e6
    #[arg(long, value_name = "N", default_value = "1e7", value_parser = count)]
    reads: u64,
    /// Number of reads before the next clock has its turn: a few milliseconds
    #[arg(long, value_name = "N", default_value = "50000", value_parser = count)]
    block: u64,
    #[command(flatten)]
    keep: Keep,
}

#[derive(Debug, Serialize)]
struct Found {
    reads_per_block: u64,
    /// Number of times that hpt's two clocks compared the counter with the kernel's clock.
    anchorings: u64,
    interrupted: bool,
    clocks: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct Line {
    name: &'static str,
    read: Option<Tails>,
}

/// Fills a slice with the ticks of each read.
type Block = Box<dyn Fn(&mut [u32])>;

/// A clock, and a block of timed reads of it.
struct Timed {
    name: &'static str,
    block: Block,
    samples: Samples,
}

fn main() -> ExitCode {
    exit_code("tail", run(Args::parse()))
}

fn run(args: Args) -> Result<Outcome, Box<dyn Error>> {
    let host = Host::live();
    let interrupt = Interrupt::listen()?;
    let counter = Counter::detect(&host)?;
    let fence = Fence::detect().ok_or("no fence is known on this architecture")?;
    let tick_ns = Ours::open(&host)?.tick_ns();
    let pinned = hpt_benches::pin()?;
    let mut clocks = clocks(counter, fence);
    let mut ticks = vec![0; usize::try_from(args.block.min(args.reads))?];
    let rounds = usize::try_from(args.reads.div_ceil(args.block))?;
    let before = clock::status().anchorings;
    for round in (0..rounds).take_while(|_| !interrupt.came()) {
        for at in order(round, clocks.len()) {
            let Timed { block, samples, .. } = &mut clocks[at];
            block(&mut ticks);
            ticks.iter().for_each(|&ticks| samples.add(ticks.into()));
        }
    }
    let found = Found {
        reads_per_block: args.block,
        anchorings: clock::status().anchorings - before,
        interrupted: interrupt.came(),
        clocks: clocks.iter().map(|clock| Line { name: clock.name, read: clock.samples.tails(tick_ns) }).collect(),
    };
    args.keep.publish("tail", Some(hpt_realtime::Pinned::cpu(&pinned)), &found, &found.text())?;
    Ok(Outcome::Kept)
}

fn clocks(counter: Counter, fence: Fence) -> Vec<Timed> {
    // First readings before the timed ones: startup.rs measures the cost of a first reading.
    let _ = (Instant::now(), quanta::Instant::now());
    vec![
        timed("nothing between", counter, fence, || ()),
        timed("hpt Instant::now", counter, fence, Instant::now),
        timed("hpt Instant::now_unordered", counter, fence, Instant::now_unordered),
        timed("std Instant::now", counter, fence, std::time::Instant::now),
        timed("libc CLOCK_MONOTONIC", counter, fence, clock_monotonic),
        timed("quanta Instant::now", counter, fence, quanta::Instant::now),
        timed("minstant Instant::now", counter, fence, minstant::Instant::now),
        timed("fastant Instant::now", counter, fence, fastant::Instant::now),
    ]
}

/// Returns a clock with timed reads. A fence also follows the first bare read; otherwise, an
/// unordered read could begin before it.
fn timed<T: 'static>(name: &'static str, counter: Counter, fence: Fence, read: impl Fn() -> T + 'static) -> Timed {
    let block = move |ticks: &mut [u32]| {
        for place in ticks {
            let start = counter.read_ordered();
            fence.wait();
            black_box(read());
            let end = counter.read_ordered();
            *place = u32::try_from(end.wrapping_sub(start)).unwrap_or(u32::MAX);
        }
    };
    Timed { name, block: Box::new(block), samples: Samples::new() }
}

impl Found {
    fn text(&self) -> String {
        let rows = self.clocks.iter().map(|Line { name, read }| {
            let [p50, p99, p999, p9999, worst] = Tails::cells(*read, 1);
            [(*name).to_owned(), read.map_or(0, |read| read.samples).to_string(), p50, p99, p999, p9999, worst]
        });
        format!(
            "{}\n\nNanoseconds of a single read between two bare ordered reads, whose overhead is the first line. In turns of {} reads. hpt \
             compared the counter with the kernel's clock {} times during its reads.\n",
            table(["one read, ns", "reads", "p50", "p99", "p99.9", "p99.99", "worst"], rows),
            self.reads_per_block,
            self.anchorings,
        )
    }
}
