//! What the kernel does with a program's memory in the background. Changes nothing.

use super::{Finding, MachineFacts, Rule, Severity, Subject, Verdict};
use crate::host::Told;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "swap",
        about: "whether pages are swapped out",
        why: "A page that was swapped out is fetched when it is touched: milliseconds from a card or disk, some hundred microseconds from compressed memory.",
        bites: "programs that do not lock their memory",
        references: &["mlockall(2)", "swapon(8)", "Documentation/admin-guide/sysctl/vm.rst: swappiness"],
        judge: swap,
    },
    Rule {
        id: "huge-pages",
        about: "transparent huge pages",
        why: "The kernel makes huge pages of a program's small ones while it runs: page faults take longer, and khugepaged stops it while pages are moved.",
        bites: "everybody, while memory is asked for",
        references: &["Documentation/admin-guide/mm/transhuge.rst"],
        judge: huge_pages,
    },
    Rule {
        id: "same-pages",
        about: "merging of pages of the same content (KSM)",
        why: "A page that was merged is copied when it is written to.",
        bites: "programs that asked for it, as most hypervisors do",
        references: &["Documentation/admin-guide/mm/ksm.rst"],
        judge: same_pages,
    },
    Rule {
        id: "moved-pages",
        about: "moving of pages between memory nodes (NUMA balancing)",
        why: "The kernel takes pages away now and then to see who uses them: the next touch is a page fault, and may move the page.",
        bites: "everybody on a machine of several nodes",
        references: &["Documentation/admin-guide/sysctl/kernel.rst: numa_balancing"],
        judge: moved_pages,
    },
    Rule {
        id: "nmi-watchdog",
        about: "the watchdog that interrupts by a performance counter",
        why: "It takes a counter of each core, and comes as an interrupt that nothing can hold off.",
        bites: "a thread that has the CPU for itself; who counts cycles",
        references: &[
            "Documentation/admin-guide/lockup-watchdogs.rst",
            "Documentation/admin-guide/sysctl/kernel.rst: nmi_watchdog",
        ],
        judge: watchdog,
    },
];

fn swap(facts: &MachineFacts, _: &Subject) -> Verdict {
    match &facts.swaps {
        Told::Is(0) => Verdict::fine("there is no swap"),
        Told::Is(places) => Finding::new(
            Severity::Minor,
            format!("there is swap in {places} place{}", if *places == 1 { "" } else { "s" }),
        )
        .helped(
            "lock the memory of the program in question; hpt does with --mlockall",
            ["sudo hpt latency timer --mlockall".to_owned()],
        )
        .helped("or turn swap off, until the next boot, where memory is enough", ["sudo swapoff --all".to_owned()])
        .found(),
        Told::Absent => Verdict::not_here("this kernel has no swap, or /proc is not there"),
        told => Verdict::without(told, "/proc/swaps"),
    }
}

fn huge_pages(facts: &MachineFacts, _: &Subject) -> Verdict {
    match &facts.huge_pages {
        Told::Is(way) if way == "always" => Finding::new(Severity::Minor, "made everywhere (always)")
            .helped(
                "make them only where programs ask for them, until the next boot",
                ["echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled".to_owned()],
            )
            .found(),
        Told::Is(way) => Verdict::fine(way.clone()),
        Told::Absent => Verdict::not_here("this kernel makes none, or /sys is not there"),
        told => Verdict::without(told, "/sys/kernel/mm/transparent_hugepage/enabled"),
    }
}

fn same_pages(facts: &MachineFacts, _: &Subject) -> Verdict {
    match &facts.merges_pages {
        Told::Is(true) => Finding::new(Severity::Minor, "on")
            .helped("turn it off, and undo what was merged", ["echo 2 | sudo tee /sys/kernel/mm/ksm/run".to_owned()])
            .found(),
        Told::Is(false) => Verdict::fine("off"),
        Told::Absent => Verdict::not_here("this kernel merges none, or /sys is not there"),
        told => Verdict::without(told, "/sys/kernel/mm/ksm/run"),
    }
}

fn moved_pages(facts: &MachineFacts, _: &Subject) -> Verdict {
    let nodes = facts.nodes.is().map_or(1, crate::host::CpuList::len);
    match &facts.moves_pages {
        Told::Absent => Verdict::not_here("this kernel moves none, or /proc is not there"),
        Told::Is(_) if facts.nodes.is().is_none() => Verdict::not_here("nothing tells of several nodes"),
        Told::Is(_) if nodes < 2 => Verdict::not_here("there is one node only"),
        Told::Is(true) => Finding::new(Severity::Minor, format!("on, between {nodes} nodes"))
            .helped("turn it off, until the next boot", ["sudo sysctl -w kernel.numa_balancing=0".to_owned()])
            .found(),
        Told::Is(false) => Verdict::fine("off"),
        told => Verdict::without(told, "/proc/sys/kernel/numa_balancing"),
    }
}

fn watchdog(facts: &MachineFacts, _: &Subject) -> Verdict {
    match &facts.nmi_watchdog {
        Told::Is(true) => Finding::new(Severity::Minor, "on")
            .helped(
                "turn it off; a line in /etc/sysctl.d keeps it over reboots",
                ["sudo sysctl -w kernel.nmi_watchdog=0".to_owned()],
            )
            .found(),
        Told::Is(false) => Verdict::fine("off"),
        Told::Absent => Verdict::not_here("this kernel has none, or /proc is not there"),
        told => Verdict::without(told, "/proc/sys/kernel/nmi_watchdog"),
    }
}
