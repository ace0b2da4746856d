//! The kernel's clocksources: their read overhead, their risks, and the kernel log's explanation for each clocksource
//! that is not available. This module reads only a host's files, so it works on system snapshots as well as on
//! live systems.

use hpt_sys::host::{Host, LogError, LogLine};

/// A clocksource that this crate can describe. The description is based on the clocksource's driver in Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownClockSource {
    /// The kernel's name for the clocksource.
    pub name: &'static str,
    /// The counter that the clocksource reads.
    pub what: &'static str,
    /// The cost of a clock read while this clocksource is active, and the layers that the read passes through.
    pub cost: &'static str,
    /// The risks of using the clocksource.
    pub risk: &'static str,
}

const BY_DEVICE: &str = "a system call and a device read: a microsecond or more";

/// The clocksources that this crate can describe. Source: Linux 6.12, arch/x86/kernel/{tsc,hpet,kvmclock,i8253}.c,
/// drivers/clocksource/{acpi_pm,hyperv_timer,arm_arch_timer,bcm2835_timer,timer-sun4i,timer-imx-gpt,timer-sp804,timer-ti-32k,timer-ti-dm-systimer}.c,
/// arch/x86/xen/time.c, kernel/time/jiffies.c; Linux 3.12, arch/arm/mach-omap2/timer.c; the Raspberry Pi's Linux 3.12,
/// arch/arm/mach-bcm2708/bcm2708.c.
const KNOWN: [KnownClockSource; 22] = [
    KnownClockSource {
        name: "tsc",
        what: "the processor's timestamp counter",
        cost: "lowest: an instruction in user space (vDSO)",
        risk: "on old or misconfigured machines, it stops in idle states or differs between CPUs; the kernel monitors it and stops using it in that case",
    },
    KnownClockSource {
        name: "tsc-early",
        what: "the processor's timestamp counter, while the kernel calibrates it",
        cost: "lowest, like tsc",
        risk: "used only in the first seconds, then replaced by tsc",
    },
    KnownClockSource {
        name: "kvm-clock",
        what: "the TSC, corrected by a page that the host writes",
        cost: "low: the vDSO reads the page and the TSC; a system call if the host's own TSC is not stable",
        risk: "only as accurate as the host's clock; depends on the host for every correction",
    },
    KnownClockSource {
        name: "hyperv_clocksource_tsc_page",
        what: "the TSC, corrected by a page that Hyper-V writes",
        cost: "low: the vDSO reads the page and the TSC",
        risk: "only as accurate as the host's clock",
    },
    KnownClockSource {
        name: "hyperv_clocksource_msr",
        what: "a counter provided by Hyper-V",
        cost: "high: a system call, and an exit to the hypervisor",
        risk: "only as accurate as the host's clock",
    },
    KnownClockSource {
        name: "xen",
        what: "the TSC, corrected by a page that Xen writes",
        cost: "medium: a system call, unless Xen shares its page with the vDSO",
        risk: "only as accurate as the host's clock",
    },
    KnownClockSource {
        name: "hpet",
        what: "the High Precision Event Timer of the chipset, 10 to 25 MHz",
        cost: "high: a system call and a device read, a microsecond or more; in a virtual machine, also an exit to the hypervisor",
        risk: "all CPUs contend for one register; some of these timers stop in deep idle states",
    },
    KnownClockSource {
        name: "acpi_pm",
        what: "the ACPI power management timer, 3.579545 MHz",
        cost: "highest: a system call and an I/O port read (three on old chipsets)",
        risk: "granularity of 279 ns; wraps every 4.7 s, and time is lost if the kernel misses a wrap",
    },
    KnownClockSource {
        name: "pit",
        what: "the programmable interval timer of the original PC, 1.193182 MHz",
        cost: "highest: a system call and several I/O port reads",
        risk: "slow; reads take a lock shared by all CPUs",
    },
    KnownClockSource {
        name: "arch_sys_counter",
        what: "the ARM generic timer",
        cost: "lowest: an instruction in user space (vDSO); a trap into the kernel if the processor has a timer erratum",
        risk: "its frequency is only as accurate as the value that the firmware or the device tree specifies",
    },
    KnownClockSource {
        name: "timer",
        what: "a timer of the SoC: on a Raspberry Pi, the Broadcom System Timer, 1 MHz; on an Allwinner A10, timer 1, 24 MHz",
        cost: BY_DEVICE,
        risk: "granularity of up to a microsecond",
    },
    KnownClockSource {
        name: "mxc_timer1",
        what: "the general-purpose timer of an i.MX, 3 to 66 MHz",
        cost: BY_DEVICE,
        risk: "only 32 bits",
    },
    KnownClockSource { name: "arm,sp804", what: "an SP804 timer of the SoC", cost: BY_DEVICE, risk: "only 32 bits" },
    KnownClockSource {
        name: "arm_global_timer",
        what: "the global timer of a Cortex-A9 or A5",
        cost: BY_DEVICE,
        risk: "its frequency changes with the processor frequency",
    },
    KnownClockSource {
        name: "32k_counter",
        what: "the 32 768 Hz counter of a TI OMAP or AM3x",
        cost: BY_DEVICE,
        risk: "granularity of 30.5 µs",
    },
    KnownClockSource {
        name: "dmtimer",
        what: "a dual-mode timer of a TI OMAP or AM3x, mostly 24 MHz or more",
        cost: BY_DEVICE,
        risk: "stops in deep idle states, unlike 32k_counter",
    },
    KnownClockSource {
        name: "gp_timer",
        what: "a general-purpose timer of a TI OMAP, on old kernels",
        cost: BY_DEVICE,
        risk: "like dmtimer",
    },
    KnownClockSource {
        name: "timer1",
        what: "a dual-mode timer of a TI AM3x, 24 MHz, on old kernels",
        cost: BY_DEVICE,
        risk: "like dmtimer",
    },
    KnownClockSource {
        name: "stc",
        what: "the Broadcom System Timer, 1 MHz, on old kernels of a Raspberry Pi",
        cost: BY_DEVICE,
        risk: "granularity of a microsecond",
    },
    KnownClockSource {
        name: "jiffies",
        what: "the kernel's tick",
        cost: "low: a system call without a device read",
        risk: "granularity of 1 to 10 ms; no high-resolution timers; time is lost when ticks are lost",
    },
    KnownClockSource {
        name: "refined-jiffies",
        what: "the kernel's tick, with a measured rate",
        cost: "low, like jiffies",
        risk: "like jiffies",
    },
    KnownClockSource {
        name: "dummy",
        what: "a counter that does not advance",
        cost: "low",
        risk: "time does not advance",
    },
];

/// The longest step that a clocksource of this name can have, in nanoseconds, where its driver or its specification states
/// one: the 32 768 Hz of drivers/clocksource/timer-ti-32k.c, the frequencies of the ACPI timer, the PIT and the System Timer;
/// at least 10 MHz for an HPET (IA-PC HPET 1.0a, 2.3.4); at least 1 MHz for the counters of processors and for hypervisors'
/// clocks, which count nanoseconds.
const LONGEST_STEPS_NS: [(&str, u64); 13] = [
    ("32k_counter", 30_518),
    ("acpi_pm", 280),
    ("pit", 839),
    ("hpet", 100),
    ("stc", 1_000),
    ("tsc", 1_000),
    ("tsc-early", 1_000),
    ("arch_sys_counter", 1_000),
    ("riscv_clocksource", 1_000),
    ("kvm-clock", 1_000),
    ("hyperv_clocksource_tsc_page", 1_000),
    ("hyperv_clocksource_msr", 1_000),
    ("xen", 1_000),
];

impl KnownClockSource {
    /// Returns the known properties of the clocksource `name`; `None` if this crate has no description of it.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_realtime::knobs::KnownClockSource;
    ///
    /// let tsc = KnownClockSource::named("tsc").expect("it is known");
    /// assert_eq!(tsc.what, "the processor's timestamp counter");
    /// assert!(KnownClockSource::named("sundial").is_none());
    /// ```
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        KNOWN.iter().find(|known| known.name == name)
    }
}

/// A clocksource that the kernel offers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedClockSource {
    /// The kernel's name for the clocksource.
    pub name: String,
    /// Whether the clocksource is active.
    pub current: bool,
    /// The longest step of the clocksource in nanoseconds, at least 1: from the rate that the kernel logged when it
    /// registered the clocksource, from the length of the kernel's tick, or from the driver; `None` if none of them states it.
    pub step_ns: Option<u64>,
    /// The known properties of this clocksource.
    pub known: Option<&'static KnownClockSource>,
}

/// A clocksource that is or was present on the machine, but that the kernel does not offer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AbsentClockSource {
    /// The kernel's name for the clocksource.
    pub name: String,
    /// The evidence that the clocksource is or was present.
    pub had: &'static str,
    /// The lines of the kernel log that explain why the kernel no longer offers the clocksource; empty if there are
    /// none.
    pub said: Vec<LogLine>,
    /// The known properties of this clocksource.
    pub known: Option<&'static KnownClockSource>,
}

/// The kernel's clocksources, with the explanations from its log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockSourceOutline {
    /// The clocksources that the kernel offers, best first; empty if sysfs does not list them.
    pub listed: Vec<ListedClockSource>,
    /// The clocksources that are or were present, but that the kernel does not offer.
    pub absent: Vec<AbsentClockSource>,
    /// Whether the log still contains its first line, or the reason why the log was not read.
    pub log: Result<bool, LogError>,
}

/// Examines the clocksources of `host`.
///
/// # Examples
///
/// ```
/// use hpt_core::Host;
/// use hpt_realtime::knobs::outline_clock_sources;
///
/// for source in outline_clock_sources(&Host::live()).listed {
///     let what = source.known.map_or("unknown", |known| known.what);
///     println!("{}{}: {what}", source.name, if source.current { " (current)" } else { "" });
/// }
/// ```
#[must_use]
pub fn outline_clock_sources(host: &Host) -> ClockSourceOutline {
    let sources = host.clock_sources();
    let names = sources.available.unwrap_or_else(|| sources.current.clone().into_iter().collect());
    let log = host.kernel_log();
    let lines: Vec<&LogLine> = log.as_ref().map(|log| log.on_clock_sources().collect()).unwrap_or_default();
    let mut absent = Vec::new();
    // If the kernel provides no list, it is not known which clocksources are missing.
    if !names.is_empty() {
        let on_x86 = host.facts().architecture.is_x86();
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
    let tick_ns = host.facts().clock_resolutions_ns.get("CLOCK_MONOTONIC_COARSE").copied();
    let listed = names.into_iter().map(|name| ListedClockSource {
        current: sources.current.as_ref() == Some(&name),
        step_ns: step_ns(&name, &lines, tick_ns),
        known: KnownClockSource::named(&name),
        name,
    });
    ClockSourceOutline { listed: listed.collect(), absent, log: log.map(|log| log.from_the_beginning) }
}

fn missing(name: &str, had: &'static str, lines: &[&LogLine]) -> AbsentClockSource {
    let said = lines.iter().filter(|line| tells_why(&line.text, name)).map(|&line| line.clone());
    AbsentClockSource { name: name.to_owned(), had, said: said.collect(), known: KnownClockSource::named(name) }
}

/// Returns whether the kernel offers this clocksource only until a better clocksource is available.
fn is_succeeded(name: &str) -> bool {
    ["jiffies", "refined-jiffies", "tsc-early"].contains(&name)
}

/// Returns the name from a log line of the form `clocksource: NAME: mask: …`, which the kernel writes when it registers
/// a clocksource. Source: Linux, kernel/time/clocksource.c, __clocksource_update_freq_scale.
fn registered(text: &str) -> Option<&str> {
    let (name, rest) = text.strip_prefix("clocksource: ")?.split_once(": ")?;
    rest.starts_with("mask: ").then_some(name)
}

/// Returns the longest step of a clocksource. `tick_ns` is the length of the kernel's tick, which advances the coarse clocks.
fn step_ns(name: &str, lines: &[&LogLine], tick_ns: Option<u64>) -> Option<u64> {
    if ["jiffies", "refined-jiffies"].contains(&name) {
        return tick_ns;
    }
    let logged = lines.iter().rev().filter(|line| registered(&line.text) == Some(name));
    let known = || LONGEST_STEPS_NS.iter().find(|(known, _)| *known == name).map(|(_, step_ns)| *step_ns);
    logged.filter_map(|line| logged_step_ns(&line.text)).next().or_else(known)
}

/// Returns the length of a tick, at least 1 ns, from `max_cycles: 0xX, max_idle_ns: Y ns` in a line of the kernel log. The
/// kernel computes Y as half of X ticks at a rate that it assumes to be 11 % too low. Linux, kernel/time/clocksource.c,
/// clocks_calc_max_nsecs and __clocksource_update_freq_scale.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the length of a tick needs few digits, and is positive"
)]
fn logged_step_ns(text: &str) -> Option<u64> {
    let (_, cycles) = text.split_once("max_cycles: 0x")?;
    let (cycles, rest) = cycles.split_once(", max_idle_ns: ")?;
    let cycles = u64::from_str_radix(cycles, 16).ok().filter(|cycles| *cycles > 0)?;
    let idle_ns: u64 = rest.split(' ').next()?.parse().ok()?;
    Some(((2.0 * idle_ns as f64 / (cycles as f64 * 0.89)).round() as u64).max(1))
}

/// Returns whether a line of the log explains why `name` is no longer a clocksource. Recognizes the wording of all
/// kernel versions since 3.x. Source: Linux, kernel/time/clocksource.c, arch/x86/kernel/{tsc,tsc_sync,hpet}.c,
/// drivers/clocksource/acpi_pm.c.
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

    use super::{KNOWN, KnownClockSource, LONGEST_STEPS_NS, logged_step_ns, registered, tells_why};

    #[test]
    fn every_known_clocksource_is_found_and_described() {
        for known in &KNOWN {
            assert_eq!(KnownClockSource::named(known.name), Some(known));
            assert!(!known.cost.is_empty() && !known.risk.is_empty() && !known.what.is_empty());
        }
        assert_eq!(KnownClockSource::named("sundial"), None);
    }

    #[test]
    fn a_registration_states_the_rate_of_its_source() {
        let step = |rest: &str| logged_step_ns(&format!("clocksource: some: mask: 0xffffffff {rest}"));
        // 32 768 Hz, 3.579545 MHz, 62.5 MHz and 2596 MHz, as Linux logged them.
        assert_eq!(step("max_cycles: 0xffffffff, max_idle_ns: 58327039986419 ns"), Some(30_518));
        assert_eq!(step("max_cycles: 0xffffff, max_idle_ns: 2085701024 ns"), Some(279));
        assert_eq!(step("max_cycles: 0x1cd42e208c, max_idle_ns: 881590405314 ns"), Some(16));
        assert_eq!(step("max_cycles: 0x256c0af46c8, max_idle_ns: 440795319503 ns"), Some(1));
        for text in ["", "max_cycles: 0x0, max_idle_ns: 5 ns", "max_cycles: 0xzz, max_idle_ns: 5 ns", "max_cycles: 0x5"]
        {
            assert_eq!(step(text), None, "{text}");
        }
        assert!(LONGEST_STEPS_NS.iter().all(|(name, _)| *name != "timer"), "its rate depends on the SoC");
    }

    #[test]
    fn a_registration_names_its_source() {
        let line = "clocksource: acpi_pm: mask: 0xffffff max_cycles: 0xffffff, max_idle_ns: 2085701024 ns";
        assert_eq!(registered(line), Some("acpi_pm"));
        assert_eq!(registered("clocksource: Switched to clocksource tsc"), None);
    }

    #[test]
    fn messages_of_old_and_new_kernels_are_parsed() {
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
        fn any_line_is_parsed_without_a_panic(text in any::<String>(), name in any::<String>()) {
            let _ = (registered(&text), tells_why(&text, &name), logged_step_ns(&text));
        }
    }
}
