//! Checks whether time runs backwards between two threads, or two processes, that hand readings to
//! each other as fast as they can.
//! Threads must see no backward step. Processes must see none larger than the sum of their stated
//! bounds.

mod args;
mod clocks;
mod processes;
mod threads;

use std::{error::Error, process::ExitCode, time::Instant};

use clap::{Parser, ValueEnum};
use hpt_benches::{
    handover::Seen,
    programs::{Interrupt, Outcome, exit_code, table},
};
use hpt_realtime::allowed_cpus;
use serde::Serialize;

use self::{args::Args, clocks::Clock, processes::Bounds};

#[derive(Debug, Serialize)]
struct Found {
    clock: Clock,
    between: &'static str,
    cpus: [usize; 2],
    seconds: f64,
    interrupted: bool,
    seen: Seen,
    /// Number of changes of the source during the run.
    changes_of_source: u64,
    /// The bounds that the two processes stated; absent for threads.
    bounds: Option<[Bounds; 2]>,
}

fn main() -> ExitCode {
    exit_code("handover", run(Args::parse()))
}

fn run(args: Args) -> Result<Outcome, Box<dyn Error>> {
    let cpus = allowed_cpus();
    let (Some(&first), Some(&second), true) = (cpus.first(), cpus.last(), cpus.len() > 1) else {
        return Err("skipped: requires two CPUs, so that both players can busy-wait for each other".into());
    };
    let interrupt = Interrupt::listen()?;
    if let Some(file) = &args.second_of {
        println!("{}", processes::second(&args, file, second, &interrupt)?);
        return Ok(Outcome::Kept);
    }
    let start = Instant::now();
    let (seen, changes_of_source, bounds) = if args.processes {
        let (seen, bounds) = processes::two(&args, first, &interrupt)?;
        (seen, 0, Some(bounds))
    } else {
        let (seen, changes) = threads::two(&args, [first, second], &interrupt)?;
        (seen, changes, None)
    };
    let found = Found {
        clock: args.clock,
        between: if args.processes { "processes" } else { "threads" },
        cpus: [first, second],
        seconds: start.elapsed().as_secs_f64(),
        interrupted: interrupt.came(),
        seen,
        changes_of_source,
        bounds,
    };
    args.keep.publish("handover", None, &found, &found.text())?;
    Ok(found.outcome())
}

impl Found {
    /// Returns the amount by which a reading of hpt may be below the one that was handed over.
    fn allowed_ns(&self) -> u64 {
        self.bounds.map_or(0, |bounds| bounds.iter().map(|bounds| bounds.largest_ns).sum())
    }

    fn outcome(&self) -> Outcome {
        match self.clock {
            Clock::Hpt if self.seen.worst_backward > self.allowed_ns() => Outcome::Broken,
            _ => Outcome::Kept,
        }
    }

    fn text(&self) -> String {
        let Self { clock, between, cpus, seen, .. } = self;
        let unit = if *clock == Clock::Bare { "ticks" } else { "ns" };
        let name = clock.to_possible_value().expect("none is skipped").get_name().to_owned();
        #[expect(clippy::cast_precision_loss, reason = "for printing")]
        let each_ns = self.seconds * 1e9 / seen.handovers.max(1) as f64;
        let allowed = if *clock == Clock::Hpt { format!("{} ns", self.allowed_ns()) } else { "–".to_owned() };
        let row = [
            format!("{name}, {between} on CPUs {} and {}", cpus[0], cpus[1]),
            seen.handovers.to_string(),
            format!("{each_ns:.0}"),
            seen.backward.to_string(),
            format!("{} {unit}", seen.worst_backward),
            allowed,
            self.changes_of_source.to_string(),
        ];
        let header = ["handovers", "number", "ns each", "backward", "worst", "allowed", "source changes"];
        format!("{}\n", table(header, [row]))
    }
}
