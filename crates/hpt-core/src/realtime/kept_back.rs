//! What the kernel keeps back from real-time threads.
//! Looks at no machine: `machine` does.

use std::{fmt, time::Duration};

use crate::host::{FAIR_SERVER, KernelRelease, RT_RUNTIME};

/// The first release with fair servers, which reserve a part of each CPU for ordinary threads. In it
/// they replace the throttling that stopped real-time threads: Linux, kernel/sched/rt.c.
pub const FAIR_SERVER_SINCE: KernelRelease = KernelRelease::new(6, 12);

/// What the kernel keeps back from real-time threads, for the ordinary ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeptBack {
    /// Real-time threads may have `runtime` of every `period`: sched_rt_runtime_us.
    Bandwidth {
        /// What they may have.
        runtime: Duration,
        /// Of which.
        period: Duration,
    },
    /// Ordinary threads that wait for this CPU get `runtime` of every `period`: the fair server of Linux 6.12.
    FairServer {
        /// The CPU.
        cpu: usize,
        /// What they get.
        runtime: Duration,
        /// Of which.
        period: Duration,
    },
}

impl fmt::Display for KeptBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bandwidth { runtime, period } => {
                write!(f, "real-time threads may have {runtime:?} of every {period:?} ({RT_RUNTIME})")
            }
            Self::FairServer { cpu, runtime, period } => {
                write!(f, "ordinary threads get {runtime:?} of every {period:?} of CPU {cpu} ({FAIR_SERVER})")
            }
        }
    }
}
