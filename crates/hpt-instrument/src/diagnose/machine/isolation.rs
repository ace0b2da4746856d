//! Rules about the isolation of CPUs from other threads, from the tick, from the kernel's housekeeping, and from SMT
//! siblings.

use hpt_sys::{
    host::{CpuList, KernelThread, Known},
    settings::{ISOLATED, NOHZ_FULL},
};

use super::{Finding, MachineFacts, NO_CPU, NO_OTHER, Relevance, Rule, Severity, Subject, Verdict};

/// The boot parameter that lists the CPUs whose RCU callbacks other CPUs run. No file states which they are.
const RCU_NOCBS: &str = "rcu_nocbs";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "isolated-cpus",
        title: "No isolated CPU",
        about: "which CPUs are isolated from the scheduler (isolcpus)",
        why: "A CPU that is not isolated may be running any thread of any program. An ordinary thread must wait for its turn; a real-time thread preempts the running thread, but finds cold caches.",
        affects: "programs that dedicate a CPU to one thread",
        references: &[
            "Documentation/admin-guide/kernel-parameters.txt: isolcpus",
            "Documentation/admin-guide/cgroup-v2.rst: cpuset.cpus.partition",
        ],
        relevance: Relevance::NOTE.realtime(Severity::High),
        judge: isolated,
    },
    Rule {
        id: "parameters-ignored",
        title: "Boot parameters have no effect",
        about: "whether boot parameters that isolate CPUs are in effect",
        why: "A kernel that was built without support for such a parameter silently ignores it.",
        affects: "programs that rely on an isolated CPU",
        references: &[
            "Documentation/admin-guide/kernel-parameters.txt: isolcpus, nohz_full, rcu_nocbs",
            "Documentation/timers/no_hz.rst",
        ],
        relevance: Relevance::all(Severity::Low).timekeeping(Severity::Info),
        judge: ignored,
    },
    Rule {
        id: "tick",
        title: "Timer tick runs on a dedicated CPU",
        about: "whether the kernel's timer tick stops on dedicated CPUs (nohz_full)",
        why: "The tick interrupts any running thread 100 to 1000 times a second, for a few microseconds.",
        affects: "threads with a dedicated CPU",
        references: &["Documentation/timers/no_hz.rst", "Documentation/admin-guide/kernel-parameters.txt: nohz_full"],
        relevance: Relevance::NOTE.realtime(Severity::Low),
        judge: tick,
    },
    Rule {
        id: "rcu-callbacks",
        title: "RCU callbacks run on a dedicated CPU",
        about: "which CPUs run RCU callbacks (rcu_nocbs)",
        why: "RCU callbacks free memory that no reader uses anymore. Unless they are offloaded, they run on the CPU that queued them, after an interrupt, for as long as there is memory to free.",
        affects: "threads with a dedicated CPU",
        references: &[
            "Documentation/admin-guide/kernel-parameters.txt: rcu_nocbs",
            "Documentation/admin-guide/kernel-per-CPU-kthreads.rst",
        ],
        relevance: Relevance::NOTE.realtime(Severity::Low),
        judge: rcu,
    },
    Rule {
        id: "smt-sibling",
        title: "CPUs share a core (SMT)",
        about: "whether CPUs share a core (SMT)",
        why: "Two CPUs of one core share its execution units and caches: each CPU runs slower while the other is busy, by an amount that varies constantly.",
        affects: "programs that measure short intervals, or need a constant execution time",
        references: &[
            "Documentation/admin-guide/hw-vuln/core-scheduling.rst",
            "Documentation/ABI/testing/sysfs-devices-system-cpu: smt",
        ],
        relevance: Relevance::NOTE.realtime(Severity::Low).benchmarks(Severity::Low),
        judge: sibling,
    },
];

/// Returns the CPU that hpt suggests isolating: the named CPU or, if none is named, the CPU with the highest number.
/// The kernel's own work tends to run on CPUs with low numbers.
fn proposal(facts: &MachineFacts, subject: &Subject) -> CpuList {
    let highest = facts.cores.online.is().and_then(|online| online.iter().next_back());
    subject.named.or(highest).map(CpuList::only).unwrap_or_default()
}

fn are(cpus: &CpuList) -> String {
    format!("{} {}", Subject::in_words(cpus), if cpus.len() == 1 { "is" } else { "are" })
}

fn isolated(facts: &MachineFacts, subject: &Subject) -> Verdict {
    let Known::Is(online) = &facts.cores.online else {
        return Verdict::without(&facts.cores.online, "/sys/devices/system/cpu/online");
    };
    if online.len() < 2 {
        let offline = &facts.cores.offline;
        let others = if offline.is_empty() { String::new() } else { format!(" ({} offline)", are(offline)) };
        let observed = format!(
            "only one CPU is online{others}: it cannot be isolated. Every interrupt, kernel thread and other program delays the threads on it, and a thread that polls delays all of them"
        );
        return Finding::new(Severity::Info, observed)
            .fix(
                "Run your program under a real-time policy, so that it preempts all ordinary threads",
                ["sudo hpt run --fifo 80 -- PROGRAM".to_owned()],
            )
            .fix(
                "With a PREEMPT_RT kernel (see preemption), threads with priority 50 handle device interrupts: use a higher priority to preempt these threads as well",
                [],
            )
            .problem();
    }
    let Known::Is(isolated) = &facts.cores.isolated else {
        return Verdict::without(&facts.cores.isolated, ISOLATED.path);
    };
    let cpu = proposal(facts, subject);
    let observed = match subject.named {
        Some(cpu) if isolated.contains(cpu) => return Verdict::pass(format!("CPU {cpu} is isolated")),
        Some(cpu) => format!("CPU {cpu} is not isolated"),
        None if !isolated.is_empty() => return Verdict::pass(format!("isolated: {}", Subject::in_words(isolated))),
        None if facts.cores.offline.is_empty() => format!("none of the {} CPUs is isolated", online.len()),
        None => {
            let offline = are(&facts.cores.offline);
            format!("none of the {} online CPUs is isolated; {offline} offline", online.len())
        }
    };
    let (text, commands) = if facts.is_built_with("CPU_ISOLATION") == Some(false) {
        ("Use a kernel that was built with CONFIG_CPU_ISOLATION: this one ignores isolcpus".to_owned(), Vec::new())
    } else {
        facts.at_boot_also(ISOLATED.boot_name(), &cpu)
    };
    let wanted = Subject { in_question: cpu, ..subject.clone() };
    let others = wanted.elsewhere(facts);
    Finding::new(Severity::High, observed)
        .steps(text, commands)
        .fix(
            if facts.has_systemd() {
                "Keep services and user sessions off the CPU until reboot; kernel threads may still run there"
            } else {
                "Keep other programs off the CPU with a cpuset; kernel threads may still run there"
            },
            facts.by_systemd(
                ["system.slice", "user.slice"]
                    .map(|slice| format!("sudo systemctl set-property --runtime {slice} AllowedCPUs={others}")),
            ),
        )
        .problem()
}

fn ignored(facts: &MachineFacts, _: &Subject) -> Verdict {
    if facts.parameters.is_none() {
        return Verdict::unknown("/proc/cmdline was not read");
    }
    let online = facts.cores.online.is().cloned().unwrap_or_default();
    let offloaded = Known::Is(offloaded(facts));
    let (mut ignored, mut unknown) = (Vec::new(), None);
    let mut count = 0;
    let parameters = [
        (ISOLATED.boot_name(), "CPU_ISOLATION", &facts.cores.isolated),
        (NOHZ_FULL.boot_name(), "NO_HZ_FULL", &facts.cores.nohz_full),
        (RCU_NOCBS, "RCU_NOCB_CPU", &offloaded),
    ];
    for (name, option, in_effect) in parameters {
        let Some((value, listed)) = facts.parameter(name).zip(facts.listed(name)) else { continue };
        // Without `domain`, the parameter does not isolate CPUs from the scheduler.
        if name == ISOLATED.boot_name() && !listed.words.is_empty() && !listed.words.iter().any(|word| word == "domain")
        {
            continue;
        }
        // Without a list, the parameter offloads no CPU; it only makes it possible to offload CPUs later.
        if name == RCU_NOCBS && value.is_empty() {
            continue;
        }
        count += 1;
        let effective = in_effect.is().cloned().unwrap_or_default();
        match listed.cpus {
            _ if *in_effect == Known::Absent => {
                ignored.push(format!("{name}={value} is set, but this kernel does not support it"));
            }
            _ if facts.is_built_with(option) == Some(false) => {
                ignored.push(format!("{name}={value} is set, but this kernel was built without CONFIG_{option}"));
            }
            None => ignored.push(format!("{name}={value} is set, but is not valid")),
            Some(wanted) if name == RCU_NOCBS && callback_threads(facts).is_none() => {
                if !wanted.and(&online).without(&effective).is_empty() {
                    unknown = Some(format!("{name}={value} is set: {NO_KERNEL_THREADS}"));
                }
            }
            Some(wanted) if !wanted.and(&effective).is_empty() || wanted.is_empty() => {
                let missing = wanted.and(&online).without(&effective);
                if !missing.is_empty() {
                    ignored
                        .push(format!("{name}={value} is set, but not in effect on {}", Subject::in_words(&missing)));
                }
            }
            Some(_) => ignored.push(format!("{name}={value} is set, but not in effect")),
        }
    }
    if !ignored.is_empty() {
        return ignored_parameters(&ignored);
    }
    match (count, unknown) {
        (0, _) => Verdict::not_applicable("no boot parameter that isolates CPUs is set"),
        (_, Some(why)) => Verdict::unknown(why),
        (_, None) => Verdict::pass("all boot parameters that isolate CPUs are in effect"),
    }
}

fn ignored_parameters(ignored: &[String]) -> Verdict {
    Finding::new(Severity::Low, ignored.join("; "))
        .steps(
            "Compare the parameters with the settings in effect; each CPU in rcu_nocbs should have a thread named rcuop or rcuos",
            [
                format!("cat {} {}", ISOLATED.path, NOHZ_FULL.path),
                "pgrep --list-name rcuo".to_owned(),
            ],
        )
        .fix(
            "Remove the parameter, or use a kernel that was built with support for it (CONFIG_CPU_ISOLATION, CONFIG_NO_HZ_FULL, CONFIG_RCU_NOCB_CPU)",
            [],
        )
        .problem()
}

fn tick(facts: &MachineFacts, subject: &Subject) -> Verdict {
    if subject.in_question.is_empty() {
        return Verdict::not_applicable(NO_CPU);
    }
    if subject.are_all(facts) {
        return Verdict::not_applicable(NO_OTHER);
    }
    let with_tick = match &facts.cores.nohz_full {
        Known::Is(without) => subject.in_question.without(without),
        Known::Absent if facts.cores.isolated == Known::Absent => {
            return Verdict::without(&facts.cores.nohz_full, NOHZ_FULL.path);
        }
        Known::Absent => {
            return Finding::new(
                Severity::Info,
                "the tick cannot be stopped: this kernel was built without CONFIG_NO_HZ_FULL",
            )
            .fix("If a few microseconds per tick are too much, use a kernel that was built with CONFIG_NO_HZ_FULL", [])
            .problem();
        }
        fact => return Verdict::without(fact, NOHZ_FULL.path),
    };
    if with_tick.is_empty() {
        return Verdict::pass("the tick stops while only one thread runs on the CPU");
    }
    let (text, commands) = facts.at_boot_also(NOHZ_FULL.boot_name(), &with_tick);
    Finding::new(Severity::Low, format!("the tick does not stop on {}", Subject::in_words(&with_tick)))
        .steps(text, commands)
        .problem()
}

fn rcu(facts: &MachineFacts, subject: &Subject) -> Verdict {
    if subject.in_question.is_empty() {
        return Verdict::not_applicable(NO_CPU);
    }
    if subject.are_all(facts) {
        return Verdict::not_applicable(NO_OTHER);
    }
    if facts.parameters.is_none() {
        return Verdict::unknown("/proc/cmdline was not read");
    }
    let left = subject.in_question.without(&offloaded(facts));
    if left.is_empty() {
        return Verdict::pass("RCU callbacks run on other CPUs");
    }
    let listed = facts.listed(RCU_NOCBS).and_then(|listed| listed.cpus).unwrap_or_default();
    let in_vain = left.and(&listed);
    let on = |cpus: &CpuList| format!("RCU callbacks are not offloaded from {}", Subject::in_words(cpus));
    match callback_threads(facts) {
        _ if facts.is_built_with("RCU_NOCB_CPU") == Some(false) => {
            Finding::new(Severity::Info, format!("{}: this kernel was built without CONFIG_RCU_NOCB_CPU", on(&left)))
                .fix("Use a kernel that was built with CONFIG_RCU_NOCB_CPU", [])
                .problem()
        }
        Some(_) if !in_vain.is_empty() => {
            let observed = format!(
                "{}: {} listed in rcu_nocbs, but the kernel has no thread (rcuop or rcuos) to run the callbacks elsewhere",
                on(&left),
                if in_vain.len() == 1 { format!("CPU {in_vain} is") } else { format!("CPUs {in_vain} are") }
            );
            Finding::new(Severity::Low, observed)
                .fix("Use a kernel that was built with CONFIG_RCU_NOCB_CPU, which supports the parameter", [])
                .problem()
        }
        None if in_vain == left => {
            Verdict::unknown(format!("rcu_nocbs lists {}: {NO_KERNEL_THREADS}", Subject::in_words(&left)))
        }
        threads => {
            let (text, commands) = facts.at_boot_also(RCU_NOCBS, &left);
            let finding = Finding::new(Severity::Low, on(&left)).steps(text, commands);
            // If no kernel threads are visible, it is unknown whether the kernel was built to offload callbacks.
            let is_likely = threads.is_none() && none_requested(facts);
            if is_likely { finding.uncertain() } else { finding }.problem()
        }
    }
}

const NO_KERNEL_THREADS: &str =
    "it is unknown whether this is in effect, because kernel threads are not visible, for example in a container";

/// Returns the CPUs whose callbacks a kernel thread runs; `None` if no kernel threads are visible.
fn callback_threads(facts: &MachineFacts) -> Option<CpuList> {
    let threads = facts.situation.kernel_threads.as_ref()?;
    Some(threads.iter().filter_map(KernelThread::frees_for).collect())
}

fn none_requested(facts: &MachineFacts) -> bool {
    let is_empty = |cpus: &Known<CpuList>| cpus.is().is_none_or(CpuList::is_empty);
    facts.parameter(RCU_NOCBS).is_none() && is_empty(&facts.cores.nohz_full)
}

/// Returns the CPUs that are known not to run their own callbacks. Linux, kernel/rcu/tree_nocb.h, rcu_init_nohz: the
/// kernel adds the CPUs in nohz_full to rcu_nocbs. It may be built to offload all CPUs unless one of the two parameters
/// is given. Since Linux 5.17, every CPU has a callback thread as soon as one CPU needs one.
fn offloaded(facts: &MachineFacts) -> CpuList {
    let without_tick = facts.cores.nohz_full.is().cloned().unwrap_or_default();
    let threads = callback_threads(facts).unwrap_or_default();
    let listed = facts.listed(RCU_NOCBS).and_then(|listed| listed.cpus).unwrap_or_default();
    let requested = if none_requested(facts) { threads.clone() } else { threads.and(&listed) };
    requested.or(&without_tick)
}

fn sibling(facts: &MachineFacts, subject: &Subject) -> Verdict {
    let mut is_known = false;
    let mut sharing = Vec::new();
    let cpus = if subject.in_question.is_empty() { &subject.all } else { &subject.in_question };
    let online = facts.cores.online.is().cloned().unwrap_or_default();
    for cpu in cpus.iter() {
        let Some(Known::Is(siblings)) = facts.cores.each.get(&cpu).map(|core| &core.siblings) else { continue };
        is_known = true;
        let others = siblings.and(&online).without(&CpuList::only(cpu));
        if !others.is_empty() {
            sharing.push((cpu, others));
        }
    }
    if !is_known {
        return Verdict::unknown("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list does not exist");
    }
    let Some((cpu, others)) = sharing.first() else {
        return match &facts.hypervisor {
            None => Verdict::pass("no CPU shares its core with another CPU"),
            Some(hypervisor) => Verdict::not_applicable(format!(
                "no CPU of this virtual machine shares its core with another CPU; whether they share cores on the host is not visible from inside ({hypervisor})"
            )),
        };
    };
    let in_question = !subject.in_question.is_empty();
    let more = if sharing.len() > 1 {
        format!("; in total, {} CPUs share a core with another CPU", sharing.len())
    } else {
        String::new()
    };
    let observed = format!("CPU {cpu} shares its core with {}{more}", Subject::in_words(others));
    let finding = Finding::new(Severity::Low, observed);
    if in_question {
        let finding = if others.contains(0) {
            finding.fix("Choose another CPU: the sibling is CPU 0, which cannot be taken offline on most machines", [])
        } else {
            let offline =
                others.iter().map(|other| format!("echo 0 | sudo tee /sys/devices/system/cpu/cpu{other}/online"));
            finding.fix("Take the sibling offline until reboot", offline)
        };
        if sharing.iter().any(|(cpu, others)| goes_offline_with_smt(*cpu, others, &subject.in_question)) {
            finding.problem()
        } else {
            finding.fix("Take the second CPU of every core offline until reboot", [smt_off()]).problem()
        }
    } else {
        finding
            .fix("If this affects you, take the second CPU of every core offline until reboot", [smt_off()])
            .problem()
    }
}

/// Returns whether turning SMT off would take `cpu` offline. This is the case unless it is the first CPU of its core.
/// Linux, Documentation/ABI/testing/sysfs-devices-system-cpu, smt/control.
fn goes_offline_with_smt(cpu: usize, others: &CpuList, wanted: &CpuList) -> bool {
    others.iter().next().is_some_and(|first| first < cpu && !wanted.contains(first))
}

fn smt_off() -> String {
    "echo off | sudo tee /sys/devices/system/cpu/smt/control".to_owned()
}
