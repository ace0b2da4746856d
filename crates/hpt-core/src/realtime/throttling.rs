//! The time that the kernel withholds from real-time threads. Examines no machine; `machine` does.

use std::{fmt, time::Duration};

use crate::host::{FAIR_SERVER, KernelRelease, RT_RUNTIME};

/// The first release with fair servers, which reserve a share of each CPU for ordinary threads. They replace RT
/// throttling there: Linux, kernel/sched/rt.c.
pub const FAIR_SERVER_SINCE: KernelRelease = KernelRelease::new(6, 12);

/// The time that the kernel withholds from real-time threads, for the benefit of ordinary threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Throttling {
    /// Real-time threads may use `runtime` of every `period`: sched_rt_runtime_us.
    Bandwidth {
        /// The time that they may use in each period.
        runtime: Duration,
        /// The period.
        period: Duration,
    },
    /// Ordinary threads that wait for this CPU get `runtime` of every `period`: the fair server of Linux 6.12.
    FairServer {
        /// The CPU that the ordinary threads wait for.
        cpu: usize,
        /// The time that they get in each period.
        runtime: Duration,
        /// The period.
        period: Duration,
    },
}

impl fmt::Display for Throttling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bandwidth { runtime, period } => {
                write!(f, "real-time threads may use {runtime:?} of every {period:?} ({RT_RUNTIME})")
            }
            Self::FairServer { cpu, runtime, period } => {
                write!(f, "ordinary threads get {runtime:?} of every {period:?} on CPU {cpu} ({FAIR_SERVER})")
            }
        }
    }
}
