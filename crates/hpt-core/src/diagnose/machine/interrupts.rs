//! What else runs on an isolated CPU: interrupts, and threads of the kernel. Moves none of them.

use super::{Finding, MachineFacts, NO_CPU, NO_OTHER, Rule, Severity, Subject, Verdict};
use crate::host::{CpuList, Interrupt, KernelThread, Told};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "interrupts",
        about: "interrupts of devices on CPUs that are kept free",
        why: "An interrupt stops whatever runs, also a real-time thread of the highest priority, for some microseconds; with its softirq for longer.",
        bites: "a thread that has the CPU for itself",
        references: &["Documentation/core-api/irq/irq-affinity.rst", "proc_interrupts(5)"],
        judge: interrupts,
    },
    Rule {
        id: "new-interrupts",
        about: "where interrupts go that come into being later (irqaffinity)",
        why: "A device that is plugged in, or a driver that is loaded again, may put its interrupt on the CPU that was cleared.",
        bites: "a thread that has the CPU for itself",
        references: &[
            "Documentation/admin-guide/kernel-parameters.txt: irqaffinity",
            "Documentation/core-api/irq/irq-affinity.rst",
        ],
        judge: new_interrupts,
    },
    Rule {
        id: "irqbalance",
        about: "irqbalance, which moves interrupts between CPUs",
        why: "It puts them back where they were moved away from. It leaves isolated CPUs alone, and no others.",
        bites: "a thread that has the CPU for itself",
        references: &["irqbalance(1)"],
        judge: irqbalance,
    },
    Rule {
        id: "kernel-threads",
        about: "threads of the kernel that may run on CPUs that are kept free",
        why: "They free memory, write back, and work for drivers, wherever they were woken; an ordinary thread shares the CPU with them, and those of a real-time class come before it.",
        bites: "a thread that has the CPU for itself",
        references: &[
            "Documentation/admin-guide/kernel-per-CPU-kthreads.rst",
            "Documentation/core-api/workqueue.rst",
            "taskset(1)",
        ],
        judge: kernel_threads,
    },
];

/// Beyond this number they are counted but not named.
const NAMED: usize = 4;

fn interrupts(facts: &MachineFacts, subject: &Subject) -> Verdict {
    if subject.in_question.is_empty() {
        return Verdict::not_here(NO_CPU);
    }
    if subject.are_all(facts) {
        return Verdict::not_here(NO_OTHER);
    }
    let Told::Is(all) = &facts.interrupts else {
        return Verdict::without(&facts.interrupts, "/proc/interrupts");
    };
    let goes_there = |interrupt: &Interrupt| match &interrupt.goes_to {
        Told::Is(cpus) => !cpus.and(&subject.in_question).is_empty(),
        _ => count(interrupt, &subject.in_question) > 0,
    };
    // An interrupt that never arrived belongs to a device that is not used.
    let mut here: Vec<&Interrupt> = all
        .iter()
        .filter(|interrupt| interrupt.counts.values().any(|&count| count > 0) && goes_there(interrupt))
        .collect();
    if here.is_empty() {
        return Verdict::fine(format!("none goes to {}", Subject::in_words(&subject.in_question)));
    }
    here.sort_by_key(|interrupt| std::cmp::Reverse(count(interrupt, &subject.in_question)));
    let certain = here.iter().any(|interrupt| interrupt.goes_to.is().is_some());
    let named: Vec<String> = here
        .iter()
        .take(NAMED)
        .map(|interrupt| {
            format!("{} ({}, {} times)", interrupt.number, interrupt.name, count(interrupt, &subject.in_question))
        })
        .collect();
    let more = if here.len() > NAMED { format!(" and {} more", here.len() - NAMED) } else { String::new() };
    let elsewhere = subject.elsewhere(facts);
    let moves: Vec<String> = here
        .iter()
        .take(if elsewhere.is_empty() { 0 } else { NAMED })
        .map(|interrupt| format!("echo {elsewhere} | sudo tee /proc/irq/{}/smp_affinity_list", interrupt.number))
        .collect();
    let (text, commands) = facts.at_boot_to(&elsewhere);
    let finding = Finding::new(Severity::Minor, format!("{}{more} go to {}", named.join(", "), Subject::in_words(&subject.in_question)))
        .helped("move them, until the next boot. One that its driver spreads over all CPUs cannot be moved: the write is refused", moves)
        .helped(format!("or {text}"), commands);
    if certain { finding.found() } else { finding.uncertain().found() }
}

/// How often it arrived on these CPUs.
fn count(interrupt: &Interrupt, cpus: &CpuList) -> u64 {
    interrupt
        .counts
        .iter()
        .filter(|(cpu, _)| cpus.contains(**cpu))
        .fold(0, |sum, (_, count)| sum.saturating_add(*count))
}

fn new_interrupts(facts: &MachineFacts, subject: &Subject) -> Verdict {
    if subject.in_question.is_empty() {
        return Verdict::not_here(NO_CPU);
    }
    if subject.are_all(facts) {
        return Verdict::not_here(NO_OTHER);
    }
    let Told::Is(default) = &facts.default_affinity else {
        return Verdict::without(&facts.default_affinity, "/proc/irq/default_smp_affinity");
    };
    let there = default.and(&subject.in_question);
    if there.is_empty() {
        return Verdict::fine("to other CPUs");
    }
    let others = subject.elsewhere(facts);
    if others.is_empty() {
        return Verdict::untold("neither /sys nor /proc tells which other CPUs there are");
    }
    let common = default.and(&others);
    let others = if common.is_empty() { others } else { common };
    let (text, commands) = facts.at_boot_to(&others);
    Finding::new(Severity::ToKnow, format!("they may go to {}", Subject::in_words(&there)))
        .helped(
            "send them elsewhere, until the next boot",
            [format!("echo {} | sudo tee /proc/irq/default_smp_affinity", others.mask())],
        )
        .helped(format!("or {text}"), commands)
        .found()
}

fn irqbalance(facts: &MachineFacts, subject: &Subject) -> Verdict {
    match facts.situation.balances_interrupts {
        None => return Verdict::untold("/proc shows no processes, or not all of them, as in a container"),
        Some(false) => return Verdict::not_here("it does not run here"),
        Some(true) => {}
    }
    if subject.in_question.is_empty() {
        return Verdict::fine("it runs, and no CPU is to be kept free of interrupts");
    }
    if subject.are_all(facts) {
        return Verdict::not_here(NO_OTHER);
    }
    let isolated = facts.cores.isolated.is().cloned().unwrap_or_default();
    let isolated = facts.cores.nohz_full.is().map(|nohz| nohz.or(&isolated)).unwrap_or(isolated);
    let touched = subject.in_question.without(&isolated);
    if touched.is_empty() {
        return Verdict::fine("it runs, and leaves isolated CPUs alone");
    }
    // With a list of its own, it ignores which CPUs are isolated: irqbalance, cputree.c, setup_banned_cpus.
    let banned = isolated.or(&touched);
    Finding::new(Severity::Minor, format!("it runs, and {} is not isolated", Subject::in_words(&touched)))
        .helped(
            format!("tell it to leave {banned} alone: IRQBALANCE_BANNED_CPULIST={banned} in /etc/default/irqbalance"),
            ["sudo systemctl restart irqbalance".to_owned()],
        )
        .helped("or do without it", ["sudo systemctl disable --now irqbalance".to_owned()])
        .found()
}

fn kernel_threads(facts: &MachineFacts, subject: &Subject) -> Verdict {
    if subject.in_question.is_empty() {
        return Verdict::not_here(NO_CPU);
    }
    if subject.are_all(facts) {
        return Verdict::not_here(NO_OTHER);
    }
    let Some(threads) = &facts.situation.kernel_threads else {
        return Verdict::untold("/proc shows no threads of the kernel, as in a container");
    };
    // A thread bound to its CPU belongs there, and mostly sleeps.
    let strays: Vec<&KernelThread> = threads
        .iter()
        .filter(|thread| {
            let cpus = thread.may_run_on();
            cpus.len() > 1 && !cpus.and(&subject.in_question).is_empty()
        })
        .collect();
    if strays.is_empty() {
        return Verdict::fine("only those that are bound to it");
    }
    let first = strays.iter().filter(|thread| thread.priority > 0);
    let highest = first.clone().map(|thread| thread.priority).max();
    let real_time = highest.map_or_else(String::new, |highest| {
        format!(", {} of them by a real-time class, up to priority {highest}", first.count())
    });
    let elsewhere = subject.elsewhere(facts);
    let (text, commands) = facts.at_boot_also("nohz-full", &subject.in_question);
    let finding = Finding::new(
        Severity::Minor,
        format!("{} may run on {}{real_time}", named(&strays), Subject::in_words(&subject.in_question)),
    );
    let finding = match facts.cores.nohz_full {
        Told::Is(_) => finding.helped(format!("keep them all away: {text}"), commands),
        Told::Absent | Told::NotAllowed | Told::Garbled => finding,
    };
    if elsewhere.is_empty() {
        return finding.helped("move them to other CPUs, as far as they let themselves be moved", []).found();
    }
    finding
        .helped(
            "move those that work for whoever asks (kworker/u) by their mask, and the others, with the one that starts them (kthreadd), one by one, as far as they let themselves be moved, until the next boot",
            [
                format!("echo {} | sudo tee /sys/devices/virtual/workqueue/cpumask", elsewhere.mask()),
                format!("sudo taskset --pid --cpu-list {elsewhere} 2"),
                format!("pgrep --parent 2 | xargs -I PID sudo taskset --pid --cpu-list {elsewhere} PID"),
            ],
        )
        .found()
}

/// Workers bound to no CPU. Linux, kernel/workqueue.c, format_worker_id.
const UNBOUND: &str = "kworker/u";

/// Their number, and some of their names; of the workers only the number.
fn named(threads: &[&KernelThread]) -> String {
    let workers = threads.iter().filter(|thread| thread.name.starts_with(UNBOUND)).count();
    let mut names: Vec<&str> =
        threads.iter().map(|thread| thread.name.as_str()).filter(|name| !name.starts_with(UNBOUND)).collect();
    // The thread that creates them comes first.
    names.sort_by_key(|name| *name != "kthreadd");
    names.dedup();
    let are_all = names.len() <= NAMED;
    names.truncate(NAMED);
    let mut words: Vec<String> = names.into_iter().map(str::to_owned).collect();
    words.extend((workers > 0).then(|| format!("{workers} of {UNBOUND}*")));
    words.extend((!are_all).then(|| "others".to_owned()));
    format!("{} ({})", threads.len(), words.join(", "))
}
