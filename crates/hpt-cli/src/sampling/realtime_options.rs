//! Options for the scheduling and the system settings of a measuring thread, and how they are
//! applied.
//! Measures nothing.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use hpt_core::realtime::{Class, Conduct, Setup, allowed_cpus};

use super::realtime_settings::{SettingsGuard, has_fair_server};
use crate::{
    arguments::{CpuChoice, SCHEDULING, SYSTEM_WIDE, cpu_choice},
    context::Context,
    exit::Failure,
};

/// So much of the stack is there beforehand where memory is locked: more than any measurement needs.
const STACK_BYTES: usize = 256 << 10;

/// The options of what measures on one thread, to be flattened into a subcommand's own.
#[derive(Debug, Default, Args)]
pub(crate) struct ThreadOptions {
    /// Run on this CPU; any: not pinned [default: highest]
    #[arg(short, long, value_name = "CPU", value_parser = cpu_choice, allow_hyphen_values = true)]
    cpu: Option<CpuChoice>,
    #[command(flatten)]
    realtime: RealtimeOptions,
}

/// The same without the CPU, for what measures on several threads.
#[derive(Debug, Default, Args)]
pub(crate) struct RealtimeOptions {
    /// Policy: f:80, r:80, d:2ms/10ms or o
    ///
    /// f: SCHED_FIFO with a priority from 1 to 99. r: SCHED_RR with such a priority. d: SCHED_DEADLINE with a runtime in every period. o: SCHED_OTHER. A SCHED_DEADLINE thread is pinned only with --cpu.
    #[arg(short = 'P', long, value_name = "POLICY", value_parser = policy, conflicts_with_all = ["fifo", "rr", "deadline"], help_heading = SCHEDULING)]
    priority: Option<Policy>,
    /// SCHED_FIFO with this priority: same as -P f:PRIORITY
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99), conflicts_with_all = ["rr", "deadline"], help_heading = SCHEDULING, hide_short_help = true)]
    fifo: Option<u8>,
    /// SCHED_RR with this priority: same as -P r:PRIORITY
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99), conflicts_with = "deadline", help_heading = SCHEDULING, hide_short_help = true)]
    rr: Option<u8>,
    /// SCHED_DEADLINE: same as -P d:RUNTIME/PERIOD
    #[arg(long, value_name = "RUNTIME/PERIOD", value_parser = part_of_period, help_heading = SCHEDULING, hide_short_help = true)]
    deadline: Option<PartOfPeriod>,
    /// Lock memory (mlockall), with 256 KiB of stack
    #[arg(long, help_heading = SCHEDULING, hide_short_help = true)]
    mlockall: bool,
    /// Keep CPUs out of idle states slower than this (µs)
    ///
    /// Holds /dev/cpu_dma_latency open during the run. 0 keeps the CPUs out of idle states.
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u32).range(..=2_000_000_000), help_heading = SYSTEM_WIDE)]
    dma_latency: Option<u32>,
    /// Switch real-time throttling off
    ///
    /// Sets kernel.sched_rt_runtime_us to -1, and the runtime of the fair server (Linux 6.12) to 0.
    #[arg(long, help_heading = SYSTEM_WIDE, hide_short_help = true)]
    no_throttling: bool,
    /// Spin with a real-time policy although throttling is on
    #[arg(long, conflicts_with = "no_throttling", help_heading = SCHEDULING, hide_short_help = true)]
    accept_throttling: bool,
    /// Set the cpufreq governor, such as performance
    #[arg(long, value_name = "NAME", help_heading = SYSTEM_WIDE, hide_short_help = true)]
    governor: Option<String>,
    /// Switch turbo frequencies off
    #[arg(long, help_heading = SYSTEM_WIDE, hide_short_help = true)]
    no_turbo: bool,
    /// Continue without settings that are refused
    ///
    /// The result names them.
    #[arg(long, help_heading = SCHEDULING, hide_short_help = true)]
    best_effort: bool,
    /// Directory of the journal of changed settings [default: /run/hpt]
    ///
    /// Each setting is written there before it is changed, and `hpt restore` puts it back after a crash.
    #[arg(long, value_name = "DIR", help_heading = SYSTEM_WIDE, hide_short_help = true)]
    journal: Option<PathBuf>,
}

/// So long in every period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PartOfPeriod {
    runtime: Duration,
    period: Duration,
}

impl PartOfPeriod {
    const fn class(self) -> Class {
        Class::Deadline { runtime: self.runtime, deadline: self.period, period: self.period }
    }
}

/// A class, as `--priority` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Policy(Class);

/// Reads `f:80`, `r:80`, `d:2ms/10ms`, `d:2ms:10ms`, `o` and `o:0`.
fn policy(text: &str) -> Result<Policy, String> {
    let wrong = || "expected f:PRIORITY, r:PRIORITY, d:RUNTIME/PERIOD or o".to_owned();
    let (class, parameters) = text.split_once(':').unwrap_or((text, ""));
    let priority = || match parameters.parse() {
        Ok(priority @ 1..=99) => Ok(priority),
        _ => Err(format!("expected a priority from 1 to 99, like {class}:80")),
    };
    let class = match class {
        "f" => Class::Fifo { priority: priority()? },
        "r" => Class::RoundRobin { priority: priority()? },
        "d" => part_of_period(&parameters.replacen(':', "/", 1))?.class(),
        "o" if ["", "0"].contains(&parameters) => Class::Other,
        _ => return Err(wrong()),
    };
    Ok(Policy(class))
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
    /// Run isolated-core with real-time throttling off
    ///
    /// Sets kernel.sched_rt_runtime_us to -1, and the runtime of the fair server (Linux 6.12) to 0.
    #[arg(long, requires = "names", help_heading = SYSTEM_WIDE, hide_short_help = true)]
    pub(crate) no_throttling: bool,
    /// Run isolated-core with turbo frequencies off
    #[arg(long, requires = "names", help_heading = SYSTEM_WIDE, hide_short_help = true)]
    pub(crate) no_turbo: bool,
    /// Run isolated-core with this cpufreq governor
    #[arg(long, value_name = "NAME", requires = "names", help_heading = SYSTEM_WIDE, hide_short_help = true)]
    pub(crate) governor: Option<String>,
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
    pub(crate) fn hold(&self, context: &Context, conduct: Conduct, by: &str) -> Result<SettingsGuard, Failure> {
        // The kernel does not let a thread by SCHED_DEADLINE be pinned.
        let pinned = if self.cpu.is_none() && self.realtime.is_by_deadline() { None } else { Context::cpu(self.cpu) };
        let setup = self.realtime.of_a_thread(conduct, pinned);
        self.realtime.apply(self.realtime.of_the_machine(setup), context, conduct, by)
    }
}

impl RealtimeOptions {
    /// The machine around a thread that has a core of its own, which is as asked for or refused, and that thread, which has SCHED_FIFO 99 where it is
    /// allowed.
    pub(crate) fn of_a_core_of_its_own(alone: &Alone, journal: Option<&Path>) -> (Self, Self) {
        let Alone { no_throttling, no_turbo, governor } = alone.clone();
        let machine =
            Self { no_throttling, no_turbo, governor, journal: journal.map(Path::to_owned), ..Self::default() };
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
        self.mlockall
    }

    /// Whether what is refused is left out.
    pub(crate) const fn is_by_best_effort(&self) -> bool {
        self.best_effort
    }

    /// The class that is asked for.
    pub(crate) fn class(&self) -> Option<Class> {
        let fifo = || self.fifo.map(|priority| Class::Fifo { priority });
        let rr = || self.rr.map(|priority| Class::RoundRobin { priority });
        let deadline = || self.deadline.map(PartOfPeriod::class);
        self.priority.map(|Policy(class)| class).or_else(fifo).or_else(rr).or_else(deadline)
    }

    /// Whether threads run by a class that they cannot have on a CPU of their own.
    pub(crate) fn is_by_deadline(&self) -> bool {
        matches!(self.class(), Some(Class::Deadline { .. }))
    }

    /// Whether a thread that never waits leaves nothing of its CPU to others.
    pub(crate) fn leaves_nothing(&self) -> bool {
        matches!(self.class(), Some(Class::Fifo { .. } | Class::RoundRobin { .. })) && self.no_throttling
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
    ) -> Result<SettingsGuard, Failure> {
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
    ) -> Result<SettingsGuard, Failure> {
        // How late it is woken is what is measured: not for the kernel's convenience.
        self.apply(self.of_a_thread(conduct, cpu).without_slack(), context, conduct, by)
    }

    fn apply(&self, mut setup: Setup, context: &Context, conduct: Conduct, by: &str) -> Result<SettingsGuard, Failure> {
        if setup.changes_the_machine() {
            setup = setup.on_behalf_of(by).in_journal(context.journal(self.journal.as_deref())?);
        }
        if self.best_effort {
            setup = setup.best_effort();
        }
        let held = setup.apply(&context.host)?;
        Ok(SettingsGuard { held, conduct, has_fair_server: has_fair_server(&context.host.facts().kernel_release) })
    }

    fn of_a_thread(&self, conduct: Conduct, cpu: Option<usize>) -> Setup {
        let mut setup = Setup::of_a_thread_that(conduct);
        if let Some(cpu) = cpu {
            setup = setup.on_cpu(cpu);
        }
        if let Some(class) = self.class() {
            setup = setup.by(class);
        }
        if self.mlockall {
            setup = setup.with_stack_of(STACK_BYTES);
        }
        if self.accept_throttling { setup.accepting_throttling() } else { setup }
    }

    fn of_the_machine(&self, mut setup: Setup) -> Setup {
        if self.mlockall {
            setup = setup.with_memory_locked();
        }
        if let Some(us) = self.dma_latency {
            setup = setup.with_cpus_waking_within(Duration::from_micros(us.into()));
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

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use hpt_core::realtime::Class;

    use super::{PartOfPeriod, Policy, part_of_period, policy};

    #[test]
    fn a_policy_is_written_as_for_rtla_and_chrt() {
        let ms = Duration::from_millis;
        let deadline = Class::Deadline { runtime: ms(2), deadline: ms(10), period: ms(10) };
        for (text, class) in [
            ("f:80", Class::Fifo { priority: 80 }),
            ("r:1", Class::RoundRobin { priority: 1 }),
            ("d:2ms/10ms", deadline),
            ("d:2ms:10ms", deadline),
            ("o", Class::Other),
            ("o:0", Class::Other),
        ] {
            assert_eq!(policy(text), Ok(Policy(class)), "{text}");
        }
        for wrong in ["", "f", "f:", "f:0", "f:100", "r:-1", "d:2ms", "d:", "o:1", "o:x", "x:1", "80"] {
            assert!(policy(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_part_of_a_period_is_read_or_refused() {
        let ms = Duration::from_millis;
        assert_eq!(part_of_period("2ms/10ms"), Ok(PartOfPeriod { runtime: ms(2), period: ms(10) }));
        for wrong in ["", "2ms", "2/10", "0s/1s", "2s/1s", "1ms/", "/1ms", "1ms/1s/1s"] {
            assert!(part_of_period(wrong).is_err(), "{wrong}");
        }
    }
}
