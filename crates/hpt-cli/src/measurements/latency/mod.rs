//! `hpt latency`: wake-up, polling and GPIO edge latency, CPU stalls, back-to-back reads, and recorded edges. Each
//! subcommand has its own file or directory.

pub(crate) mod edges;
pub(crate) mod gpio;
pub(crate) mod pairs;
mod raw_pairs;
pub(crate) mod stall;
pub(crate) mod timer_poll;

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

use super::common_options::CommonOptions;
use crate::{
    arguments::{Codes, after_help},
    context::Context,
    exit::Failure,
    output::{Document, chart_option::ChartFile},
};

const EXAMPLES: &str = "  \
  hpt latency timer -P f:80         wake-up latency of a real-time thread
  hpt latency poll --cpu 3          latency of a busy-polling thread on CPU 3
  hpt latency stall --cpu 3         CPU stalls on CPU 3, with likely causes
  hpt latency pairs --interval 0s,1s
                                    interval between back-to-back reads, without
                                    a pause and after 1 s";

/// Measure wake-up, polling and GPIO latency, and CPU stalls
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_long_help = after_help(Codes::measuring(Some("a sample exceeded --stop-above")), EXAMPLES))]
pub(crate) struct LatencyArguments {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Debug, Subcommand, Serialize, Deserialize)]
enum Mode {
    Timer(timer_poll::TimerArguments),
    Poll(timer_poll::PollArguments),
    Stall(stall::StallArguments),
    Pairs(pairs::PairsArguments),
    Gpio(gpio::GpioArguments),
    #[serde(skip)]
    Edges(edges::EdgesArguments),
}

impl LatencyArguments {
    pub(crate) const fn kind(&self) -> &'static str {
        match &self.mode {
            Mode::Timer(_) => timer_poll::TIMER,
            Mode::Poll(_) => timer_poll::POLL,
            Mode::Stall(_) => stall::KIND,
            Mode::Pairs(_) => pairs::KIND,
            Mode::Gpio(arguments) => arguments.kind(),
            Mode::Edges(_) => edges::KIND,
        }
    }

    pub(super) fn common(&mut self) -> CommonOptions<'_> {
        match &mut self.mode {
            Mode::Timer(arguments) => arguments.common(),
            Mode::Poll(arguments) => arguments.common(),
            Mode::Stall(arguments) => arguments.common(),
            Mode::Pairs(arguments) => arguments.common(),
            Mode::Gpio(arguments) => arguments.common(),
            Mode::Edges(_) => CommonOptions::default(),
        }
    }

    pub(crate) fn chart(&self) -> Option<ChartFile<'_>> {
        match &self.mode {
            Mode::Timer(arguments) => arguments.chart(),
            Mode::Poll(arguments) => arguments.chart(),
            Mode::Stall(arguments) => arguments.chart.file(),
            Mode::Pairs(arguments) => arguments.chart.file(),
            Mode::Gpio(arguments) => arguments.chart.file(),
            Mode::Edges(_) => None,
        }
    }
}

pub(crate) fn run(arguments: &LatencyArguments, context: &Context) -> Result<Document, Failure> {
    match &arguments.mode {
        Mode::Timer(arguments) => timer_poll::timer(arguments, context),
        Mode::Poll(arguments) => timer_poll::poll(arguments, context),
        Mode::Stall(arguments) => stall::run(arguments, context),
        Mode::Pairs(arguments) => pairs::run(arguments, context),
        Mode::Gpio(arguments) => gpio::run(arguments, context),
        Mode::Edges(arguments) => edges::run(arguments, context),
    }
}
