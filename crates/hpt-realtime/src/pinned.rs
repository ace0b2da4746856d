//! The CPUs that a thread is allowed to run on, and a guard that pins the thread to one of them. This module does not
//! choose the CPU; the caller does.

use std::{io, marker::PhantomData};

use hpt_sys::{
    host::{CpuList, Host},
    process::CpuSet,
};

/// The reason why a thread could not be pinned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// The machine has no such CPU.
    #[error("no such CPU: {cpu} (present: {present})")]
    NotPresent {
        /// The requested CPU.
        cpu: usize,
        /// The CPUs that are present.
        present: CpuList,
    },
    /// The CPU is offline.
    #[error(
        "CPU {cpu} is offline (online: {online}); bring it online first: echo 1 | sudo tee /sys/devices/system/cpu/cpu{cpu}/online"
    )]
    Offline {
        /// The requested CPU.
        cpu: usize,
        /// The CPUs that are online.
        online: CpuList,
    },
    /// A cpuset of this process excludes the CPU.
    #[error(
        "CPU {cpu} is outside the cpuset of this process: {file} contains {cpus}; add the CPU to this cpuset, or start the program in another control group"
    )]
    OutsideCpuset {
        /// The requested CPU.
        cpu: usize,
        /// The file that lists the CPUs of the outermost visible cpuset that excludes the CPU.
        file: String,
        /// The CPUs in that cpuset.
        cpus: CpuList,
    },
    /// The kernel refused to read or to change the affinity, and the machine's files do not show the reason.
    #[error("the kernel refused to pin this thread to CPU {cpu}")]
    Refused {
        /// The requested CPU.
        cpu: usize,
        /// The error that the kernel returned.
        #[source]
        cause: io::Error,
    },
}

impl PinError {
    /// Returns the reason why the kernel refused a CPU. EINVAL means that the CPU is not present, is offline, or is
    /// outside the cpuset. sched_setaffinity(2).
    fn of(cpu: usize, cause: io::Error, host: &Host) -> Self {
        if cause.raw_os_error() != Some(libc::EINVAL) {
            return Self::Refused { cpu, cause };
        }
        let lacks = |cpus: &CpuList| !cpus.contains(cpu);
        if let Some(present) = host.present_cpus().filter(lacks) {
            return Self::NotPresent { cpu, present };
        }
        if let Some(online) = host.online_cpus().filter(lacks) {
            return Self::Offline { cpu, online };
        }
        match host.cpusets().into_iter().rfind(|(_, cpus)| lacks(cpus)) {
            Some((file, cpus)) => Self::OutsideCpuset { cpu, file, cpus },
            None => Self::Refused { cpu, cause },
        }
    }
}

/// Returns the CPUs that the calling thread may run on, in ascending order; empty if the kernel does not list the CPUs.
///
/// An affinity is not a limit: a thread can be pinned to a CPU outside of it, for example to an isolated CPU, which the
/// kernel leaves out of the affinity of all programs.
///
/// # Examples
///
/// ```
/// use hpt_realtime::{Pinned, allowed_cpus};
///
/// let cpu = allowed_cpus()[0];
/// let pinned = Pinned::new(cpu)?;
/// assert_eq!(allowed_cpus(), [cpu]);
/// # drop(pinned);
/// # Ok::<(), hpt_realtime::PinError>(())
/// ```
#[must_use]
pub fn allowed_cpus() -> Vec<usize> {
    CpuSet::of_this_thread().map(|set| set.cpus().collect()).unwrap_or_default()
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
    /// Pins the calling thread to `cpu`. The current affinity of the thread does not limit the choice.
    ///
    /// # Errors
    ///
    /// Returns [`PinError`] if the kernel refuses to pin the thread to that CPU.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_realtime::{Pinned, allowed_cpus};
    ///
    /// let pinned = Pinned::new(allowed_cpus()[0])?;
    /// println!("measuring on CPU {}", pinned.cpu());
    /// # Ok::<(), hpt_realtime::PinError>(())
    /// ```
    pub fn new(cpu: usize) -> Result<Self, PinError> {
        let refused = |cause| PinError::of(cpu, cause, &Host::live());
        let before = CpuSet::of_this_thread().map_err(refused)?;
        CpuSet::only(cpu).apply().map_err(refused)?;
        Ok(Self { cpu, before, bound_to_its_thread: PhantomData })
    }

    /// Returns the CPU that the thread is pinned to.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_realtime::{Pinned, allowed_cpus};
    ///
    /// let cpu = allowed_cpus()[0];
    /// assert_eq!(Pinned::new(cpu)?.cpu(), cpu);
    /// # Ok::<(), hpt_realtime::PinError>(())
    /// ```
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
    use std::{fs, io, path::Path};

    use super::{PinError, Pinned, allowed_cpus};
    use hpt_sys::{
        host::{Facts, Host},
        process::CpuSet,
    };

    #[test]
    fn a_guard_pins_and_restores_on_drop() {
        let before = allowed_cpus();
        let pinned = Pinned::new(before[0]).expect("allowed");
        assert_eq!(allowed_cpus(), [pinned.cpu()]);
        drop(pinned);
        assert_eq!(allowed_cpus(), before);
    }

    #[test]
    fn a_thread_can_be_pinned_to_a_cpu_outside_its_affinity() {
        let before = allowed_cpus();
        let [first, .., last] = *before else { return skipped!("this thread may run on one CPU only") };
        let changed = std::thread::spawn(move || {
            CpuSet::only(first).apply().expect("this thread may run there");
            let pinned = Pinned::new(last).expect("the affinity is not a limit");
            assert_eq!(allowed_cpus(), [pinned.cpu()]);
            drop(pinned);
            assert_eq!(allowed_cpus(), [first], "restored");
        });
        changed.join().expect("the thread checks its own affinity");
    }

    #[test]
    fn a_missing_cpu_is_reported_with_the_present_ones() {
        for missing in [8_000, 100_000, usize::MAX] {
            let refused = Pinned::new(missing).expect_err("a CPU that does not exist");
            assert!(
                matches!(&refused, PinError::NotPresent { cpu, present } if *cpu == missing && !present.is_empty()),
                "{refused}"
            );
        }
    }

    /// Returns what a refusal of CPU 3 is reported as on a machine with these files.
    fn refused(files: &[(&str, &str)], errno: i32) -> String {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for (path, content) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("ours");
            fs::write(path, content).expect("ours");
        }
        let host = Host::below(folder.path(), Facts::live());
        PinError::of(3, io::Error::from_raw_os_error(errno), &host).to_string()
    }

    #[test]
    fn a_refused_cpu_is_reported_with_its_cause() {
        const PRESENT: (&str, &str) = ("sys/devices/system/cpu/present", "0-3\n");
        const ONLINE: (&str, &str) = ("sys/devices/system/cpu/online", "0-3\n");
        const GROUP: (&str, &str) = ("proc/thread-self/cgroup", "0::/rt.slice/job.service\n");
        const ROOT: (&str, &str) = ("sys/fs/cgroup/cpuset.cpus.effective", "0-3\n");
        const SLICE: (&str, &str) = ("sys/fs/cgroup/rt.slice/cpuset.cpus.effective", "0-2\n");
        const SERVICE: (&str, &str) = ("sys/fs/cgroup/rt.slice/job.service/cpuset.cpus.effective", "0\n");
        let few = ("sys/devices/system/cpu/present", "0-2\n");
        assert_eq!(refused(&[few], libc::EINVAL), "no such CPU: 3 (present: 0-2)");
        let offline = refused(&[PRESENT, ("sys/devices/system/cpu/online", "0-2\n")], libc::EINVAL);
        assert!(offline.starts_with("CPU 3 is offline (online: 0-2); bring it online"), "{offline}");
        // The slice excludes the CPU, so the service cannot have it either.
        let outside = refused(&[PRESENT, ONLINE, GROUP, ROOT, SLICE, SERVICE], libc::EINVAL);
        let names =
            "CPU 3 is outside the cpuset of this process: /sys/fs/cgroup/rt.slice/cpuset.cpus.effective contains 0-2";
        assert!(outside.starts_with(names), "{outside}");
        // Version 1.
        let groups = ("proc/thread-self/cgroup", "7:cpuset:/jobs\n");
        let jobs = ("sys/fs/cgroup/cpuset/jobs/cpuset.effective_cpus", "1\n");
        let outside = refused(&[PRESENT, ONLINE, groups, jobs], libc::EINVAL);
        assert!(outside.contains("/sys/fs/cgroup/cpuset/jobs/cpuset.effective_cpus contains 1;"), "{outside}");
        // Nothing that is visible excludes the CPU, or another error was returned.
        let unknown = "the kernel refused to pin this thread to CPU 3";
        assert_eq!(refused(&[PRESENT, ONLINE, GROUP, ROOT], libc::EINVAL), unknown);
        assert_eq!(refused(&[few], libc::EPERM), unknown);
    }
}
