//! The command line of `handover`.
//! Only defines the arguments.

use std::{path::PathBuf, time::Duration};

use clap::Parser;
use hpt_benches::programs::{EXIT_CODES, Keep, count, duration};

use crate::clocks::Clock;

const EXAMPLES: &str = "\
Examples:
  handover                             a billion between two threads
  handover --alternate 20ms            while the clock's source changes
  handover --processes --handovers 1e8 between two processes";

/// Hand readings from CPU to CPU and count those that go backwards.
#[derive(Debug, Parser)]
#[command(max_term_width = 80, after_help = format!("{EXIT_CODES}\n\n{EXAMPLES}"))]
pub(crate) struct Args {
    /// Number of readings to hand over, for example 1e9
    #[arg(long, value_name = "N", default_value = "1e9", value_parser = count)]
    pub(crate) handovers: u64,
    /// Clock to read; only hpt makes a promise
    #[arg(long, value_name = "CLOCK", default_value = "hpt")]
    pub(crate) clock: Clock,
    /// Interval at which hpt's clock changes between the processor's counter and the kernel's clock
    /// [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "processes")]
    pub(crate) alternate: Option<Duration>,
    /// Hand readings over between two processes instead of two threads
    #[arg(long)]
    pub(crate) processes: bool,
    /// Maximum run time
    #[arg(long, value_name = "DURATION", default_value = "10min", value_parser = duration)]
    pub(crate) longest: Duration,
    /// Run as the second process, which shares this file with the first
    #[arg(long, hide = true)]
    pub(crate) second_of: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) keep: Keep,
}
