//! The CPUs that a thread is allowed to run on, and a guard that pins the thread to one of them. This module does not
//! choose the CPU; the caller does.

use std::{io, marker::PhantomData};

use crate::sys::process::CpuSet;

/// The reason why a thread could not be pinned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// The CPU does not exist, is offline, or is not allowed for this process.
    #[error("CPU {cpu} is not available to this process; available: {}", list(.allowed))]
    NotAllowed {
        /// The requested CPU.
        cpu: usize,
        /// The CPUs that are allowed.
        allowed: Vec<usize>,
    },
    /// The kernel refused to read or to change the affinity.
    #[error("the kernel refused to pin this thread to CPU {cpu}")]
    Refused {
        /// The requested CPU.
        cpu: usize,
        /// The error that the kernel returned.
        #[source]
        cause: io::Error,
    },
}

fn list(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the CPUs that the calling thread may run on, in ascending order; empty if the kernel does not list the CPUs.
#[must_use]
pub fn allowed_cpus() -> Vec<usize> {
    core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect()
}

/// A guard that keeps the calling thread pinned to one CPU as long as the guard exists.
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
    /// Returns [`PinError`] if the thread cannot be pinned to that CPU.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::realtime::{Pinned, allowed_cpus};
    ///
    /// let pinned = Pinned::new(allowed_cpus()[0])?;
    /// println!("measuring on CPU {}", pinned.cpu());
    /// # Ok::<(), hpt_core::realtime::PinError>(())
    /// ```
    pub fn new(cpu: usize) -> Result<Self, PinError> {
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

    /// Returns the CPU that the thread is pinned to.
    #[must_use]
    pub const fn cpu(&self) -> usize {
        self.cpu
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // An error cannot be handled here. No error is expected, because the previous affinity is still allowed unless
        // a CPU has gone offline.
        let _ = self.before.apply();
    }
}

#[cfg(test)]
mod tests {
    use super::{PinError, Pinned, allowed_cpus};

    #[test]
    fn a_guard_pins_and_restores_on_drop() {
        let before = allowed_cpus();
        let pinned = Pinned::new(before[0]).expect("allowed");
        assert_eq!(allowed_cpus(), [pinned.cpu()]);
        drop(pinned);
        assert_eq!(allowed_cpus(), before);
    }

    #[test]
    fn a_missing_cpu_is_reported_with_the_available_ones() {
        let refused = Pinned::new(100_000).expect_err("a CPU that does not exist");
        assert!(matches!(&refused, PinError::NotAllowed { allowed, .. } if *allowed == allowed_cpus()), "{refused}");
    }
}
