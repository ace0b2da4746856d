//! Sources that count a core's cycles, which are neither a clock nor wall time. Opens none.

use hpt_core::TimeSource;

/// Returns whether it counts all cycles of the core, or those of this thread in user mode.
pub(crate) const CYCLES: [&str; 2] = ["arm-cycles", "perf-cycles"];

/// Written if SIGILL ends hpt at a read of the cycle counter, which was open when hpt started.
pub(crate) const WHY_ENDED: &str = "hpt: the cycle counter was closed while hpt read it: the kernel module hpt_cycles was unloaded, or perf, KVM or \
kernel.perf_user_access took the counter (dmesg says which if the module is still loaded); open it again, as `hpt probe arm-cycles` says, and repeat the command\n";

pub(crate) fn counts_cycles(source: &dyn TimeSource) -> bool {
    CYCLES.contains(&source.info().id.as_str())
}
