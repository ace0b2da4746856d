//! Kernel services for the calling thread: prctl, affinity, CPU time, names, auxiliary vector. Does not store previous
//! values to restore; `realtime` does.

use std::{
    ffi::CStr,
    io,
    os::unix::process::CommandExt,
    process::{Child, Command},
    time::Duration,
};

use rustix::{
    process::{TimeStampCounterReadability, set_time_stamp_counter_readability, time_stamp_counter_readability},
    thread::{sched_getaffinity, sched_setaffinity},
};

use super::signals::{SignalSet, ignore};

/// `PR_GET_TSC` and `PR_SET_TSC`: whether this thread may execute RDTSC. prctl(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TscPermission {
    Enabled,
    Forbidden,
    /// The kernel does not support the call on this machine, so nothing forbids the read.
    Unknown,
}

pub(crate) fn tsc_permission() -> TscPermission {
    match time_stamp_counter_readability() {
        Ok(TimeStampCounterReadability::Readable) => TscPermission::Enabled,
        Ok(TimeStampCounterReadability::RaiseSIGSEGV) => TscPermission::Forbidden,
        Err(_) => TscPermission::Unknown,
    }
}

/// Allows this thread, and the threads that it starts, to read the TSC again.
pub(crate) fn permit_tsc() -> io::Result<()> {
    Ok(set_time_stamp_counter_readability(TimeStampCounterReadability::Readable)?)
}

/// A set of CPUs in the kernel's format.
#[derive(Clone, Copy)]
pub(crate) struct CpuSet(rustix::thread::CpuSet);

impl std::fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.cpus()).finish()
    }
}

impl CpuSet {
    /// Returns the CPUs that this thread may run on now.
    pub(crate) fn of_this_thread() -> io::Result<Self> {
        Ok(Self(sched_getaffinity(None)?))
    }

    /// Creates a set with one CPU, or an empty set if the CPU's number is too large for the kernel's format.
    pub(crate) fn only(cpu: usize) -> Self {
        let mut set = rustix::thread::CpuSet::new();
        // `set` panics if the number is too large for the set.
        if cpu < rustix::thread::CpuSet::MAX_CPU {
            set.set(cpu);
        }
        Self(set)
    }

    /// Restricts this thread to exactly these CPUs.
    pub(crate) fn apply(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &self.0)?)
    }

    /// Returns the numbers of the CPUs in the set.
    pub(crate) fn cpus(&self) -> impl Iterator<Item = usize> + '_ {
        (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| self.0.is_set(cpu))
    }
}

/// The scheduling policy of a thread and its parameters. sched_setattr(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scheduling {
    pub(crate) policy: libc::c_int,
    pub(crate) flags: u64,
    pub(crate) nice: i32,
    pub(crate) priority: u32,
    /// The runtime, in nanoseconds; the next two fields are also in nanoseconds. Under the ordinary policy, this is the
    /// length of a slice, since Linux 6.12.
    pub(crate) runtime: u64,
    pub(crate) deadline: u64,
    pub(crate) period: u64,
}

impl Scheduling {
    /// Returns the scheduling parameters of this thread.
    pub(crate) fn of_this_thread() -> io::Result<Self> {
        // SAFETY: sched_attr consists of integers, for which zero is a valid value.
        let mut told = unsafe { std::mem::zeroed::<libc::sched_attr>() };
        // SAFETY: 0 means the calling thread; `told` is live, and the call fills at most the given size.
        // sched_getattr(2).
        let answer =
            unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut told, size_of::<libc::sched_attr>(), 0) };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            policy: told.sched_policy.cast_signed(),
            flags: told.sched_flags,
            nice: told.sched_nice,
            priority: told.sched_priority,
            runtime: told.sched_runtime,
            deadline: told.sched_deadline,
            period: told.sched_period,
        })
    }

    /// Applies these scheduling parameters to this thread.
    #[expect(clippy::cast_possible_truncation, reason = "a structure of 48 bytes")]
    pub(crate) fn apply(self) -> io::Result<()> {
        let wanted = libc::sched_attr {
            size: size_of::<libc::sched_attr>() as u32,
            sched_policy: self.policy.cast_unsigned(),
            sched_flags: self.flags,
            sched_nice: self.nice,
            sched_priority: self.priority,
            sched_runtime: self.runtime,
            sched_deadline: self.deadline,
            sched_period: self.period,
        };
        // SAFETY: 0 means the calling thread; `wanted` is live and contains its size; no flags are set.
        // sched_setattr(2).
        let answer = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// The reason why no program was started.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// The kernel refused the scheduling parameters.
    Scheduling(io::Error),
    /// No process can be created, or the program cannot be executed.
    Program(io::Error),
}

/// Starts a program with these scheduling parameters from its first instruction on. The program starts with no
/// blocked signals, and ignores the given signal in addition to the signals that this process ignores.
pub(crate) fn start(
    command: &mut Command,
    scheduling: Option<Scheduling>,
    ignored: Option<libc::c_int>,
) -> Result<Child, NotStarted> {
    /// An offset that marks an error number from the child as an error of the scheduling call. The kernel's error
    /// numbers are below 4096. errno(3).
    const OF_SCHEDULING: i32 = 1 << 16;
    let none = SignalSet::of([]);
    let prepare = move || {
        none.apply()?;
        if let Some(signal) = ignored {
            ignore(signal);
        }
        let Some(scheduling) = scheduling else { return Ok(()) };
        scheduling
            .apply()
            .map_err(|error| io::Error::from_raw_os_error(OF_SCHEDULING + error.raw_os_error().unwrap_or(0)))
    };
    // SAFETY: the child makes system calls with numbers and with structures on its own stack: the child neither
    // allocates nor locks, and an error is a number. fork(2).
    unsafe { command.pre_exec(prepare) };
    command.spawn().map_err(|error| match error.raw_os_error() {
        Some(number) if number >= OF_SCHEDULING => {
            NotStarted::Scheduling(io::Error::from_raw_os_error(number - OF_SCHEDULING))
        }
        _ => NotStarted::Program(error),
    })
}

/// Returns the CPU that this thread currently runs on.
pub(crate) fn current_cpu() -> Option<usize> {
    // SAFETY: the call takes no argument, and returns -1 if the CPU is not known. sched_getcpu(3).
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).ok()
}

/// Returns the CPU time that this thread has used, in user mode and in the kernel.
pub(crate) fn thread_cpu_time() -> io::Result<(Duration, Duration)> {
    // SAFETY: rusage consists of integers, for which zero is a valid value.
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    // SAFETY: `usage` is live and is filled by the call. getrusage(2).
    let answer = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    succeeded(answer).map(|()| (duration(usage.ru_utime), duration(usage.ru_stime)))
}

/// The voluntary and involuntary context switches of this thread, and its major page faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Switches {
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
    pub(crate) major_faults: u64,
}

/// Returns this thread's counts since it started.
pub(crate) fn thread_switches() -> io::Result<Switches> {
    // SAFETY: rusage consists of integers, for which zero is a valid value.
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    // SAFETY: `usage` is live and is filled by the call. getrusage(2).
    let answer = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    let count = |count| u64::try_from(count).unwrap_or(0);
    succeeded(answer).map(|()| Switches {
        voluntary: count(usage.ru_nvcsw),
        involuntary: count(usage.ru_nivcsw),
        major_faults: count(usage.ru_majflt),
    })
}

#[expect(clippy::cast_sign_loss, reason = "CPU time is never negative")]
fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
}

/// Returns the release and version of the kernel, as `uname -r` and `uname -v` print them.
pub(crate) fn kernel_names() -> (String, String) {
    let names = rustix::system::uname();
    let text = |name: &CStr| name.to_string_lossy().into_owned();
    (text(names.release()), text(names.version()))
}

/// Returns whether this process has a vDSO.
pub(crate) fn has_vdso() -> bool {
    // SAFETY: the call reads the auxiliary vector, and returns 0 for an unknown key. getauxval(3).
    let address = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
    address != 0
}

/// Returns AT_HWCAP2 from the auxiliary vector: the second set of processor feature bits; 0 if the kernel does not
/// provide it.
#[allow(clippy::useless_conversion, reason = "the C library's unsigned long has 32 bits on some machines")]
pub(crate) fn hwcap2() -> u64 {
    // SAFETY: the call reads the auxiliary vector, and returns 0 for an unknown key. getauxval(3).
    let features = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    features.into()
}

/// Returns AT_PLATFORM from the auxiliary vector: the processor's family, for example `x86_64`, `aarch64`, `v6l`,
/// `v7l`.
pub(crate) fn platform() -> Option<String> {
    // SAFETY: the call reads the auxiliary vector, and returns 0 for an unknown key. getauxval(3).
    let address = unsafe { libc::getauxval(libc::AT_PLATFORM) };
    if address == 0 {
        return None;
    }
    // SAFETY: the kernel put a zero-terminated string on the initial stack, which stays unchanged until the process
    // ends. getauxval(3), AT_PLATFORM.
    let platform = unsafe { CStr::from_ptr(address as *const libc::c_char) };
    platform.to_str().ok().map(str::to_owned)
}

/// Returns whether AT_PLATFORM names an ARMv6 processor. This is the only way to distinguish ARMv6 from later versions.
pub(crate) fn is_armv6(platform: Option<&str>) -> bool {
    platform.is_some_and(|platform| platform.starts_with("v6"))
}

/// The intended access to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Returns whether a file's mode allows this access, without opening the file.
pub(crate) fn may_access(path: &str, access: Access) -> bool {
    let mode = match access {
        Access::Read => rustix::fs::Access::READ_OK,
        Access::Write => rustix::fs::Access::WRITE_OK,
    };
    rustix::fs::access(path, mode).is_ok()
}

/// Returns the effective user ID of this process.
pub(crate) fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the size of a memory page, in bytes.
pub(crate) fn page_size() -> u64 {
    // SAFETY: the call takes a number that is supported on all systems. sysconf(3).
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
}

/// Converts a result in the C convention: 0 is success, otherwise the error is in errno.
fn succeeded(answer: libc::c_int) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::{Access, CpuSet, current_cpu, kernel_names, may_access, page_size, platform};

    #[test]
    fn this_thread_runs_on_a_cpu_it_may_run_on() {
        let allowed = CpuSet::of_this_thread().expect("every kernel reports the affinity");
        if let Some(cpu) = current_cpu() {
            assert!(allowed.cpus().any(|allowed| allowed == cpu), "{cpu} not in {allowed:?}");
        }
        allowed.apply().expect("an allowed set can be applied");
    }

    #[test]
    fn the_processor_has_a_family_and_pages() {
        assert!(platform().is_some_and(|platform| !platform.is_empty()));
        assert!(page_size().is_power_of_two());
    }

    #[test]
    fn file_access_follows_the_mode() {
        assert!(may_access("/dev/null", Access::Read) && may_access("/dev/null", Access::Write));
        assert!(!may_access("/nonexistent", Access::Read) && !may_access("a\0b", Access::Read));
    }

    #[test]
    fn the_kernel_has_a_release() {
        let (release, _) = kernel_names();
        assert!(release.starts_with(|c: char| c.is_ascii_digit()), "{release}");
    }
}
