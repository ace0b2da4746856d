//! The kernel's clocksources: their read overhead and risks, and why one is not on offer, as far as the kernel log
//! explains it. Reads files of a host only, so a captured machine is explained like a live one.

use crate::host::{Architecture, Host, LogLine, LogUnreadable};

/// A clocksource that the kernel may have, as its driver implements it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownClockSource {
    /// The kernel's name for it.
    pub name: &'static str,
    /// The counter it reads.
    pub what: &'static str,
    /// What a clock read passes through while it is active.
    pub cost: &'static str,
    /// What may be wrong with it.
    pub risk: &'static str,
}

const BY_DEVICE: &str = "a system call and a read of a device: a microsecond or more";

/// Linux 6.12: arch/x86/kernel/{tsc,hpet,kvmclock,i8253}.c, drivers/clocksource/{acpi_pm,hyperv_timer,arm_arch_timer,bcm2835_timer,timer-sp804}.c,
/// arch/x86/xen/time.c, kernel/time/jiffies.c.
const KNOWN: [KnownClockSource; 16] = [
    KnownClockSource {
        name: "tsc",
        what: "the processor's time stamp counter",
        cost: "lowest: an instruction in the program's own code (vDSO)",
        risk: "on old or badly set up machines it stops in idle, or differs between CPUs; the kernel watches it, and drops it then",
    },
    KnownClockSource {
        name: "tsc-early",
        what: "the processor's time stamp counter, while the kernel measures its rate",
        cost: "lowest, as tsc",
        risk: "only for the first seconds: tsc follows",
    },
    KnownClockSource {
        name: "kvm-clock",
        what: "the TSC, corrected by a page that the host writes",
        cost: "low: the vDSO reads the page and the TSC; a system call where the host's own TSC is not steady",
        risk: "as right as the host's clock; needs the host for every correction",
    },
    KnownClockSource {
        name: "hyperv_clocksource_tsc_page",
        what: "the TSC, corrected by a page that Hyper-V writes",
        cost: "low: the vDSO reads the page and the TSC",
        risk: "as right as the host's clock",
    },
    KnownClockSource {
        name: "hyperv_clocksource_msr",
        what: "a counter of Hyper-V's",
        cost: "high: a system call, and an exit to the hypervisor",
        risk: "as right as the host's clock",
    },
    KnownClockSource {
        name: "xen",
        what: "the TSC, corrected by a page that Xen writes",
        cost: "medium: a system call, unless Xen lets the vDSO have its page",
        risk: "as right as the host's clock",
    },
    KnownClockSource {
        name: "hpet",
        what: "the High Precision Event Timer, a chip of the board, 10 to 25 MHz",
        cost: "high: a system call and a read of a device, a microsecond or more; under a hypervisor an exit to it",
        risk: "all CPUs wait for one register; some stop in deep sleep",
    },
    KnownClockSource {
        name: "acpi_pm",
        what: "the ACPI power management timer, 3.579545 MHz",
        cost: "highest: a system call and a read of an I/O port, on old chipsets three",
        risk: "steps of 279 ns; wraps every 4.7 s, which the kernel must not miss",
    },
    KnownClockSource {
        name: "pit",
        what: "the interval timer of the first PCs, 1.193182 MHz",
        cost: "highest: a system call and several reads of I/O ports",
        risk: "slow, and its readings need a lock for all CPUs",
    },
    KnownClockSource {
        name: "arch_sys_counter",
        what: "the ARM generic timer",
        cost: "lowest: an instruction in the program's own code (vDSO); a trap into the kernel where the processor has an erratum",
        risk: "its rate is what firmware or device tree say",
    },
    KnownClockSource {
        name: "timer",
        what: "a timer of the chip: on a Raspberry Pi the Broadcom System Timer, 1 MHz",
        cost: BY_DEVICE,
        risk: "steps of a microsecond",
    },
    KnownClockSource { name: "arm,sp804", what: "an SP804 timer of the chip", cost: BY_DEVICE, risk: "32 bits" },
    KnownClockSource {
        name: "arm_global_timer",
        what: "the global timer of a Cortex-A9 or A5",
        cost: BY_DEVICE,
        risk: "runs at the processor's clock, and changes with it",
    },
    KnownClockSource {
        name: "jiffies",
        what: "the kernel's tick",
        cost: "low: a system call without a device",
        risk: "steps of 1 to 10 ms, no high-resolution timers, and time is lost where ticks are",
    },
    KnownClockSource {
        name: "refined-jiffies",
        what: "the kernel's tick, its rate measured",
        cost: "low, as jiffies",
        risk: "as jiffies",
    },
    KnownClockSource { name: "dummy", what: "a counter that stands still", cost: "low", risk: "no time at all" },
];

impl KnownClockSource {
    /// Returns what is known of the clocksource `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        KNOWN.iter().find(|known| known.name == name)
    }
}

/// A clocksource that the kernel offers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedClockSource {
    /// The kernel's name for it.
    pub name: String,
    /// Whether it is active.
    pub current: bool,
    /// What is known of it.
    pub known: Option<&'static KnownClockSource>,
}

/// A clocksource that the machine has or had, and that the kernel does not offer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AbsentClockSource {
    /// The kernel's name for it.
    pub name: String,
    /// How hpt knows that it exists.
    pub had: &'static str,
    /// The lines of the log that say why it is not on offer any more; empty if there are none.
    pub said: Vec<LogLine>,
    /// What is known of it.
    pub known: Option<&'static KnownClockSource>,
}

/// The kernel's clocksources, with the explanations from its log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockSourceOutline {
    /// Those on offer, best first; empty if sysfs does not list them.
    pub listed: Vec<ListedClockSource>,
    /// Those missing from the list.
    pub absent: Vec<AbsentClockSource>,
    /// Whether the log was read from its first line on, or why it was not read at all.
    pub log: Result<bool, LogUnreadable>,
}

/// Examines the clocksources of `host`.
#[must_use]
pub fn outline_clock_sources(host: &Host) -> ClockSourceOutline {
    let sources = host.clock_sources();
    let names = sources.available.unwrap_or_else(|| sources.current.clone().into_iter().collect());
    let log = host.kernel_log();
    let lines: Vec<&LogLine> = log.as_ref().map(|log| log.on_clock_sources().collect()).unwrap_or_default();
    let mut absent = Vec::new();
    // Without a list, none can be missing from it.
    if !names.is_empty() {
        let on_x86 = host.facts().architecture == Architecture::X86_64;
        if on_x86 && host.cpu().has_flag("tsc") && !names.iter().any(|name| name.starts_with("tsc")) {
            absent.push(missing("tsc", "the processor has it", &lines));
        }
        for name in lines.iter().filter_map(|line| registered(&line.text)) {
            let known_to_be_missing = absent.iter().any(|source: &AbsentClockSource| source.name == name);
            if !known_to_be_missing && !is_succeeded(name) && !names.iter().any(|listed| listed == name) {
                absent.push(missing(name, "the kernel had registered it", &lines));
            }
        }
    }
    let listed = names.into_iter().map(|name| ListedClockSource {
        current: sources.current.as_ref() == Some(&name),
        known: KnownClockSource::named(&name),
        name,
    });
    ClockSourceOutline { listed: listed.collect(), absent, log: log.map(|log| log.from_the_beginning) }
}

fn missing(name: &str, had: &'static str, lines: &[&LogLine]) -> AbsentClockSource {
    let said = lines.iter().filter(|line| tells_why(&line.text, name)).map(|&line| line.clone());
    AbsentClockSource { name: name.to_owned(), had, said: said.collect(), known: KnownClockSource::named(name) }
}

/// Listed only until a better one is available.
fn is_succeeded(name: &str) -> bool {
    ["jiffies", "refined-jiffies", "tsc-early"].contains(&name)
}

/// The name in `clocksource: NAME: mask: …`, which the kernel writes when a clocksource is registered. Linux,
/// kernel/time/clocksource.c, __clocksource_update_freq_scale.
fn registered(text: &str) -> Option<&str> {
    let (name, rest) = text.strip_prefix("clocksource: ")?.split_once(": ")?;
    rest.starts_with("mask: ").then_some(name)
}

/// Whether a line of the log says why `name` is not a clocksource any more. Linux: kernel/time/clocksource.c,
/// arch/x86/kernel/{tsc,tsc_sync,hpet}.c, drivers/clocksource/acpi_pm.c, with the wording of all versions since 3.x.
fn tells_why(text: &str, name: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let unstable = lower.contains("unstable")
        && (lower.contains(&format!("'{name}'")) || lower.contains(&format!("clocksource {name} ")));
    let own = match name {
        "tsc" => ["marking tsc unstable", "turning off tsc clock", "tsc found unstable", "skewed"].as_slice(),
        "hpet" => &["hpet dysfunctional", "hpet: disabl", "force disabled hpet", "hpet not"],
        "acpi_pm" => &["pm-timer failed", "pm-timer running at invalid rate", "pm-timer had inconsistent results"],
        _ => &[],
    };
    unstable || own.iter().any(|words| lower.contains(words))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::{KNOWN, KnownClockSource, registered, tells_why};

    #[test]
    fn every_known_clock_source_is_found_and_described() {
        for known in &KNOWN {
            assert_eq!(KnownClockSource::named(known.name), Some(known));
            assert!(!known.cost.is_empty() && !known.risk.is_empty() && !known.what.is_empty());
        }
        assert_eq!(KnownClockSource::named("sundial"), None);
    }

    #[test]
    fn a_registration_names_its_source() {
        let line = "clocksource: acpi_pm: mask: 0xffffff max_cycles: 0xffffff, max_idle_ns: 2085701024 ns";
        assert_eq!(registered(line), Some("acpi_pm"));
        assert_eq!(registered("clocksource: Switched to clocksource tsc"), None);
    }

    #[test]
    fn the_words_of_old_and_new_kernels_are_understood() {
        for text in [
            "Marking TSC unstable due to cpufreq changes",
            "tsc: Marking TSC unstable due to clocksource watchdog",
            "clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc' as unstable because the skew is too large:",
            "Clocksource tsc unstable (delta = -201134949 ns)",
            "Measured 235 cycles TSC warp between CPUs, turning off TSC clock.",
        ] {
            assert!(tells_why(text, "tsc"), "{text}");
            assert!(!tells_why(text, "hpet"), "{text}");
        }
        assert!(tells_why("HPET dysfunctional in PC10. Force disabled.", "hpet"));
        assert!(!tells_why("tsc: Detected 2596.154 MHz processor", "tsc"));
    }

    proptest! {
        #[test]
        fn any_line_is_read_without_a_panic(text in any::<String>(), name in any::<String>()) {
            let _ = (registered(&text), tells_why(&text, &name));
        }
    }
}
