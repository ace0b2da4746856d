//! The command line of `handover`.
//! Does nothing.

use std::{path::PathBuf, time::Duration};

use clap::Parser;
use hpt_benches::programs::{EXIT_CODES, Keep, count, duration};

use crate::clocks::Clock;

const EXAMPLES: &str = "\
Examples:
  handover                             a thousand million between two threads
  handover --alternate 20ms            while the clock's source changes
  handover --processes --handovers 1e8 between two processes";

/// Hand readings from CPU to CPU and count those that go backwards.
#[derive(Debug, Parser)]
#[command(max_term_width = 80, after_help = format!("{EXIT_CODES}\n\n{EXAMPLES}"))]
pub(crate) struct Args {
    /// Hand over so many readings; 1e9 is understood
    #[arg(long, value_name = "N", default_value = "1e9", value_parser = count)]
    pub(crate) handovers: u64,
    /// Read this clock; a promise is broken by hpt alone
    #[arg(long, value_name = "CLOCK", default_value = "hpt")]
    pub(crate) clock: Clock,
    /// Let hpt's clock change between the processor's counter and the kernel's clock so often [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "processes")]
    pub(crate) alternate: Option<Duration>,
    /// Play between two processes, not between two threads
    #[arg(long)]
    pub(crate) processes: bool,
    /// End after this long, with fewer handovers
    #[arg(long, value_name = "DURATION", default_value = "10min", value_parser = duration)]
    pub(crate) longest: Duration,
    /// Be the second process, and share this file with the first
    #[arg(long, hide = true)]
    pub(crate) second_of: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) keep: Keep,
}
