//! Determines which source names refer to the same counter. Uses the names and, if a name is ambiguous, the device
//! tree.

use hpt_core::{Host, PosixId, SourceInfo, source::Scope};

/// Pairs of names that refer to the same reading.
const ONE_READING: [(&str, &str); 3] =
    [("hpet", "hpet-low"), ("bcm-systimer", "bcm-systimer-low"), ("realtime", "gettimeofday")];

/// Returns whether two names refer to the same reading. In that case, comparing the two sources is meaningless.
///
/// # Examples
///
/// ```
/// use hpt_instrument::diagnose::are_one_reading;
///
/// assert!(are_one_reading("hpet", "hpet-low") && !are_one_reading("monotonic", "monotonic-raw"));
/// ```
#[must_use]
pub fn are_one_reading(one: &str, other: &str) -> bool {
    one == other || ONE_READING.contains(&(one, other)) || ONE_READING.contains(&(other, one))
}

/// Returns the source that reads the same counter as this kernel clocksource, or `None` if this crate has no such
/// source.
///
/// The kernel's name for the System Timer in the BCM283x is `timer`, and `stc` in kernels without a device tree.
/// Drivers for other boards use such names, too. The device tree or /proc/cpuinfo of `host` shows which timer it is. The
/// device tree also shows the counters of ARM systems on a chip without a generic timer.
#[must_use]
pub fn counter_of_clock_source(host: &Host, clock_source: &str) -> Option<&'static str> {
    match clock_source {
        "tsc" | "tsc-early" => Some("tsc"),
        "arch_sys_counter" => Some("arm-counter"),
        "hpet" => Some("hpet"),
        "acpi_pm" => Some("acpi-pm"),
        "timer" | "stc" if host.system_timer().is_ok() => Some("bcm-systimer"),
        _ => {
            let mut counters = host.soc_counters().into_iter();
            counters.find(|counter| counter.kind.clock_source == clock_source).map(|counter| counter.kind.id)
        }
    }
}

/// Returns whether the kernel derives this source from its clocksource. This applies to gettimeofday and to the
/// system-wide clocks of `clock_gettime`.
#[must_use]
pub fn is_made_of_the_clock_source(info: &SourceInfo) -> bool {
    let is_its = |id: PosixId| id.source_id() == info.id;
    info.scope == Scope::System && PosixId::all().any(is_its)
}

#[cfg(test)]
mod tests {
    use super::{are_one_reading, counter_of_clock_source, is_made_of_the_clock_source};
    use hpt_core::source::{self, Scope, SourceId, SourceInfo, names};
    use hpt_sys::host::{Architecture, Facts, Host};

    #[test]
    fn two_names_of_one_reading_are_recognized() {
        assert!(are_one_reading("tsc", "tsc") && are_one_reading("hpet-low", "hpet"));
        assert!(are_one_reading("gettimeofday", "realtime") && are_one_reading("realtime", "gettimeofday"));
        assert!(!are_one_reading("tsc", "monotonic-raw") && !are_one_reading("realtime", "realtime-coarse"));
    }

    #[test]
    fn the_listed_names_are_names_of_sources() {
        let names = names();
        let is_one = |name: &str| names.iter().any(|id| id.as_str() == name);
        assert!(super::ONE_READING.iter().all(|(one, other)| is_one(one) && is_one(other)));
        let host = Host::live();
        let counter = |name: &&str| counter_of_clock_source(&host, name);
        let known = ["tsc", "tsc-early", "arch_sys_counter", "hpet", "acpi_pm"];
        assert!(known.iter().all(|name| counter(name).is_some_and(is_one)));
        assert_eq!(counter(&"kvm-clock"), None);
    }

    #[test]
    fn a_clocksource_called_timer_or_stc_is_the_system_timer_if_the_machine_has_one() {
        let counter = |machine: &str, clock_source: &str| {
            let capture = hpt_sys::testing::hosts::capture_of(machine);
            let facts = Facts { architecture: Architecture::Arm, ..Facts::live() };
            counter_of_clock_source(&Host::captured(capture, facts), clock_source)
        };
        assert_eq!((counter("qemu-raspi0", "timer"), counter("qemu-q35", "timer")), (Some("bcm-systimer"), None));
        let old = "derived-raspberry-pi-1-linux-3.12";
        assert_eq!((counter(old, "stc"), counter("qemu-vexpress-a9", "stc")), (Some("bcm-systimer"), None));
    }

    #[test]
    fn clocks_of_devices_and_threads_do_not_count_with_the_clocksource() {
        let made = |id: &'static str, scope| {
            let mut info = SourceInfo::new(SourceId::new(id));
            info.scope = scope;
            is_made_of_the_clock_source(&info)
        };
        assert!(["monotonic", "monotonic-raw", "gettimeofday", "tai"].iter().all(|id| made(id, Scope::System)));
        let others = ["ptp0", "rtc0", "hpet", "tsc", "perf-time", "thread-cpu"];
        assert!(others.iter().all(|id| !made(id, Scope::System)));
        assert!(!made("process-cpu", Scope::Process));
        // The sources on this machine.
        for report in source::outline(&Host::live()) {
            let Ok(info) = report.availability else { continue };
            if matches!(info.id.as_str(), "monotonic" | "realtime" | "boottime") {
                assert!(is_made_of_the_clock_source(&info), "{}", info.id);
            }
        }
    }
}
