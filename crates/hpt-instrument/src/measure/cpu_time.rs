//! The CPU time of the calling thread.

use hpt_sys::clock::{Clock, ClockId, Route};

/// Returns the CPU time that the calling thread has used, in nanoseconds. Unlike getrusage(2), which some kernels update
/// only at ticks and context switches, it includes the time until now.
pub(super) fn cpu_time_ns() -> u64 {
    Clock::unasked(ClockId::ThreadCpu, Route::Library).nanos()
}
