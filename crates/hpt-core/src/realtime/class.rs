//! Before which others a thread runs: the real-time classes of the kernel's scheduler.
//! Knows nothing of what the class is needed for.

use std::{fmt, io, marker::PhantomData, time::Duration};

use super::{
    RealtimeError,
    limits::{CAP_SYS_NICE, Limits},
};
use crate::{
    host::Host,
    sys::{process::Scheduling, wait},
};

/// A real-time class of the scheduler. sched(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Class {
    /// `SCHED_FIFO`: before all of lower priority, until it waits.
    Fifo {
        /// 1 to 99.
        priority: u8,
    },
    /// `SCHED_RR`: as the former, in turn with those of the same priority.
    RoundRobin {
        /// 1 to 99.
        priority: u8,
    },
    /// `SCHED_DEADLINE`: `runtime` in every `period`, before all of the other classes, and no more.
    Deadline {
        /// How long it runs in a period.
        runtime: Duration,
        /// By when it has run so long, from the beginning of a period.
        deadline: Duration,
        /// How long a period is.
        period: Duration,
    },
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo { priority } => write!(f, "SCHED_FIFO with priority {priority}"),
            Self::RoundRobin { priority } => write!(f, "SCHED_RR with priority {priority}"),
            Self::Deadline { runtime, deadline, period } if deadline == period => {
                write!(f, "SCHED_DEADLINE with {runtime:?} in every {period:?}")
            }
            Self::Deadline { runtime, deadline, period } => {
                write!(f, "SCHED_DEADLINE with {runtime:?} by {deadline:?} in every {period:?}")
            }
        }
    }
}

impl Class {
    /// Whether the part of each period that the kernel keeps back for ordinary threads is kept back from it.
    pub(super) const fn is_throttled(self) -> bool {
        match self {
            Self::Fifo { .. } | Self::RoundRobin { .. } => true,
            // It has a part of its own, which was granted.
            Self::Deadline { .. } => false,
        }
    }

    pub(super) fn scheduling(self, before: Scheduling) -> Scheduling {
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let none = Scheduling { runtime: 0, deadline: 0, period: 0, priority: 0, ..before };
        match self {
            Self::Fifo { priority } => Scheduling { policy: libc::SCHED_FIFO, priority: priority.into(), ..none },
            Self::RoundRobin { priority } => Scheduling { policy: libc::SCHED_RR, priority: priority.into(), ..none },
            Self::Deadline { runtime, deadline, period } => Scheduling {
                policy: libc::SCHED_DEADLINE,
                // Without it the thread could start no other.
                flags: before.flags | libc::SCHED_FLAG_RESET_ON_FORK as u64,
                runtime: ns(runtime),
                deadline: ns(deadline),
                period: ns(period),
                ..none
            },
        }
    }

    /// The kernel refused it to the calling thread, or to a child of it.
    pub(super) fn refused(self, cause: io::Error) -> RealtimeError {
        let remedy = self.remedy(&cause, Limits::of_this_thread(&Host::live()));
        RealtimeError::Class { class: self, remedy, cause }
    }

    /// What is missing where the kernel refuses, and what helps.
    fn remedy(self, cause: &io::Error, limits: Limits) -> String {
        let priority = match self {
            Self::Fifo { priority } | Self::RoundRobin { priority } => Some(priority),
            Self::Deadline { .. } => None,
        };
        match (cause.raw_os_error(), priority) {
            (Some(libc::EINVAL), Some(_)) => "a priority is from 1 to 99".to_owned(),
            (Some(libc::EINVAL), None) => {
                "it takes a runtime of 1024 ns at least, no longer than the deadline, and that no longer than the period, which is at least 100 µs \
                 and at most 4 s (/proc/sys/kernel/sched_deadline_period_min_us and _max_us)"
                    .to_owned()
            }
            (Some(libc::EBUSY), _) => {
                "the CPUs have not so much time left for such threads: ask for less of each period".to_owned()
            }
            (Some(libc::EPERM), None) if limits.has(CAP_SYS_NICE) == Some(true) => {
                "such a thread may run on all CPUs of its set: do not pin it, or give it a CPU by a cpuset partition".to_owned()
            }
            (Some(libc::EPERM), None) => "it takes root, or CAP_SYS_NICE".to_owned(),
            (Some(libc::EPERM), Some(_)) if limits.has(CAP_SYS_NICE) == Some(true) => {
                "this process has CAP_SYS_NICE: its control group has no real-time time (cpu.rt_runtime_us is 0), or a sandbox forbids the call".to_owned()
            }
            (Some(libc::EPERM), Some(priority)) => {
                let limit = match limits.realtime_priority {
                    Some(u64::MAX) | None => String::new(),
                    Some(limit) => format!(", which is {limit}"),
                };
                format!("it takes root, CAP_SYS_NICE, or a limit of {priority} for real-time priorities (ulimit -r{limit})")
            }
            (_, _) => "a sandbox may forbid the call".to_owned(),
        }
    }
}

/// The calling thread runs by a real-time class for as long as this lives.
///
/// A thread that never waits keeps all others of lower rank from its CPU, but for the part of each second that the kernel keeps back.
#[derive(Debug)]
#[must_use = "the thread is as before when the guard is dropped"]
pub struct InClass {
    before: Scheduling,
    slack_before: Option<libc::c_ulong>,
    bound_to_its_thread: PhantomData<*const ()>,
}

impl InClass {
    /// Makes the calling thread run by it.
    ///
    /// # Errors
    ///
    /// [`RealtimeError::Class`] when the kernel refuses.
    pub fn of(class: Class) -> Result<Self, RealtimeError> {
        let refused = |cause| class.refused(cause);
        let before = Scheduling::of_this_thread().map_err(refused)?;
        let slack_before = wait::timer_slack();
        class.scheduling(before).apply().map_err(refused)?;
        Ok(Self { before, slack_before, bound_to_its_thread: PhantomData })
    }
}

impl Drop for InClass {
    fn drop(&mut self) {
        // To go back from a real-time class to what was before is always allowed.
        let _ = self.before.apply();
        // A real-time thread has no slack, and newer kernels give the default back to who was one. Linux 6.12, kernel/sched/syscalls.c.
        if let Some(before) = self.slack_before.filter(|&before| before > 0 && wait::timer_slack() != Some(before)) {
            wait::set_timer_slack(before);
        }
    }
}

/// The calling thread runs by `SCHED_FIFO` for as long as this lives: before all ordinary threads, until it waits.
///
/// A thread that never waits keeps all others from its CPU, but for the part of each second that the kernel keeps back (sched_rt_runtime_us).
#[derive(Debug)]
#[must_use = "the thread is as before when the guard is dropped"]
pub struct Fifo {
    _class: InClass,
}

impl Fifo {
    /// Makes the calling thread run by `SCHED_FIFO` with this priority, 1 to 99.
    ///
    /// # Errors
    ///
    /// [`RealtimeError::Class`] when the kernel refuses.
    pub fn at(priority: u8) -> Result<Self, RealtimeError> {
        Ok(Self { _class: InClass::of(Class::Fifo { priority })? })
    }
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use super::{Class, Fifo, InClass, Limits, RealtimeError};
    use crate::sys::{process::Scheduling, wait};

    fn now() -> Scheduling {
        Scheduling::of_this_thread().expect("every kernel answers")
    }

    #[test]
    fn a_guard_makes_a_thread_fifo_and_its_end_restores() {
        let before = now();
        match Fifo::at(1) {
            Ok(guard) => {
                assert_eq!((now().policy, now().priority), (libc::SCHED_FIFO, 1));
                drop(guard);
                assert_eq!(now(), before);
            }
            Err(refused) => skipped!("{refused}"),
        }
        let wrong = Fifo::at(100);
        assert!(matches!(wrong, Err(RealtimeError::Class { class: Class::Fifo { priority: 100 }, .. })), "{wrong:?}");
        assert_eq!(now(), before);
    }

    #[test]
    fn guards_of_several_classes_restore_in_turn() {
        let before = now();
        let outer = match InClass::of(Class::RoundRobin { priority: 2 }) {
            Ok(outer) => outer,
            Err(refused) => return skipped!("{refused}"),
        };
        let during = now();
        assert_eq!((during.policy, during.priority), (libc::SCHED_RR, 2));
        drop(InClass::of(Class::Fifo { priority: 3 }).expect("the same right"));
        assert_eq!(now(), during);
        drop(outer);
        assert_eq!(now(), before);
    }

    #[test]
    fn a_thread_has_its_part_of_each_period_and_restores() {
        let before = now();
        let ms = Duration::from_millis;
        match InClass::of(Class::Deadline { runtime: ms(1), deadline: ms(20), period: ms(100) }) {
            Ok(guard) => {
                let during = now();
                assert_eq!(during.policy, libc::SCHED_DEADLINE);
                assert_eq!((during.runtime, during.deadline, during.period), (1_000_000, 20_000_000, 100_000_000));
                // It may start others, which are ordinary.
                let other = std::thread::spawn(now).join().expect("it does not panic");
                assert_eq!(other.policy, libc::SCHED_OTHER);
                drop(guard);
                assert_eq!(now(), before);
            }
            Err(refused) => skipped!("{refused}"),
        }
        let wrong = InClass::of(Class::Deadline { runtime: ms(2), deadline: ms(1), period: ms(1) });
        assert!(matches!(wrong, Err(RealtimeError::Class { .. })), "{wrong:?}");
        assert_eq!(now(), before);
    }

    #[test]
    fn the_slack_of_who_was_real_time_is_as_before() {
        let Some(first) = wait::timer_slack() else {
            return skipped!("this kernel does not tell the timer slack");
        };
        wait::set_timer_slack(12_345);
        match Fifo::at(1) {
            Ok(guard) => drop(guard),
            Err(refused) => skipped!("{refused}"),
        }
        assert_eq!(wait::timer_slack(), Some(12_345));
        wait::set_timer_slack(first);
    }

    #[test]
    fn what_is_missing_is_named() {
        let (fifo, limits) = (Class::Fifo { priority: 50 }, Limits::default());
        let remedy = |class: Class, number, limits| class.remedy(&io::Error::from_raw_os_error(number), limits);
        assert!(
            remedy(fifo, libc::EPERM, Limits { realtime_priority: Some(7), ..limits })
                .contains("ulimit -r, which is 7")
        );
        assert!(
            remedy(fifo, libc::EPERM, Limits { capabilities: Some(u64::MAX), ..limits }).contains("cpu.rt_runtime_us")
        );
        assert!(remedy(fifo, libc::EINVAL, limits).contains("1 to 99"));
        let second = Duration::from_secs(1);
        let deadline = Class::Deadline { runtime: second, deadline: second, period: second };
        assert!(
            remedy(deadline, libc::EPERM, Limits { capabilities: Some(u64::MAX), ..limits }).contains("do not pin it")
        );
        assert!(remedy(deadline, libc::EBUSY, limits).contains("ask for less"));
        assert_eq!(deadline.to_string(), "SCHED_DEADLINE with 1s in every 1s");
    }
}
