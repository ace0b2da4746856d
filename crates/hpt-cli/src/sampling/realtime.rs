//! Scheduling and system settings of a measuring thread: the options, and what was in effect.
//! Measures nothing.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use hpt_core::{
    knobs::KnobError,
    realtime::{self, Class, Conduct, InForce, Setup, allowed_cpus},
};
use serde::Serialize;

use crate::{
    arguments::{CpuChoice, cpu_choice},
    context::Context,
    exit::{Failure, causes},
};

/// So much of the stack is there beforehand where memory is locked: more than any measurement needs.
const STACK_BYTES: usize = 256 << 10;

/// The options of what measures on one thread, to be flattened into a subcommand's own.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct ThreadOptions {
    /// Run on this CPU; `any` does not pin [default: the highest allowed]
    #[arg(long, value_name = "CPU", value_parser = cpu_choice, allow_hyphen_values = true)]
    cpu: Option<CpuChoice>,
    #[command(flatten)]
    realtime: RealtimeOptions,
}

/// The same without the CPU, for what measures on several threads.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct RealtimeOptions {
    /// Run by SCHED_FIFO with this priority, 1 to 99
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99), conflicts_with_all = ["rr", "deadline"])]
    fifo: Option<u8>,
    /// Run by SCHED_RR with this priority, 1 to 99
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99), conflicts_with = "deadline")]
    rr: Option<u8>,
    /// Run by SCHED_DEADLINE, so long in every period, like 2ms/10ms; not pinned then, unless --cpu says so
    #[arg(long, value_name = "RUNTIME/PERIOD", value_parser = part_of_period)]
    deadline: Option<PartOfPeriod>,
    /// Keep all of hpt's memory from being paged out, and 256 KiB of stack at hand
    #[arg(long)]
    lock_memory: bool,
    /// Keep all CPUs from sleeping deep meanwhile (/dev/cpu_dma_latency)
    #[arg(long)]
    awake: bool,
    /// Machine: let real-time threads have all of the time meanwhile (sched_rt_runtime_us, and the fair server of Linux 6.12)
    #[arg(long)]
    no_throttling: bool,
    /// Run by a real-time class though throttling is on and the thread never waits
    #[arg(long, conflicts_with = "no_throttling")]
    accept_throttling: bool,
    /// Machine: let this governor decide on the CPU's frequency meanwhile, like performance
    #[arg(long, value_name = "NAME")]
    governor: Option<String>,
    /// Machine: let no CPU run above its nominal frequency meanwhile
    #[arg(long)]
    no_turbo: bool,
    /// Leave out what is refused, and say so in the result
    #[arg(long)]
    best_effort: bool,
    /// Where settings of the machine are written down before they are changed, for `hpt restore` [default: /run/hpt]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
}

const HEADING: &str = "What it runs by, and the machine around it";

/// So long in every period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PartOfPeriod {
    runtime: Duration,
    period: Duration,
}

/// Reads `2ms/10ms`.
fn part_of_period(text: &str) -> Result<PartOfPeriod, String> {
    let wrong = || "a runtime and a period, like 2ms/10ms".to_owned();
    let (runtime, period) = text.split_once('/').ok_or_else(wrong)?;
    let duration = |text| humantime::parse_duration(text).map_err(|error| format!("{error}; {}", wrong()));
    let (runtime, period) = (duration(runtime)?, duration(period)?);
    if runtime.is_zero() || runtime > period {
        return Err("the runtime is more than nothing and no longer than the period".to_owned());
    }
    Ok(PartOfPeriod { runtime, period })
}

/// What may be asked of the machine around a thread that has a core of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct Alone {
    /// Machine: make isolated-core with real-time threads having all of the time (sched_rt_runtime_us, and the fair server of Linux 6.12)
    #[arg(long, requires = "names")]
    pub(crate) no_throttling: bool,
    /// Machine: make isolated-core with no CPU above its nominal frequency
    #[arg(long, requires = "names")]
    pub(crate) no_turbo: bool,
    /// Machine: make isolated-core with this governor deciding on the CPU's frequency, like performance
    #[arg(long, value_name = "NAME", requires = "names")]
    pub(crate) governor: Option<String>,
}

/// All of it in force, until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    held: realtime::Held,
    conduct: Conduct,
    /// Not to be read without: what the kernel keeps for ordinary threads.
    has_fair_server: bool,
}

/// What is in force, for programs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Settings {
    #[serde(flatten)]
    pub(crate) in_force: InForce,
    pub(crate) refused: Vec<Refused>,
    /// What else is to be known.
    #[serde(skip)]
    remark: Option<&'static str>,
}

/// What was asked for and is not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Refused {
    pub(crate) setting: &'static str,
    pub(crate) reason: String,
}

impl ThreadOptions {
    /// An ordinary thread.
    pub(crate) fn on(cpu: Option<CpuChoice>) -> Self {
        Self { cpu, ..Self::default() }
    }

    /// As [`RealtimeOptions::leaves_nothing`], where there is one CPU only.
    pub(crate) fn leaves_nothing(&self) -> bool {
        self.realtime.leaves_nothing() && allowed_cpus().len() <= 1
    }

    /// As [`RealtimeOptions::listen`].
    pub(crate) fn listen(&self, context: &Context) -> Result<(), Failure> {
        self.realtime.listen(context)
    }

    /// Puts the calling thread, which is the one that will measure, and the machine into the state asked for. `by` is the command, for whoever finds the
    /// journal.
    pub(crate) fn hold(&self, context: &Context, conduct: Conduct, by: &str) -> Result<Held, Failure> {
        // The kernel does not let a thread by SCHED_DEADLINE be pinned.
        let pinned = if self.cpu.is_none() && self.realtime.deadline.is_some() { None } else { Context::cpu(self.cpu) };
        let setup = self.realtime.of_a_thread(conduct, pinned);
        self.realtime.apply(self.realtime.of_the_machine(setup), context, conduct, by)
    }
}

impl RealtimeOptions {
    /// The machine around a thread that has a core of its own, which is as asked for or refused, and that thread, which has SCHED_FIFO 99 where it is
    /// allowed.
    pub(crate) fn of_a_core_of_its_own(alone: &Alone, journal: Option<&Path>) -> (Self, Self) {
        let Alone { no_throttling, no_turbo, governor } = alone.clone();
        let machine = Self { no_throttling, no_turbo, governor, store: journal.map(Path::to_owned), ..Self::default() };
        let thread = Self { fifo: Some(99), accept_throttling: true, best_effort: true, ..Self::default() };
        (machine, thread)
    }

    /// From here on Ctrl-C and SIGTERM end the measurement and not hpt; where the machine is changed, no second one does, and neither does a hang-up.
    pub(crate) fn listen(&self, context: &Context) -> Result<(), Failure> {
        let changes = self.of_the_machine(Setup::of_a_thread_that(Conduct::Waits)).changes_the_machine();
        if changes { context.signals.listen_until_the_end() } else { context.signals.listen() }
    }

    /// Whether memory is to be locked.
    pub(crate) const fn locks_memory(&self) -> bool {
        self.lock_memory
    }

    /// Whether what is refused is left out.
    pub(crate) const fn is_by_best_effort(&self) -> bool {
        self.best_effort
    }

    /// The class that is asked for.
    pub(crate) fn class(&self) -> Option<Class> {
        let fifo = self.fifo.map(|priority| Class::Fifo { priority });
        let rr = || self.rr.map(|priority| Class::RoundRobin { priority });
        let deadline = || {
            self.deadline.map(|PartOfPeriod { runtime, period }| Class::Deadline { runtime, deadline: period, period })
        };
        fifo.or_else(rr).or_else(deadline)
    }

    /// Whether threads run by a class that they cannot have on a CPU of their own.
    pub(crate) const fn is_by_deadline(&self) -> bool {
        self.deadline.is_some()
    }

    /// Whether a thread that never waits leaves nothing of its CPU to others.
    pub(crate) const fn leaves_nothing(&self) -> bool {
        (self.fifo.is_some() || self.rr.is_some()) && self.no_throttling
    }

    /// Whether throttling is to be off.
    pub(crate) const fn turns_throttling_off(&self) -> bool {
        self.no_throttling
    }

    /// Puts the process and the machine into the state asked for, for threads on these CPUs; `None` is one that is not pinned.
    pub(crate) fn hold_around(
        &self,
        context: &Context,
        cpus: &[Option<usize>],
        conduct: Conduct,
        by: &str,
    ) -> Result<Held, Failure> {
        let mut setup = self.of_the_machine(Setup::of_a_thread_that(conduct));
        if let Some(cpus) = cpus.iter().copied().collect::<Option<Vec<_>>>() {
            setup = setup.around_cpus(cpus);
        }
        self.apply(setup, context, conduct, by)
    }

    /// Puts the calling thread, which is one of those that measure, into the state asked for.
    pub(crate) fn hold_thread(
        &self,
        context: &Context,
        cpu: Option<usize>,
        conduct: Conduct,
        by: &str,
    ) -> Result<Held, Failure> {
        // How late it is woken is what is measured: not for the kernel's convenience.
        self.apply(self.of_a_thread(conduct, cpu).without_slack(), context, conduct, by)
    }

    fn apply(&self, mut setup: Setup, context: &Context, conduct: Conduct, by: &str) -> Result<Held, Failure> {
        if setup.changes_the_machine() {
            setup = setup.on_behalf_of(by).in_journal(context.journal(self.store.as_deref())?);
        }
        if self.best_effort {
            setup = setup.best_effort();
        }
        let held = setup.apply(&context.host)?;
        Ok(Held { held, conduct, has_fair_server: has_fair_server(&context.host.facts().kernel_release) })
    }

    fn of_a_thread(&self, conduct: Conduct, cpu: Option<usize>) -> Setup {
        let mut setup = Setup::of_a_thread_that(conduct);
        if let Some(cpu) = cpu {
            setup = setup.on_cpu(cpu);
        }
        if let Some(class) = self.class() {
            setup = setup.by(class);
        }
        if self.lock_memory {
            setup = setup.with_stack_of(STACK_BYTES);
        }
        if self.accept_throttling { setup.accepting_throttling() } else { setup }
    }

    fn of_the_machine(&self, mut setup: Setup) -> Setup {
        if self.lock_memory {
            setup = setup.with_memory_locked();
        }
        if self.awake {
            setup = setup.with_cpus_waking_within(Duration::ZERO);
        }
        if self.no_throttling {
            setup = setup.without_throttling();
        }
        if let Some(governor) = &self.governor {
            setup = setup.with_governor(governor);
        }
        if self.no_turbo { setup.without_turbo() } else { setup }
    }
}

/// From Linux 6.12 on.
fn has_fair_server(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (6, 12),
        _ => false,
    }
}

impl Held {
    /// The CPU that the thread stays on.
    pub(crate) fn cpu(&self) -> Option<usize> {
        self.held.cpu()
    }

    /// What is in force now, as the kernel tells it.
    pub(crate) fn settings(&self) -> Settings {
        let refused = self.held.refused().iter();
        let refused = refused.map(|refused| Refused { setting: refused.setting, reason: causes(&refused.error) });
        let mut settings = Settings { in_force: self.held.in_force(), refused: refused.collect(), remark: None };
        let may_be_kept_from = self.conduct == Conduct::Spins && settings.is_throttleable();
        if self.has_fair_server && may_be_kept_from && settings.in_force.fair_server.is_none() {
            settings.remark = Some(UNTOLD);
        }
        settings
    }

    /// Why turning throttling off was not all of it: nothing tells of a fair server that the kernel has.
    pub(crate) fn fair_server_untold(&self) -> Option<&'static str> {
        (self.has_fair_server && self.held.in_force().fair_server.is_none()).then_some(UNTOLD)
    }

    /// Undoes everything, and says which settings of the machine could not be put back.
    pub(crate) fn end(self) -> Vec<String> {
        let failed = self.held.undo();
        let told = failed.iter().map(|error| match error {
            KnobError::ChangedSince { .. } => causes(error),
            _ => format!("a setting was not put back: {}; try `hpt restore`", causes(error)),
        });
        told.collect()
    }
}

const UNTOLD: &str = "since Linux 6.12 a fair server keeps part of each second for ordinary threads that wait, whatever sched_rt_runtime_us says; how much was not \
                      to be read: it takes root, debugfs (mount -t debugfs none /sys/kernel/debug), and a kernel that is not locked down";

impl Settings {
    /// Whether the thread runs before those by which the kernel hands interrupts on, which have SCHED_FIFO 50 unless somebody changed that.
    pub(crate) fn is_before_interrupts(&self) -> bool {
        match self.in_force.policy.as_deref() {
            Some("fifo" | "rr") => self.in_force.priority.is_some_and(|priority| priority >= 50),
            policy => policy == Some("deadline"),
        }
    }

    /// Those of a run of several threads: the first one's, on the CPUs of all of them, and what was refused to any of them or to the whole.
    pub(crate) fn of_several(whole: &Self, threads: impl IntoIterator<Item = Self>) -> Self {
        let mut threads = threads.into_iter();
        let mut all = threads.next().unwrap_or_else(|| whole.clone());
        for thread in threads {
            all.in_force.cpus.extend(thread.in_force.cpus);
            all.in_force.governors.extend(thread.in_force.governors);
            all.refused.extend(thread.refused);
        }
        all.refused.extend(whole.refused.iter().cloned());
        all.in_force.cpus.sort_unstable();
        all.in_force.cpus.dedup();
        all.in_force.governors.sort_unstable();
        all.in_force.governors.dedup();
        all.refused.sort();
        all.refused.dedup();
        all
    }

    /// What is to be said beside the result.
    pub(crate) fn notes(&self) -> Vec<String> {
        let refused = self.refused.iter().map(|Refused { setting, reason }| format!("without {setting}: {reason}"));
        refused.chain(self.remark.map(str::to_owned)).collect()
    }

    fn is_throttleable(&self) -> bool {
        matches!(self.in_force.policy.as_deref(), Some("fifo" | "rr"))
    }

    /// For people, behind where the thread runs.
    pub(crate) fn words(&self, cpu: Option<usize>) -> String {
        self.words_behind(pinned_to(cpu))
    }

    /// The same of threads that are pinned to these.
    pub(crate) fn words_of_threads(&self, cpus: &[usize]) -> String {
        match cpus {
            [] => self.words(None),
            [cpu] => self.words(Some(*cpu)),
            _ => self.words_behind("A thread on each CPU".to_owned()),
        }
    }

    fn words_behind(&self, mut words: String) -> String {
        let told = &self.in_force;
        let ns = Duration::from_nanos;
        if let Some(policy) = told.policy.as_deref().filter(|&policy| policy != "other") {
            words.push_str(&format!(", SCHED_{}", policy.to_uppercase()));
            if let Some(priority) = told.priority {
                words.push_str(&format!(" {priority}"));
            }
            if let Some((runtime, period)) = told.deadline_runtime_ns.zip(told.deadline_period_ns) {
                words.push_str(&format!(" {:?}/{:?}", ns(runtime), ns(period)));
            }
        }
        if self.is_throttleable() {
            let kept = told.bandwidth.filter(|bandwidth| (0..bandwidth.period_us).contains(&bandwidth.runtime_us));
            let us = |us: i64| Duration::from_micros(us.unsigned_abs());
            if let Some(kept) = kept {
                words.push_str(&format!(", throttled to {:?} of each {:?}", us(kept.runtime_us), us(kept.period_us)));
            } else if told.bandwidth.is_some() {
                words.push_str(", sched_rt_runtime_us off");
            }
            match told.fair_server.map(|server| (ns(server.runtime_ns), ns(server.period_ns))) {
                Some((runtime, _)) if runtime.is_zero() => words.push_str(", fair server off"),
                Some((runtime, period)) => {
                    words.push_str(&format!(", {runtime:?} of each {period:?} kept for ordinary threads"));
                }
                None => {}
            }
        }
        if told.locked_bytes.is_some_and(|bytes| bytes > 0) {
            words.push_str(", memory locked");
        }
        match told.wake_latency_us {
            Some(0) => words.push_str(", CPUs kept awake"),
            // The kernel's default stands for no promise.
            Some(us) if us < 1_000_000 => words.push_str(&format!(", CPUs waking within {us} µs")),
            Some(_) | None => {}
        }
        if !told.governors.is_empty() {
            words.push_str(&format!(", governor {}", told.governors.join(" and ")));
        }
        match told.turbo {
            Some(true) => words.push_str(", turbo on"),
            Some(false) => words.push_str(", turbo off"),
            None => {}
        }
        words
    }
}

/// Where a thread runs, for people.
pub(crate) fn pinned_to(cpu: Option<usize>) -> String {
    cpu.map_or_else(|| "Not pinned".to_owned(), |cpu| format!("Pinned to CPU {cpu}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::{PartOfPeriod, Refused, Settings, has_fair_server, part_of_period};

    /// Settings to print.
    pub(crate) fn example() -> Settings {
        let in_force = json!({
            "cpus": [1], "policy": "fifo", "priority": 50, "nice": null, "deadline_runtime_ns": null, "deadline_ns": null, "deadline_period_ns": null,
            "locked_bytes": 5_242_880, "timer_slack_ns": 0, "wake_latency_us": 0, "bandwidth": { "runtime_us": -1, "period_us": 1_000_000 },
            "fair_server": { "cpu": 1, "runtime_ns": 50_000_000, "period_ns": 1_000_000_000 }, "governors": ["performance"], "turbo": null,
        });
        let refused = vec![Refused { setting: "turbo", reason: "there is no such switch".to_owned() }];
        Settings { in_force: serde_json::from_value(in_force).expect("it has this form"), refused, remark: None }
    }

    #[test]
    fn what_is_in_force_is_said_in_words() {
        let mut settings = example();
        assert_eq!(
            settings.words(Some(1)),
            "Pinned to CPU 1, SCHED_FIFO 50, sched_rt_runtime_us off, 50ms of each 1s kept for ordinary threads, memory locked, CPUs kept awake, governor performance"
        );
        assert_eq!(settings.notes(), ["without turbo: there is no such switch"]);
        let told = &mut settings.in_force;
        (told.policy, told.priority) = (Some("deadline".to_owned()), None);
        (told.deadline_runtime_ns, told.deadline_period_ns) = (Some(2_000_000), Some(10_000_000));
        (told.locked_bytes, told.wake_latency_us, told.turbo) = (Some(0), Some(20), Some(false));
        told.governors.clear();
        assert_eq!(settings.words(None), "Not pinned, SCHED_DEADLINE 2ms/10ms, CPUs waking within 20 µs, turbo off");
        let told = &mut settings.in_force;
        (told.policy, told.deadline_runtime_ns) = (Some("rr".to_owned()), None);
        (told.wake_latency_us, told.turbo, told.fair_server) = (Some(2_000_000_000), None, None);
        told.bandwidth = told.bandwidth.map(|mut bandwidth| {
            bandwidth.runtime_us = 950_000;
            bandwidth
        });
        assert_eq!(settings.words(None), "Not pinned, SCHED_RR, throttled to 950ms of each 1s");
    }

    #[test]
    fn the_settings_of_several_threads_are_told_once() {
        let (mut one, mut other) = (example(), example());
        other.in_force.cpus = vec![0];
        other.in_force.governors = vec!["powersave".to_owned()];
        one.remark = Some("a remark");
        let all = Settings::of_several(&example(), [one, other]);
        assert_eq!((all.in_force.cpus.as_slice(), all.refused.len()), (&[0, 1][..], 1));
        assert_eq!(all.in_force.governors, ["performance", "powersave"]);
        assert_eq!(all.notes(), ["without turbo: there is no such switch", "a remark"]);
    }

    #[test]
    fn a_part_of_a_period_is_read_or_refused() {
        let ms = Duration::from_millis;
        assert_eq!(part_of_period("2ms/10ms"), Ok(PartOfPeriod { runtime: ms(2), period: ms(10) }));
        for wrong in ["", "2ms", "2/10", "0s/1s", "2s/1s", "1ms/", "/1ms", "1ms/1s/1s"] {
            assert!(part_of_period(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn kernels_from_6_12_on_have_a_fair_server() {
        assert!(["6.12.0", "6.18.44-fc-v595", "7.0-rc1"].into_iter().all(has_fair_server));
        assert!(!["6.11.9", "6.1.0-12-arm64", "", "unknown", "6"].into_iter().any(has_fair_server));
    }
}
