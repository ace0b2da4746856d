//! The kernel's clocksource, the cost of reading it, and the synchronization of the wall clock. Measures nothing.

use super::{Finding, MachineFacts, Rule, Severity, Subject, Verdict};
use crate::host::Architecture;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "clock-source",
        about: "the kernel's clock source, and why not a better one",
        why: "Every reading of a clock, in every program and in the kernel's own timers, is a reading of it: 20 ns of the processor's counter, a microsecond or more of a device.",
        bites: "everybody who reads a clock",
        references: &[
            "Documentation/admin-guide/kernel-parameters.txt: clocksource, tsc",
            "Documentation/timers/timekeeping.rst",
        ],
        judge: clock_source,
    },
    Rule {
        id: "clock-by-system-call",
        about: "whether clock_gettime is answered in the program's own code (vDSO)",
        why: "By a system call a reading costs several times as much, and the kernel may take the opportunity to run another thread.",
        bites: "everybody who reads a clock",
        references: &["vdso(7)", "Documentation/ABI/stable/vdso"],
        judge: by_system_call,
    },
    Rule {
        id: "timer-erratum",
        about: "errata of the ARM generic timer, as the device tree names them",
        why: "The kernel then traps or corrects every reading of the counter, and its vDSO does not read it.",
        bites: "everybody who reads a clock, or the counter",
        references: &[
            "Documentation/devicetree/bindings/timer/arm,arch_timer.yaml",
            "Documentation/arch/arm64/silicon-errata.rst",
        ],
        judge: erratum,
    },
    Rule {
        id: "counter-in-suspend",
        about: "whether the ARM generic timer counts while the machine is suspended, as the device tree says",
        why: "A counter that stops then has lost that time: what is measured across a suspend by it is too short.",
        bites: "who measures across a suspend",
        references: &["Documentation/devicetree/bindings/timer/arm,arch_timer.yaml: arm,no-tick-in-suspend"],
        judge: in_suspend,
    },
    Rule {
        id: "wall-time",
        about: "whether a daemon keeps wall time right (adjtimex)",
        why: "Nobody corrects the crystal otherwise: CLOCK_REALTIME goes wrong by seconds a day, and CLOCK_MONOTONIC runs at a rate that is tens of ppm off.",
        bites: "who needs the time of day, or rates better than tens of ppm",
        references: &["adjtimex(2)", "timedatectl(1)"],
        judge: wall_time,
    },
    Rule {
        id: "time-daemons",
        about: "which daemons keep wall time",
        why: "Two of them pull the same clock each its own way: it goes back and forth between two opinions.",
        bites: "who needs the time of day",
        references: &["timedatectl(1)", "chronyd(8)"],
        judge: daemons,
    },
];

/// Clocksources that the vDSO reads. Linux: arch/x86/entry/vdso, arch/x86/include/asm/vdso/clocksource.h,
/// drivers/clocksource/arm_arch_timer.c.
const IN_THE_VDSO: [&str; 5] = ["tsc", "tsc-early", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];
/// The ones as good as a counter of the processor.
const BEST: [&str; 3] = ["tsc", "tsc-early", "arch_sys_counter"];
/// The ones of a hypervisor that offers nothing better; the vDSO reads them.
const OF_A_HYPERVISOR: [&str; 2] = ["kvm-clock", "hyperv_clocksource_tsc_page"];

fn current(facts: &MachineFacts) -> Option<&str> {
    facts.clock_sources.listed.iter().find(|source| source.current).map(|source| source.name.as_str())
}

fn offered(facts: &MachineFacts, name: &str) -> bool {
    facts.clock_sources.listed.iter().any(|source| source.name == name)
}

fn nothing_told() -> Verdict {
    Verdict::untold("there is no /sys/devices/system/clocksource")
}

fn clock_source(facts: &MachineFacts, _: &Subject) -> Verdict {
    let Some(current) = current(facts) else {
        return nothing_told();
    };
    if BEST.contains(&current) {
        return Verdict::fine(current);
    }
    let best = if facts.architecture == Architecture::X86_64 { "tsc" } else { "arch_sys_counter" };
    if OF_A_HYPERVISOR.contains(&current) {
        let tsc = offered(facts, "tsc") && facts.tsc_runs_at_one_rate == Some(true);
        return if tsc {
            Finding::new(Severity::ToKnow, format!("{current} is in use, and tsc, which runs at one rate here, is not: a reading costs some nanoseconds more"))
                .helped("make tsc the clock source, until the next boot or hpt restore", ["sudo hpt clocksource set tsc".to_owned()])
                .found()
        } else {
            Verdict::fine(format!("{current}, the hypervisor's, and the best that is offered"))
        };
    }
    if offered(facts, best) {
        return Finding::new(Severity::Major, format!("{current} is in use, although the kernel offers {best}"))
            .helped(
                format!("make {best} the clock source, until the next boot or hpt restore"),
                [format!("sudo hpt clocksource set {best}")],
            )
            .helped("if it was chosen by clocksource= on the kernel's command line, take that away", [])
            .found();
    }
    if let Some(missing) = facts.clock_sources.absent.iter().find(|source| source.name == best) {
        let why = match (missing.said.first(), &facts.clock_sources.log) {
            (Some(said), _) => format!("; its log says: {}", said.text),
            (None, Ok(_)) => "; its log does not say why".to_owned(),
            (None, Err(_)) => "; its log, which would say why, was not read".to_owned(),
        };
        let (text, commands) = facts.at_boot("tsc=reliable");
        return Finding::new(
            Severity::Major,
            format!("{current} is in use; the kernel does not offer {best} although {}{why}", missing.had),
        )
        .helped("see all that is known of it", ["hpt clocksource".to_owned()])
        .helped(format!("where {best} is known to be good, {text}. One that is not makes time wrong, unseen"), commands)
        .found();
    }
    if facts.arch_timer.is_some() {
        return Finding::new(
            Severity::Major,
            format!(
                "{current} is in use; the kernel does not offer arch_sys_counter although the device tree has the timer"
            ),
        )
        .helped("see all that is known of it", ["hpt clocksource".to_owned()])
        .found();
    }
    Verdict::not_here(format!("{current} is in use, and nothing is known to be better on this machine"))
}

fn by_system_call(facts: &MachineFacts, _: &Subject) -> Verdict {
    let Some(current) = current(facts) else {
        return nothing_told();
    };
    let errata = facts.arch_timer.as_ref().is_some_and(|timer| !timer.errata.is_empty());
    if !facts.vdso {
        let finding = Finding::new(
            Severity::Minor,
            "the kernel gives programs no vDSO: every reading of a clock is a system call",
        );
        return match facts.parameter("vdso") {
            Some("0") => finding.helped("take vdso=0 away from the kernel's command line", []),
            _ => directly(facts, finding),
        }
        .found();
    }
    if IN_THE_VDSO.contains(&current) && !(current == "arch_sys_counter" && errata) {
        return Verdict::fine(format!("the vDSO reads {current}"));
    }
    let known = facts.clock_sources.listed.iter().any(|source| source.current && source.known.is_some());
    let finding = Finding::new(
        Severity::Minor,
        format!("the vDSO does not read {current}: every reading of a clock is a system call"),
    );
    let finding = if known { finding } else { finding.uncertain() };
    directly(facts, finding).found()
}

/// Fixes if the kernel's clocks cost a system call.
fn directly(facts: &MachineFacts, finding: Finding) -> Finding {
    if facts.has_system_timer {
        finding.helped(
            "read the System Timer directly, as hpt's source bcm-systimer does",
            ["hpt probe bcm-systimer".to_owned()],
        )
    } else {
        finding.helped("look what other clock sources there are", ["hpt clocksource".to_owned()])
    }
}

fn erratum(facts: &MachineFacts, _: &Subject) -> Verdict {
    match &facts.arch_timer {
        None => Verdict::not_here("no device tree describes an ARM generic timer"),
        Some(timer) if timer.errata.is_empty() => Verdict::fine("the device tree names none"),
        Some(timer) => Finding::new(Severity::Minor, format!("the device tree names {}", timer.errata.join(", ")))
            .helped("see what a reading costs", ["hpt bench --source arm-counter,monotonic".to_owned()])
            .found(),
    }
}

fn in_suspend(facts: &MachineFacts, _: &Subject) -> Verdict {
    match &facts.arch_timer {
        None => Verdict::not_here("no device tree describes an ARM generic timer"),
        Some(timer) if !timer.stops_in_suspend => Verdict::fine("it counts on"),
        Some(_) => Finding::new(Severity::ToKnow, "it stops (arm,no-tick-in-suspend)")
            .helped(
                "measure by CLOCK_BOOTTIME across a suspend, which the kernel makes up for by another clock",
                ["hpt probe boottime".to_owned()],
            )
            .found(),
    }
}

fn wall_time(facts: &MachineFacts, _: &Subject) -> Verdict {
    let Some(discipline) = facts.discipline else {
        return Verdict::untold("adjtimex was not asked, or did not answer");
    };
    if discipline.synchronised {
        return Verdict::fine(format!("synchronised, within {:?} at most", discipline.maximum_error));
    }
    let elsewhere = "in a container, or a virtual machine that is set by its host, ask there";
    let Some(running) = facts.situation.time_daemons.as_deref() else {
        return Finding::new(
            Severity::Major,
            "the kernel counts as not synchronised; whether a daemon runs is not to be seen here",
        )
        .helped("look for a daemon where all processes are to be seen, as by root outside of containers", [])
        .helped(elsewhere, [])
        .found();
    };
    let seen = match running {
        [] => "the kernel counts as not synchronised, and no daemon that hpt knows runs here".to_owned(),
        running => format!(
            "the kernel counts as not synchronised, although {} runs: it may have no server, or not be done yet",
            running.join(", ")
        ),
    };
    let finding = Finding::new(Severity::Major, seen);
    if running.is_empty() {
        finding
            .helped("let a daemon keep time: chrony", ["sudo apt-get install chrony".to_owned()])
            .helped("or the one that comes with systemd", ["sudo timedatectl set-ntp true".to_owned()])
            .helped(elsewhere, [])
            .found()
    } else {
        finding.helped("ask it", ["timedatectl status".to_owned()]).found()
    }
}

fn daemons(facts: &MachineFacts, _: &Subject) -> Verdict {
    /// Those that set the wall clock; ptp4l and phc2sys set it together.
    const OF_NTP: [&str; 5] = ["chronyd", "ntpd", "ntpd-rs", "openntpd", "systemd-timesyncd"];
    let Some(running) = &facts.situation.time_daemons else {
        return Verdict::untold("/proc shows no processes, or not all of them, as in a container");
    };
    let ntp: Vec<&str> = running.iter().map(String::as_str).filter(|name| OF_NTP.contains(name)).collect();
    match ntp.as_slice() {
        [] | [_] if running.is_empty() => Verdict::not_here("none that hpt knows runs here"),
        [] | [_] => Verdict::fine(running.join(", ")),
        several => Finding::new(Severity::Major, format!("{} run at the same time", several.join(" and ")))
            .helped(
                "stop all but one",
                several[1..].iter().map(|name| format!("sudo systemctl disable --now {}", unit(name))),
            )
            .found(),
    }
}

/// Debian's service name of a daemon.
fn unit(daemon: &str) -> &str {
    match daemon {
        "chronyd" => "chrony",
        "ntpd" => "ntpsec",
        other => other,
    }
}
