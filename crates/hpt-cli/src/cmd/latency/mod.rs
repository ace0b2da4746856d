//! `hpt latency`: wake-up, polling and edge latency, stalls, and back-to-back reads. One file or directory per
//! subcommand.

pub(crate) mod gpio;
pub(crate) mod pairs;
pub(crate) mod stall;
pub(crate) mod timer_poll;

use clap::{Args, Subcommand};

use crate::{
    arguments::{Codes, after_help},
    context::Context,
    exit::Failure,
    output::{Document, chart_option::ChartFile},
};

const EXAMPLES: &str = "  \
  hpt latency timer --fifo 80       how late the kernel wakes a real-time thread
  hpt latency poll --cpu 3          what keeps CPU 3 from a program that only looks
  hpt latency stall --cpu 3         what takes CPU 3 away, and for how long
  hpt latency pairs --interval 0s,1s   what two reads differ by, in a row and after
                                    a second";

/// Measure wake-up, polling, stall and GPIO latency
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::measuring(Some("a sample exceeded --stop-above")), EXAMPLES))]
pub(crate) struct Arguments {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Debug, Subcommand)]
enum Mode {
    Timer(timer_poll::TimerArguments),
    Poll(timer_poll::PollArguments),
    Stall(stall::Arguments),
    Pairs(pairs::Arguments),
    Gpio(gpio::Arguments),
}

impl Arguments {
    /// Returns the kind of its document.
    pub(crate) const fn kind(&self) -> &'static str {
        match &self.mode {
            Mode::Timer(_) => timer_poll::TIMER,
            Mode::Poll(_) => timer_poll::POLL,
            Mode::Stall(_) => stall::KIND,
            Mode::Pairs(_) => pairs::KIND,
            Mode::Gpio(arguments) => arguments.kind(),
        }
    }

    /// Returns the file for a chart of the result.
    pub(crate) fn picture(&self) -> Option<ChartFile<'_>> {
        match &self.mode {
            Mode::Timer(arguments) => arguments.picture(),
            Mode::Poll(arguments) => arguments.picture(),
            Mode::Stall(arguments) => arguments.picture.file(),
            Mode::Pairs(arguments) => arguments.picture.file(),
            Mode::Gpio(arguments) => arguments.picture.file(),
        }
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Document, Failure> {
    match &arguments.mode {
        Mode::Timer(arguments) => timer_poll::timer(arguments, context),
        Mode::Poll(arguments) => timer_poll::poll(arguments, context),
        Mode::Stall(arguments) => stall::run(arguments, context),
        Mode::Pairs(arguments) => pairs::run(arguments, context),
        Mode::Gpio(arguments) => gpio::run(arguments, context),
    }
}
