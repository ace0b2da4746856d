//! Rules about the kernel's background work on the memory of programs, and about its NMI watchdog.

use hpt_sys::{
    host::Known,
    settings::{HUGE_PAGES, NMI_WATCHDOG, NUMA_BALANCING, SAME_PAGES},
};

use super::{Finding, MachineFacts, Relevance, Rule, Severity, Subject, Verdict};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "swap",
        title: "Swap is on",
        about: "whether pages may be swapped out",
        why: "A page that was swapped out must be loaded when it is accessed. Loading takes milliseconds from a card or disk, and several hundred microseconds from compressed memory.",
        affects: "programs that do not lock their memory",
        references: &["mlockall(2)", "swapon(8)", "Documentation/admin-guide/sysctl/vm.rst: swappiness"],
        relevance: Relevance::NOTE.realtime(Severity::Low),
        judge: swap,
    },
    Rule {
        id: "huge-pages",
        title: "Transparent huge pages are always used",
        about: "whether the kernel always uses transparent huge pages",
        why: "A page fault allocates and clears a whole huge page, which takes longer. khugepaged merges small pages into huge pages in the background, and a program that accesses these pages meanwhile has to wait.",
        affects: "all programs while they allocate memory",
        references: &["Documentation/admin-guide/mm/transhuge.rst"],
        relevance: Relevance::NOTE.realtime(Severity::Low).benchmarks(Severity::Low),
        judge: huge_pages,
    },
    Rule {
        id: "same-pages",
        title: "Memory merging (KSM) is on",
        about: "whether the kernel merges pages with the same content (KSM)",
        why: "A merged page is copied when a program writes to it.",
        affects: "programs that request merging, as most hypervisors do",
        references: &["Documentation/admin-guide/mm/ksm.rst"],
        relevance: Relevance::NOTE.realtime(Severity::Low).benchmarks(Severity::Low),
        judge: same_pages,
    },
    Rule {
        id: "moved-pages",
        title: "NUMA balancing is on",
        about: "whether the kernel moves pages between memory nodes (NUMA balancing)",
        why: "The kernel unmaps pages from time to time to find out which threads use them: the next access causes a page fault, and may move the page.",
        affects: "all programs on a machine with several memory nodes",
        references: &["Documentation/admin-guide/sysctl/kernel.rst: numa_balancing"],
        relevance: Relevance::NOTE.realtime(Severity::Low).benchmarks(Severity::Low),
        judge: moved_pages,
    },
    Rule {
        id: "nmi-watchdog",
        title: "NMI watchdog is on",
        about: "whether the NMI watchdog is on",
        why: "The watchdog occupies a performance counter of each core, and its interrupt cannot be masked.",
        affects: "threads with a dedicated CPU, and programs that count cycles",
        references: &[
            "Documentation/admin-guide/lockup-watchdogs.rst",
            "Documentation/admin-guide/sysctl/kernel.rst: nmi_watchdog",
        ],
        relevance: Relevance::NOTE.realtime(Severity::Low).benchmarks(Severity::Low),
        judge: watchdog,
    },
];

fn swap(facts: &MachineFacts, _: &Subject) -> Verdict {
    match &facts.swaps {
        Known::Is(0) => Verdict::pass("there is no swap"),
        Known::Is(places) => Finding::new(
            Severity::Low,
            if *places == 1 { "there is 1 swap area".to_owned() } else { format!("there are {places} swap areas") },
        )
        .fix("Lock the memory of your program with mlockall, as hpt does with --mlockall", [])
        .fix("Turn swap off until reboot, if there is enough memory", ["sudo swapoff --all".to_owned()])
        .problem(),
        Known::Absent => Verdict::not_applicable("this kernel does not support swap, or /proc is missing"),
        fact => Verdict::without(fact, "/proc/swaps"),
    }
}

fn huge_pages(facts: &MachineFacts, _: &Subject) -> Verdict {
    match facts.value(&HUGE_PAGES) {
        Known::Is(way) if way == "always" => Finding::new(Severity::Low, "huge pages are used for all memory (always)")
            .fix("Use huge pages only for programs that request them, until reboot", [HUGE_PAGES.command()])
            .problem(),
        Known::Is(way) => Verdict::pass(way.clone()),
        Known::Absent => {
            Verdict::not_applicable("this kernel does not support transparent huge pages, or /sys is missing")
        }
        fact => Verdict::without(fact, HUGE_PAGES.path),
    }
}

fn same_pages(facts: &MachineFacts, _: &Subject) -> Verdict {
    match facts.number(&SAME_PAGES) {
        Known::Is(1) => Finding::new(Severity::Low, "KSM is on")
            .fix("Turn KSM off; pages that are merged stay merged", [SAME_PAGES.command()])
            .fix(
                "Turn KSM off, and separate the merged pages, which takes memory",
                [SAME_PAGES.command_for(&[""; 0], 2)],
            )
            .problem(),
        Known::Is(_) => Verdict::pass("off"),
        Known::Absent => Verdict::not_applicable("this kernel does not support KSM, or /sys is missing"),
        fact => Verdict::without(&fact, SAME_PAGES.path),
    }
}

fn moved_pages(facts: &MachineFacts, _: &Subject) -> Verdict {
    let nodes = facts.nodes.is().map_or(1, hpt_sys::host::CpuList::len);
    match facts.is_on(&NUMA_BALANCING) {
        Known::Absent => Verdict::not_applicable("this kernel does not support NUMA balancing, or /proc is missing"),
        Known::Is(_) if facts.nodes.is().is_none() => {
            Verdict::not_applicable("no information on memory nodes is available")
        }
        Known::Is(_) if nodes < 2 => Verdict::not_applicable("there is only one memory node"),
        Known::Is(true) => Finding::new(Severity::Low, format!("NUMA balancing is on, with {nodes} memory nodes"))
            .fix("Turn NUMA balancing off until reboot", [NUMA_BALANCING.command()])
            .problem(),
        Known::Is(false) => Verdict::pass("off"),
        fact => Verdict::without(&fact, NUMA_BALANCING.path),
    }
}

fn watchdog(facts: &MachineFacts, _: &Subject) -> Verdict {
    match facts.is_on(&NMI_WATCHDOG) {
        Known::Is(true) => Finding::new(Severity::Low, "the NMI watchdog is on")
            .fix(
                "Turn the watchdog off until reboot, or permanently with a line in /etc/sysctl.d",
                [NMI_WATCHDOG.command()],
            )
            .problem(),
        Known::Is(false) => Verdict::pass("off"),
        Known::Absent => Verdict::not_applicable("this kernel has no NMI watchdog, or /proc is missing"),
        fact => Verdict::without(&fact, NMI_WATCHDOG.path),
    }
}
