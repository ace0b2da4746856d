//! Rules about interrupts and kernel threads on dedicated CPUs. They move neither interrupts nor threads.

use hpt_sys::{
    host::{CpuList, Family, Interrupt, KernelThread, Known},
    settings::{IRQ_AFFINITY, ISOLATED, NEW_INTERRUPTS, NOHZ_FULL, TIMER_MIGRATION, WORKERS},
};

use super::{Finding, MachineFacts, NO_CPU, NO_OTHER, Relevance, Rule, Severity, Subject, Verdict, times};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "interrupts",
        title: "Device interrupts arrive on a dedicated CPU",
        about: "whether device interrupts arrive on dedicated CPUs",
        why: "An interrupt pauses any thread, even a real-time thread of the highest priority, for a few microseconds, or longer if a softirq follows.",
        affects: "threads with a dedicated CPU",
        references: &["Documentation/core-api/irq/irq-affinity.rst", "proc_interrupts(5)"],
        relevance: Relevance::NOTE.realtime(Severity::Low),
        judge: interrupts,
    },
    Rule {
        id: "new-interrupts",
        title: "New interrupts may arrive on a dedicated CPU",
        about: "the default affinity of interrupts that are registered later (irqaffinity)",
        why: "When a device is plugged in or a driver is reloaded, its interrupt may be routed to a CPU from which all interrupts were moved away.",
        affects: "threads with a dedicated CPU",
        references: &[
            "Documentation/admin-guide/kernel-parameters.txt: irqaffinity",
            "Documentation/core-api/irq/irq-affinity.rst",
        ],
        relevance: Relevance::NOTE,
        judge: new_interrupts,
    },
    Rule {
        id: "irqbalance",
        title: "irqbalance may move interrupts to a dedicated CPU",
        about: "whether irqbalance moves interrupts to dedicated CPUs",
        why: "irqbalance may move interrupts back to CPUs from which they were moved away. It excludes only isolated CPUs.",
        affects: "threads with a dedicated CPU",
        references: &["irqbalance(1)"],
        relevance: Relevance::NOTE.realtime(Severity::Low),
        judge: irqbalance,
    },
    Rule {
        id: "kernel-threads",
        title: "Kernel threads may run on a dedicated CPU",
        about: "whether kernel threads may run on dedicated CPUs",
        why: "Kernel threads free memory, write data back, and do work for drivers on whichever CPU they wake up on. An ordinary thread must share the CPU with them, and real-time kernel threads preempt it.",
        affects: "threads with a dedicated CPU",
        references: &[
            "Documentation/admin-guide/kernel-per-CPU-kthreads.rst",
            "Documentation/core-api/workqueue.rst",
            "taskset(1)",
        ],
        relevance: Relevance::NOTE.realtime(Severity::Low),
        judge: kernel_threads,
    },
    Rule {
        id: "timer-migration",
        title: "Timers of idle CPUs expire on busy CPUs",
        about: "whether timers of idle CPUs may expire on dedicated CPUs (timer_migration)",
        why: "A CPU that is not idle handles the timers of idle CPUs, so that those can stay idle. Each such timer interrupts the thread that runs there.",
        affects: "threads with a dedicated CPU that is not isolated",
        references: &["Documentation/timers/no_hz.rst", "Linux, kernel/time/timer_migration.c"],
        relevance: Relevance::NOTE.realtime(Severity::Low),
        judge: timer_migration,
    },
];

/// The maximum number of interrupts or threads that a finding names. All others are only counted.
const NAMED: usize = 4;

fn interrupts(facts: &MachineFacts, subject: &Subject) -> Verdict {
    if subject.in_question.is_empty() {
        return Verdict::not_applicable(NO_CPU);
    }
    if subject.are_all(facts) {
        return Verdict::not_applicable(NO_OTHER);
    }
    let Known::Is(all) = &facts.interrupts else {
        return Verdict::without(&facts.interrupts, "/proc/interrupts");
    };
    let goes_there = |interrupt: &Interrupt| match &interrupt.goes_to {
        Known::Is(cpus) => !cpus.and(&subject.in_question).is_empty(),
        _ => count(interrupt, &subject.in_question) > 0,
    };
    // An interrupt that has never arrived belongs to a device that is not in use.
    let mut here: Vec<&Interrupt> = all
        .iter()
        .filter(|interrupt| interrupt.counts.values().any(|&count| count > 0) && goes_there(interrupt))
        .collect();
    if here.is_empty() {
        return Verdict::pass(format!("no interrupt is routed to {}", Subject::in_words(&subject.in_question)));
    }
    here.sort_by_key(|interrupt| std::cmp::Reverse(count(interrupt, &subject.in_question)));
    let certain = here.iter().any(|interrupt| interrupt.goes_to.is().is_some());
    let named: Vec<String> = here
        .iter()
        .take(NAMED)
        .map(|interrupt| {
            format!("{} ({}, {})", interrupt.number, interrupt.name, times(count(interrupt, &subject.in_question)))
        })
        .collect();
    let more = if here.len() > NAMED { format!(" and {} more", here.len() - NAMED) } else { String::new() };
    let (fixed, movable): (Vec<&Interrupt>, Vec<&Interrupt>) = here.iter().partition(|interrupt| interrupt.is_fixed);
    let numbers: Vec<String> = fixed.iter().take(NAMED).map(|interrupt| interrupt.number.to_string()).collect();
    let unmoved = match (movable.len(), fixed.len()) {
        (_, 0) => String::new(),
        (0, _) => "; the kernel lets no user move them".to_owned(),
        (_, many) => format!("; the kernel lets no user move {many} of them ({})", numbers.join(", ")),
    };
    let finding = Finding::new(
        if movable.is_empty() { Severity::Info } else { Severity::Low },
        format!(
            "interrupts routed to {}: {}{more}{unmoved}",
            Subject::in_words(&subject.in_question),
            named.join(", ")
        ),
    );
    let finding = if movable.is_empty() { finding } else { moved(facts, subject, finding, &movable) };
    let finding = if fixed.is_empty() { finding } else { spread(facts, subject, finding) };
    if certain { finding.problem() } else { finding.uncertain().problem() }
}

/// Adds the ways to move interrupts.
fn moved(facts: &MachineFacts, subject: &Subject, finding: Finding, movable: &[&Interrupt]) -> Finding {
    let elsewhere = subject.elsewhere(facts);
    let taken = movable.iter().take(if elsewhere.is_empty() { 0 } else { NAMED });
    let moves = taken.map(|interrupt| IRQ_AFFINITY.command_for(&[interrupt.number], &elsewhere));
    let (text, commands) = facts.at_boot_to(&elsewhere);
    finding
        .fix(
            "Move these interrupts to other CPUs until reboot; the command fails for interrupts that a driver spreads over all CPUs",
            moves,
        )
        .steps(text, commands)
}

/// Adds the way to keep interrupts away that a driver spreads over all CPUs. Linux,
/// Documentation/admin-guide/kernel-parameters.txt: isolcpus.
fn spread(facts: &MachineFacts, subject: &Subject, finding: Finding) -> Finding {
    const FLAG: &str = "managed_irq";
    let listed = facts.listed(ISOLATED.boot_name());
    if listed.is_some_and(|listed| listed.words.iter().any(|word| word == FLAG)) {
        return finding;
    }
    let (text, commands) = facts.at_boot_also(ISOLATED.boot_name(), &subject.in_question);
    finding.steps(
        format!(
            "Keep interrupts that a driver spreads over all CPUs away with the flag {FLAG} before the list. {text}"
        ),
        commands,
    )
}

/// Returns the number of times that `interrupt` has arrived on `cpus`.
fn count(interrupt: &Interrupt, cpus: &CpuList) -> u64 {
    interrupt
        .counts
        .iter()
        .filter(|(cpu, _)| cpus.contains(**cpu))
        .fold(0, |sum, (_, count)| sum.saturating_add(*count))
}

fn new_interrupts(facts: &MachineFacts, subject: &Subject) -> Verdict {
    if subject.in_question.is_empty() {
        return Verdict::not_applicable(NO_CPU);
    }
    if subject.are_all(facts) {
        return Verdict::not_applicable(NO_OTHER);
    }
    let default = facts.value(&NEW_INTERRUPTS).clone().parsed(|mask| CpuList::parse_mask(&mask));
    let Known::Is(default) = default else {
        return Verdict::without(&default, NEW_INTERRUPTS.path);
    };
    let there = default.and(&subject.in_question);
    if there.is_empty() {
        return Verdict::pass("new interrupts are routed to other CPUs");
    }
    let others = subject.elsewhere(facts);
    if others.is_empty() {
        return Verdict::unknown("neither /sys nor /proc lists the other CPUs");
    }
    let common = default.and(&others);
    let others = if common.is_empty() { others } else { common };
    let (text, commands) = facts.at_boot_to(&others);
    Finding::new(Severity::Info, format!("new interrupts may be routed to {}", Subject::in_words(&there)))
        .fix("Route them to other CPUs until reboot", [NEW_INTERRUPTS.command_for(&[""; 0], others.mask())])
        .steps(text, commands)
        .problem()
}

fn irqbalance(facts: &MachineFacts, subject: &Subject) -> Verdict {
    match facts.situation.balances_interrupts {
        None => return Verdict::unknown("/proc does not show all processes, for example because this is a container"),
        Some(false) => return Verdict::not_applicable("irqbalance is not running"),
        Some(true) => {}
    }
    if subject.in_question.is_empty() {
        return Verdict::pass("irqbalance is running, but no CPU needs to be free of interrupts");
    }
    if subject.are_all(facts) {
        return Verdict::not_applicable(NO_OTHER);
    }
    let isolated = facts.cores.isolated.is().cloned().unwrap_or_default();
    let isolated = facts.cores.nohz_full.is().map(|nohz| nohz.or(&isolated)).unwrap_or(isolated);
    let touched = subject.in_question.without(&isolated);
    if touched.is_empty() {
        return Verdict::pass("irqbalance is running, but excludes isolated CPUs");
    }
    // If this list is set, irqbalance ignores which CPUs are isolated: irqbalance, cputree.c, setup_banned_cpus.
    let banned = isolated.or(&touched);
    let file = match facts.family() {
        Some(Family::Fedora | Family::Suse) => "/etc/sysconfig/irqbalance",
        Some(Family::Alpine) => "/etc/conf.d/irqbalance",
        _ => "/etc/default/irqbalance",
    };
    Finding::new(Severity::Low, format!("irqbalance is running, and may move interrupts to {}", Subject::in_words(&touched)))
        .steps(
            format!("Set IRQBALANCE_BANNED_CPULIST={banned} in {file} and restart irqbalance, so that no interrupts are moved to CPU {banned}"),
            facts.by_systemd(["sudo systemctl restart irqbalance".to_owned()]),
        )
        .fix("Disable irqbalance", facts.by_systemd(["sudo systemctl disable --now irqbalance".to_owned()]))
        .problem()
}

fn timer_migration(facts: &MachineFacts, subject: &Subject) -> Verdict {
    if subject.in_question.is_empty() {
        return Verdict::not_applicable(NO_CPU);
    }
    if subject.are_all(facts) {
        return Verdict::not_applicable(NO_OTHER);
    }
    let isolated = facts.cores.isolated.is().cloned().unwrap_or_default();
    let exposed = subject.in_question.without(&isolated);
    match facts.is_on(&TIMER_MIGRATION) {
        Known::Absent => Verdict::not_applicable("this kernel does not migrate timers, or /proc is missing"),
        Known::Is(false) => Verdict::pass("off"),
        Known::Is(true) if exposed.is_empty() => Verdict::pass("on, but all dedicated CPUs are isolated"),
        Known::Is(true) => {
            Finding::new(Severity::Low, format!("timers of idle CPUs may expire on {}", Subject::in_words(&exposed)))
                .fix("Let each CPU handle its own timers, until reboot", [TIMER_MIGRATION.command()])
                .problem()
        }
        fact => Verdict::without(&fact, TIMER_MIGRATION.path),
    }
}

fn kernel_threads(facts: &MachineFacts, subject: &Subject) -> Verdict {
    if subject.in_question.is_empty() {
        return Verdict::not_applicable(NO_CPU);
    }
    if subject.are_all(facts) {
        return Verdict::not_applicable(NO_OTHER);
    }
    let Some(threads) = &facts.situation.kernel_threads else {
        return Verdict::unknown("/proc shows no kernel threads, for example because this is a container");
    };
    // A thread that is bound to one CPU belongs there, and sleeps most of the time.
    let strays: Vec<&KernelThread> = threads
        .iter()
        .filter(|thread| {
            let cpus = thread.may_run_on();
            cpus.len() > 1 && !cpus.and(&subject.in_question).is_empty()
        })
        .collect();
    if strays.is_empty() {
        return Verdict::pass("only kernel threads that are bound to the CPU run there");
    }
    let real_time = strays.iter().filter(|thread| thread.priority > 0);
    let highest = real_time.clone().map(|thread| thread.priority).max();
    let real_time = highest.map_or_else(String::new, |highest| match (real_time.count(), strays.len()) {
        (1, 1) => format!("; it has a real-time policy, with priority {highest}"),
        (1, _) => format!("; one of them has a real-time policy, with priority {highest}"),
        (several, _) => format!("; {several} of them have a real-time policy, with priorities up to {highest}"),
    });
    let elsewhere = subject.elsewhere(facts);
    let (text, commands) = facts.at_boot_also(NOHZ_FULL.boot_name(), &subject.in_question);
    let finding = Finding::new(
        Severity::Low,
        format!("{} may run on {}{real_time}", named(&strays), Subject::in_words(&subject.in_question)),
    );
    let finding = match facts.cores.nohz_full {
        Known::Is(_) => finding.steps(format!("Keep all these threads off dedicated CPUs. {text}"), commands),
        Known::Absent | Known::NotAllowed | Known::Garbled => finding,
    };
    if elsewhere.is_empty() {
        return finding.fix("Move these threads to other CPUs, as far as the kernel allows", []).problem();
    }
    finding
        .fix(
            "Move these threads to other CPUs until reboot, as far as the kernel allows. The commands set the CPU mask of unbound workers (kworker/u), and move kthreadd, which creates new kernel threads, and all other kernel threads one by one",
            [
                WORKERS.command_for(&[""; 0], elsewhere.mask()),
                format!("sudo taskset --pid --cpu-list {elsewhere} 2"),
                format!("pgrep --parent 2 | xargs -I PID sudo taskset --pid --cpu-list {elsewhere} PID"),
            ],
        )
        .problem()
}

/// The name prefix of workers that are not bound to a CPU. Linux, kernel/workqueue.c, format_worker_id.
const UNBOUND: &str = "kworker/u";

/// Describes the threads: their number, and some of their names. Unbound workers are only counted.
fn named(threads: &[&KernelThread]) -> String {
    let workers = threads.iter().filter(|thread| thread.name.starts_with(UNBOUND)).count();
    let mut names: Vec<&str> =
        threads.iter().map(|thread| thread.name.as_str()).filter(|name| !name.starts_with(UNBOUND)).collect();
    // kthreadd, which creates all kernel threads, comes first.
    names.sort_by_key(|name| *name != "kthreadd");
    names.dedup();
    let are_all = names.len() <= NAMED;
    names.truncate(NAMED);
    let mut words: Vec<String> = names.into_iter().map(str::to_owned).collect();
    words.extend((workers > 0).then(|| format!("{workers} named {UNBOUND}*")));
    words.extend((!are_all).then(|| "others".to_owned()));
    let noun = if threads.len() == 1 { "kernel thread" } else { "kernel threads" };
    format!("{} {noun} ({})", threads.len(), words.join(", "))
}
