//! Rules about which counters and devices the current user may use. They open neither counters nor devices.

use hpt_sys::{
    host::DeviceFile,
    settings::{PARANOID, RDPMC, USER_ACCESS},
};

use super::facts::CAP_SYS_ADMIN;
use super::{Finding, MachineFacts, Relevance, Rule, Severity, Subject, Verdict};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "perf-paranoid",
        title: "No permission to count cycles",
        about: "whether this user may count performance events (kernel.perf_event_paranoid)",
        why: "At level 3 or higher, only root may count cycles. Not all kernels support this level; Debian uses it by default.",
        affects: "programs that count cycles",
        references: &[
            "Documentation/admin-guide/perf-security.rst",
            "Documentation/admin-guide/sysctl/kernel.rst: perf_event_paranoid",
        ],
        relevance: Relevance::NOTE,
        judge: paranoid,
    },
    Rule {
        id: "perf-user-access",
        title: "Cycle counter reads need a system call (ARM)",
        about: "whether programs may read their event counters without a system call on ARM (kernel.perf_user_access)",
        why: "Without this permission, each read of the cycle counter is a system call, which takes more cycles than most measured code.",
        affects: "programs that count cycles",
        references: &[
            "Documentation/arch/arm64/perf.rst",
            "Documentation/admin-guide/sysctl/kernel.rst: perf_user_access",
        ],
        relevance: Relevance::NOTE,
        judge: user_access,
    },
    Rule {
        id: "rdpmc",
        title: "Cycle counter reads need a system call (x86)",
        about: "whether programs may read their event counters without a system call on x86 (rdpmc)",
        why: "Without this permission, each read of the cycle counter is a system call, which takes more cycles than most measured code.",
        affects: "programs that count cycles",
        references: &[
            "Documentation/ABI/testing/sysfs-bus-event_source-devices",
            "perf_event_open(2): /sys/bus/event_source/devices/cpu/rdpmc",
        ],
        relevance: Relevance::NOTE,
        judge: rdpmc,
    },
    Rule {
        id: "system-timer",
        title: "No access to the System Timer",
        about: "whether this user may read the System Timer of a Raspberry Pi (/dev/mem, UIO)",
        why: "The System Timer is the cheapest clock to read on a Pi 1 or Zero, and an independent reference on the other models.",
        affects: "programs that use the source bcm-systimer",
        references: &["mem(4)", "Documentation/driver-api/uio-howto.rst"],
        relevance: Relevance::NOTE,
        judge: system_timer,
    },
    Rule {
        id: "gpio",
        title: "No access to GPIO lines",
        about: "whether this user may open the GPIO chips (/dev/gpiochip*)",
        why: "Through the device file of the chip, the kernel reports edges on a pin, each with a timestamp.",
        affects: "programs that measure GPIO edge latency",
        references: &["Documentation/userspace-api/gpio/chardev.rst"],
        relevance: Relevance::NOTE,
        judge: gpio,
    },
];

/// Linux, include/uapi/linux/capability.h.
const CAP_SYS_RAWIO: u32 = 17;
const CAP_PERFMON: u32 = 38;

fn no_counter(facts: &MachineFacts) -> bool {
    facts.perf.core_pmus.as_ref().is_none_or(Vec::is_empty)
}

fn paranoid(facts: &MachineFacts, _: &Subject) -> Verdict {
    match facts.perf.paranoid {
        None => Verdict::not_applicable("this kernel does not support perf events, or /proc is missing"),
        Some(_) if no_counter(facts) => {
            Verdict::not_applicable("the kernel exposes no performance counters of the cores")
        }
        Some(level) if level < 3 => {
            Verdict::pass(format!("level {level}: users may count the events of their own threads"))
        }
        Some(level) if facts.has(CAP_PERFMON) == Some(true) || facts.has(CAP_SYS_ADMIN) == Some(true) => {
            Verdict::pass(format!("level {level}; programs with CAP_PERFMON are exempt"))
        }
        Some(level) => {
            Finding::new(Severity::Info, format!("level {level}: only programs with CAP_PERFMON may count events"))
                .fix("Allow users to count the events of their own threads, until reboot", [PARANOID.command()])
                .problem()
        }
    }
}

fn user_access(facts: &MachineFacts, _: &Subject) -> Verdict {
    match facts.perf.user_access {
        None => Verdict::not_applicable("this kernel does not have the setting, which exists only on 64-bit ARM"),
        Some(_) if no_counter(facts) => {
            Verdict::not_applicable("the kernel exposes no performance counters of the cores")
        }
        Some(true) => Verdict::pass("programs may read their event counters without a system call"),
        Some(false) => Finding::new(Severity::Info, "every read of an event counter needs a system call")
            .fix("Allow reads without a system call, until reboot", [USER_ACCESS.command()])
            .problem(),
    }
}

fn rdpmc(facts: &MachineFacts, _: &Subject) -> Verdict {
    if !facts.architecture.is_x86() {
        return Verdict::not_applicable("this is not an x86 machine");
    }
    let each = &facts.perf.rdpmc;
    let Some(&least) = each.values().min() else {
        return if no_counter(facts) {
            Verdict::not_applicable("the kernel exposes no performance counters of the cores")
        } else {
            Verdict::unknown("no core's counters have the file rdpmc")
        };
    };
    let closed: Vec<&str> = each.iter().filter(|(_, rdpmc)| **rdpmc == 0).map(|(pmu, _)| pmu.as_str()).collect();
    match least {
        0 => {
            let of = if closed == ["cpu"] { String::new() } else { format!(" for {}", closed.join(" and ")) };
            Finding::new(Severity::Info, format!("rdpmc is 0{of}: every read of an event counter needs a system call"))
                .fix(
                    "Allow reads without a system call for programs with an open event, until reboot",
                    closed.iter().map(|pmu| RDPMC.command_for(&[pmu], RDPMC.better)),
                )
                .problem()
        }
        1 => Verdict::pass("rdpmc is 1: programs with an open event may read counters without a system call"),
        other => Verdict::pass(format!("rdpmc is {other}: all programs may read counters without a system call")),
    }
}

fn device<'a>(facts: &'a MachineFacts, path: &str) -> Option<&'a DeviceFile> {
    facts.situation.devices.iter().find(|device| device.path == path)
}

fn system_timer(facts: &MachineFacts, _: &Subject) -> Verdict {
    if !facts.has_system_timer {
        return Verdict::not_applicable("the device tree has no System Timer");
    }
    if facts.timer_by_uio {
        return Verdict::pass("a UIO device provides access to the timer");
    }
    let missing = match (device(facts, "/dev/mem"), facts.has(CAP_SYS_RAWIO)) {
        (Some(device), Some(true)) if device.readable => return Verdict::pass("/dev/mem is readable"),
        (_, None) => return Verdict::unknown("/proc/thread-self/status was not read"),
        (None, _) => "/dev/mem does not exist, and no UIO device provides access to the timer",
        (Some(device), _) if !device.readable => {
            "/dev/mem is not readable, and no UIO device provides access to the timer"
        }
        (Some(_), _) => "/dev/mem requires CAP_SYS_RAWIO, and no UIO device provides access to the timer",
    };
    Finding::new(Severity::Info, missing)
        .steps(
            "Show which permission is missing; hpt's dist/README.md describes how to set up a UIO device that a group may read",
            ["hpt probe bcm-systimer".to_owned()],
        )
        .problem()
}

fn gpio(facts: &MachineFacts, _: &Subject) -> Verdict {
    let chips: Vec<&DeviceFile> =
        facts.situation.devices.iter().filter(|device| device.path.starts_with("/dev/gpiochip")).collect();
    let usable: Vec<&str> =
        chips.iter().filter(|chip| chip.readable && chip.writable).map(|chip| chip.path.as_str()).collect();
    match (chips.is_empty(), usable.is_empty()) {
        (true, _) => Verdict::not_applicable("the kernel exposes no GPIO chip"),
        (false, false) => Verdict::pass(usable.join(", ")),
        (false, true) => {
            let names: Vec<&str> = chips.iter().map(|chip| chip.path.as_str()).collect();
            Finding::new(Severity::Info, format!("no permission to read and write {}", names.join(", ")))
                .fix(
                    "Join the group that owns the device files (gpio on Raspberry Pi OS), and log in again",
                    ["sudo usermod --append --groups gpio USER".to_owned()],
                )
                .problem()
        }
    }
}
