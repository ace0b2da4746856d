//! The scheduling policies of the kernel. This module does not apply them to threads; `policy_guard` does.

use std::{fmt, io, time::Duration};

use hpt_sys::{
    process::Scheduling,
    units::{Spaced, saturating_nanos},
};

use super::limits::{CAP_SYS_NICE, Limits};

/// A scheduling policy; see sched(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Policy {
    /// `SCHED_OTHER`: the thread shares the CPU with other ordinary threads, according to its nice value.
    Other,
    /// `SCHED_FIFO` with this priority, from 1 to 99: the thread preempts all threads of lower priority and runs until
    /// it blocks.
    #[doc(alias = "SCHED_FIFO")]
    Fifo(u8),
    /// `SCHED_RR` with this priority, from 1 to 99: like `SCHED_FIFO`, but the thread takes turns with threads of the
    /// same priority.
    #[doc(alias = "SCHED_RR")]
    RoundRobin(u8),
    /// `SCHED_DEADLINE`: the thread gets `runtime` in every `period`, and no more. It takes precedence over threads
    /// under any other policy.
    Deadline {
        /// The run time per period.
        runtime: Duration,
        /// The time by which the thread must have received its run time, relative to the start of a period.
        deadline: Duration,
        /// The length of a period.
        period: Duration,
    },
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other => f.write_str("SCHED_OTHER"),
            Self::Fifo(priority) => write!(f, "SCHED_FIFO with priority {priority}"),
            Self::RoundRobin(priority) => write!(f, "SCHED_RR with priority {priority}"),
            Self::Deadline { runtime, deadline, period } if deadline == period => {
                write!(f, "SCHED_DEADLINE with {} per {}", Spaced(*runtime), Spaced(*period))
            }
            Self::Deadline { runtime, deadline, period } => {
                let [runtime, period, deadline] = [*runtime, *period, *deadline].map(Spaced);
                write!(f, "SCHED_DEADLINE with {runtime} per {period} and a deadline of {deadline}")
            }
        }
    }
}

impl Policy {
    /// Returns whether the kernel throttles a thread under this policy in favor of ordinary threads.
    pub(super) const fn is_throttled(self) -> bool {
        match self {
            Self::Fifo(_) | Self::RoundRobin(_) => true,
            // Throttling reserves time for threads under SCHED_OTHER, and a SCHED_DEADLINE thread has a guaranteed time
            // of its own.
            Self::Other | Self::Deadline { .. } => false,
        }
    }

    pub(super) fn scheduling(self, before: Scheduling) -> Scheduling {
        let none = Scheduling { runtime: 0, deadline: 0, period: 0, priority: 0, ..before };
        match self {
            Self::Other => Scheduling { policy: libc::SCHED_OTHER, ..none },
            Self::Fifo(priority) => Scheduling { policy: libc::SCHED_FIFO, priority: priority.into(), ..none },
            Self::RoundRobin(priority) => Scheduling { policy: libc::SCHED_RR, priority: priority.into(), ..none },
            Self::Deadline { runtime, deadline, period } => Scheduling {
                policy: libc::SCHED_DEADLINE,
                // Without this flag, the thread could not start another thread.
                flags: before.flags | libc::SCHED_FLAG_RESET_ON_FORK as u64,
                runtime: saturating_nanos(runtime),
                deadline: saturating_nanos(deadline),
                period: saturating_nanos(period),
                ..none
            },
        }
    }

    /// Returns the likely reason why the kernel refused the policy, or the fix.
    pub(super) fn remedy(self, cause: &io::Error, limits: Limits) -> String {
        let priority = match self {
            Self::Fifo(priority) | Self::RoundRobin(priority) => Some(priority),
            Self::Other | Self::Deadline { .. } => None,
        };
        match (cause.raw_os_error(), priority) {
            (_, None) if self == Self::Other => "a sandbox may forbid the call".to_owned(),
            (Some(libc::EINVAL), Some(_)) => "use a priority from 1 to 99".to_owned(),
            (Some(libc::EINVAL), None) => {
                "use a runtime of at least 1024 ns, a deadline no shorter than the runtime, and a period no shorter than the deadline; the period \
                 must be between 100 µs and 4 s (/proc/sys/kernel/sched_deadline_period_min_us and _max_us)"
                    .to_owned()
            }
            (Some(libc::EBUSY), _) => {
                "the CPUs do not have enough bandwidth left for SCHED_DEADLINE: use a shorter runtime or a longer period".to_owned()
            }
            (Some(libc::EPERM), None) if limits.has(CAP_SYS_NICE) == Some(true) => {
                "a SCHED_DEADLINE thread must be allowed on all CPUs of its root domain: do not pin it, or pin it to a CPU that has a cpuset partition".to_owned()
            }
            (Some(libc::EPERM), None) => "run as root, or with CAP_SYS_NICE".to_owned(),
            (Some(libc::EPERM), Some(_)) if limits.has(CAP_SYS_NICE) == Some(true) => {
                "this process has CAP_SYS_NICE, so either its control group has no real-time budget (cpu.rt_runtime_us is 0) or a sandbox forbids the call".to_owned()
            }
            (Some(libc::EPERM), Some(priority)) => {
                let limit = match limits.realtime_priority {
                    Some(u64::MAX) | None => String::new(),
                    Some(limit) => format!(", currently {limit}"),
                };
                format!("run as root, with CAP_SYS_NICE, or with a real-time priority limit of at least {priority} (ulimit -r{limit})")
            }
            (_, _) => "a sandbox may forbid the call".to_owned(),
        }
    }
}
