//! The time that the kernel withholds from real-time threads. This module does not read the settings of a machine;
//! `machine` does.

use std::{fmt, time::Duration};

use hpt_sys::{
    host::KernelRelease,
    settings::{FAIR_SERVER, RT_RUNTIME},
    units::Spaced,
};

/// The first kernel release with fair servers, which reserve a share of each CPU for ordinary threads. Since that
/// release, they have been used instead of RT throttling. Source: Linux, kernel/sched/rt.c.
pub const FAIR_SERVER_SINCE: KernelRelease = KernelRelease::new(6, 12);

/// The time that the kernel withholds from real-time threads, for the benefit of ordinary threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Throttling {
    /// RT throttling (sched_rt_runtime_us): real-time threads may use `runtime` of every `period`.
    Bandwidth {
        /// The time that real-time threads may use in each period.
        runtime: Duration,
        /// The period.
        period: Duration,
    },
    /// The fair server of Linux 6.12: ordinary threads that wait for a CPU get `runtime` of every `period`.
    FairServer {
        /// The CPU that the ordinary threads wait for.
        cpu: usize,
        /// The time that the ordinary threads get in each period.
        runtime: Duration,
        /// The period.
        period: Duration,
    },
}

impl fmt::Display for Throttling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bandwidth { runtime, period } => {
                let [runtime, period] = [*runtime, *period].map(Spaced);
                write!(f, "real-time threads may use {runtime} of every {period} ({})", RT_RUNTIME.path)
            }
            Self::FairServer { cpu, runtime, period } => {
                let [runtime, period] = [*runtime, *period].map(Spaced);
                write!(
                    f,
                    "ordinary threads get {runtime} of every {period} on CPU {cpu} ({})",
                    FAIR_SERVER.path_of(&[cpu])
                )
            }
        }
    }
}
