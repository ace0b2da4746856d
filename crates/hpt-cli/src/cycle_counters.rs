//! Sources that count the cycles of a core, not time.

use hpt_core::{TimeSource, source::Quantity};

/// The message that hpt prints if a read of the cycle counter raises SIGILL although access was enabled when hpt
/// started.
pub(crate) const WHY_ENDED: &str = "hpt: the cycle counter was closed while hpt read it. Either the kernel module hpt_cycles was unloaded, or perf, KVM or \
a write to kernel.perf_user_access closed the counter. If the module is still loaded, dmesg shows the cause. Open the counter again (see `hpt probe arm-cycles`), and repeat the command.\n";

pub(crate) fn counts_cycles(source: &dyn TimeSource) -> bool {
    source.info().quantity == Quantity::Cycles
}
