//! Kernel services for the calling thread: prctl, affinity, CPU time, names, auxiliary vector. Does not store previous
//! values to restore; `realtime` does.

use std::{
    ffi::{CStr, CString},
    io,
    time::Duration,
};

/// `PR_GET_TSC` and `PR_SET_TSC`: whether this thread may execute RDTSC. prctl(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TscPermission {
    Enabled,
    Forbidden,
    /// The kernel does not support the call on this machine, so nothing forbids the read.
    Unknown,
}

pub fn tsc_permission() -> TscPermission {
    let mut mode: libc::c_int = 0;
    // SAFETY: `mode` is live and filled by the call. prctl(2), PR_GET_TSC.
    let answer = keeping_errno(|| unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) });
    match (answer, mode) {
        (0, libc::PR_TSC_ENABLE) => TscPermission::Enabled,
        (0, libc::PR_TSC_SIGSEGV) => TscPermission::Forbidden,
        _ => TscPermission::Unknown,
    }
}

/// Allows this thread, and the threads that it starts, to read the TSC again.
pub fn permit_tsc() -> io::Result<()> {
    // SAFETY: the call takes a number. prctl(2), PR_SET_TSC.
    succeeded(unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE) })
}

/// A set of CPUs in the kernel's format: an array of words, one bit for each CPU. sched_setaffinity(2).
#[derive(Clone, Copy)]
pub struct CpuSet([libc::c_ulong; MAX_CPU / WORD_BITS]);

/// The maximum number of CPUs that Linux supports on any architecture: arch/x86/Kconfig, NR_CPUS_RANGE_END. The sets of
/// the C library have room for 1024 only, and the kernel refuses a set that is smaller than its own.
const MAX_CPU: usize = 8192;
const WORD_BITS: usize = libc::c_ulong::BITS as usize;

impl std::fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.cpus()).finish()
    }
}

impl CpuSet {
    /// Returns the CPUs that this thread may run on now.
    pub fn of_this_thread() -> io::Result<Self> {
        let mut set = Self([0; MAX_CPU / WORD_BITS]);
        // SAFETY: 0 means the calling thread; `set` is live, and the call fills at most the given size.
        // sched_getaffinity(2).
        succeeded(unsafe { libc::sched_getaffinity(0, size_of_val(&set.0), set.0.as_mut_ptr().cast()) })?;
        Ok(set)
    }

    /// Creates a set with one CPU, or an empty set if the CPU's number is too large for the kernel's format.
    pub fn only(cpu: usize) -> Self {
        let mut set = Self([0; MAX_CPU / WORD_BITS]);
        if let Some(word) = set.0.get_mut(cpu / WORD_BITS) {
            *word |= 1 << (cpu % WORD_BITS);
        }
        set
    }

    /// Restricts this thread to exactly these CPUs.
    pub fn apply(&self) -> io::Result<()> {
        // SAFETY: 0 means the calling thread; the set is live and has the given size. sched_setaffinity(2).
        succeeded(unsafe { libc::sched_setaffinity(0, size_of_val(&self.0), self.0.as_ptr().cast()) })
    }

    /// Returns the numbers of the CPUs in the set.
    pub fn cpus(&self) -> impl Iterator<Item = usize> + '_ {
        // Empty words are skipped: a thread that measures calls this ten times a second.
        let words = self.0.iter().enumerate().filter(|&(_, &word)| word != 0);
        words.flat_map(|(place, &word)| {
            (0..WORD_BITS).filter(move |bit| word >> bit & 1 == 1).map(move |bit| place * WORD_BITS + bit)
        })
    }
}

/// The scheduling policy of a thread and its parameters. sched_setattr(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduling {
    pub policy: libc::c_int,
    pub flags: u64,
    pub nice: i32,
    pub priority: u32,
    /// The runtime, in nanoseconds; the next two fields are also in nanoseconds. Under the ordinary policy, this is the
    /// length of a slice, since Linux 6.12.
    pub runtime: u64,
    pub deadline: u64,
    pub period: u64,
}

impl Scheduling {
    /// Returns the scheduling parameters of this thread.
    pub fn of_this_thread() -> io::Result<Self> {
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
            policy: i32::from_ne_bytes(told.sched_policy.to_ne_bytes()),
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
    pub fn apply(self) -> io::Result<()> {
        let wanted = libc::sched_attr {
            size: size_of::<libc::sched_attr>() as u32,
            sched_policy: u32::from_ne_bytes(self.policy.to_ne_bytes()),
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

/// Returns the CPU that this thread currently runs on.
pub fn current_cpu() -> Option<usize> {
    // SAFETY: the call takes no argument, and returns -1 if the CPU is not known. sched_getcpu(3).
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).ok()
}

/// Returns the CPU time that this thread has used, in user mode and in the kernel.
pub fn thread_cpu_time() -> io::Result<(Duration, Duration)> {
    // SAFETY: rusage consists of integers, for which zero is a valid value.
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    // SAFETY: `usage` is live and is filled by the call. getrusage(2).
    let answer = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    succeeded(answer).map(|()| (duration(usage.ru_utime), duration(usage.ru_stime)))
}

/// The voluntary and involuntary context switches of this thread, and its major page faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    pub voluntary: u64,
    pub involuntary: u64,
    pub major_faults: u64,
}

/// Returns this thread's counts since it started.
pub fn thread_switches() -> io::Result<Switches> {
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
pub(super) fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
}

/// Returns the release and version of the kernel, as `uname -r` and `uname -v` print them.
pub fn kernel_names() -> (String, String) {
    // SAFETY: utsname consists of arrays of characters, for which zero is a valid value.
    let mut names = unsafe { std::mem::zeroed::<libc::utsname>() };
    // SAFETY: `names` is live and filled by the call; on failure, it stays empty. uname(2).
    let _ = unsafe { libc::uname(&raw mut names) };
    (text(&names.release), text(&names.version))
}

/// Returns the characters before the first zero.
fn text(characters: &[libc::c_char]) -> String {
    let bytes: Vec<u8> = characters.iter().map(|character| character.to_ne_bytes()[0]).collect();
    String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
}

/// Returns whether this process has a vDSO.
pub fn has_vdso() -> bool {
    // SAFETY: the call reads the auxiliary vector, and returns 0 for an unknown key. getauxval(3).
    let address = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
    address != 0
}

/// Returns AT_HWCAP2 from the auxiliary vector: the second set of processor feature bits; 0 if the kernel does not
/// provide it.
#[allow(clippy::useless_conversion, reason = "c_ulong is 32 bits wide on some targets")]
pub fn hwcap2() -> u64 {
    // SAFETY: the call reads the auxiliary vector, and returns 0 for an unknown key. getauxval(3).
    let features = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    features.into()
}

/// Returns AT_PLATFORM from the auxiliary vector: the processor's family, for example `x86_64`, `aarch64`, `v6l`,
/// `v7l`.
pub fn platform() -> Option<String> {
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
pub fn is_armv6(platform: Option<&str>) -> bool {
    platform.is_some_and(|platform| platform.starts_with("v6"))
}

/// The intended access to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

/// Returns whether a file's mode allows this access, without opening the file.
pub fn may_access(path: &str, access: Access) -> bool {
    let mode = match access {
        Access::Read => libc::R_OK,
        Access::Write => libc::W_OK,
    };
    let Ok(path) = CString::new(path) else { return false };
    // SAFETY: `path` is a live string that ends with a NUL byte. access(2).
    succeeded(unsafe { libc::access(path.as_ptr(), mode) }).is_ok()
}

/// Returns the effective user ID of this process.
pub fn effective_user() -> u32 {
    // SAFETY: the call takes no argument and always succeeds. geteuid(2).
    unsafe { libc::geteuid() }
}

/// Applies the default action to a signal from now on. Does not allocate, because it may run in a signal handler.
#[cfg(any(feature = "realtime", target_arch = "arm", target_arch = "aarch64"))]
pub fn reset_action(signal: libc::c_int) {
    // SAFETY: the call takes two numbers; with an invalid signal number, it fails with EINVAL. signal(2).
    let _ = unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Returns the size of a memory page, in bytes.
pub fn page_size() -> u64 {
    // SAFETY: the call takes a number that is supported on all systems. sysconf(3).
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
}

/// Runs `call` and restores errno, which a function that may run in a signal handler must do. signal-safety(7).
pub(super) fn keeping_errno<T>(call: impl FnOnce() -> T) -> T {
    // SAFETY: the call takes no argument and returns the address of this thread's errno. errno(3).
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the address is valid as long as the thread runs, and only this thread uses it.
    let before = unsafe { *errno };
    let answer = call();
    // SAFETY: as above.
    unsafe { *errno = before };
    answer
}

/// Converts a result in the C convention: 0 is success, otherwise the error is in errno.
fn succeeded(answer: libc::c_int) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::{Access, CpuSet, current_cpu, keeping_errno, kernel_names, may_access, page_size, platform};

    #[test]
    fn a_failed_call_leaves_errno_as_it_was() {
        assert!(!may_access("/nonexistent", Access::Read));
        let before = std::io::Error::last_os_error().raw_os_error();
        // SAFETY: the call takes a number, and fails with EBADF. close(2).
        let answer = keeping_errno(|| unsafe { libc::close(-1) });
        let after = std::io::Error::last_os_error().raw_os_error();
        assert_eq!((answer, before, after), (-1, Some(libc::ENOENT), before));
    }

    #[test]
    fn a_set_contains_the_cpu_it_was_made_for() {
        for cpu in [0, 1, 31, 32, 63, 64, 1023, 1024, 8191] {
            assert!(CpuSet::only(cpu).cpus().eq([cpu]), "{cpu}");
        }
        assert_eq!(CpuSet::only(8192).cpus().count(), 0);
    }

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
        // Emulators of some processors leave it out, and hpt needs it on ARM only.
        let is_optional = !cfg!(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm"));
        assert!(platform().map_or(is_optional, |platform| !platform.is_empty()));
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
