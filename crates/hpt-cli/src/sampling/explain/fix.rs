//! The fix of each cause: that of the rule of `hpt doctor` that examines it, if the rule finds a problem on this machine.
//! Changes nothing.

use std::collections::BTreeMap;

use hpt_core::{
    Host,
    diagnose::{Goal, MachineFacts, Verdict, examine},
    trace::{CauseTotal, PartKind},
};

use crate::output::cause_words::load_of;

/// The threads of hpt that read the trace and the conditions. They avoid the measured CPUs if there is another.
const OWN_THREADS: [&str; 2] = ["hpt-trace", "conditions"];

/// The fixes that the rules of `hpt doctor` have for this machine.
#[derive(Debug, Default)]
pub(super) struct Fixes(BTreeMap<&'static str, String>);

/// The fix of a cause.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CauseFix {
    pub(super) rule: Option<&'static str>,
    pub(super) text: Option<String>,
}

impl Fixes {
    /// Examines the machine for a thread on this CPU.
    pub(super) fn of(host: &Host, cpu: Option<usize>) -> Self {
        let examined = examine(&MachineFacts::new(host), cpu, Goal::Realtime);
        let fixes = examined.into_iter().filter_map(|examined| match examined.verdict {
            Verdict::Problem(finding) => {
                let fix = finding.fixes.into_iter().next()?;
                let commands =
                    if fix.commands.is_empty() { String::new() } else { format!(": {}", fix.commands.join("; ")) };
                Some((examined.rule.id, fix.text + &commands))
            }
            _ => None,
        });
        Self(fixes.collect())
    }

    pub(super) fn for_cause(&self, cause: &CauseTotal) -> CauseFix {
        // The rules do not know which threads belong to the measurement.
        if let Some(text) = of_own_thread(cause) {
            return CauseFix { rule: None, text: Some(text) };
        }
        let rule = rule_of(cause);
        let text = rule.and_then(|rule| self.0.get(rule).cloned()).or_else(|| general(cause));
        CauseFix { rule, text }
    }
}

/// Returns the fix of a cause that is a thread of hpt itself.
fn of_own_thread(cause: &CauseTotal) -> Option<String> {
    use PartKind::{InterruptsOff, InterruptsOffOrHost, Thread};
    let name = cause.name.as_deref().filter(|_| matches!(cause.kind, Thread | InterruptsOff | InterruptsOffOrHost))?;
    if OWN_THREADS.contains(&name) {
        return Some(
            "leave a CPU without a measurement, for example with --cpu 0: hpt then reads the trace on another CPU"
                .to_owned(),
        );
    }
    load_of(name).map(|_| "none: this is the load that --load requests; --load-cpus selects its CPUs".to_owned())
}

/// Returns the rule of `hpt doctor` that examines a cause.
fn rule_of(cause: &CauseTotal) -> Option<&'static str> {
    let name = cause.name.as_deref().unwrap_or_default();
    Some(match cause.kind {
        PartKind::Thread if is_of_kernel(name) => "kernel-threads",
        PartKind::Thread => "isolated-cpus",
        PartKind::HardInterrupt if is_tick(name) => "tick",
        PartKind::HardInterrupt if cause.irq.is_some() => "interrupts",
        PartKind::HardInterrupt => "isolated-cpus",
        PartKind::SoftInterrupt => match name {
            "RCU" => "rcu-callbacks",
            "TIMER" | "HRTIMER" | "SCHED" => "tick",
            _ => "interrupts",
        },
        PartKind::IdleExit => "idle-states",
        PartKind::Host | PartKind::InterruptsOffOrHost => "stolen-time",
        PartKind::InterruptsOff => "preemption",
        _ => return None,
    })
}

/// Returns whether a thread with this name usually belongs to the kernel.
fn is_of_kernel(name: &str) -> bool {
    ["kworker/", "ksoftirqd/", "migration/", "rcu", "irq/", "kswapd", "kcompactd", "cpuhp/", "jbd2/", "watchdogd"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// Returns whether an interrupt handler with this name serves the timer of the CPU.
fn is_tick(name: &str) -> bool {
    ["local_timer", "arch_timer", "timer"].contains(&name)
}

/// Returns the fix of a cause for which no rule finds a problem.
fn general(cause: &CauseTotal) -> Option<String> {
    let name = cause.name.as_deref().unwrap_or("it");
    Some(match cause.kind {
        PartKind::Thread => {
            let pid = cause.pid.unwrap_or_default();
            let priority = cause.priority.filter(|&priority| priority < 99);
            let raise = priority.map_or_else(String::new, |priority| {
                format!(", or use a priority above {priority} (-P f:{})", priority.saturating_add(1))
            });
            format!("move {name} to another CPU (taskset -pc CPUS {pid}){raise}")
        }
        PartKind::HardInterrupt if cause.irq.is_some() && !is_tick(name) => {
            let irq = cause.irq.unwrap_or_default();
            format!("move interrupt {irq} to another CPU: echo CPUS | sudo tee /proc/irq/{irq}/smp_affinity_list")
        }
        PartKind::IdleExit => "disable deep idle states during the run: --dma-latency 0".to_owned(),
        PartKind::Host => "give the virtual machine CPUs of its own on the host".to_owned(),
        PartKind::InterruptsOff => {
            format!(
                "find the code that disables interrupts while {name} runs, for example with the kernel's irqsoff tracer"
            )
        }
        PartKind::InterruptsOffOrHost => format!(
            "search with the kernel's irqsoff tracer for code that disables interrupts while {name} runs; if it finds none, give the virtual machine CPUs of its own on the host"
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use hpt_core::trace::{CauseTotal, PartKind};

    use super::Fixes;

    fn fix(kind: PartKind, name: &str) -> (Option<&'static str>, String) {
        let mut cause = CauseTotal::new(kind);
        cause.name = Some(name.to_owned());
        let fix = Fixes([("preemption", "use PREEMPT_RT".to_owned())].into()).for_cause(&cause);
        (fix.rule, fix.text.unwrap_or_default())
    }

    #[test]
    fn the_reader_of_the_trace_needs_a_cpu_and_no_other_kernel() {
        for kind in [PartKind::Thread, PartKind::InterruptsOff, PartKind::InterruptsOffOrHost] {
            let (rule, text) = fix(kind, "hpt-trace");
            assert!(rule.is_none() && text.contains("leave a CPU without a measurement"), "{kind:?}: {text}");
        }
        assert_eq!(fix(PartKind::InterruptsOff, "cat"), (Some("preemption"), "use PREEMPT_RT".to_owned()));
    }

    #[test]
    fn a_pause_with_two_possible_causes_has_both_fixes() {
        let (rule, text) = fix(PartKind::InterruptsOffOrHost, "cat");
        assert_eq!(rule, Some("stolen-time"));
        assert!(text.contains("irqsoff") && text.contains("while cat runs") && text.contains("host"), "{text}");
    }

    #[test]
    fn a_load_is_no_problem_to_be_fixed() {
        let (rule, text) = fix(PartKind::Thread, "hpt-load-cpu");
        assert!(rule.is_none() && text.contains("--load-cpus"), "{text}");
        assert!(fix(PartKind::Thread, "hpt-of-mine").1.contains("move hpt-of-mine to another CPU"));
    }
}
