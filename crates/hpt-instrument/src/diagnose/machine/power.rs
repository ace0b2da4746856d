//! Rules about the frequency and the idle states of the CPUs. They change neither.

use std::collections::BTreeSet;

use hpt_sys::{
    host::{Core, CpuList, IDLE_DRIVER, IdleState, Known},
    settings::{GOVERNOR, HIGHEST_FREQUENCY, IDLE_STATE},
};

use super::{Finding, MachineFacts, Relevance, Rule, Severity, Subject, Verdict};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "governor",
        title: "Governor lowers the CPU frequency",
        about: "which governor controls the CPU frequency",
        why: "A CPU that has been idle runs at a low frequency at first, so work in the first milliseconds after a sleep takes several times as long.",
        affects: "threads that must react fast after a sleep",
        references: &["Documentation/admin-guide/pm/cpufreq.rst", "Documentation/admin-guide/pm/intel_pstate.rst"],
        relevance: Relevance::NOTE.realtime(Severity::Low).benchmarks(Severity::Low),
        judge: governor,
    },
    Rule {
        id: "frequency-limit",
        title: "Maximum CPU frequency is limited",
        about: "whether the CPU frequency is limited to less than the hardware maximum",
        why: "All work takes longer than necessary.",
        affects: "all programs",
        references: &["Documentation/admin-guide/pm/cpufreq.rst: scaling_max_freq"],
        relevance: Relevance::all(Severity::Low).timekeeping(Severity::Info),
        judge: limit,
    },
    Rule {
        id: "turbo",
        title: "Turbo makes execution times vary",
        about: "whether frequencies above the nominal frequency are enabled (turbo, boost)",
        why: "How long a CPU sustains such a frequency depends on its temperature and on the load of the other CPUs, so the execution time of the same work varies.",
        affects: "programs that need a constant execution time, or compare cycles with time",
        references: &[
            "Documentation/admin-guide/pm/cpufreq.rst: boost",
            "Documentation/admin-guide/pm/intel_pstate.rst: no_turbo",
        ],
        relevance: Relevance::NOTE.benchmarks(Severity::Low),
        judge: turbo,
    },
    Rule {
        id: "idle-states",
        title: "Deep idle states are enabled",
        about: "which idle states the CPUs may enter",
        why: "A woken thread first waits for the exit latency of the idle state, and then has to refill the caches that the CPU lost.",
        affects: "threads that must react fast after a sleep, including real-time threads",
        references: &["Documentation/admin-guide/pm/cpuidle.rst", "Documentation/power/pm_qos_interface.rst"],
        relevance: Relevance::NOTE.realtime(Severity::Low),
        judge: idle,
    },
    Rule {
        id: "slowed-down",
        title: "CPU was thermally throttled",
        about: "how often the processor throttled a core because of its temperature",
        why: "A throttled core runs far below its normal frequency, and the kernel has no control over it.",
        affects: "all programs",
        references: &["Documentation/ABI/testing/sysfs-devices-system-cpu: thermal_throttle"],
        relevance: Relevance::all(Severity::Low).timekeeping(Severity::Info),
        judge: slowed_down,
    },
];

/// The exit latency, in microseconds, up to which a state is harmless: the duration of one or two system calls.
pub(super) const SHORT_US: u64 = 2;

fn cores<'a>(facts: &'a MachineFacts, subject: &'a Subject) -> impl Iterator<Item = (usize, &'a Core)> {
    facts.cores.each.iter().filter(|(cpu, _)| subject.all.contains(**cpu)).map(|(&cpu, core)| (cpu, core))
}

/// Returns the verdict for a machine that does not show what controls its frequency.
fn no_control(facts: &MachineFacts) -> Verdict {
    match &facts.hypervisor {
        Some(hypervisor) => Verdict::not_applicable(format!(
            "the host of this virtual machine ({hypervisor}) controls this setting, which is not visible from inside"
        )),
        None if facts.cores.each.is_empty() => Verdict::unknown("neither /sys nor /proc lists the CPUs"),
        None => Verdict::not_applicable(
            "the kernel has no cpufreq driver on this machine: the firmware controls the frequency",
        ),
    }
}

fn governor(facts: &MachineFacts, subject: &Subject) -> Verdict {
    let known: Vec<(usize, &String)> =
        cores(facts, subject).filter_map(|(cpu, core)| Some((cpu, core.governor.is()?))).collect();
    if known.is_empty() {
        return no_control(facts);
    }
    // `userspace` keeps whatever frequency was set.
    let slow: CpuList = known
        .iter()
        .filter(|(_, governor)| ![GOVERNOR.better, "userspace"].contains(&governor.as_str()))
        .map(|(cpu, _)| *cpu)
        .collect();
    let names: BTreeSet<&str> = known
        .iter()
        .filter(|(cpu, _)| slow.is_empty() || slow.contains(*cpu))
        .map(|(_, governor)| governor.as_str())
        .collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    if slow.is_empty() {
        return Verdict::pass(names);
    }
    let drivers: BTreeSet<&str> =
        cores(facts, subject).filter_map(|(_, core)| core.driver.is().map(String::as_str)).collect();
    let driver = drivers.into_iter().collect::<Vec<_>>().join(", ");
    let driver = if driver.is_empty() { String::new() } else { format!(" ({driver})") };
    let cpu = subject.named.map_or_else(|| "*".to_owned(), |cpu| cpu.to_string());
    Finding::new(Severity::Low, format!("{names}{driver} on {}", Subject::in_words(&slow)))
        .fix(
            "Let hpt set the governor while your program runs",
            ["sudo hpt run --governor performance -- PROGRAM".to_owned()],
        )
        .fix("Set the governor until reboot", [GOVERNOR.command_for(&[cpu], GOVERNOR.better)])
        .problem()
}

/// The frequencies of a CPU, in kHz.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Frequencies {
    highest: u64,
    allowed: u64,
    base: Option<u64>,
}

impl Frequencies {
    /// Returns whether a setting limits the frequency: to less than the hardware maximum or, while turbo is off, to less
    /// than the base frequency. The result is `None` if turbo is off, and the base frequency is not known.
    fn is_limited(self, turbo: Option<bool>) -> Option<bool> {
        let is_below = |limit: u64| self.allowed.saturating_mul(100) < limit.saturating_mul(99);
        match (is_below(self.highest), turbo, self.base) {
            (false, ..) => Some(false),
            (true, Some(false), None) => None,
            (true, Some(false), Some(base)) => Some(is_below(base)),
            (true, ..) => Some(true),
        }
    }

    fn in_words(self, turbo: Option<bool>) -> String {
        let mhz = |khz: u64| khz / 1000;
        match self.base.filter(|_| turbo == Some(false)) {
            Some(base) => format!("{} MHz (base frequency: {} MHz)", mhz(self.allowed), mhz(base)),
            None => format!("{} MHz (hardware maximum: {} MHz)", mhz(self.allowed), mhz(self.highest)),
        }
    }
}

/// Groups CPUs that have the same value, in the order of the first CPU of each group.
fn grouped<T: PartialEq>(each: impl IntoIterator<Item = (usize, T)>) -> Vec<(T, CpuList)> {
    let mut groups: Vec<(T, Vec<usize>)> = Vec::new();
    for (cpu, value) in each {
        match groups.iter_mut().find(|(of, _)| *of == value) {
            Some((_, cpus)) => cpus.push(cpu),
            None => groups.push((value, vec![cpu])),
        }
    }
    groups.into_iter().map(|(value, cpus)| (value, cpus.into_iter().collect())).collect()
}

fn limit(facts: &MachineFacts, subject: &Subject) -> Verdict {
    let known: Vec<(usize, Frequencies)> = cores(facts, subject)
        .filter_map(|(cpu, core)| {
            let (allowed, highest) = (*core.highest_allowed_khz.is()?, *core.highest_khz.is()?);
            let one = Frequencies { highest, allowed, base: core.base_khz.is().copied() };
            Some((cpu, one)).filter(|_| highest > 0 && allowed > 0)
        })
        .collect();
    if known.is_empty() {
        let is_stated = cores(facts, subject).any(|(_, core)| core.highest_allowed_khz != Known::Absent);
        return if is_stated {
            Verdict::unknown("scaling_max_freq or cpuinfo_max_freq states no frequency")
        } else {
            no_control(facts)
        };
    }
    let limited: Vec<(usize, Frequencies)> =
        known.iter().filter(|(_, one)| one.is_limited(facts.turbo) == Some(true)).copied().collect();
    if limited.is_empty() {
        let is_unclear = known.iter().any(|(_, one)| one.is_limited(facts.turbo).is_none());
        let below_turbo = known.iter().any(|(_, one)| one.allowed.saturating_mul(100) < one.highest.saturating_mul(99));
        return match (is_unclear, below_turbo) {
            (true, _) => {
                let stated = grouped(known)
                    .into_iter()
                    .map(|(one, cpus)| format!("{} on {}", one.in_words(None), Subject::in_words(&cpus)));
                let stated = stated.collect::<Vec<_>>().join(", ");
                Verdict::unknown_and_unlikely(format!(
                    "limited to {stated}; turbo is off, and the driver does not state the base frequency, below which the limit would be a problem"
                ))
            }
            (false, true) => Verdict::pass("only turbo frequencies exceed the limit, and turbo is off"),
            (false, false) => Verdict::pass("no limit"),
        };
    }
    // If the CPUs differ, use the maximum of the fastest CPU: the kernel reduces the value for each slower CPU, whereas
    // the maximum of a slower CPU would limit the faster CPUs.
    let most = known.iter().map(|(_, one)| one.highest).max().unwrap_or(0);
    let cpu = subject.named.map_or_else(|| "*".to_owned(), |cpu| cpu.to_string());
    let groups = grouped(limited).into_iter();
    let groups = groups.map(|(one, cpus)| format!("{} on {}", one.in_words(facts.turbo), Subject::in_words(&cpus)));
    Finding::new(Severity::Low, format!("limited to {}", groups.collect::<Vec<_>>().join(", ")))
        .fix("Remove the limit until reboot, if it is not intentional", [HIGHEST_FREQUENCY.command_for(&[cpu], most)])
        .problem()
}

fn turbo(facts: &MachineFacts, _: &Subject) -> Verdict {
    match facts.turbo {
        None if facts.cores.each.values().any(|core| core.governor.is().is_some()) => {
            Verdict::not_applicable("the kernel offers no turbo setting on this machine")
        }
        None => no_control(facts),
        Some(false) => Verdict::pass("turbo is off"),
        Some(true) => Finding::new(Severity::Low, "turbo is on")
            .fix(
                "If execution times must be constant, let hpt turn turbo off while your program runs",
                ["sudo hpt run --no-turbo -- PROGRAM".to_owned()],
            )
            .problem(),
    }
}

fn idle(facts: &MachineFacts, subject: &Subject) -> Verdict {
    let deepest =
        |core: &Core| core.idle.iter().filter(|state| !state.disabled).max_by_key(|state| state.latency_us).cloned();
    let known: Vec<(usize, IdleState)> =
        cores(facts, subject).filter_map(|(cpu, core)| Some((cpu, deepest(core)?))).collect();
    let Some((_, state)) = known.iter().max_by_key(|(_, state)| state.latency_us) else {
        return without_idle_states(facts);
    };
    let leaves_the_cpu = !state.name.eq_ignore_ascii_case("poll");
    if let (Some(hypervisor), true) = (&facts.hypervisor, leaves_the_cpu && state.latency_us <= SHORT_US) {
        // The exit latency of this machine's driver does not include the host's idle state, which the host selects when
        // this machine yields the CPU.
        return Verdict::not_applicable(format!(
            "the deepest idle state of this machine's own driver is {}; the idle states of the host's CPUs are not visible from inside ({hypervisor})",
            state.name
        ));
    }
    if state.latency_us <= SHORT_US {
        return Verdict::pass(format!(
            "the deepest idle state is {}, with an exit latency of {} µs",
            state.name, state.latency_us
        ));
    }
    let slow = known.iter().filter(|(_, state)| state.latency_us > SHORT_US);
    let groups = grouped(slow.map(|(cpu, state)| (*cpu, (state.name.as_str(), state.latency_us))));
    let groups = groups.into_iter().map(|((name, latency_us), cpus)| {
        format!("{name}, with an exit latency of {latency_us} µs, on {}", Subject::in_words(&cpus))
    });
    let groups = groups.collect::<Vec<_>>().join("; ");
    deep_idle(facts, subject, &groups)
}

fn without_idle_states(facts: &MachineFacts) -> Verdict {
    let polls = facts.parameter("idle") == Some("poll");
    match &facts.hypervisor {
        _ if polls => Verdict::pass("idle CPUs never sleep (idle=poll)"),
        Some(_) => no_control(facts),
        None if facts.cores.each.is_empty() => no_control(facts),
        None => match &facts.idle_driver {
            Known::Is(driver) if driver == "none" => Verdict::pass(
                "the kernel has no cpuidle driver on this machine: idle CPUs use only the shallowest idle state",
            ),
            Known::Is(driver) => Verdict::unknown(format!("the idle states of the driver {driver} are not visible")),
            _ => Verdict::unknown_and_unlikely(format!("no idle states are listed, and {IDLE_DRIVER} does not exist")),
        },
    }
}

fn deep_idle(facts: &MachineFacts, subject: &Subject, groups: &str) -> Verdict {
    let finding = Finding::new(Severity::Low, format!("the deepest idle state is {groups}"))
    .fix(
        "Let hpt disable deep idle states while your program runs; or let your program write 0 to /dev/cpu_dma_latency, and keep the file open",
        ["sudo hpt run --dma-latency 0 -- PROGRAM".to_owned()],
    );
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
            .map(|state| IDLE_STATE.command_for(&[cpu.clone(), state.number.to_string()], IDLE_STATE.better))
            .collect();
        finding.fix("Disable the deep states until reboot", commands)
    } else {
        finding
    };
    if facts.architecture.is_x86() && facts.hypervisor.is_none() {
        let (text, commands) = facts.at_boot("intel_idle.max_cstate=1 processor.max_cstate=1");
        finding.steps(text, commands).problem()
    } else {
        finding.problem()
    }
}

fn slowed_down(facts: &MachineFacts, subject: &Subject) -> Verdict {
    let known: Vec<(usize, u64)> = cores(facts, subject)
        .filter_map(|(cpu, core)| match core.throttled {
            Known::Is(times) => Some((cpu, times)),
            Known::Absent | Known::NotAllowed | Known::Garbled => None,
        })
        .collect();
    let Some((cpu, times)) = known.iter().max_by_key(|(_, times)| *times) else {
        return Verdict::not_applicable("this processor or its hypervisor does not count throttling events");
    };
    if *times == 0 {
        return Verdict::pass("no CPU has been throttled since boot");
    }
    Finding::new(Severity::Low, format!("CPU {cpu} has been throttled {} since boot", super::times(*times)))
        .steps(
            "Improve the cooling (remove dust, check the fan and the thermal paste), and monitor the temperatures",
            ["cat /sys/class/thermal/thermal_zone0/temp".to_owned()],
        )
        .problem()
}
