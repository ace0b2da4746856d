//! Measures the cost of recording a wake-up compared with two clock reads, and checks that memory
//! use does not grow with the number of wake-ups.
//! Uses synthetic latencies, which are the same in every round.

use std::{error::Error, fs, hint::black_box, process::ExitCode};

use clap::Parser;
use hpt_benches::{
    programs::{EXIT_CODES, Interrupt, Keep, Outcome, count, exit_code, table},
    rounds::{Quantiles, order},
};
use hpt_core::{Instant, clock};
use hpt_instrument::measure::{Latencies, Wake};
use hpt_realtime::Pinned;
use serde::Serialize;

const EXAMPLES: &str = "\
Examples:
  recording                  a hundred million samples
  recording --samples 1e6    a quick run";
/// Samples, or pairs of reads, in one batch.
const BATCH: usize = 20_000;
/// Rounds, in each of which every contender has one batch.
const ROUNDS: usize = 300;
/// The permitted growth of memory after the first batch, for the allocator and this program's own
/// table.
const ALLOWED_KIB: u64 = 256;

/// Record wake-ups as `hpt latency` does, and report their cost and memory use.
#[derive(Debug, Parser)]
#[command(max_term_width = 80, after_help = format!("{EXIT_CODES}\n\n{EXAMPLES}"))]
struct Args {
    /// Number of samples to record, for example 1e6
    #[arg(long, value_name = "N", default_value = "1e8", value_parser = count)]
    samples: u64,
    #[command(flatten)]
    keep: Keep,
}

#[derive(Debug, Serialize)]
struct Found {
    interrupted: bool,
    samples: u64,
    /// The peak memory of the process, after the first batch and after the last.
    peak_kib_first: Option<u64>,
    peak_kib_last: Option<u64>,
    /// Nanoseconds for recording one sample, and for two reads of each kind.
    record_ns: Option<Quantiles>,
    two_reads_ns: Option<Quantiles>,
    two_reads_unordered_ns: Option<Quantiles>,
    /// One sample divided by two reads, within a round.
    ratio: Option<Quantiles>,
    ratio_unordered: Option<Quantiles>,
}

fn main() -> ExitCode {
    exit_code("recording", run(Args::parse()))
}

fn run(args: Args) -> Result<Outcome, Box<dyn Error>> {
    let interrupt = Interrupt::listen()?;
    let pinned = hpt_benches::pin()?;
    clock::prime();
    let wakes = made_up();
    let mut latencies = Latencies::new();
    let mut ns = [const { Vec::new() }; 3];
    for round in (0..ROUNDS).take_while(|_| !interrupt.came()) {
        for contender in order(round, ns.len()) {
            let begun = Instant::now();
            match contender {
                0 => wakes.iter().for_each(|&wake| latencies.record(black_box(wake))),
                1 => (0..2 * BATCH).for_each(|_| {
                    black_box(Instant::now());
                }),
                _ => (0..2 * BATCH).for_each(|_| {
                    black_box(Instant::now_unordered());
                }),
            }
            #[expect(clippy::cast_precision_loss, reason = "a mean")]
            ns[contender].push(begun.elapsed_nanos() as f64 / BATCH as f64);
        }
    }
    let [record, ordered, unordered] = ns;
    let ratios = |reads: &[f64]| Quantiles::of(record.iter().zip(reads).map(|(record, reads)| record / reads));
    let (ratio, ratio_unordered) = (ratios(&ordered), ratios(&unordered));
    let peak_kib_first = peak_kib();
    while latencies.histogram().samples() < args.samples && !interrupt.came() {
        wakes.iter().for_each(|&wake| latencies.record(black_box(wake)));
    }
    let found = Found {
        interrupted: interrupt.came(),
        samples: latencies.histogram().samples(),
        peak_kib_first,
        peak_kib_last: peak_kib(),
        record_ns: Quantiles::of(record),
        two_reads_ns: Quantiles::of(ordered),
        two_reads_unordered_ns: Quantiles::of(unordered),
        ratio,
        ratio_unordered,
    };
    args.keep.publish("recording", Some(Pinned::cpu(&pinned)), &found, &found.text())?;
    Ok(found.outcome())
}

/// Returns latencies like those of an idle machine: a few microseconds, and a thousandth of them
/// much larger. From a generator with a fixed seed (xorshift).
fn made_up() -> Vec<Wake> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let latency_ns = |random: u64| {
        let spread = 1_000 << (random % 6);
        let usual = 1_500 + (random >> 8) % spread;
        if random.is_multiple_of(1_009) { usual + (random >> 20) % 30_000_000 } else { usual }
    };
    (0..BATCH).map(|_| Wake::new(Instant::from_nanos((random() >> 1).cast_signed()), latency_ns(random()))).collect()
}

/// Returns the peak memory of this process, from `/proc/self/status`.
fn peak_kib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

impl Found {
    fn outcome(&self) -> Outcome {
        let (Some(ratio), Some(first), Some(last)) = (self.ratio, self.peak_kib_first, self.peak_kib_last) else {
            return Outcome::Unknown;
        };
        if ratio.p50 < 1.0 && last <= first + ALLOWED_KIB { Outcome::Kept } else { Outcome::Broken }
    }

    fn text(&self) -> String {
        let row = |name: &str, ns, ratio| [name.to_owned(), Quantiles::spread(ns), Quantiles::spread(ratio)];
        let rows = [
            row("Latencies::record", self.record_ns, None),
            row("two reads, Instant::now", self.two_reads_ns, self.ratio),
            row("two reads, Instant::now_unordered", self.two_reads_unordered_ns, self.ratio_unordered),
        ];
        let kib = |kib: Option<u64>| kib.map_or_else(|| "unknown".to_owned(), |kib| format!("{kib} KiB"));
        format!(
            "{}\n\nNanoseconds, medians of {ROUNDS} rounds of {BATCH} each; in parentheses, the 10th and 90th percentile. Peak memory of the \
             process: {} after the rounds, {} after {} samples.\n",
            table(["what", "ns", "record / it"], rows),
            kib(self.peak_kib_first),
            kib(self.peak_kib_last),
            self.samples,
        )
    }
}
