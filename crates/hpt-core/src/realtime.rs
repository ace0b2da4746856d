//! Where a thread runs, before which others, and how deep its processor may sleep: while a guard lives, and as before when it is gone.
//! Measures nothing.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    marker::PhantomData,
};

use crate::sys::{
    process::{CpuSet, Scheduling},
    wait,
};

/// Why a thread could not be pinned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// The CPU does not exist, is offline, or this process may not use it.
    #[error("CPU {cpu} is not one of those this process may use: {}", list(.allowed))]
    NotAllowed {
        /// The CPU asked for.
        cpu: usize,
        /// Those it may use.
        allowed: Vec<usize>,
    },
    /// The kernel refused to tell or to change the affinity.
    #[error("the kernel refused to pin this thread to CPU {cpu}")]
    Refused {
        /// The CPU asked for.
        cpu: usize,
        /// Why.
        #[source]
        cause: io::Error,
    },
}

fn list(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// The CPUs the calling thread may run on, in ascending order; empty where the kernel does not tell.
#[must_use]
pub fn allowed_cpus() -> Vec<usize> {
    core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect()
}

/// Keeps the calling thread on one CPU for as long as it lives.
#[derive(Debug)]
#[must_use = "the thread is unpinned when the guard is dropped"]
pub struct Pinned {
    cpu: usize,
    before: CpuSet,
    bound_to_its_thread: PhantomData<*const ()>,
}

impl Pinned {
    /// Pins the calling thread to `cpu`.
    ///
    /// # Errors
    ///
    /// [`PinError`] when the thread may not run there.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::realtime::{Pinned, allowed_cpus};
    ///
    /// let pinned = Pinned::to(allowed_cpus()[0])?;
    /// println!("measuring on CPU {}", pinned.cpu());
    /// # Ok::<(), hpt_core::realtime::PinError>(())
    /// ```
    pub fn to(cpu: usize) -> Result<Self, PinError> {
        let before = CpuSet::of_this_thread().map_err(|cause| PinError::Refused { cpu, cause })?;
        let allowed = allowed_cpus();
        if !allowed.contains(&cpu) {
            return Err(PinError::NotAllowed { cpu, allowed });
        }
        if !core_affinity::set_for_current(core_affinity::CoreId { id: cpu }) {
            return Err(PinError::Refused { cpu, cause: io::Error::last_os_error() });
        }
        Ok(Self { cpu, before, bound_to_its_thread: PhantomData })
    }

    /// The CPU.
    #[must_use]
    pub const fn cpu(&self) -> usize {
        self.cpu
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Nothing can be done about a refusal here, and none is known: what was allowed before is allowed still, unless a CPU went offline.
        let _ = self.before.apply();
    }
}

/// Why a thread or a processor was not put into a state for real-time work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RealtimeError {
    /// The kernel refused the class or the priority.
    #[error(
        "the kernel refused SCHED_FIFO with priority {priority}; it takes root, CAP_SYS_NICE, or a limit that allows it (ulimit -r), and a priority from 1 to 99"
    )]
    Fifo {
        /// The priority asked for.
        priority: u8,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// The kernel's file for it cannot be written.
    #[error("cannot hold /dev/cpu_dma_latency at zero; it takes root, or a rule that lets a group write it")]
    Latency(#[source] io::Error),
}

/// The calling thread runs by `SCHED_FIFO` for as long as this lives: before all ordinary threads, until it waits.
///
/// A thread that never waits keeps all others from its CPU, but for the part of each second that the kernel keeps back (sched_rt_runtime_us).
#[derive(Debug)]
#[must_use = "the thread is as before when the guard is dropped"]
pub struct Fifo {
    before: Scheduling,
    bound_to_its_thread: PhantomData<*const ()>,
}

impl Fifo {
    /// Makes the calling thread run by `SCHED_FIFO` with this priority, 1 to 99.
    ///
    /// # Errors
    ///
    /// [`RealtimeError::Fifo`] when the kernel refuses.
    pub fn at(priority: u8) -> Result<Self, RealtimeError> {
        let refused = |cause| RealtimeError::Fifo { priority, cause };
        let before = Scheduling::of_this_thread().map_err(refused)?;
        Scheduling { policy: libc::SCHED_FIFO, priority: priority.into() }.apply().map_err(refused)?;
        Ok(Self { before, bound_to_its_thread: PhantomData })
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        // To go back from FIFO to what was before is always allowed.
        let _ = self.before.apply();
    }
}

/// No processor of the machine sleeps so deep that waking takes time, for as long as this lives: a promise (PM QoS) that the kernel keeps as long as
/// its file is open. Costs power.
#[derive(Debug)]
#[must_use = "the promise ends when the guard is dropped"]
pub struct AwakeCpus {
    _promise: File,
}

impl AwakeCpus {
    /// Asks for it. Linux, Documentation/power/pm_qos_interface.rst.
    ///
    /// # Errors
    ///
    /// [`RealtimeError::Latency`] when the file cannot be opened or written.
    pub fn hold() -> Result<Self, RealtimeError> {
        let opened = OpenOptions::new().write(true).open("/dev/cpu_dma_latency");
        let mut promise = opened.map_err(RealtimeError::Latency)?;
        promise.write_all(&0_i32.to_ne_bytes()).map_err(RealtimeError::Latency)?;
        Ok(Self { _promise: promise })
    }
}

/// While this lives the kernel does not wake the calling thread late for its own convenience.
#[derive(Debug)]
#[must_use = "the slack is as before when the guard is dropped"]
pub(crate) struct NoSlack {
    before: Option<libc::c_ulong>,
    bound_to_its_thread: PhantomData<*const ()>,
}

impl NoSlack {
    /// Sets the timer slack to a nanosecond, which is the least there is.
    pub(crate) fn hold() -> Self {
        let before = wait::timer_slack().filter(|&before| before > 1);
        if before.is_some() {
            wait::set_timer_slack(1);
        }
        Self { before, bound_to_its_thread: PhantomData }
    }
}

impl Drop for NoSlack {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            wait::set_timer_slack(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Fifo, NoSlack, PinError, Pinned, RealtimeError, allowed_cpus};
    use crate::sys::{process::Scheduling, wait};

    #[test]
    fn a_guard_takes_the_slack_away_and_its_end_restores() {
        let Some(before) = wait::timer_slack() else {
            return println!("skipped: this kernel does not tell the timer slack");
        };
        let guard = NoSlack::hold();
        assert_eq!(wait::timer_slack(), Some(before.min(1)));
        drop(guard);
        assert_eq!(wait::timer_slack(), Some(before));
    }

    #[test]
    fn a_guard_makes_a_thread_fifo_and_its_end_restores() {
        let before = Scheduling::of_this_thread().expect("every kernel answers");
        match Fifo::at(1) {
            Ok(guard) => {
                let during = Scheduling::of_this_thread().expect("as before");
                assert_eq!(during, Scheduling { policy: libc::SCHED_FIFO, priority: 1 });
                drop(guard);
                assert_eq!(Scheduling::of_this_thread().expect("as before"), before);
            }
            Err(refused) => println!("skipped: {refused}"),
        }
        assert!(matches!(Fifo::at(100), Err(RealtimeError::Fifo { priority: 100, .. })));
        assert_eq!(Scheduling::of_this_thread().expect("as before"), before);
    }

    #[test]
    fn a_guard_pins_and_its_end_restores() {
        let before = allowed_cpus();
        let pinned = Pinned::to(before[0]).expect("allowed");
        assert_eq!(allowed_cpus(), [pinned.cpu()]);
        drop(pinned);
        assert_eq!(allowed_cpus(), before);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named_with_those_that_are() {
        let refused = Pinned::to(100_000).expect_err("no machine has so many");
        assert!(matches!(&refused, PinError::NotAllowed { allowed, .. } if *allowed == allowed_cpus()), "{refused}");
    }
}
