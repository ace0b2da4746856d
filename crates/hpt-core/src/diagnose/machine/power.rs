//! The frequency of the CPUs, and the idle states that they enter. Changes neither.

use std::collections::BTreeSet;

use super::{Finding, MachineFacts, Rule, Severity, Subject, Verdict};
use crate::host::{Architecture, Core, CpuList, IdleState, Told};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "governor",
        about: "the governor of the CPUs' frequency",
        why: "A CPU that has idled is clocked low: the first milliseconds of work after a sleep take several times as long.",
        bites: "who sleeps and is then in a hurry",
        references: &["Documentation/admin-guide/pm/cpufreq.rst", "Documentation/admin-guide/pm/intel_pstate.rst"],
        judge: governor,
    },
    Rule {
        id: "frequency-limit",
        about: "a limit below the highest frequency of the CPUs",
        why: "All work takes longer than it needs to.",
        bites: "everybody",
        references: &["Documentation/admin-guide/pm/cpufreq.rst: scaling_max_freq"],
        judge: limit,
    },
    Rule {
        id: "turbo",
        about: "frequencies above the nominal one (turbo, boost)",
        why: "How long they last depends on temperature and on the other CPUs: the same work takes longer or shorter from moment to moment.",
        bites: "who needs the same time for the same work, or compares cycles with time",
        references: &[
            "Documentation/admin-guide/pm/cpufreq.rst: boost",
            "Documentation/admin-guide/pm/intel_pstate.rst: no_turbo",
        ],
        judge: turbo,
    },
    Rule {
        id: "idle-states",
        about: "how deep idle CPUs sleep",
        why: "Who is woken waits first until the CPU has left its sleep, and then for what its caches have lost.",
        bites: "who sleeps and is then in a hurry, also by a real-time class",
        references: &["Documentation/admin-guide/pm/cpuidle.rst", "Documentation/power/pm_qos_interface.rst"],
        judge: idle,
    },
    Rule {
        id: "slowed-down",
        about: "how often the processor slowed a core down for its temperature",
        why: "It is then clocked far below its frequency, without asking the kernel.",
        bites: "everybody",
        references: &["Documentation/ABI/testing/sysfs-devices-system-cpu: thermal_throttle"],
        judge: slowed_down,
    },
];

/// Leaving such a state takes no longer than a system call or two.
const SHORT_US: u64 = 2;

fn cores<'a>(facts: &'a MachineFacts, subject: &'a Subject) -> impl Iterator<Item = (usize, &'a Core)> {
    facts.cores.each.iter().filter(|(cpu, _)| subject.all.contains(**cpu)).map(|(&cpu, core)| (cpu, core))
}

/// Why a machine does not show what controls its frequency.
fn nobody_to_ask(facts: &MachineFacts) -> Verdict {
    match &facts.hypervisor {
        Some(hypervisor) => Verdict::not_here(format!(
            "it cannot be seen from inside: the host of this virtual machine ({hypervisor}) decides"
        )),
        None if facts.cores.each.is_empty() => Verdict::untold("neither /sys nor /proc tells which CPUs there are"),
        None => Verdict::not_here("the kernel has no cpufreq driver here: the firmware decides"),
    }
}

fn governor(facts: &MachineFacts, subject: &Subject) -> Verdict {
    let told: Vec<(usize, &String)> =
        cores(facts, subject).filter_map(|(cpu, core)| Some((cpu, core.governor.is()?))).collect();
    if told.is_empty() {
        return nobody_to_ask(facts);
    }
    // `userspace` keeps whatever frequency was set.
    let slow: CpuList = told
        .iter()
        .filter(|(_, governor)| !["performance", "userspace"].contains(&governor.as_str()))
        .map(|(cpu, _)| *cpu)
        .collect();
    let names: BTreeSet<&str> = told
        .iter()
        .filter(|(cpu, _)| slow.is_empty() || slow.contains(*cpu))
        .map(|(_, governor)| governor.as_str())
        .collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    if slow.is_empty() {
        return Verdict::fine(names);
    }
    let drivers: BTreeSet<&str> =
        cores(facts, subject).filter_map(|(_, core)| core.driver.is().map(String::as_str)).collect();
    let driver = drivers.into_iter().collect::<Vec<_>>().join(", ");
    let driver = if driver.is_empty() { String::new() } else { format!(" ({driver})") };
    let cpu = subject.named.map_or_else(|| "*".to_owned(), |cpu| cpu.to_string());
    Finding::new(Severity::Minor, format!("{names}{driver} on {}", Subject::in_words(&slow)))
        .helped("let hpt set it while it measures", ["sudo hpt latency timer --governor performance".to_owned()])
        .helped(
            "set it, until the next boot",
            [format!("echo performance | sudo tee /sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor")],
        )
        .found()
}

fn limit(facts: &MachineFacts, subject: &Subject) -> Verdict {
    let told: Vec<(usize, u64, u64)> = cores(facts, subject)
        .filter_map(|(cpu, core)| Some((cpu, *core.highest_allowed_khz.is()?, *core.highest_khz.is()?)))
        .collect();
    if told.is_empty() {
        return nobody_to_ask(facts);
    }
    // With turbo off, some of the maximum is unavailable. That is not a forgotten limit.
    let limited =
        |&&(_, allowed, highest): &&(usize, u64, u64)| allowed.saturating_mul(100) < highest.saturating_mul(99);
    let Some((_, allowed, highest)) = told.iter().find(limited) else {
        return Verdict::fine("none");
    };
    if facts.turbo == Some(false) {
        return Verdict::fine("what turbo would be above the limit, which is off");
    }
    let cpus: CpuList = told.iter().filter(limited).map(|(cpu, ..)| *cpu).collect();
    // If CPUs differ, use the fastest one's maximum: the kernel reduces it for each CPU, and a slower one's would limit
    // the faster ones.
    let most = told.iter().map(|(.., highest)| highest).max().unwrap_or(highest);
    let cpu = subject.named.map_or_else(|| "*".to_owned(), |cpu| cpu.to_string());
    Finding::new(
        Severity::Minor,
        format!("{} MHz instead of {} MHz on {}", allowed / 1000, highest / 1000, Subject::in_words(&cpus)),
    )
    .helped(
        "lift it, until the next boot, if it was meant by nobody",
        [format!("echo {most} | sudo tee /sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_max_freq")],
    )
    .found()
}

fn turbo(facts: &MachineFacts, _: &Subject) -> Verdict {
    match facts.turbo {
        None if facts.cores.each.values().any(|core| core.governor.is().is_some()) => {
            Verdict::not_here("the kernel has no switch for it here")
        }
        None => nobody_to_ask(facts),
        Some(false) => Verdict::fine("off"),
        Some(true) => Finding::new(Severity::ToKnow, "on")
            .helped(
                "where times must be alike, let hpt turn it off while it measures",
                ["sudo hpt latency timer --no-turbo".to_owned()],
            )
            .found(),
    }
}

fn idle(facts: &MachineFacts, subject: &Subject) -> Verdict {
    let deepest =
        |core: &Core| core.idle.iter().filter(|state| !state.disabled).max_by_key(|state| state.latency_us).cloned();
    let told: Vec<(usize, IdleState)> =
        cores(facts, subject).filter_map(|(cpu, core)| Some((cpu, deepest(core)?))).collect();
    let polls = facts.parameter("idle") == Some("poll");
    let Some((_, state)) = told.iter().max_by_key(|(_, state)| state.latency_us) else {
        return match &facts.hypervisor {
            _ if polls => Verdict::fine("idle CPUs never sleep (idle=poll)"),
            Some(_) => nobody_to_ask(facts),
            None if facts.cores.each.is_empty() => nobody_to_ask(facts),
            None => Verdict::fine("the kernel has no cpuidle driver here: idle CPUs wait in the lightest way"),
        };
    };
    let leaves_the_cpu = !state.name.eq_ignore_ascii_case("poll");
    if let (Some(hypervisor), true) = (&facts.hypervisor, leaves_the_cpu && state.latency_us <= SHORT_US) {
        // The driver's figure is the time this machine needs to request it. If it leaves the CPU to its host, the host
        // selects the idle state.
        return Verdict::not_here(format!(
            "down to {} by this machine's own driver; how deep its host's CPU sleeps meanwhile cannot be seen from inside ({hypervisor})",
            state.name
        ));
    }
    if state.latency_us <= SHORT_US {
        return Verdict::fine(format!("{} at most, left within {} µs", state.name, state.latency_us));
    }
    let cpus: CpuList = told.iter().filter(|(_, state)| state.latency_us > SHORT_US).map(|(cpu, _)| *cpu).collect();
    let finding = Finding::new(Severity::Minor, format!("down to {}, which takes {} µs to leave, on {}", state.name, state.latency_us, Subject::in_words(&cpus)))
        .helped("keep CPUs awake while your program runs: it holds /dev/cpu_dma_latency open with 0 in it, as hpt does with --dma-latency 0", ["sudo hpt latency timer --dma-latency 0".to_owned()]);
    let cpu = subject.named.map_or_else(|| "*".to_owned(), |cpu| cpu.to_string());
    let deep = cores(facts, subject)
        .next()
        .map(|(_, core)| core.idle.iter().filter(|state| state.latency_us > SHORT_US).count())
        .unwrap_or(0);
    let finding = if deep > 0 && deep <= 8 {
        let states = cores(facts, subject)
            .next()
            .into_iter()
            .flat_map(|(_, core)| &core.idle)
            .filter(|state| state.latency_us > SHORT_US);
        let commands: Vec<String> = states
            .map(|state| {
                format!("echo 1 | sudo tee /sys/devices/system/cpu/cpu{cpu}/cpuidle/state{}/disable", state.number)
            })
            .collect();
        finding.helped("or close the deep ones, until the next boot", commands)
    } else {
        finding
    };
    if facts.architecture == Architecture::X86_64 && facts.hypervisor.is_none() {
        let (text, commands) = facts.at_boot("intel_idle.max_cstate=1 processor.max_cstate=1");
        finding.helped(format!("or {text}"), commands).found()
    } else {
        finding.found()
    }
}

fn slowed_down(facts: &MachineFacts, subject: &Subject) -> Verdict {
    let told: Vec<(usize, u64)> = cores(facts, subject)
        .filter_map(|(cpu, core)| match core.throttled {
            Told::Is(times) => Some((cpu, times)),
            Told::Absent | Told::NotAllowed | Told::Garbled => None,
        })
        .collect();
    let Some((cpu, times)) = told.iter().max_by_key(|(_, times)| *times) else {
        return Verdict::not_here("this processor, or its hypervisor, does not count it");
    };
    if *times == 0 {
        return Verdict::fine("never since it was started");
    }
    Finding::new(Severity::Minor, format!("{times} times since it was started, on CPU {cpu}"))
        .helped(
            "see to its cooling: dust, fan, thermal paste; look at its temperatures",
            ["cat /sys/class/thermal/thermal_zone0/temp".to_owned()],
        )
        .found()
}
