//! Whether a CPU is isolated: from other threads, from the tick, from the kernel's housekeeping, and from its SMT
//! sibling. Moves no thread.

use super::{Finding, MachineFacts, NO_CPU, NO_OTHER, Rule, Severity, Subject, Verdict};
use crate::host::{CpuList, KernelThread, Told};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "isolated-cpus",
        about: "CPUs that the scheduler moves nothing to (isolcpus)",
        why: "On other CPUs any thread of any program may be just at work: an ordinary thread waits for its turn, a real-time one finds caches that somebody else has filled.",
        bites: "who needs a CPU for one thread",
        references: &[
            "Documentation/admin-guide/kernel-parameters.txt: isolcpus",
            "Documentation/admin-guide/cgroup-v2.rst: cpuset.cpus.partition",
        ],
        judge: isolated,
    },
    Rule {
        id: "parameters-ignored",
        about: "boot parameters for single CPUs that had no effect",
        why: "A kernel that was built without what a parameter asks for takes it without a word.",
        bites: "who believes that a CPU is free",
        references: &[
            "Documentation/admin-guide/kernel-parameters.txt: isolcpus, nohz_full, rcu_nocbs",
            "Documentation/timers/no_hz.rst",
        ],
        judge: ignored,
    },
    Rule {
        id: "tick",
        about: "the kernel's tick on CPUs that are kept free (nohz_full)",
        why: "The tick interrupts whatever runs, 100 to 1000 times a second, for some microseconds.",
        bites: "a thread that has the CPU for itself",
        references: &["Documentation/timers/no_hz.rst", "Documentation/admin-guide/kernel-parameters.txt: nohz_full"],
        judge: tick,
    },
    Rule {
        id: "rcu-callbacks",
        about: "where the kernel frees memory that readers might still use (rcu_nocbs)",
        why: "It is done on the CPU that let go of it, behind an interrupt, for as long as there is something to free.",
        bites: "a thread that has the CPU for itself",
        references: &[
            "Documentation/admin-guide/kernel-parameters.txt: rcu_nocbs",
            "Documentation/admin-guide/kernel-per-CPU-kthreads.rst",
        ],
        judge: rcu,
    },
    Rule {
        id: "smt-sibling",
        about: "CPUs that share a core (SMT)",
        why: "Two CPUs of one core share its units and caches: each runs slower while the other is at work, and by how much changes from moment to moment.",
        bites: "who measures short times, or needs the same time for the same work",
        references: &[
            "Documentation/admin-guide/hw-vuln/core-scheduling.rst",
            "Documentation/ABI/testing/sysfs-devices-system-cpu: smt",
        ],
        judge: sibling,
    },
];

/// The CPU to suggest: the highest, because the kernel's own work tends to run on the lowest.
fn proposal(facts: &MachineFacts, subject: &Subject) -> CpuList {
    let highest = facts.cores.online.is().and_then(|online| online.iter().next_back());
    subject.named.or(highest).map(CpuList::only).unwrap_or_default()
}

fn isolated(facts: &MachineFacts, subject: &Subject) -> Verdict {
    let Told::Is(online) = &facts.cores.online else {
        return Verdict::without(&facts.cores.online, "/sys/devices/system/cpu/online");
    };
    if online.len() < 2 {
        return Finding::new(Severity::ToKnow, "one CPU runs, and everything runs on it: it cannot be kept free")
            .helped(
                "let your program go before all ordinary ones, by a real-time class",
                ["sudo hpt run --fifo 80 -- PROGRAM".to_owned()],
            )
            .helped(
                "with a kernel for real time (preemption) devices are attended to by threads, of priority 50: a program of a higher one goes before them as well",
                [],
            )
            .found();
    }
    let Told::Is(isolated) = &facts.cores.isolated else {
        return Verdict::without(&facts.cores.isolated, "/sys/devices/system/cpu/isolated");
    };
    let cpu = proposal(facts, subject);
    let seen = match subject.named {
        Some(cpu) if isolated.contains(cpu) => return Verdict::fine(format!("CPU {cpu} is")),
        Some(cpu) => format!("CPU {cpu} is not"),
        None if !isolated.is_empty() => return Verdict::fine(Subject::in_words(isolated)),
        None => format!("none of the {} CPUs", online.len()),
    };
    let (text, commands) = facts.at_boot_also("isolcpus", &cpu);
    let wanted = Subject { in_question: cpu, ..subject.clone() };
    let others = wanted.elsewhere(facts);
    Finding::new(Severity::Major, seen)
        .helped(text, commands)
        .helped(
            "or, until the next boot and without the kernel's own threads, keep services and users off it",
            ["system.slice", "user.slice"]
                .map(|slice| format!("sudo systemctl set-property --runtime {slice} AllowedCPUs={others}")),
        )
        .found()
}

fn ignored(facts: &MachineFacts, _: &Subject) -> Verdict {
    if facts.parameters.is_none() {
        return Verdict::untold("/proc/cmdline was not read");
    }
    let online = facts.cores.online.is().cloned().unwrap_or_default();
    let freed = Told::Is(freed_elsewhere(facts));
    let (mut seen, mut untold) = (Vec::new(), None);
    let mut asked = 0;
    let parameters =
        [("isolcpus", &facts.cores.isolated), ("nohz-full", &facts.cores.nohz_full), ("rcu-nocbs", &freed)];
    for (name, in_force) in parameters {
        let Some((value, listed)) = facts.parameter(name).zip(facts.listed(name)) else { continue };
        // Without `domain` the scheduler continues as usual, as requested.
        if name == "isolcpus" && !listed.words.is_empty() && !listed.words.iter().any(|word| word == "domain") {
            continue;
        }
        // Without CPUs it only prepares for later changes.
        if name == "rcu-nocbs" && value.is_empty() {
            continue;
        }
        asked += 1;
        let shown = name.replace('-', "_");
        let effective = in_force.is().cloned().unwrap_or_default();
        match listed.cpus {
            _ if *in_force == Told::Absent => {
                seen.push(format!("{shown}={value} is set, and this kernel knows nothing of it"));
            }
            None => seen.push(format!("{shown}={value} is set, and is not understood")),
            Some(wanted) if name == "rcu-nocbs" && callback_threads(facts).is_none() => {
                if !wanted.and(&online).without(&effective).is_empty() {
                    untold = Some(format!("{shown}={value} is set: {NO_KERNEL_THREADS}"));
                }
            }
            Some(wanted) if !wanted.and(&effective).is_empty() || wanted.is_empty() => {
                let missing = wanted.and(&online).without(&effective);
                if !missing.is_empty() {
                    seen.push(format!("{shown}={value} is set, and {} is left out", Subject::in_words(&missing)));
                }
            }
            Some(_) => seen.push(format!("{shown}={value} is set, and is not in force")),
        }
    }
    match (seen.is_empty(), asked, untold) {
        (true, 0, _) => Verdict::not_here("none is set"),
        (true, _, Some(why)) => Verdict::untold(why),
        (true, _, None) => Verdict::fine("all that are set are in force"),
        (false, ..) => Finding::new(Severity::Minor, seen.join("; "))
            .helped(
                "compare with what is in force; rcu_nocbs has a thread rcuop or rcuos for each of its CPUs",
                [
                    "cat /sys/devices/system/cpu/isolated /sys/devices/system/cpu/nohz_full".to_owned(),
                    "pgrep --list-name rcuo".to_owned(),
                ],
            )
            .helped(
                "take it away, or use a kernel that was built with it (CONFIG_CPU_ISOLATION, CONFIG_NO_HZ_FULL, CONFIG_RCU_NOCB_CPU)",
                [],
            )
            .found(),
    }
}

fn tick(facts: &MachineFacts, subject: &Subject) -> Verdict {
    if subject.in_question.is_empty() {
        return Verdict::not_here(NO_CPU);
    }
    if subject.are_all(facts) {
        return Verdict::not_here(NO_OTHER);
    }
    let with_tick = match &facts.cores.nohz_full {
        Told::Is(without) => subject.in_question.without(without),
        Told::Absent if facts.cores.isolated == Told::Absent => {
            return Verdict::without(&facts.cores.nohz_full, "/sys/devices/system/cpu/nohz_full");
        }
        Told::Absent => {
            return Finding::new(Severity::ToKnow, "this kernel was built without what stops it (CONFIG_NO_HZ_FULL)")
                .helped("where some microseconds at each tick are too much, use a kernel that was built with it", [])
                .found();
        }
        told => return Verdict::without(told, "/sys/devices/system/cpu/nohz_full"),
    };
    if with_tick.is_empty() {
        return Verdict::fine("it stops while one thread runs there");
    }
    let (text, commands) = facts.at_boot_also("nohz-full", &with_tick);
    Finding::new(Severity::Minor, format!("it goes on on {}", Subject::in_words(&with_tick)))
        .helped(text, commands)
        .found()
}

fn rcu(facts: &MachineFacts, subject: &Subject) -> Verdict {
    if subject.in_question.is_empty() {
        return Verdict::not_here(NO_CPU);
    }
    if subject.are_all(facts) {
        return Verdict::not_here(NO_OTHER);
    }
    if facts.parameters.is_none() {
        return Verdict::untold("/proc/cmdline was not read");
    }
    let left = subject.in_question.without(&freed_elsewhere(facts));
    if left.is_empty() {
        return Verdict::fine("on other CPUs");
    }
    let listed = facts.listed("rcu-nocbs").and_then(|listed| listed.cpus).unwrap_or_default();
    let in_vain = left.and(&listed);
    let on = |cpus: &CpuList| format!("on {} itself", Subject::in_words(cpus));
    match callback_threads(facts) {
        Some(_) if !in_vain.is_empty() => {
            let seen = format!(
                "{}: {} in rcu_nocbs, and the kernel has no thread that would free for it elsewhere (rcuop or rcuos)",
                on(&left),
                if in_vain.len() == 1 { format!("CPU {in_vain} is") } else { format!("CPUs {in_vain} are") }
            );
            Finding::new(Severity::Minor, seen)
                .helped("use a kernel that was built with what heeds it (CONFIG_RCU_NOCB_CPU)", [])
                .found()
        }
        None if in_vain == left => {
            Verdict::untold(format!("{} in rcu_nocbs: {NO_KERNEL_THREADS}", Subject::in_words(&left)))
        }
        threads => {
            let (text, commands) = facts.at_boot_also("rcu-nocbs", &left);
            let finding = Finding::new(Severity::Minor, on(&left)).helped(text, commands);
            // The options of that kernel are then not known.
            let is_likely = threads.is_none() && nobody_asked(facts);
            if is_likely { finding.uncertain() } else { finding }.found()
        }
    }
}

const NO_KERNEL_THREADS: &str =
    "whether that is in force cannot be told where threads of the kernel are not to be seen, as in a container";

/// The CPUs that a kernel thread frees memory for; `None` if none of its threads is visible.
fn callback_threads(facts: &MachineFacts) -> Option<CpuList> {
    let threads = facts.situation.kernel_threads.as_ref()?;
    Some(threads.iter().filter_map(KernelThread::frees_for).collect())
}

fn nobody_asked(facts: &MachineFacts) -> bool {
    let is_empty = |cpus: &Told<CpuList>| cpus.is().is_none_or(CpuList::is_empty);
    facts.parameter("rcu-nocbs").is_none() && is_empty(&facts.cores.nohz_full)
}

/// The CPUs known not to free memory themselves. Linux, kernel/rcu/tree_nocb.h, rcu_init_nohz: CPUs in nohz_full are
/// also in rcu_nocbs, and a kernel may be built to offload all CPUs unless one of the two parameters is given. Since
/// 5.17 all CPUs have a thread as soon as one needs it.
fn freed_elsewhere(facts: &MachineFacts) -> CpuList {
    let without_tick = facts.cores.nohz_full.is().cloned().unwrap_or_default();
    let threads = callback_threads(facts).unwrap_or_default();
    let listed = facts.listed("rcu-nocbs").and_then(|listed| listed.cpus).unwrap_or_default();
    let asked = if nobody_asked(facts) { threads.clone() } else { threads.and(&listed) };
    asked.or(&without_tick)
}

fn sibling(facts: &MachineFacts, subject: &Subject) -> Verdict {
    let mut told = false;
    let mut sharing = Vec::new();
    let asked = if subject.in_question.is_empty() { &subject.all } else { &subject.in_question };
    let online = facts.cores.online.is().cloned().unwrap_or_default();
    for cpu in asked.iter() {
        let Some(Told::Is(siblings)) = facts.cores.each.get(&cpu).map(|core| &core.siblings) else { continue };
        told = true;
        let others = siblings.and(&online).without(&CpuList::only(cpu));
        if !others.is_empty() {
            sharing.push((cpu, others));
        }
    }
    if !told {
        return Verdict::untold("there is no /sys/devices/system/cpu/cpu0/topology/thread_siblings_list");
    }
    let Some((cpu, others)) = sharing.first() else {
        return match &facts.hypervisor {
            None => Verdict::fine("none does"),
            Some(hypervisor) => Verdict::not_here(format!(
                "none does as this machine sees it; what its CPUs share on their host is not to be seen from inside ({hypervisor})"
            )),
        };
    };
    let in_question = !subject.in_question.is_empty();
    let more = if sharing.len() > 1 { format!(", and so on: {} CPUs do", sharing.len()) } else { String::new() };
    let seen = format!("CPU {cpu} shares its core with {}{more}", Subject::in_words(others));
    let finding = Finding::new(if in_question { Severity::Minor } else { Severity::ToKnow }, seen);
    if in_question {
        let finding = if others.contains(0) {
            finding.helped("take another CPU: on most machines CPU 0 cannot be taken offline", [])
        } else {
            let offline =
                others.iter().map(|other| format!("echo 0 | sudo tee /sys/devices/system/cpu/cpu{other}/online"));
            finding.helped("take the other one offline, until the next boot", offline)
        };
        if sharing.iter().any(|(cpu, others)| goes_with_the_second_ones(*cpu, others, &subject.in_question)) {
            finding.found()
        } else {
            finding.helped("or all second ones", [off()]).found()
        }
    } else {
        finding.helped("where that is in the way, take the second ones offline, until the next boot", [off()]).found()
    }
}

/// Whether a named CPU is not the first of its core: the set of all second ones then includes it. Linux,
/// Documentation/ABI/testing/sysfs-devices-system-cpu, smt/control.
fn goes_with_the_second_ones(cpu: usize, others: &CpuList, wanted: &CpuList) -> bool {
    others.iter().next().is_some_and(|first| first < cpu && !wanted.contains(first))
}

fn off() -> String {
    "echo off | sudo tee /sys/devices/system/cpu/smt/control".to_owned()
}
