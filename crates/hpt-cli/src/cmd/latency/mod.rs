//! `hpt latency`: how long it takes until a program knows. One file for each way to ask.

pub(crate) mod pairs;
pub(crate) mod wakes;

use clap::{Args, Subcommand};

use crate::{cli::after_help, context::Context, exit::Failure, render::Document};

const EXAMPLES: &str = "  \
  hpt latency timer --fifo 80       how late the kernel wakes a real-time thread
  hpt latency poll --cpu 3          what keeps CPU 3 from a program that only looks
  hpt latency pairs --every 0s,1s   what two reads differ by, in a row and after
                                    a second";

/// Measure how long it takes until a program knows
#[derive(Debug, Args)]
#[command(after_help = after_help(EXAMPLES))]
pub(crate) struct Arguments {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Debug, Subcommand)]
enum Mode {
    Timer(wakes::TimerArguments),
    Poll(wakes::PollArguments),
    Pairs(pairs::Arguments),
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Document, Failure> {
    match &arguments.mode {
        Mode::Timer(arguments) => wakes::timer(arguments, context),
        Mode::Poll(arguments) => wakes::poll(arguments, context),
        Mode::Pairs(arguments) => pairs::run(arguments, context),
    }
}
