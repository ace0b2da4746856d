//! The fix of each cause: that of the rule of `hpt doctor` that examines it, if the rule finds a problem on this machine.
//! Changes nothing.

use std::collections::BTreeMap;

use hpt_core::{
    Host,
    diagnose::{Goal, MachineFacts, Verdict, examine},
    trace::{CauseTotal, PartKind},
};

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
        // A thread of hpt is part of the measurement.
        if cause.kind == PartKind::Thread && cause.name.as_deref().is_some_and(|name| name.starts_with("hpt")) {
            return CauseFix::default();
        }
        let rule = rule_of(cause);
        let text = rule.and_then(|rule| self.0.get(rule).cloned()).or_else(|| general(cause));
        CauseFix { rule, text }
    }
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
        PartKind::Host => "stolen-time",
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
        _ => return None,
    })
}
