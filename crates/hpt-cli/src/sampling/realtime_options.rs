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
    arguments::{CpuChoice, cpu_choice},
    context::Context,
    exit::Failure,
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
            setup = setup.on_behalf_of(by).in_journal(context.journal(self.store.as_deref())?);
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

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::{PartOfPeriod, part_of_period};

    #[test]
    fn a_part_of_a_period_is_read_or_refused() {
        let ms = Duration::from_millis;
        assert_eq!(part_of_period("2ms/10ms"), Ok(PartOfPeriod { runtime: ms(2), period: ms(10) }));
        for wrong in ["", "2ms", "2/10", "0s/1s", "2s/1s", "1ms/", "/1ms", "1ms/1s/1s"] {
            assert!(part_of_period(wrong).is_err(), "{wrong}");
        }
    }
}
