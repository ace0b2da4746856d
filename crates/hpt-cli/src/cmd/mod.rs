//! The subcommands, one file each, and what several of them ask.

pub(crate) mod bench;
pub(crate) mod calibrate;
pub(crate) mod clocksource;
pub(crate) mod latency;
pub(crate) mod probe;
pub(crate) mod restore;
pub(crate) mod sleep;

use hpt_core::TimeSource;

/// The sources that count cycles: all of the core's, or those of this thread in user mode.
const CYCLES: [&str; 2] = ["arm-cycles", "perf-cycles"];

fn counts_cycles(source: &dyn TimeSource) -> bool {
    CYCLES.contains(&source.info().id.as_str())
}
