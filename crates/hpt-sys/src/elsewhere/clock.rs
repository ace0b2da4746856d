//! The clocks of the standard library, with the interface of the kernel's clocks on Linux.

use std::{
    sync::OnceLock,
    time::{Duration, Instant, SystemTime},
};

/// The clocks that every target has, and the CPU time of a thread, which none of them has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClockId {
    Realtime,
    Monotonic,
    ThreadCpu,
}

/// The route to the clock, of which there is only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    Library,
}

/// A clock of the standard library.
#[derive(Clone, Copy, Debug)]
pub struct Clock(ClockId);

impl Clock {
    /// Returns the clock. Reading it cannot fail.
    #[inline]
    pub const fn unasked(clock: ClockId, _: Route) -> Self {
        Self(clock)
    }

    /// Returns the nanoseconds since the clock's epoch: for the monotonic clock, the first reading in this process.
    /// Returns zero for the CPU time of a thread, like a Linux sandbox that forbids this clock.
    #[inline]
    pub fn nanos(self) -> u64 {
        let time = match self.0 {
            ClockId::Monotonic => epoch().elapsed(),
            ClockId::Realtime => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
            ClockId::ThreadCpu => Duration::ZERO,
        };
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Returns the first reading of the monotonic clock in this process.
fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}
