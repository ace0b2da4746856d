//! Rules about the kernel's clocksource, the cost of reading it, and the synchronization of the wall clock. They do not
//! measure anything.

use super::{Finding, MachineFacts, Relevance, Rule, Severity, Subject, Verdict};
use crate::{host::Architecture, units::Spaced};

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
        about: "whether the device tree lists errata of the ARM generic timer",
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
        relevance: Relevance::all(Severity::High),
        judge: wall_time,
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

/// Clocksources that the vDSO reads. Linux: arch/x86/entry/vdso, arch/x86/include/asm/vdso/clocksource.h,
/// drivers/clocksource/arm_arch_timer.c.
const IN_THE_VDSO: [&str; 5] = ["tsc", "tsc-early", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];
/// The best clocksources, which read a counter of the processor.
const BEST: [&str; 4] = ["tsc", "tsc-early", "arch_sys_counter", "riscv_clocksource"];
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
    if BEST.contains(&current) {
        return Verdict::pass(current);
    }
    let best = match facts.architecture {
        it if it.is_x86() => "tsc",
        Architecture::Riscv64 => "riscv_clocksource",
        _ => "arch_sys_counter",
    };
    if OF_A_HYPERVISOR.contains(&current) {
        let tsc = offered(facts, "tsc") && facts.tsc_runs_at_one_rate == Some(true);
        return if tsc {
            Finding::new(
                Severity::Info,
                format!(
                    "{current} is in use although tsc, which has a constant rate here, is available: each read takes a few nanoseconds longer than with tsc"
                ),
            )
            .fix(
                "Switch the clocksource to tsc until reboot or `hpt restore`",
                ["sudo hpt clocksource set tsc".to_owned()],
            )
            .problem()
        } else {
            Verdict::pass(format!(
                "{current} is in use; it is the clock of the hypervisor and the best available clocksource"
            ))
        };
    }
    if offered(facts, best) {
        return Finding::new(Severity::High, format!("{current} is in use, although the kernel offers {best}"))
            .fix(
                format!("Switch the clocksource to {best} until reboot or `hpt restore`"),
                [format!("sudo hpt clocksource set {best}")],
            )
            .fix(
                "If clocksource= on the kernel command line selects the current clocksource, remove that parameter",
                [],
            )
            .problem();
    }
    if let Some(missing) = facts.clock_sources.absent.iter().find(|source| source.name == best) {
        let why = match (missing.said.first(), &facts.clock_sources.log) {
            (Some(said), _) => format!("; the kernel log reports: {}", said.text),
            (None, Ok(_)) => "; the kernel log gives no reason".to_owned(),
            (None, Err(_)) => "; the kernel log, which may give the reason, was not read".to_owned(),
        };
        let (text, commands) = facts.at_boot("tsc=reliable");
        return Finding::new(
            Severity::High,
            format!("{current} is in use; the kernel does not offer {best} although {}{why}", missing.had),
        )
        .steps("Show all available information about the clocksources", ["hpt clocksource".to_owned()])
        .steps(
            format!(
                "Make the kernel trust {best}, but only if it is known to be reliable: otherwise, the time may become wrong without warning. {text}"
            ),
            commands,
        )
        .problem();
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

fn by_system_call(facts: &MachineFacts, _: &Subject) -> Verdict {
    let Some(current) = current(facts) else {
        return no_sysfs();
    };
    let errata = facts.arch_timer.as_ref().is_some_and(|timer| !timer.errata.is_empty());
    if !facts.vdso {
        let finding = Finding::new(Severity::Low, "the kernel provides no vDSO: every clock read is a system call");
        return match facts.parameter("vdso") {
            Some("0") => finding.fix("Remove vdso=0 from the kernel command line", []),
            _ => directly(facts, finding),
        }
        .problem();
    }
    if IN_THE_VDSO.contains(&current) && !(current == "arch_sys_counter" && errata) {
        return Verdict::pass(format!("the vDSO reads {current}"));
    }
    let known = facts.clock_sources.listed.iter().any(|source| source.current && source.known.is_some());
    let finding =
        Finding::new(Severity::Low, format!("the vDSO does not read {current}: every clock read is a system call"));
    let finding = if known { finding } else { finding.uncertain() };
    directly(facts, finding).problem()
}

/// Adds fixes for a kernel whose clock reads need a system call.
fn directly(facts: &MachineFacts, finding: Finding) -> Finding {
    if facts.has_system_timer {
        finding.steps(
            "Read the System Timer directly, as hpt's source bcm-systimer does",
            ["hpt probe bcm-systimer".to_owned()],
        )
    } else {
        finding.steps("List the other clocksources", ["hpt clocksource".to_owned()])
    }
}

fn erratum(facts: &MachineFacts, _: &Subject) -> Verdict {
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
    if discipline.synchronized {
        return Verdict::pass(format!("synchronized, with a maximum error of {}", Spaced(discipline.maximum_error)));
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
    let observed = match running {
        [] => "no known time daemon is running, and the kernel reports that its clock is not synchronized".to_owned(),
        running => format!(
            "{} {} running, but the kernel reports that its clock is not synchronized: the daemon may have no server, or may not have finished synchronizing",
            running.join(" and "),
            if running.len() == 1 { "is" } else { "are" }
        ),
    };
    let finding = Finding::new(Severity::High, observed);
    if running.is_empty() {
        finding
            .fix("Install the time daemon chrony", ["sudo apt-get install chrony".to_owned()])
            .fix("Enable the time daemon of systemd", ["sudo timedatectl set-ntp true".to_owned()])
            .fix(elsewhere, [])
            .problem()
    } else {
        finding.steps("Check the status of the time daemon", ["timedatectl status".to_owned()]).problem()
    }
}

fn daemons(facts: &MachineFacts, _: &Subject) -> Verdict {
    /// Daemons that set the wall clock on their own. The list omits ptp4l and phc2sys, which work together to set it.
    const OF_NTP: [&str; 5] = ["chronyd", "ntpd", "ntpd-rs", "openntpd", "systemd-timesyncd"];
    let Some(running) = &facts.situation.time_daemons else {
        return Verdict::unknown("/proc does not show all processes, for example because this is a container");
    };
    let ntp: Vec<&str> = running.iter().map(String::as_str).filter(|name| OF_NTP.contains(name)).collect();
    match ntp.as_slice() {
        [] | [_] if running.is_empty() => Verdict::not_applicable("no known time daemon is running"),
        [] | [_] => Verdict::pass(running.join(", ")),
        several => Finding::new(Severity::High, format!("{} are running at the same time", several.join(" and ")))
            .fix(
                "Stop all time daemons except one",
                several[1..].iter().map(|name| format!("sudo systemctl disable --now {}", unit(name))),
            )
            .problem(),
    }
}

/// Returns the name of a daemon's service on Debian.
fn unit(daemon: &str) -> &str {
    match daemon {
        "chronyd" => "chrony",
        "ntpd" => "ntpsec",
        other => other,
    }
}
