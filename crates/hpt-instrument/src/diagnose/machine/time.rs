//! Rules about the kernel's clocksource, the cost of reading it, and the synchronization of the wall clock.

use std::time::Duration;

use hpt_core::clock::Discipline;
use hpt_realtime::knobs::AbsentClockSource;
use hpt_sys::{
    host::{Architecture, Family, KernelRelease},
    settings::CLOCK_SOURCE,
    units::Spaced,
};

use super::{Finding, MachineFacts, Relevance, Rule, Severity, Subject, Verdict};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "clock-source",
        title: "Kernel does not use the best clocksource",
        about: "which clocksource the kernel uses, and why it does not use a better one",
        why: "Every clock read, in user space and in the kernel, uses the clocksource. This takes about 20 ns for a CPU counter, and a microsecond or more for a device such as the HPET.",
        affects: "all programs that read a clock",
        references: &[
            "Documentation/admin-guide/kernel-parameters.txt: clocksource, tsc",
            "Documentation/timers/timekeeping.rst",
        ],
        relevance: Relevance::all(Severity::High),
        judge: clock_source,
    },
    Rule {
        id: "coarse-clock",
        title: "Clock advances in coarse steps",
        about: "by how much the clocksource advances in one step (10 µs or more)",
        why: "All clocks of the kernel, and the timers, have this granularity: shorter intervals cannot be measured, and a thread may wake up to a step late.",
        affects: "programs that measure short intervals, or react within microseconds",
        references: &["clock_getres(2)", "Linux, drivers/clocksource: the driver of the clocksource"],
        relevance: Relevance::all(Severity::High),
        judge: coarse,
    },
    Rule {
        id: "clock-by-system-call",
        title: "Clock reads need a system call",
        about: "whether clock_gettime reads the clock in user space (vDSO)",
        why: "A clock read through a system call takes several times as long, and the kernel may switch to another thread before the call returns.",
        affects: "all programs that read a clock",
        references: &["vdso(7)", "Documentation/ABI/stable/vdso"],
        relevance: Relevance::all(Severity::Low),
        judge: by_system_call,
    },
    Rule {
        id: "timer-erratum",
        title: "ARM timer erratum affects counter reads",
        about: "whether the device tree or the kernel log reports errata of the ARM generic timer",
        why: "To work around such an erratum, the kernel traps or corrects every read of the counter, and the vDSO does not read the counter.",
        affects: "all programs that read a clock or the counter",
        references: &[
            "Documentation/devicetree/bindings/timer/arm,arch_timer.yaml",
            "Documentation/arch/arm64/silicon-errata.rst",
        ],
        relevance: Relevance::all(Severity::Low),
        judge: erratum,
    },
    Rule {
        id: "counter-in-suspend",
        title: "Counter stops during suspend",
        about: "whether the ARM generic timer counts during suspend, according to the device tree",
        why: "A counter that stops does not count the time in suspend, so intervals measured with it across a suspend are too short.",
        affects: "programs that measure across a suspend",
        references: &["Documentation/devicetree/bindings/timer/arm,arch_timer.yaml: arm,no-tick-in-suspend"],
        relevance: Relevance::NOTE.timekeeping(Severity::Low),
        judge: in_suspend,
    },
    Rule {
        id: "wall-time",
        title: "Clock is not synchronized",
        about: "whether a time daemon synchronizes the clock (adjtimex)",
        why: "Without a time daemon, the crystal is free-running: CLOCK_REALTIME drifts by seconds a day, and the rate of CLOCK_MONOTONIC is off by tens of ppm.",
        affects: "programs that need the time of day, or rates more accurate than tens of ppm",
        references: &["adjtimex(2)", "timedatectl(1)"],
        relevance: Relevance::all(Severity::High).realtime(Severity::Info),
        judge: wall_time,
    },
    Rule {
        id: "clock-rate",
        title: "Kernel's clocks run at a wrong rate",
        about: "by how much the rate of the kernel's clocks is corrected (adjtimex: tick, frequency)",
        why: "Every interval that a program measures is wrong by that much, unless the counter of the clocksource itself is.",
        affects: "all programs that measure intervals or sleep",
        references: &["adjtimex(2)", "adjtimex(8)", "chrony.conf(5): maxslewrate"],
        relevance: Relevance::all(Severity::High),
        judge: rate,
    },
    Rule {
        id: "time-daemons",
        title: "Several time daemons adjust the clock",
        about: "which time daemons are running",
        why: "Two daemons that adjust the same clock work against each other, and its offset oscillates.",
        affects: "programs that need the time of day",
        references: &["timedatectl(1)", "chronyd(8)"],
        relevance: Relevance::all(Severity::High),
        judge: daemons,
    },
];

/// Clocksources that the vDSO of these kernels reads, for captures that do not state whether it does. Linux: arch/x86/entry/vdso,
/// arch/x86/include/asm/vdso/clocksource.h, drivers/clocksource/arm_arch_timer.c, drivers/clocksource/timer-riscv.c (since
/// 5.8), arch/powerpc/kernel/vdso, arch/s390/kernel/time.c, arch/loongarch/kernel/time.c.
const IN_THE_VDSO: [(&str, (u32, u32)); 9] = [
    ("tsc", (0, 0)),
    ("tsc-early", (0, 0)),
    ("kvm-clock", (0, 0)),
    ("hyperv_clocksource_tsc_page", (4, 12)),
    ("arch_sys_counter", (0, 0)),
    ("riscv_clocksource", (5, 8)),
    ("timebase", (0, 0)),
    ("tod", (0, 0)),
    ("Constant", (5, 19)),
];
/// Clocksources of hypervisors that offer nothing better; the vDSO reads them.
const OF_A_HYPERVISOR: [&str; 2] = ["kvm-clock", "hyperv_clocksource_tsc_page"];

fn current(facts: &MachineFacts) -> Option<&str> {
    facts.clock_sources.listed.iter().find(|source| source.current).map(|source| source.name.as_str())
}

fn offered(facts: &MachineFacts, name: &str) -> bool {
    facts.clock_sources.listed.iter().any(|source| source.name == name)
}

fn no_sysfs() -> Verdict {
    Verdict::unknown("/sys/devices/system/clocksource does not exist")
}

fn clock_source(facts: &MachineFacts, _: &Subject) -> Verdict {
    let Some(current) = current(facts) else {
        return no_sysfs();
    };
    let best = match facts.architecture {
        it if it.is_x86() => "tsc",
        Architecture::Aarch64 | Architecture::Arm => "arch_sys_counter",
        // The kernel lists the clocksources in the order of its rating.
        _ => facts.clock_sources.listed.first().map_or(current, |source| source.name.as_str()),
    };
    // Without a counter, the kernel uses its tick.
    if (current == best && current != "jiffies") || current == "tsc-early" {
        return Verdict::pass(current);
    }
    if OF_A_HYPERVISOR.contains(&current) {
        return of_a_hypervisor(facts, current);
    }
    if offered(facts, best) && current != best {
        return not_chosen(facts, current, best);
    }
    if let Some(missing) = facts.clock_sources.absent.iter().find(|source| source.name == best) {
        return given_up(facts, current, missing);
    }
    if facts.arch_timer.is_some() {
        return Finding::new(
            Severity::High,
            format!(
                "{current} is in use; the kernel does not offer arch_sys_counter although the device tree describes the timer"
            ),
        )
        .steps("Show all available information about the clocksources", ["hpt clocksource".to_owned()])
        .problem();
    }
    Verdict::not_applicable(format!("{current} is in use, and hpt knows of no better clocksource on this machine"))
}

/// The step from which on a clock is coarse.
const COARSE_NS: u64 = 10_000;

fn coarse(facts: &MachineFacts, _: &Subject) -> Verdict {
    let listed = &facts.clock_sources.listed;
    let Some(current) = listed.iter().find(|source| source.current) else {
        return no_sysfs();
    };
    let name = &current.name;
    let Some(step_ns) = current.step_ns else {
        return Verdict::unknown(format!(
            "{name} is in use; neither its driver nor the kernel log, as far as it was read, states its rate; `hpt bench --source monotonic` measures it (column granul.)"
        ));
    };
    let step = |step_ns: u64| Spaced(Duration::from_nanos(step_ns)).to_string();
    if step_ns < COARSE_NS {
        return Verdict::pass(format!("{name} advances in steps of at most {}", step(step_ns)));
    }
    let severity = if step_ns < 1_000_000 { Severity::Low } else { Severity::High };
    let finding = Finding::new(severity, format!("{name} advances in steps of {}", step(step_ns)));
    let mut others = listed.iter().filter(|other| !other.current && !other.name.ends_with("jiffies"));
    let finer = others.find(|other| other.step_ns.is_none_or(|other_ns| other_ns < COARSE_NS));
    match finer {
        Some(finer) => finding.fix(
            format!(
                "Switch the clocksource to {} until reboot or `hpt restore`, if it does not stop in idle states",
                finer.name
            ),
            [format!("sudo hpt clocksource set {}", finer.name)],
        ),
        None => finding
            .steps("Time short intervals with a counter of the processor instead", ["hpt probe --all".to_owned()]),
    }
    .problem()
}

fn of_a_hypervisor(facts: &MachineFacts, current: &str) -> Verdict {
    if !(offered(facts, "tsc") && facts.tsc_runs_at_one_rate == Some(true)) {
        return Verdict::pass(format!(
            "{current} is in use; it is the clock of the hypervisor and the best available clocksource"
        ));
    }
    Finding::new(
        Severity::Info,
        format!(
            "{current} is in use although tsc, which has a constant rate here, is available: each read takes a few nanoseconds longer than with tsc"
        ),
    )
    .fix("Switch the clocksource to tsc until reboot or `hpt restore`", ["sudo hpt clocksource set tsc".to_owned()])
    .problem()
}

/// Returns the verdict for a kernel that offers `best`, but uses another clocksource.
fn not_chosen(facts: &MachineFacts, current: &str, best: &str) -> Verdict {
    let is_constant = if best == "tsc" { facts.tsc_runs_at_one_rate } else { Some(true) };
    match is_constant {
        Some(true) => {}
        Some(false) => {
            return Verdict::not_applicable(format!(
                "{current} is in use; tsc is no better: the processor does not state that its rate is constant in every state (constant_tsc, nonstop_tsc)"
            ));
        }
        None => {
            return Verdict::unknown(format!(
                "{current} is in use, and the kernel offers tsc; whether its rate is constant is in neither CPUID nor /proc/cpuinfo"
            ));
        }
    }
    let finding = Finding::new(Severity::High, format!("{current} is in use, although the kernel offers {best}")).fix(
        format!("Switch the clocksource to {best} until reboot or `hpt restore`"),
        [format!("sudo hpt clocksource set {best}")],
    );
    match facts.parameter(CLOCK_SOURCE.boot_name()) {
        Some(chosen) if chosen == current => {
            finding.fix(format!("Remove clocksource={chosen} from the kernel command line, which selects it"), [])
        }
        None if facts.parameters.is_none() => finding.fix(
            "If clocksource= on the kernel command line selects the current clocksource, remove that parameter",
            [],
        ),
        _ => finding,
    }
    .problem()
}

/// The reason why the kernel stopped using the TSC, as its log states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GivenUp {
    /// The processor stops it in idle states.
    HaltsInIdle,
    /// It differs between CPUs.
    Differs,
    /// Its rate follows the frequency of the processor.
    RateVaries,
    /// Its rate could not be determined.
    RateUnknown,
    /// The user gave it up.
    ByParameter,
    /// The watchdog compared it with the kernel's tick, the only other clocksource.
    ComparedWithTheTick,
    /// The watchdog compared it with another clocksource.
    ComparedWithADevice,
}

impl GivenUp {
    /// Returns the reason in a line of the kernel log. Linux: arch/x86/kernel/tsc.c and tsc_sync.c,
    /// drivers/acpi/processor_idle.c, kernel/time/clocksource.c.
    fn of(line: &str) -> Option<Self> {
        let line = line.to_ascii_lowercase();
        let reasons: [(Self, &[&str]); 6] = [
            (Self::HaltsInIdle, &["halts in idle"]),
            (Self::Differs, &["tsc warp", "check_tsc_sync", "tsc adjust", "multiple sockets", "tscs unsynchronized"]),
            (Self::RateVaries, &["cpufreq changes", "frequency change"]),
            (Self::RateUnknown, &["could not calculate tsc", "unable to calibrate", "fail to calibrate"]),
            (Self::ByParameter, &["boot parameter", "command line"]),
            (Self::ComparedWithTheTick, &["'jiffies'", "'refined-jiffies'", "wd 'tsc-early'"]),
        ];
        let stated = reasons.into_iter().find(|(_, words)| words.iter().any(|word| line.contains(word)));
        let by_watchdog = ["watchdog", "unstable (delta", "skew"].iter().any(|word| line.contains(word));
        stated.map(|(reason, _)| reason).or(by_watchdog.then_some(Self::ComparedWithADevice))
    }

    /// Returns what follows for the user. Linux, arch/x86/kernel/tsc.c: `tsc=reliable` only turns the watchdog off.
    const fn advice(self) -> &'static str {
        match self {
            Self::HaltsInIdle => {
                "Keep this clocksource: the processor stops its TSC in deep idle states. Only a processor that never enters them can use the TSC (processor.max_cstate=1), at the cost of power"
            }
            Self::Differs => {
                "Keep this clocksource: the TSCs of the CPUs differ, and reads on two CPUs would go backward"
            }
            Self::RateVaries => "Keep this clocksource: the rate of the TSC follows the frequency of the processor",
            Self::RateUnknown => {
                "Keep this clocksource: the kernel could not determine the rate of the TSC at boot. Check for a firmware update"
            }
            Self::ByParameter => {
                "Remove tsc=unstable or notsc from the kernel command line, if the TSC is known to be reliable"
            }
            Self::ComparedWithTheTick => {
                "Let the kernel use the timers of ACPI (remove acpi=off, nohpet or acpi_pm=off from the kernel command line): it compared the TSC only with its own tick"
            }
            Self::ComparedWithADevice => "",
        }
    }
}

/// Returns the verdict for a kernel that no longer offers the TSC, which the processor has.
fn given_up(facts: &MachineFacts, current: &str, missing: &AbsentClockSource) -> Verdict {
    let best = &missing.name;
    let why = match (missing.said.first(), &facts.clock_sources.log) {
        (Some(said), _) => format!("; the kernel log reports: {}", said.text),
        (None, Ok(_)) => "; the kernel log gives no reason".to_owned(),
        (None, Err(_)) => "; the kernel log, which may give the reason, was not read".to_owned(),
    };
    let observed = format!("{current} is in use; the kernel does not offer {best} although {}{why}", missing.had);
    let show = |finding: Finding| {
        finding.steps("Show all available information about the clocksources", ["hpt clocksource".to_owned()])
    };
    let logged = missing.said.iter().filter_map(|said| GivenUp::of(&said.text));
    let is_parameter = facts.parameter("tsc") == Some("unstable") || facts.parameter("notsc").is_some();
    let is_without_evidence = missing.said.is_empty() && facts.tsc_runs_at_one_rate != Some(true);
    // The watchdog reports what another line explains.
    match logged.min_by_key(|reason| *reason == GivenUp::ComparedWithADevice) {
        _ if is_parameter => {
            show(Finding::new(Severity::High, observed).fix(GivenUp::ByParameter.advice(), [])).problem()
        }
        Some(GivenUp::ComparedWithADevice) if matches!(facts.parameter("tsc"), Some("reliable" | "nowatchdog")) => {
            let text =
                "Keep this clocksource: the kernel gave the TSC up although its command line tells it not to check it";
            show(Finding::new(Severity::High, observed).fix(text, [])).problem()
        }
        Some(GivenUp::ComparedWithADevice) => {
            let (text, commands) = facts.at_boot("tsc=reliable");
            let caution = format!(
                "Make the kernel trust {best}, but only if it is known to be reliable: otherwise, the time may become wrong without warning. {text}"
            );
            show(Finding::new(Severity::High, observed)).steps(caution, commands).problem()
        }
        Some(reason @ (GivenUp::ByParameter | GivenUp::ComparedWithTheTick)) => {
            show(Finding::new(Severity::High, observed).fix(reason.advice(), [])).problem()
        }
        // Nothing better exists on this machine.
        Some(reason) => show(Finding::new(Severity::Info, observed).fix(reason.advice(), [])).problem(),
        None if is_without_evidence => Verdict::not_applicable(format!(
            "{observed}; the processor does not state that the rate of its TSC is constant in every state"
        )),
        None => show(Finding::new(Severity::High, observed)).problem(),
    }
}

fn by_system_call(facts: &MachineFacts, _: &Subject) -> Verdict {
    let Some(current) = current(facts) else {
        return no_sysfs();
    };
    if !facts.vdso {
        let finding = Finding::new(Severity::Low, "the kernel provides no vDSO: every clock read is a system call");
        return match facts.parameter("vdso") {
            Some("0") => finding.fix("Remove vdso=0 from the kernel command line", []),
            _ => directly(facts, finding),
        }
        .problem();
    }
    let not_read = |why: &str| {
        let observed = format!("the vDSO does not read {current}{why}: every clock read is a system call");
        directly(facts, Finding::new(Severity::Low, observed)).problem()
    };
    let errata = facts.arch_timer.as_ref().is_some_and(|timer| !timer.errata.is_empty());
    let since = IN_THE_VDSO.iter().find(|(name, _)| *name == current).map(|(_, since)| *since);
    // The vDSO of these architectures reads no other clocksource.
    let is_listed_completely = facts.architecture != Architecture::Other;
    match (facts.reads_by_vdso, since) {
        (Some(true), _) => Verdict::pass(format!("the vDSO reads {current}, as measured")),
        (Some(false), _) => not_read(", as measured"),
        (None, Some(_)) if current == "arch_sys_counter" && !facts.trapped.is_empty() => {
            not_read(&format!(" (the kernel log reports: {})", facts.trapped[0]))
        }
        (None, Some(_)) if current == "arch_sys_counter" && errata => not_read(" because of a timer erratum"),
        (None, Some((major, minor))) => match facts.kernel {
            Some(kernel) if kernel < KernelRelease::new(major, minor) => not_read(" in this kernel"),
            None if major > 0 => Verdict::unknown(format!(
                "the vDSO reads {current} since Linux {major}.{minor}; the release of the kernel is not known"
            )),
            _ => Verdict::pass(format!("the vDSO reads {current}")),
        },
        (None, None) if is_listed_completely => not_read(""),
        (None, None) => Verdict::unknown(format!(
            "nothing in the capture states whether the vDSO reads {current}; on the machine itself, hpt measures it"
        )),
    }
}

/// Adds fixes for a kernel whose clock reads need a system call.
fn directly(facts: &MachineFacts, finding: Finding) -> Finding {
    if facts.has_system_timer {
        finding.steps(
            "Read the System Timer directly, as hpt's source bcm-systimer does",
            ["hpt probe bcm-systimer".to_owned()],
        )
    } else if let Some(counter) = facts.soc_counters.first() {
        let text = format!("Read a counter of the SoC directly as root, as hpt's source {counter} does");
        finding.steps(text, [format!("hpt probe {counter}")])
    } else {
        finding.steps("List the other clocksources", ["hpt clocksource".to_owned()])
    }
}

fn erratum(facts: &MachineFacts, _: &Subject) -> Verdict {
    if let Some(said) = facts.trapped.first() {
        return Finding::new(Severity::Low, format!("the kernel log reports: {said}"))
            .steps("Measure the read overhead", ["hpt bench --source arm-counter,monotonic".to_owned()])
            .problem();
    }
    match &facts.arch_timer {
        None => Verdict::not_applicable("no device tree describes an ARM generic timer"),
        Some(timer) if timer.errata.is_empty() => Verdict::pass("the device tree lists no erratum"),
        Some(timer) => Finding::new(Severity::Low, format!("the device tree lists {}", timer.errata.join(", ")))
            .steps("Measure the read overhead", ["hpt bench --source arm-counter,monotonic".to_owned()])
            .problem(),
    }
}

fn in_suspend(facts: &MachineFacts, _: &Subject) -> Verdict {
    match &facts.arch_timer {
        None => Verdict::not_applicable("no device tree describes an ARM generic timer"),
        Some(timer) if !timer.stops_in_suspend => Verdict::pass("the timer counts during suspend"),
        Some(_) => Finding::new(Severity::Low, "the timer stops during suspend (arm,no-tick-in-suspend)")
            .steps(
                "To measure across a suspend, use CLOCK_BOOTTIME, which the kernel corrects with another clock after a suspend",
                ["hpt probe boottime".to_owned()],
            )
            .problem(),
    }
}

fn wall_time(facts: &MachineFacts, _: &Subject) -> Verdict {
    let Some(discipline) = facts.discipline else {
        return Verdict::unknown("adjtimex was not called, or failed");
    };
    let error = discipline.maximum_error;
    if error < NOT_UPDATED {
        let flag = if discipline.synchronized {
            ""
        } else {
            "; the kernel's flag STA_UNSYNC is set, which some daemons leave so (chronyd without rtcsync)"
        };
        let rate = if discipline.far_off().is_some() { "; its rate is far off: see clock-rate" } else { "" };
        return Verdict::pass(format!("synchronized, with a maximum error of {}{flag}{rate}", Spaced(error)));
    }
    let elsewhere = "In a container, or in a virtual machine whose clock the host sets, check the clock of the host";
    let Some(running) = facts.situation.time_daemons.as_deref() else {
        return Finding::new(
            Severity::High,
            "the kernel reports that its clock is not synchronized; whether a time daemon is running is not visible here",
        )
        .fix("Look for a time daemon where all processes are visible, for example as root outside of containers", [])
        .fix(elsewhere, [])
        .problem();
    };
    let others = facts.situation.other_clock_setters.as_slice();
    let observed = match running {
        [] if !others.is_empty() => format!(
            "the kernel reports that its clock is not synchronized; {} may set it (CAP_SYS_TIME), and no known time daemon is running",
            others.join(" and ")
        ),
        [] => "no known time daemon is running, and the kernel reports that its clock is not synchronized".to_owned(),
        running => format!(
            "{} {} running, but the kernel reports that its clock is not synchronized: the daemon may have no server, or may not have finished synchronizing",
            running.join(" and "),
            if running.len() == 1 { "is" } else { "are" }
        ),
    };
    let finding = Finding::new(Severity::High, observed);
    if running.is_empty() {
        let finding = match others {
            [] => finding,
            others => finding.fix(format!("If {} synchronizes the clock, check its status", others.join(" or ")), []),
        };
        let finding = match facts.family() {
            Some(family) => finding.fix("Install the time daemon chrony", [family.install("chrony")]),
            None => finding.fix("Install a time daemon, for example chrony, and let the system start it", []),
        };
        let finding = if facts.has_systemd() {
            finding.fix("Enable the time daemon of systemd", ["sudo timedatectl set-ntp true".to_owned()])
        } else {
            finding
        };
        finding.fix(elsewhere, []).problem()
    } else if facts.has_systemd() {
        finding.steps("Check the status of the time daemon", ["timedatectl status".to_owned()]).problem()
    } else {
        finding
            .fix("Check the status of the time daemon with its own command, for example `chronyc tracking`", [])
            .problem()
    }
}

/// The maximum error of a clock that no daemon has updated for hours. The kernel increases the error by 500 ppm of the
/// time since the last update, up to this limit. Linux, include/linux/timex.h: `NTP_PHASE_LIMIT`; kernel/time/ntp.c,
/// `second_overflow`. systemd uses the same limit: src/basic/time-util.c, `ntp_synced`.
const NOT_UPDATED: Duration = Duration::from_secs(16);

fn rate(facts: &MachineFacts, _: &Subject) -> Verdict {
    let Some(discipline) = facts.discipline else {
        return Verdict::unknown("adjtimex was not called, or failed");
    };
    let Some(observed) = discipline.far_off() else {
        let Discipline { tick_ppm, frequency_ppm, .. } = discipline;
        return Verdict::pass(format!("tick {tick_ppm:+.0} ppm, frequency {frequency_ppm:+.1} ppm"));
    };
    Finding::new(Severity::High, observed)
    .steps(
        "Find out what corrects the rate: a daemon that corrects a large offset at the moment, or one that follows a wrong reference or a counter with a wrong rate",
        ["hpt calibrate".to_owned()],
    )
    .steps(
        "If no daemon needs the correction, reset it",
        ["sudo adjtimex --tick 10000 --frequency 0".to_owned()],
    )
    .problem()
}

fn daemons(facts: &MachineFacts, _: &Subject) -> Verdict {
    /// Daemons that set the wall clock on their own. The list omits ptp4l and phc2sys, which work together to set it.
    const OF_NTP: [&str; 5] = ["chronyd", "ntpd", "ntpd-rs", "openntpd", "systemd-timesyncd"];
    let Some(running) = &facts.situation.time_daemons else {
        return Verdict::unknown("/proc does not show all processes, for example because this is a container");
    };
    let ntp: Vec<&str> = running.iter().map(String::as_str).filter(|name| OF_NTP.contains(name)).collect();
    let others = &facts.situation.other_clock_setters;
    match ntp.as_slice() {
        [one] if !others.is_empty() => Verdict::unknown_and_unlikely(format!(
            "{one} is running, and {} may set the clock as well (CAP_SYS_TIME); whether it does is not known",
            others.join(" and ")
        )),
        [] if running.is_empty() && !others.is_empty() => Verdict::unknown_and_unlikely(format!(
            "no known time daemon is running; {} may set the clock (CAP_SYS_TIME)",
            others.join(" and ")
        )),
        [] | [_] if running.is_empty() => Verdict::not_applicable("no known time daemon is running"),
        [one] if running.iter().any(|name| name == "phc2sys") => Verdict::unknown_and_unlikely(format!(
            "{one} and phc2sys are running; whether phc2sys adjusts the system's clock or that of a network card depends on its options"
        )),
        [] | [_] => Verdict::pass(running.join(", ")),
        several => Finding::new(Severity::High, format!("{} are running at the same time", several.join(" and ")))
            .fix(
                "Stop all time daemons except one",
                several[1..]
                    .iter()
                    .filter(|_| facts.has_systemd())
                    .map(|name| format!("sudo systemctl disable --now {}", service(name, facts.family()))),
            )
            .problem(),
    }
}

/// Returns the name of a daemon's service.
fn service(daemon: &str, family: Option<Family>) -> &str {
    match (daemon, family) {
        ("chronyd", Some(Family::Debian | Family::Ubuntu)) => "chrony",
        ("ntpd", Some(Family::Debian | Family::Ubuntu)) => "ntpsec",
        (other, _) => other,
    }
}
