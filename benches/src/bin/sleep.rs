//! Measures the overshoot and the CPU time of sleeps: with hpt, the kernel, a busy wait, and the
//! crate spin_sleep.
//! Runs the methods in turn, in one run. `hpt_instrument::measure` sleeps.

use std::{error::Error, ops::ControlFlow, process::ExitCode, time::Duration};

use clap::Parser;
use hpt_benches::programs::{EXIT_CODES, Interrupt, Keep, Outcome, count, exit_code, table};
use hpt_core::{Sleeper, Spread, clock, sleep::Target};
use hpt_instrument::measure::{SleepMethod, SleepOvershoot, sleep_overshoot};
use hpt_realtime::{AwakeCpus, Fifo, Pinned};
use serde::Serialize;

const EXAMPLES: &str = "\
Examples:
  sleep                       a thousand sleeps of each length with each method
  sleep --fifo 50 --awake     under SCHED_FIFO, with deep idle states disabled";

/// Sleep with several methods in turn, and report their overshoot and CPU time.
#[derive(Debug, Parser)]
#[command(max_term_width = 80, after_help = format!("{EXIT_CODES}\n\n{EXAMPLES}"))]
struct Args {
    /// Number of sleeps of each length with each method, for example 1e4
    #[arg(long, value_name = "N", default_value = "1000", value_parser = count)]
    count: u64,
    /// Run under SCHED_FIFO with this priority
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99))]
    fifo: Option<u8>,
    /// Disable deep idle states of all CPUs during the run (/dev/cpu_dma_latency)
    #[arg(long)]
    awake: bool,
    #[command(flatten)]
    keep: Keep,
}

#[derive(Debug, Serialize)]
struct Found {
    fifo: Option<u8>,
    awake: bool,
    interrupted: bool,
    sleeps: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct Line {
    duration_us: u64,
    method: &'static str,
    late: Option<Spread>,
    trimmed_mean_ns: Option<f64>,
    early: u64,
    cpu_share: Option<f64>,
    /// The CPU share divided by that of clock_nanosleep.
    cpu_ratio: Option<f64>,
}

fn main() -> ExitCode {
    exit_code("sleep", run(Args::parse()))
}

fn run(args: Args) -> Result<Outcome, Box<dyn Error>> {
    let interrupt = Interrupt::listen()?;
    let pinned = hpt_benches::pin()?;
    let _fifo = args.fifo.map(Fifo::new).transpose()?;
    let _awake = args.awake.then(AwakeCpus::new).transpose()?;
    clock::prime();
    let mut sleeps = Vec::new();
    for duration in [100, 250, 1_000, 10_000].map(Duration::from_micros) {
        let (mut sleeper, mut often) =
            (Sleeper::new(), Sleeper::new().with_target(Target::P99(Duration::from_micros(1))));
        let mut methods: Vec<_> = SleepMethod::all(&mut sleeper).into();
        methods.push(SleepMethod::new("hpt, p99 1 µs", |_, deadline| {
            let _ = often.sleep_until(deadline);
        }));
        // Default configuration: the kernel sleeps until 125 µs before the end.
        let spin_sleep = spin_sleep::SpinSleeper::default();
        methods.push(SleepMethod::new("spin_sleep", move |duration, _| spin_sleep.sleep(duration)));
        let durations = (0..args.count).map(|_| duration);
        let overshoots = sleep_overshoot(durations, &mut methods, |_| {
            if interrupt.came() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        sleeps.extend(lines(duration, &overshoots));
        if interrupt.came() {
            break;
        }
    }
    // hpt promises not to return early according to its own clock. The other methods use the
    // kernel's clock.
    let early = sleeps.iter().any(|line| line.method.starts_with("hpt") && line.early > 0);
    let found = Found { fifo: args.fifo, awake: args.awake, interrupted: interrupt.came(), sleeps };
    args.keep.publish("sleep", Some(Pinned::cpu(&pinned)), &found, &found.text())?;
    Ok(if early { Outcome::Broken } else { Outcome::Kept })
}

fn lines(duration: Duration, overshoots: &[SleepOvershoot]) -> impl Iterator<Item = Line> {
    let kernels =
        overshoots.iter().find(|overshoot| overshoot.method == "nanosleep").and_then(|overshoot| overshoot.cpu_share);
    overshoots.iter().map(move |overshoot| Line {
        duration_us: u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
        method: overshoot.method,
        late: overshoot.overshoot,
        trimmed_mean_ns: overshoot.trimmed_mean_ns,
        early: overshoot.early,
        cpu_share: overshoot.cpu_share,
        cpu_ratio: overshoot.cpu_share.zip(kernels).map(|(share, kernels)| share / kernels),
    })
}

impl Found {
    fn text(&self) -> String {
        let us = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.2}", ns / 1_000.0));
        let rows = self.sleeps.iter().map(|line| {
            let late = |figure: fn(&Spread) -> f64| us(line.late.as_ref().map(figure));
            let percent = line.cpu_share.map_or_else(|| "-".to_owned(), |share| format!("{:.2}", share * 100.0));
            let ratio = line.cpu_ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.1}"));
            let (length, name, early) = (line.duration_us.to_string(), line.method.to_owned(), line.early.to_string());
            let (p50, p99, max) = (late(|late| late.p50_ns), late(|late| late.p99_ns), late(|late| late.max_ns));
            [length, name, p50, us(line.trimmed_mean_ns), p99, max, early, percent, ratio]
        });
        let fifo = self.fifo.map_or_else(String::new, |priority| format!(" Under SCHED_FIFO {priority}."));
        let awake = if self.awake { " With deep idle states disabled." } else { "" };
        format!(
            "{}\n\nOvershoot in microseconds. trimmed: mean without the largest hundredth. CPU: CPU time of the thread divided by the elapsed \
             time. ratio: compared with nanosleep.{fifo}{awake}\n",
            table(["sleep, µs", "method", "p50", "trimmed", "p99", "worst", "early", "CPU %", "ratio"], rows),
        )
    }
}
