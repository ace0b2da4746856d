//! Which sources count a core's cycles: no clock, and no wall time.
//! Opens none.

use hpt_core::TimeSource;

/// All of the core's, or those of this thread in user mode.
pub(crate) const CYCLES: [&str; 2] = ["arm-cycles", "perf-cycles"];

pub(crate) fn counts_cycles(source: &dyn TimeSource) -> bool {
    CYCLES.contains(&source.info().id.as_str())
}
