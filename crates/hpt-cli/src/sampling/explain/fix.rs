//! The fix of each cause: what delays the measurement less, and the rule of `hpt doctor` that examines the cause.

use std::collections::BTreeMap;

use hpt_core::Host;
use hpt_document::thread::Thread;
use hpt_instrument::{
    diagnose::{Fix, Goal, MachineFacts, Verdict, examine},
    trace::{CauseKind, CauseTotal},
};
use hpt_realtime::Behavior;
use hpt_sys::host::CpuList;

use crate::output::cause_words::load_of;

/// The real-time priority that a fix suggests for a measurement that has none.
const PRIORITY: u8 = 80;
/// The highest real-time priority.
const HIGHEST: u8 = 99;

/// The threads that were measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeasuredThread<'a> {
    /// The CPU of each thread. `None` stands for a thread that is not pinned.
    pub(crate) cpus: &'a [Option<usize>],
    /// The settings that were in effect.
    pub(crate) thread: &'a Thread,
    pub(crate) behavior: Behavior,
}

#[derive(Debug)]
pub(super) struct Fixes {
    /// The fixes of the rules of `hpt doctor` that find a problem.
    rules: BTreeMap<&'static str, String>,
    /// How the kernel can be preempted, and all fixes for that, if the rule finds a problem.
    preemption: Option<String>,
    urgency: Urgency,
    behavior: Behavior,
    /// Whether the measurement locked its memory.
    is_locked: bool,
    /// The CPUs on which nothing is measured.
    other_cpus: CpuList,
    /// A CPU to which a measurement can be limited, so that there are other CPUs.
    limit_to: Option<usize>,
}

/// The precedence of the measured threads over other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Urgency {
    /// No real-time policy.
    Ordinary,
    /// SCHED_FIFO or SCHED_RR.
    Priority(u8),
    /// SCHED_DEADLINE, or a policy that is not known.
    Other,
}

/// The name of an interrupt that cannot be disabled.
const NMI: &str = "NMI";

/// The longest interrupt of the timer that may be a tick of the kernel, in nanoseconds.
const LONGEST_TICK_NS: u64 = 200_000;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CauseFix {
    pub(super) rule: Option<&'static str>,
    pub(super) text: Option<String>,
}

impl Urgency {
    fn of(thread: &Thread) -> Self {
        let priority = thread.priority.and_then(|priority| u8::try_from(priority).ok());
        match (thread.policy.as_deref(), priority) {
            (Some("other" | "batch" | "idle"), _) => Self::Ordinary,
            (Some("fifo" | "rr"), Some(priority)) => Self::Priority(priority),
            _ => Self::Other,
        }
    }
}

impl Fixes {
    /// Examines the machine for the measured threads.
    pub(super) fn of(host: &Host, measured: MeasuredThread<'_>) -> Self {
        let cpu = if let [cpu] = measured.cpus { *cpu } else { None };
        let examined = examine(&MachineFacts::new(host), cpu, Goal::Realtime);
        let problems = examined.into_iter().filter_map(|examined| match examined.verdict {
            Verdict::Problem(finding) => Some((examined.rule.id, finding)),
            _ => None,
        });
        let problems: Vec<_> = problems.collect();
        let rules = problems.iter().filter_map(|(rule, finding)| Some((*rule, in_words(finding.fixes.first()?))));
        let preemption = problems.iter().find(|(rule, _)| *rule == "preemption").map(|(_, finding)| {
            let fixes = alternatives(finding.fixes.iter().map(in_words)).unwrap_or_default();
            format!("the kernel is {}. {fixes}", finding.observed)
        });
        let online: Vec<usize> = host.online_cpus().iter().flat_map(CpuList::iter).collect();
        // A thread that is not pinned may run on every CPU.
        let is_other = |cpu: &usize| measured.cpus.iter().all(|measured| measured.is_some_and(|one| one != *cpu));
        let other_cpus: CpuList = online.iter().copied().filter(is_other).collect();
        let is_everywhere = other_cpus.is_empty() && online.len() > 1;
        Self {
            rules: rules.collect(),
            preemption,
            urgency: Urgency::of(measured.thread),
            behavior: measured.behavior,
            is_locked: measured.thread.locked_bytes.is_some_and(|bytes| bytes > 0),
            limit_to: online.first().copied().filter(|_| is_everywhere),
            other_cpus,
        }
    }

    pub(super) fn for_cause(&self, cause: &CauseTotal) -> CauseFix {
        use CauseKind::{
            CpuQuota, HardInterrupt, InterruptsOff, InterruptsOffOrHost, NotPreemptible, PageFault, Paused, Thread,
        };
        if matches!(cause.kind, Thread | InterruptsOff | InterruptsOffOrHost | NotPreemptible) {
            // The rules do not know which threads belong to hpt.
            if cause.name.as_deref().and_then(load_of).is_some() {
                let text = "none: this is the load that --load requests; --load-cpus selects its CPUs";
                return CauseFix { rule: None, text: Some(text.to_owned()) };
            }
            if let Some(text) = self.for_own_thread(cause) {
                return CauseFix { rule: None, text: Some(text) };
            }
        }
        match cause.kind {
            Thread if cause.is_own => CauseFix::default(),
            Thread => self.for_thread(cause),
            Paused => {
                let rules = ["realtime-budget", "throttling", "fair-server"];
                let text = "disable real-time throttling and the fair server during the run: --no-throttling";
                let rule = rules.into_iter().find(|rule| self.rules.contains_key(rule));
                CauseFix { rule, text: Some(text.to_owned()) }
            }
            CpuQuota => {
                let text = self.rules.get("cpu-quota").cloned().or_else(|| general(cause));
                CauseFix { rule: Some("cpu-quota"), text }
            }
            // No tick takes that long: timers of programs or of the kernel expire in this interrupt.
            HardInterrupt if is_longer_than_a_tick(cause) => CauseFix {
                rule: None,
                text: Some(
                    "find the timers that expire on this CPU: the event hrtimer_expire_entry states the function of each"
                        .to_owned(),
                ),
            },
            PageFault if self.is_locked => CauseFix {
                rule: None,
                text: Some(
                    "the memory is locked already: find what changed the mappings meanwhile, for example a write to /proc/PID/clear_refs, or what held their lock, with the event mmap_lock:mmap_lock_start_locking"
                        .to_owned(),
                ),
            },
            NotPreemptible => {
                let text = self.preemption.clone().or_else(|| general(cause));
                CauseFix { rule: Some("preemption"), text }
            }
            _ => {
                let rule = rule_of(cause);
                let text = rule.and_then(|rule| self.rules.get(rule).cloned()).or_else(|| general(cause));
                CauseFix { rule, text }
            }
        }
    }

    /// Returns the fix of a cause that is a thread of hpt itself, if there is one. Its threads avoid the measured CPUs if
    /// there are others.
    fn for_own_thread(&self, cause: &CauseTotal) -> Option<String> {
        if !cause.is_own {
            return None;
        }
        let precedence = self.precedence_over(cause);
        let room = self.limit_to.map(|cpu| {
            format!(
                "leave a CPU without a measurement, for example with --cpu {cpu}: hpt's other threads then run there"
            )
        });
        alternatives(precedence.into_iter().chain(room))
    }

    /// Returns the fix of a cause that is a thread of another process, or of the kernel. A measurement without a real-time
    /// policy has to wait for every thread, so that policy is the first fix.
    fn for_thread(&self, cause: &CauseTotal) -> CauseFix {
        let name = cause.name.as_deref().unwrap_or("it");
        let rule = self.rule_of_thread(cause);
        let of_rule = self.rules.get(rule);
        let (precedence, keep_away) = (self.precedence_over(cause), of_rule.map(|_| keep_away(rule).to_owned()));
        let text = if cause.is_kernel == Some(true) {
            // The commands of the rule are long.
            let of_rule = if precedence.is_some() { keep_away } else { of_rule.cloned() };
            alternatives(precedence.into_iter().chain(of_rule))
        } else {
            let to = &self.other_cpus;
            // A thread whose kind is not known has ended.
            let pid = cause.pid.filter(|_| !to.is_empty() && cause.is_kernel.is_some());
            let movement = pid.map(|pid| match cause.policy {
                // sched_setaffinity(2) refuses it with EBUSY.
                Some("deadline") => format!(
                    "give {name}, whose policy SCHED_DEADLINE precedes every priority, a CPU of its own with a cpuset"
                ),
                _ => format!("move {name} to another CPU: sudo taskset -pc {to} {pid}"),
            });
            let all = match self.urgency {
                Urgency::Ordinary => [precedence, movement, keep_away],
                Urgency::Priority(_) | Urgency::Other => [movement, precedence, keep_away],
            };
            alternatives(all.into_iter().flatten())
        };
        CauseFix { rule: Some(rule), text }
    }

    /// Returns how the measurement takes precedence over a thread, if its policy is the reason why it does not.
    fn precedence_over(&self, cause: &CauseTotal) -> Option<String> {
        if cause.kind != CauseKind::Thread || cause.policy == Some("deadline") {
            return None;
        }
        let throttling = match self.behavior {
            Behavior::Spins => " --no-throttling",
            Behavior::Blocks => "",
        };
        let name = cause.name.as_deref().unwrap_or("it");
        match (self.urgency, cause.priority) {
            (Urgency::Ordinary, None) => Some(format!(
                "measure under a real-time policy, which takes precedence over {name}: --fifo {PRIORITY}{throttling}"
            )),
            (Urgency::Ordinary, Some(priority)) if priority < HIGHEST => Some(format!(
                "measure with a real-time priority above {priority}, that of {name}: --fifo {}{throttling}",
                priority.saturating_add(1)
            )),
            (Urgency::Priority(own), Some(priority)) if own <= priority && priority < HIGHEST => {
                Some(format!("use a priority above {priority}: --fifo {}", priority.saturating_add(1)))
            }
            _ => None,
        }
    }

    /// Returns the rule of `hpt doctor` that examines threads like this one.
    fn rule_of_thread(&self, cause: &CauseTotal) -> &'static str {
        let name = cause.name.as_deref().unwrap_or_default();
        let of_name = ["khugepaged", "ksmd", "kcompactd", "kswapd"].iter().position(|start| name.starts_with(start));
        let of_name = of_name.map(|index| ["huge-pages", "same-pages", "huge-pages", "swap"][index]);
        match cause.is_kernel {
            // The thread runs where its interrupt arrives.
            Some(true) if name.starts_with("irq/") => "interrupts",
            Some(true) => of_name.filter(|rule| self.rules.contains_key(rule)).unwrap_or("kernel-threads"),
            _ => "isolated-cpus",
        }
    }
}

fn in_words(fix: &Fix) -> String {
    let commands = if fix.commands.is_empty() { String::new() } else { format!(": {}", fix.commands.join("; ")) };
    format!("{}{commands}", fix.text)
}

/// Joins alternatives to one sentence.
fn alternatives(texts: impl IntoIterator<Item = String>) -> Option<String> {
    let texts: Vec<_> = texts.into_iter().collect();
    let rest = texts.get(1..).unwrap_or_default().iter().map(|text| format!("; or {}", uncapitalized(text)));
    texts.first().map(|first| first.clone() + &rest.collect::<String>())
}

/// Returns a sentence as it continues another one. A name or an abbreviation keeps its first letter.
fn uncapitalized(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if first.is_uppercase() && second.is_lowercase() => {
            first.to_lowercase().chain(text.chars().skip(1)).collect()
        }
        _ => text.to_owned(),
    }
}

/// Returns how a rule about threads keeps them away, in a few words.
fn keep_away(rule: &str) -> &'static str {
    match rule {
        "interrupts" => "move the interrupt to another CPU",
        "kernel-threads" => "keep kernel threads off the CPU",
        _ => "isolate the CPU",
    }
}

/// Returns the rule of `hpt doctor` that examines a cause that is not a thread.
fn rule_of(cause: &CauseTotal) -> Option<&'static str> {
    let name = cause.name.as_deref().unwrap_or_default();
    Some(match cause.kind {
        CauseKind::HardInterrupt if is_tick(name) && calls_tick(cause) => "tick",
        CauseKind::HardInterrupt if cause.irq.is_some() && !is_tick(name) => "interrupts",
        // The kernel itself sends it, for a reason that its name or its function states.
        CauseKind::HardInterrupt => return None,
        CauseKind::SoftInterrupt => match name {
            "RCU" => "rcu-callbacks",
            "TIMER" | "HRTIMER" | "SCHED" => "tick",
            // A device or a program can have raised it.
            _ => return None,
        },
        CauseKind::IdleExit => "idle-states",
        CauseKind::Host | CauseKind::InterruptsOffOrHost => "stolen-time",
        CauseKind::InterruptsOff => "preemption",
        _ => return None,
    })
}

/// Returns whether an interrupt handler with this name serves the timer of the CPU.
fn is_tick(name: &str) -> bool {
    ["local_timer", "arch_timer", "timer"].contains(&name)
}

/// Returns whether an interrupt of the timer, whose functions are not known, took longer than a tick.
fn is_longer_than_a_tick(cause: &CauseTotal) -> bool {
    rule_of(cause) == Some("tick") && cause.function.is_none() && cause.worst_ns > LONGEST_TICK_NS
}

/// Returns whether the handler of the timer may have run the tick of the kernel's scheduler.
fn calls_tick(cause: &CauseTotal) -> bool {
    cause.function.as_ref().is_none_or(|function| function.starts_with("tick_"))
}

/// Returns the fix of a cause for which no rule finds a problem.
fn general(cause: &CauseTotal) -> Option<String> {
    let name = cause.name.as_deref().unwrap_or("it");
    Some(match cause.kind {
        CauseKind::HardInterrupt if cause.irq.is_some() && !is_tick(name) => {
            let irq = cause.irq.unwrap_or_default();
            format!("move interrupt {irq} to another CPU: echo CPUS | sudo tee /proc/irq/{irq}/smp_affinity_list")
        }
        CauseKind::HardInterrupt if is_tick(name) => {
            // It wakes threads that sleep, among them the measured one.
            let function = cause.function.as_deref().filter(|&function| function != "hrtimer_wakeup")?;
            format!("find the program or driver whose timers call {function}")
        }
        CauseKind::HardInterrupt if name == NMI => {
            "find what sends non-maskable interrupts to this CPU: perf, or the watchdog (sudo sysctl kernel.nmi_watchdog=0)".to_owned()
        }
        CauseKind::HardInterrupt => format!(
            "find what sends the interrupt {name} to this CPU: the function of its handler, or the events of the groups ipi and csd on the other CPUs, name it"
        ),
        CauseKind::TimerSlack => {
            "lower the timer slack of the thread, which something has raised: prctl(PR_SET_TIMERSLACK, 1), or 1 in /proc/PID/timerslack_ns".to_owned()
        }
        CauseKind::SoftInterrupt => {
            "find what raises this softirq with the event irq:softirq_raise, and move the interrupt of that device, or that program, to another CPU".to_owned()
        }
        CauseKind::Stopped => "find the program that stops hpt with SIGSTOP or SIGTSTP".to_owned(),
        CauseKind::Traced => "measure without a debugger or strace".to_owned(),
        CauseKind::PageFault => "lock the memory during the run: --mlockall".to_owned(),
        CauseKind::Blocked => match cause.pid {
            Some(pid) => format!("find what the measured thread waited for: {name} (pid {pid}) woke it"),
            None => "find what the measured thread waited for, for example a disk, a lock, memory or the cgroup freezer"
                .to_owned(),
        },
        CauseKind::CpuQuota => format!("raise the CPU quota of the control group {name}"),
        CauseKind::Budget => "give the measured thread a longer runtime: -P d:RUNTIME/PERIOD".to_owned(),
        CauseKind::NotPreemptible => format!(
            "find the code that disables preemption while {name} runs, for example with the kernel's preemptoff tracer"
        ),
        CauseKind::IdleExit => "disable deep idle states during the run: --dma-latency 0".to_owned(),
        CauseKind::Host => "give the virtual machine CPUs of its own on the host".to_owned(),
        CauseKind::InterruptsOff => {
            format!(
                "find the code that disables interrupts while {name} runs, for example with the kernel's irqsoff tracer"
            )
        }
        CauseKind::InterruptsOffOrHost => format!(
            "search with the kernel's irqsoff tracer for code that disables interrupts while {name} runs; if it finds none, give the virtual machine CPUs of its own on the host"
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use hpt_instrument::trace::{CauseKind, CauseTotal};
    use hpt_realtime::Behavior;
    use hpt_sys::host::CpuList;

    use super::{Fixes, Urgency};

    /// A run on CPU 1 of a machine with two CPUs.
    fn fixes(urgency: Urgency) -> Fixes {
        let rules = ["preemption", "isolated-cpus", "kernel-threads", "interrupts", "throttling"];
        Fixes {
            rules: rules.map(|rule| (rule, format!("fix of {rule}"))).into(),
            preemption: Some("the kernel is old. fix of preemption".to_owned()),
            urgency,
            behavior: Behavior::Blocks,
            is_locked: false,
            other_cpus: CpuList::only(0),
            limit_to: None,
        }
    }

    fn thread(name: &str, priority: Option<u8>) -> CauseTotal {
        let mut cause = CauseTotal::new(CauseKind::Thread);
        (cause.name, cause.pid, cause.priority) = (Some(name.to_owned()), Some(4_711), priority);
        cause.is_kernel = Some(false);
        cause
    }

    fn of_kernel(name: &str, priority: Option<u8>) -> CauseTotal {
        let mut cause = thread(name, priority);
        cause.is_kernel = Some(true);
        cause
    }

    /// Returns a thread as a cause of another kind.
    fn with_kind(mut cause: CauseTotal, kind: CauseKind) -> CauseTotal {
        cause.kind = kind;
        cause
    }

    fn fix(fixes: &Fixes, cause: &CauseTotal) -> (Option<&'static str>, String) {
        let fix = fixes.for_cause(cause);
        (fix.rule, fix.text.unwrap_or_default())
    }

    #[test]
    fn a_fix_is_not_what_the_measurement_does_already() {
        let with = |kind, name: &str| {
            let mut cause = CauseTotal::new(kind);
            cause.name = Some(name.to_owned());
            cause
        };
        let realtime = fixes(Urgency::Priority(80));
        for (name, part) in [("NMI", "nmi_watchdog"), ("irq_work", "ipi and csd")] {
            let (rule, text) = fix(&realtime, &with(CauseKind::HardInterrupt, name));
            assert!(rule.is_none() && text.contains(part) && !text.contains("real-time policy"), "{name}: {text}");
        }
        let fault = with(CauseKind::PageFault, "[anonymous]");
        assert!(fix(&realtime, &fault).1.contains("--mlockall"));
        let locked = Fixes { is_locked: true, ..realtime };
        assert!(!fix(&locked, &fault).1.contains("--mlockall"));
        let slack = fix(&locked, &with(CauseKind::TimerSlack, "")).1;
        assert!(slack.contains("timerslack_ns"), "{slack}");
    }

    #[test]
    fn a_measurement_without_a_real_time_policy_needs_one_first() {
        let ordinary = fixes(Urgency::Ordinary);
        let first = "measure under a real-time policy, which takes precedence over cc1: --fifo 80";
        let then = "; or move cc1 to another CPU: sudo taskset -pc 0 4711; or isolate the CPU";
        assert_eq!(fix(&ordinary, &thread("cc1", None)), (Some("isolated-cpus"), format!("{first}{then}")));
        // A thread that never blocks must not be throttled.
        let spins = Fixes { behavior: Behavior::Spins, ..fixes(Urgency::Ordinary) };
        assert_eq!(fix(&spins, &thread("cc1", None)).1, format!("{first} --no-throttling{then}"));
        let (rule, text) = fix(&ordinary, &of_kernel("kworker/1:2", None));
        assert_eq!(rule, Some("kernel-threads"));
        assert!(text.ends_with("--fifo 80; or keep kernel threads off the CPU"), "{text}");
        let text = fix(&ordinary, &thread("hog", Some(90))).1;
        assert!(text.starts_with("measure with a real-time priority above 90, that of hog: --fifo 91; or move hog"));
        // No priority is higher, and SCHED_DEADLINE takes precedence over each.
        let mut deadline = thread("hog", None);
        deadline.policy = Some("deadline");
        assert!(fix(&ordinary, &thread("hog", Some(99))).1.starts_with("move hog to another CPU"));
        let text = fix(&ordinary, &deadline).1;
        assert!(text.contains("cpuset") && !text.contains("taskset") && !text.contains("--fifo"), "{text}");
    }

    #[test]
    fn a_real_time_measurement_needs_no_policy() {
        let fifo = fixes(Urgency::Priority(80));
        let moved = "move cc1 to another CPU: sudo taskset -pc 0 4711; or isolate the CPU";
        assert_eq!(fix(&fifo, &thread("cc1", None)).1, moved);
        let text = fix(&fifo, &thread("hog", Some(90))).1;
        assert!(text.ends_with("; or use a priority above 90: --fifo 91; or isolate the CPU"), "{text}");
        assert!(!fix(&fifo, &thread("hog", Some(70))).1.contains("priority"));
        assert!(!fix(&fixes(Urgency::Other), &thread("hog", Some(90))).1.contains("priority"));
        assert_eq!(
            fix(&fifo, &of_kernel("kworker/1:2", None)),
            (Some("kernel-threads"), "fix of kernel-threads".to_owned())
        );
        assert_eq!(
            fix(&fifo, &of_kernel("irq/24-eth0", Some(50))),
            (Some("interrupts"), "fix of interrupts".to_owned())
        );
    }

    #[test]
    fn each_rule_of_the_scheduler_has_a_fix_that_this_cause_accepts() {
        let fifo = fixes(Urgency::Priority(80));
        let of = |kind| fix(&fifo, &with_kind(thread("cc1", None), kind));
        let (rule, text) = of(CauseKind::Paused);
        assert!(rule == Some("throttling") && text.ends_with("--no-throttling"), "{text}");
        let (rule, text) = of(CauseKind::NotPreemptible);
        assert_eq!((rule, text.as_str()), (Some("preemption"), "the kernel is old. fix of preemption"));
        // A kernel without that problem disables preemption at one place.
        let realtime = Fixes { preemption: None, ..fixes(Urgency::Priority(80)) };
        let text = fix(&realtime, &with_kind(thread("cc1", None), CauseKind::NotPreemptible)).1;
        assert!(text.contains("preemptoff") && !text.contains("taskset"), "{text}");
        let (rule, text) = of(CauseKind::CpuQuota);
        assert!(rule == Some("cpu-quota") && text.contains("group cc1") && !text.contains("--fifo"), "{text}");
        let mut tick = CauseTotal::new(CauseKind::HardInterrupt);
        tick.name = Some("local_timer".to_owned());
        for (worst_ns, rule) in [(30_000, Some("tick")), (5_920_000, None)] {
            tick.worst_ns = worst_ns;
            assert_eq!(fifo.for_cause(&tick).rule, rule);
        }
        tick.function = Some("timerfd_tmrproc".to_owned());
        assert!(fix(&fifo, &tick).1.ends_with("timers call timerfd_tmrproc"));
        assert_eq!(of(CauseKind::PageFault), (None, "lock the memory during the run: --mlockall".to_owned()));
        assert!(of(CauseKind::Blocked).1.ends_with("cc1 (pid 4711) woke it"));
        assert!(of(CauseKind::Budget).1.contains("-P d:") && of(CauseKind::Stopped).1.contains("SIGSTOP"));
        // The thread has ended, so it cannot be moved.
        let mut ended = thread("cc1", None);
        ended.is_kernel = None;
        assert_eq!(fix(&fifo, &ended).1, "isolate the CPU");
    }

    #[test]
    fn threads_of_the_kernel_lead_to_the_rules_about_their_work() {
        let rules = ["huge-pages", "same-pages", "swap", "kernel-threads", "isolated-cpus"];
        let rules = rules.map(|rule| (rule, format!("fix of {rule}"))).into();
        let all = Fixes { rules, ..fixes(Urgency::Priority(80)) };
        for (name, rule) in [
            ("khugepaged", "huge-pages"),
            ("ksmd", "same-pages"),
            ("kcompactd0", "huge-pages"),
            ("kswapd0", "swap"),
            ("kdamond.0", "kernel-threads"),
        ] {
            assert_eq!(fix(&all, &of_kernel(name, None)), (Some(rule), format!("fix of {rule}")), "{name}");
        }
        assert_eq!(fix(&fixes(Urgency::Priority(80)), &of_kernel("ksmd", None)).0, Some("kernel-threads"));
        // A program may have the same name.
        assert!(fix(&all, &thread("ksmd", None)).1.starts_with("move ksmd to another CPU: sudo taskset"));
    }

    #[test]
    fn without_another_cpu_nothing_can_be_moved() {
        let everywhere = Fixes { other_cpus: CpuList::default(), limit_to: Some(0), ..fixes(Urgency::Priority(80)) };
        assert_eq!(fix(&everywhere, &thread("cc1", None)).1, "isolate the CPU");
    }

    #[test]
    fn a_thread_of_hpt_needs_a_cpu_or_a_policy_and_no_other_kernel() {
        let room = "leave a CPU without a measurement, for example with --cpu 0: hpt's other threads then run there";
        let own = |kind| {
            let mut cause = with_kind(thread("conditions", None), kind);
            cause.is_own = true;
            cause
        };
        let everywhere = |urgency| Fixes { other_cpus: CpuList::default(), limit_to: Some(0), ..fixes(urgency) };
        for kind in [CauseKind::Thread, CauseKind::InterruptsOff, CauseKind::InterruptsOffOrHost] {
            assert_eq!(fix(&everywhere(Urgency::Priority(80)), &own(kind)), (None, room.to_owned()), "{kind:?}");
        }
        let (rule, text) = fix(&everywhere(Urgency::Ordinary), &own(CauseKind::Thread));
        assert!(
            rule.is_none() && text.starts_with("measure under a real-time policy") && text.ends_with(room),
            "{text}"
        );
        // There is no fix if the measurement takes precedence and leaves a CPU.
        assert_eq!(fix(&fixes(Urgency::Priority(80)), &own(CauseKind::Thread)), (None, String::new()));
        // A thread with the same name that belongs to another process can be moved.
        let of_others = fix(&everywhere(Urgency::Ordinary), &thread("conditions", None));
        assert_eq!(of_others.0, Some("isolated-cpus"));
        let off = with_kind(thread("cat", None), CauseKind::InterruptsOff);
        let of_rule = (Some("preemption"), "fix of preemption".to_owned());
        assert_eq!(fix(&everywhere(Urgency::Ordinary), &off), of_rule);
    }

    #[test]
    fn a_pause_with_two_possible_causes_has_both_fixes() {
        let cause = with_kind(thread("cat", None), CauseKind::InterruptsOffOrHost);
        let (rule, text) = fix(&fixes(Urgency::Ordinary), &cause);
        assert_eq!(rule, Some("stolen-time"));
        assert!(text.contains("irqsoff") && text.contains("while cat runs") && text.contains("host"), "{text}");
    }

    #[test]
    fn a_load_is_no_problem_to_be_fixed() {
        let of = |name| fix(&fixes(Urgency::Ordinary), &thread(name, None));
        let (rule, text) = of("hpt-load-cpu");
        assert!(rule.is_none() && text.contains("--load-cpus"), "{text}");
        assert!(of("hpt-of-mine").1.contains("move hpt-of-mine to another CPU"));
    }
}
