//! A guard that applies a real-time policy to a thread and restores the previous policy when it is dropped.

use std::{io, marker::PhantomData};

use hpt_sys::{host::Host, process::Scheduling, wait};

use super::{Policy, RealtimeError, limits::Limits};

impl Policy {
    /// Returns the error to report when the kernel has refused to apply this policy to the calling thread or to a
    /// child of that thread.
    pub(super) fn refused(self, cause: io::Error) -> RealtimeError {
        let remedy = self.remedy(&cause, Limits::of_this_thread(&Host::live()));
        RealtimeError::Policy { policy: self, remedy, cause }
    }
}

/// A guard that keeps the calling thread under a real-time policy as long as the guard exists.
///
/// A thread that never blocks keeps all threads of lower priority off its CPU, except for the time that the kernel
/// reserves in each second.
#[derive(Debug)]
#[must_use = "the previous policy is restored when the guard is dropped"]
pub struct PolicyGuard {
    before: Scheduling,
    slack_before: Option<libc::c_ulong>,
    bound_to_its_thread: PhantomData<*const ()>,
}

impl PolicyGuard {
    /// Applies the policy to the calling thread.
    ///
    /// # Errors
    ///
    /// Returns [`RealtimeError::Policy`] if the kernel refuses the policy.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::sleep;
    /// use hpt_realtime::{Policy, PolicyGuard};
    ///
    /// match PolicyGuard::new(Policy::RoundRobin(10)) {
    ///     Ok(_guard) => println!("{:?} late", sleep::for_(Duration::from_millis(1))),
    ///     Err(refused) => println!("{refused}"),
    /// }
    /// ```
    pub fn new(policy: Policy) -> Result<Self, RealtimeError> {
        let refused = |cause| policy.refused(cause);
        let before = Scheduling::of_this_thread().map_err(refused)?;
        let slack_before = wait::timer_slack();
        policy.scheduling(before).apply().map_err(refused)?;
        Ok(Self { before, slack_before, bound_to_its_thread: PhantomData })
    }
}

impl Drop for PolicyGuard {
    fn drop(&mut self) {
        // Returning from a real-time policy to the previous one is always allowed.
        let _ = self.before.apply();
        // A real-time thread has no timer slack. Newer kernels restore only the default slack when the thread leaves
        // its real-time policy. Source: Linux 6.12, kernel/sched/syscalls.c.
        if let Some(before) = self.slack_before.filter(|&before| before > 0 && wait::timer_slack() != Some(before)) {
            wait::set_timer_slack(before);
        }
    }
}

/// A guard that keeps the calling thread under `SCHED_FIFO` as long as the guard exists. The thread preempts all
/// ordinary threads until it blocks.
///
/// A thread that never blocks keeps all ordinary threads off its CPU, except for the time that the kernel reserves in
/// each second (sched_rt_runtime_us).
#[derive(Debug)]
#[must_use = "the previous policy is restored when the guard is dropped"]
pub struct Fifo {
    _policy: PolicyGuard,
}

impl Fifo {
    /// Applies `SCHED_FIFO` with this priority, 1 to 99, to the calling thread.
    ///
    /// # Errors
    ///
    /// Returns [`RealtimeError::Policy`] if the kernel refuses the policy.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_realtime::{Fifo, Policy, RealtimeError};
    ///
    /// match Fifo::new(10) {
    ///     Ok(_fifo) => println!("this thread preempts all ordinary threads"),
    ///     Err(refused) => println!("{refused}"),
    /// }
    /// assert!(matches!(Fifo::new(100), Err(RealtimeError::Policy { policy: Policy::Fifo(100), .. })));
    /// ```
    pub fn new(priority: u8) -> Result<Self, RealtimeError> {
        Ok(Self { _policy: PolicyGuard::new(Policy::Fifo(priority))? })
    }
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use super::{Fifo, Limits, Policy, PolicyGuard, RealtimeError};
    use hpt_sys::{process::Scheduling, wait};

    fn now() -> Scheduling {
        Scheduling::of_this_thread().expect("every kernel reports the policy")
    }

    #[test]
    fn a_guard_applies_sched_fifo_and_restores_on_drop() {
        let before = now();
        match Fifo::new(1) {
            Ok(guard) => {
                assert_eq!((now().policy, now().priority), (libc::SCHED_FIFO, 1));
                drop(guard);
                assert_eq!(now(), before);
            }
            Err(refused) => skipped!("{refused}"),
        }
        let wrong = Fifo::new(100);
        assert!(matches!(wrong, Err(RealtimeError::Policy { policy: Policy::Fifo(100), .. })), "{wrong:?}");
        assert_eq!(now(), before);
    }

    #[test]
    fn nested_guards_of_several_policies_restore_in_turn() {
        let before = now();
        let outer = match PolicyGuard::new(Policy::RoundRobin(2)) {
            Ok(outer) => outer,
            Err(refused) => return skipped!("{refused}"),
        };
        let during = now();
        assert_eq!((during.policy, during.priority), (libc::SCHED_RR, 2));
        drop(PolicyGuard::new(Policy::Fifo(3)).expect("the same permission"));
        assert_eq!(now(), during);
        drop(outer);
        assert_eq!(now(), before);
    }

    #[test]
    fn a_deadline_guard_applies_its_runtime_and_restores_on_drop() {
        let before = now();
        let ms = Duration::from_millis;
        match PolicyGuard::new(Policy::Deadline { runtime: ms(1), deadline: ms(20), period: ms(100) }) {
            Ok(guard) => {
                let during = now();
                assert_eq!(during.policy, libc::SCHED_DEADLINE);
                assert_eq!((during.runtime, during.deadline, during.period), (1_000_000, 20_000_000, 100_000_000));
                // The thread may start other threads, which are ordinary threads.
                let other = std::thread::spawn(now).join().expect("a thread that does not panic");
                assert_eq!(other.policy, libc::SCHED_OTHER);
                drop(guard);
                assert_eq!(now(), before);
            }
            Err(refused) => skipped!("{refused}"),
        }
        let wrong = PolicyGuard::new(Policy::Deadline { runtime: ms(2), deadline: ms(1), period: ms(1) });
        assert!(matches!(wrong, Err(RealtimeError::Policy { .. })), "{wrong:?}");
        assert_eq!(now(), before);
    }

    #[test]
    fn a_real_time_guard_restores_the_timer_slack() {
        let Some(first) = wait::timer_slack() else {
            return skipped!("this kernel does not report the timer slack");
        };
        wait::set_timer_slack(12_345);
        match Fifo::new(1) {
            Ok(guard) => drop(guard),
            Err(refused) => skipped!("{refused}"),
        }
        assert_eq!(wait::timer_slack(), Some(12_345));
        wait::set_timer_slack(first);
    }

    #[test]
    fn the_missing_permission_or_value_is_named() {
        let (fifo, limits) = (Policy::Fifo(50), Limits::default());
        let remedy = |policy: Policy, number, limits| policy.remedy(&io::Error::from_raw_os_error(number), limits);
        assert!(
            remedy(fifo, libc::EPERM, Limits { realtime_priority: Some(7), ..limits })
                .contains("ulimit -r, currently 7")
        );
        assert!(
            remedy(fifo, libc::EPERM, Limits { capabilities: Some(u64::MAX), ..limits }).contains("cpu.rt_runtime_us")
        );
        assert!(remedy(fifo, libc::EINVAL, limits).contains("1 to 99"));
        let second = Duration::from_secs(1);
        let deadline = Policy::Deadline { runtime: second, deadline: second, period: second };
        assert!(
            remedy(deadline, libc::EPERM, Limits { capabilities: Some(u64::MAX), ..limits }).contains("do not pin it")
        );
        assert!(remedy(deadline, libc::EBUSY, limits).contains("use a shorter runtime"));
        assert_eq!(deadline.to_string(), "SCHED_DEADLINE with 1 s per 1 s");
    }
}
