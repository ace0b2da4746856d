//! Decides whether the processor's own counter may be used without an explicit request, based on what the processor and
//! the kernel report. Does not allocate, because it may run in a signal handler.

use std::{
    fs::File,
    io::{self, Read},
};

use hpt_sys::{arch::CounterRefused, native::Native};

use crate::source::permitted_native;

/// The kernel's name for the processor's own counter. Linux, arch/x86/kernel/tsc.c,
/// drivers/clocksource/{arm_arch_timer,timer-riscv}.c.
const CLOCK_SOURCE: &str = if cfg!(any(target_arch = "x86_64", target_arch = "x86")) {
    "tsc"
} else if cfg!(target_arch = "riscv64") {
    "riscv_clocksource"
} else {
    "arch_sys_counter"
};

/// The verdict on the processor's own counter.
#[derive(Debug)]
pub(super) enum Trust {
    Yes(Native),
    /// There is no verdict yet; a later call may return one.
    NotYet(Unsettled),
    No,
}

/// The reason why there is no verdict yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsettled {
    /// The kernel is still measuring the counter.
    #[cfg_attr(
        not(any(target_arch = "x86_64", target_arch = "x86")),
        allow(dead_code, reason = "only a TSC is measured first")
    )]
    Measuring,
    /// The kernel's list of clocksources could not be read, for example because no descriptor or memory was free, or
    /// because sysfs is not mounted.
    NotAsked,
    /// No child process could be started to try the counter.
    NotTried,
}

/// The status of one clocksource in the kernel's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    Yes,
    No,
    NotAsked,
}

/// Trusts the TSC if the kernel offers it as a clocksource, and if the processor reports it as constant-rate in all states,
/// or the kernel uses it and the processor never enters a state in which it could stop.
#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
pub(super) fn in_native() -> Trust {
    /// Leaf 0x80000007, EDX bit 8: the TSC runs at a constant rate in all states. AMD APM vol. 3, E.4.6; Intel SDM vol.
    /// 3B, 18.17.1.
    const INVARIANT: u32 = 1 << 8;
    /// Leaf 1, ECX bit 31, which hypervisors set and processors clear. AMD APM vol. 3, E.3.2.
    const HYPERVISOR: u32 = 1 << 31;
    let leaf = |leaf| hpt_sys::arch::cpuid(leaf, 0);
    let invariant = leaf(0x8000_0000).is_some_and(|[highest, ..]| highest >= 0x8000_0007)
        && leaf(0x8000_0007).is_some_and(|[_, _, _, edx]| edx & INVARIANT != 0);
    let is_virtual = leaf(1).is_none_or(|[_, _, ecx, _]| ecx & HYPERVISOR != 0);
    // A hypervisor does not show in which idle states its processor is.
    if !invariant && (is_virtual || !never_stops(read_file)) {
        return Trust::No;
    }
    let list = List::read();
    match list.offer(CLOCK_SOURCE) {
        Offer::Yes => permitted(),
        Offer::NotAsked => Trust::NotYet(Unsettled::NotAsked),
        // This is the name of the TSC in the first seconds after boot, while the kernel measures its rate. Linux,
        // arch/x86/kernel/tsc.c.
        Offer::No if list.offer("tsc-early") == Offer::Yes => Trust::NotYet(Unsettled::Measuring),
        Offer::No => Trust::No,
    }
}

/// Reads the beginning of a file, and returns its length.
#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
#[allow(clippy::disallowed_methods, reason = "files of the kernel")]
fn read_file(path: &str, into: &mut [u8]) -> io::Result<usize> {
    File::open(path)?.read(into)
}

/// Returns whether the rate of the TSC is constant (`constant_tsc`), the kernel itself uses the TSC, and no idle state is
/// deeper than C1, in which no TSC stops. Linux: arch/x86/kernel/cpu/centaur.c sets no more than `constant_tsc` for
/// processors of VIA; drivers/acpi/processor_idle.c, `tsc_check_state`, gives the TSC up when it finds a deeper state.
/// All CPUs have the states of one driver (drivers/cpuidle/driver.c).
#[cfg(any(target_arch = "x86_64", target_arch = "x86", test))]
fn never_stops(read: impl Fn(&str, &mut [u8]) -> io::Result<usize>) -> bool {
    const FIRST: &str = "/sys/devices/system/cpu/cpu0/cpuidle/state0/name";
    const SECOND: &str = "/sys/devices/system/cpu/cpu0/cpuidle/state1/name";
    const THIRD: &str = "/sys/devices/system/cpu/cpu0/cpuidle/state2/name";
    let is = |path: &str, names: &[&str]| {
        let mut bytes = [0; 64];
        read(path, &mut bytes).map(|length| names.iter().any(|name| bytes[..length].trim_ascii() == name.as_bytes()))
    };
    let is_absent = |path: &str| is(path, &[]).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let has_the_flag = || {
        // The flags of the first processor are within the first page.
        let mut bytes = [0; 4096];
        let length = read("/proc/cpuinfo", &mut bytes).unwrap_or(0);
        bytes[..length].split(u8::is_ascii_whitespace).any(|word| word == b"constant_tsc")
    };
    let is_used = || is("/sys/devices/system/clocksource/clocksource0/current_clocksource", &["tsc"]).unwrap_or(false);
    let has_no_deep_state = || match is(FIRST, &["POLL", "C1"]) {
        Ok(is_shallow) => is_shallow && (is_absent(SECOND) || is(SECOND, &["C1"]).unwrap_or(false)) && is_absent(THIRD),
        // Without a driver, an idle CPU only halts, which is C1, or polls.
        Err(_) => is_absent(FIRST) && is("/sys/devices/system/cpu/cpuidle/current_driver", &["none"]).unwrap_or(false),
    };
    has_the_flag() && is_used() && has_no_deep_state()
}

/// Trusts the counter of another processor if the kernel offers it as a clocksource.
#[cfg(not(any(target_arch = "x86_64", target_arch = "x86")))]
pub(super) fn in_native() -> Trust {
    match List::read().offer(CLOCK_SOURCE) {
        Offer::Yes => permitted(),
        Offer::NotAsked => Trust::NotYet(Unsettled::NotAsked),
        Offer::No => Trust::No,
    }
}

/// Trusts the counter that the kernel offers, if this program may read it.
fn permitted() -> Trust {
    match permitted_native() {
        Ok(native) => Trust::Yes(native),
        Err(CounterRefused::NotReadable) => Trust::No,
        Err(CounterRefused::NotTried) => Trust::NotYet(Unsettled::NotTried),
    }
}

/// The clocksources that rank below all processor counters.
const SLOWER: [&str; 5] = ["hpet", "acpi_pm", "pit", "refined-jiffies", "jiffies"];

/// Returns whether the kernel offers the processor's own counter now; `None` if it could not be queried. Makes two
/// system calls, and starts no child process.
pub(super) fn is_offered() -> Option<bool> {
    match List::read().offer(CLOCK_SOURCE) {
        Offer::Yes => Some(true),
        Offer::No => Some(false),
        Offer::NotAsked => None,
    }
}

/// The kernel's list of clocksources, if it could be read. The kernel removes a source that it marks as
/// unstable. Without high-resolution timers (`highres=off nohz=off`), it instead moves that source to the end of the
/// list, with rank 0. Linux, kernel/time/clocksource.c, `__clocksource_unstable` and `available_clocksource_show`.
#[derive(Clone, Copy, Debug)]
struct List {
    bytes: [u8; 256],
    length: Option<usize>,
}

impl List {
    #[allow(clippy::disallowed_methods, reason = "a file of the kernel")]
    fn read() -> Self {
        Self::of(File::open("/sys/devices/system/clocksource/clocksource0/available_clocksource"))
    }

    /// Reads the list from `file`. If the read fails, nothing can be concluded about any source.
    fn of(file: io::Result<impl Read>) -> Self {
        let mut bytes = [0; 256];
        let length = file.ok().and_then(|mut file| {
            loop {
                match file.read(&mut bytes) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    answer => break answer.ok(),
                }
            }
        });
        // The kernel always has a clocksource, so an empty list counts as unreadable.
        Self { bytes, length: length.filter(|&length| length > 0) }
    }

    fn offer(&self, name: &str) -> Offer {
        let Some(length) = self.length else { return Offer::NotAsked };
        let mut offered = self.bytes[..length].split(u8::is_ascii_whitespace);
        let is_slow = |offered: &[u8]| SLOWER.iter().any(|slower| slower.as_bytes() == offered);
        // The list is in order of rank. A source that is listed after one of the slower clocksources has been
        // downgraded.
        match offered.find(|offered| *offered == name.as_bytes() || is_slow(offered)) {
            Some(found) if !is_slow(found) => Offer::Yes,
            _ => Offer::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind, Read};

    use super::{List, Offer, never_stops};

    /// The files of a machine: path suffixes and contents.
    fn machine(files: &[(&str, &str)]) -> bool {
        never_stops(|path, into| {
            let found = files.iter().find(|(name, _)| path.ends_with(name));
            let (_, text) = found.ok_or_else(|| io::Error::from(ErrorKind::NotFound))?;
            into[..text.len()].copy_from_slice(text.as_bytes());
            Ok(text.len())
        })
    }

    #[test]
    fn a_counter_of_constant_rate_is_trusted_only_if_no_idle_state_stops_it() {
        let via = ("cpuinfo", "flags\t: fpu tsc constant_tsc rep_good\n");
        let used = ("current_clocksource", "tsc\n");
        let (poll, shallow, deep) = (("state0/name", "POLL\n"), ("state1/name", "C1\n"), ("state2/name", "C2\n"));
        let none = ("current_driver", "none\n");
        for trusted in [
            &[via, used, poll, shallow][..],
            &[via, used, poll],
            &[via, used, none],
            &[via, used, ("state0/name", "C1\n")],
        ] {
            assert!(machine(trusted), "{trusted:?}");
        }
        for refused in [
            // A deeper state, or one with an unknown name.
            &[via, used, poll, shallow, deep][..],
            &[via, used, poll, ("state1/name", "C2\n")],
            &[via, used, ("state0/name", "C6\n")],
            // The kernel does not use it, or says nothing.
            &[via, ("current_clocksource", "hpet\n"), poll, shallow],
            &[via, poll, shallow],
            // The rate follows the frequency.
            &[("cpuinfo", "flags\t: fpu tsc nonconstant_tsc\n"), used, poll, shallow],
            &[used, poll, shallow],
            // A driver without states, and no cpuidle at all: nothing is known.
            &[via, used, ("current_driver", "acpi_idle\n")],
            &[via, used],
        ] {
            assert!(!machine(refused), "{refused:?}");
        }
    }

    #[test]
    fn an_unreadable_idle_state_is_no_absent_one() {
        let refuse_third = |path: &str, into: &mut [u8]| {
            let text = match path {
                _ if path.ends_with("cpuinfo") => "tsc constant_tsc",
                _ if path.ends_with("current_clocksource") => "tsc",
                _ if path.ends_with("state0/name") => "POLL",
                _ if path.ends_with("state1/name") => "C1",
                _ => return Err(io::Error::from(ErrorKind::PermissionDenied)),
            };
            into[..text.len()].copy_from_slice(text.as_bytes());
            Ok(text.len())
        };
        assert!(!never_stops(refuse_third));
    }

    /// A sysfs file whose reads fail or are interrupted.
    struct Failing(Vec<ErrorKind>, &'static [u8]);

    impl Read for Failing {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            match self.0.pop() {
                Some(kind) => Err(kind.into()),
                None => self.1.read(into),
            }
        }
    }

    #[test]
    fn a_list_contains_a_source_or_does_not() {
        let list = List::of(Ok(&b"kvm-clock tsc acpi_pm \n"[..]));
        assert_eq!(["tsc", "kvm-clock", "ts"].map(|name| list.offer(name)), [Offer::Yes, Offer::Yes, Offer::No]);
    }

    #[test]
    fn a_counter_at_the_end_of_the_list_was_degraded() {
        let offer = |list: &'static str| List::of(Ok(list.as_bytes())).offer("tsc");
        for unstable in
            ["hpet acpi_pm jiffies tsc", "kvm-clock jiffies tsc \n", "acpi_pm tsc", "refined-jiffies jiffies tsc"]
        {
            assert_eq!(offer(unstable), Offer::No, "{unstable}");
        }
        for stable in ["tsc hpet acpi_pm jiffies", "kvm-clock tsc", "hyperv_clocksource_tsc_page tsc acpi_pm", "tsc"] {
            assert_eq!(offer(stable), Offer::Yes, "{stable}");
        }
    }

    #[test]
    fn an_unreadable_list_decides_nothing_about_any_source() {
        for error in [24, 23, 12, 2, 13] {
            let list = List::of(Err::<&[u8], _>(io::Error::from_raw_os_error(error)));
            assert_eq!(list.offer("tsc"), Offer::NotAsked, "error {error}");
        }
        assert_eq!(List::of(Ok(&b""[..])).offer("tsc"), Offer::NotAsked);
        assert_eq!(List::of(Ok(Failing(vec![ErrorKind::OutOfMemory], b"tsc"))).offer("tsc"), Offer::NotAsked);
    }

    #[test]
    fn an_interrupted_read_is_repeated() {
        let interrupted = Failing(vec![ErrorKind::Interrupted, ErrorKind::Interrupted], b"tsc hpet");
        assert_eq!(List::of(Ok(interrupted)).offer("tsc"), Offer::Yes);
    }
}
