//! Which counters and devices the current user may use. Opens none of them.

use super::facts::CAP_SYS_ADMIN;
use super::{Finding, MachineFacts, Rule, Severity, Subject, Verdict};
use crate::host::{Architecture, DeviceFile};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "perf-paranoid",
        about: "who may count events of a thread (kernel.perf_event_paranoid)",
        why: "From 3 on, in kernels that know it (Debian's default), cycles are counted by root only.",
        bites: "who counts cycles",
        references: &[
            "Documentation/admin-guide/perf-security.rst",
            "Documentation/admin-guide/sysctl/kernel.rst: perf_event_paranoid",
        ],
        judge: paranoid,
    },
    Rule {
        id: "perf-user-access",
        about: "whether programs read their event's counter by an instruction on ARM (kernel.perf_user_access)",
        why: "Otherwise each reading of cycles is a system call, which costs more cycles than most of what is measured.",
        bites: "who counts cycles",
        references: &[
            "Documentation/arch/arm64/perf.rst",
            "Documentation/admin-guide/sysctl/kernel.rst: perf_user_access",
        ],
        judge: user_access,
    },
    Rule {
        id: "rdpmc",
        about: "whether programs read their event's counter by an instruction on x86 (rdpmc)",
        why: "Otherwise each reading of cycles is a system call, which costs more cycles than most of what is measured.",
        bites: "who counts cycles",
        references: &[
            "Documentation/ABI/testing/sysfs-bus-event_source-devices",
            "perf_event_open(2): /sys/bus/event_source/devices/cpu/rdpmc",
        ],
        judge: rdpmc,
    },
    Rule {
        id: "system-timer",
        about: "the right to read a Raspberry Pi's System Timer (/dev/mem, UIO)",
        why: "It is the cheapest clock of a Pi 1 or Zero, and a second opinion on the others.",
        bites: "who wants the source bcm-systimer",
        references: &["mem(4)", "Documentation/driver-api/uio-howto.rst"],
        judge: system_timer,
    },
    Rule {
        id: "gpio",
        about: "the right to GPIO lines (/dev/gpiochip*)",
        why: "Edges on a pin are told by the kernel with its own stamp; that takes the chip's device file.",
        bites: "who measures how long it takes until an edge is known",
        references: &["Documentation/userspace-api/gpio/chardev.rst"],
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
        None => Verdict::not_here("this kernel has no perf events, or /proc is not there"),
        Some(_) if no_counter(facts) => {
            Verdict::not_here("the kernel has no counters of the cores here, or does not show them")
        }
        Some(level) if level < 3 => Verdict::fine(format!("{level}: who asks may count what he does himself")),
        Some(level) if facts.has(CAP_PERFMON) == Some(true) || facts.has(CAP_SYS_ADMIN) == Some(true) => {
            Verdict::fine(format!("{level}, which does not bind who has CAP_PERFMON"))
        }
        Some(level) => Finding::new(Severity::ToKnow, format!("{level}: nobody without CAP_PERFMON counts anything"))
            .helped(
                "let everybody count what he does himself, until the next boot",
                ["sudo sysctl -w kernel.perf_event_paranoid=2".to_owned()],
            )
            .found(),
    }
}

fn user_access(facts: &MachineFacts, _: &Subject) -> Verdict {
    match facts.perf.user_access {
        None => Verdict::not_here("this kernel has no such setting: it is one of 64-bit ARM"),
        Some(_) if no_counter(facts) => {
            Verdict::not_here("the kernel has no counters of the cores here, or does not show them")
        }
        Some(true) => Verdict::fine("they do"),
        Some(false) => Finding::new(Severity::ToKnow, "they do not")
            .helped("let them, until the next boot", ["sudo sysctl -w kernel.perf_user_access=1".to_owned()])
            .found(),
    }
}

fn rdpmc(facts: &MachineFacts, _: &Subject) -> Verdict {
    match facts.perf.rdpmc {
        _ if facts.architecture != Architecture::X86_64 => Verdict::not_here("this is no x86 machine"),
        None => Verdict::not_here("the kernel has no counters of the cores here, or does not show them"),
        Some(0) => Finding::new(Severity::ToKnow, "nobody does (0)")
            .helped(
                "let who has an event do it, until the next boot",
                ["echo 1 | sudo tee /sys/bus/event_source/devices/cpu/rdpmc".to_owned()],
            )
            .found(),
        Some(1) => Verdict::fine("who has an event does (1)"),
        Some(other) => Verdict::fine(format!("everybody does ({other})")),
    }
}

fn device<'a>(facts: &'a MachineFacts, path: &str) -> Option<&'a DeviceFile> {
    facts.situation.devices.iter().find(|device| device.path == path)
}

fn system_timer(facts: &MachineFacts, _: &Subject) -> Verdict {
    if !facts.has_system_timer {
        return Verdict::not_here("the device tree has no System Timer");
    }
    if facts.timer_by_uio {
        return Verdict::fine("there is a window of UIO's over it");
    }
    let missing = match (device(facts, "/dev/mem"), facts.has(CAP_SYS_RAWIO)) {
        (Some(device), Some(true)) if device.readable => return Verdict::fine("/dev/mem may be read"),
        (_, None) => return Verdict::untold("/proc/thread-self/status was not read"),
        (None, _) => "there is no /dev/mem, and no window of UIO's over the timer",
        (Some(device), _) if !device.readable => {
            "/dev/mem may not be read, and there is no window of UIO's over the timer"
        }
        (Some(_), _) => "/dev/mem takes CAP_SYS_RAWIO, and there is no window of UIO's over the timer",
    };
    Finding::new(Severity::ToKnow, missing)
        .helped(
            "see which right is missing, and how a window is made that a group may read (dist/README.md of hpt)",
            ["hpt probe bcm-systimer".to_owned()],
        )
        .found()
}

fn gpio(facts: &MachineFacts, _: &Subject) -> Verdict {
    let chips: Vec<&DeviceFile> =
        facts.situation.devices.iter().filter(|device| device.path.starts_with("/dev/gpiochip")).collect();
    let usable: Vec<&str> =
        chips.iter().filter(|chip| chip.readable && chip.writable).map(|chip| chip.path.as_str()).collect();
    match (chips.is_empty(), usable.is_empty()) {
        (true, _) => Verdict::not_here("the kernel has no GPIO chip here, or does not show it"),
        (false, false) => Verdict::fine(usable.join(", ")),
        (false, true) => {
            let names: Vec<&str> = chips.iter().map(|chip| chip.path.as_str()).collect();
            Finding::new(Severity::ToKnow, format!("{} may not be opened for reading and writing", names.join(", ")))
                .helped(
                    "become a member of the group that owns them, gpio on Raspberry Pi OS, and log in again",
                    ["sudo usermod --append --groups gpio USER".to_owned()],
                )
                .found()
        }
    }
}
