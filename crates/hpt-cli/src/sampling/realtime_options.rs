//! Options for the scheduling and the system settings of a measuring thread, and how they are applied.

use serde::{Deserialize, Serialize};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, ValueHint};
use hpt_realtime::{Behavior, Pinned, Policy, Setup, allowed_cpus, knobs::Journal};

use super::realtime_settings::{SettingsGuard, has_fair_server};
use crate::{
    arguments::{CpuChoice, SCHEDULING, SYSTEM_WIDE, cpu_choice, is_bare_number},
    context::Context,
    exit::Failure,
};

/// The number of bytes of stack that are prefaulted if memory is locked. No measurement needs more.
const STACK_BYTES: usize = 256 << 10;
/// The kernel's default limit for the exit latency, in microseconds. This value means that there is no limit.
const LONGEST_EXIT_US: u32 = 2_000_000_000;

/// The options of a measurement on one thread, to be flattened into the options of a subcommand.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
pub(crate) struct ThreadOptions {
    /// CPU; any: not pinned [default: isolated or highest]
    #[arg(short, long, value_name = "CPU", value_parser = cpu_choice, allow_hyphen_values = true)]
    pub(crate) cpu: Option<CpuChoice>,
    #[command(flatten)]
    pub(crate) realtime: RealtimeOptions,
}

/// The real-time options without the CPU, for a measurement on several threads.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
pub(crate) struct RealtimeOptions {
    /// Scheduling policy: f:80, r:80, d:2ms/10ms or o
    ///
    /// f: SCHED_FIFO with a priority from 1 to 99. r: SCHED_RR with a priority from 1 to 99. d:
    /// SCHED_DEADLINE with a runtime and a period. o: SCHED_OTHER. A SCHED_DEADLINE thread is
    /// pinned only with --cpu. Default: the policy with which hpt was started.
    #[arg(short = 'P', long, value_name = "POLICY", value_parser = policy, conflicts_with_all = ["fifo", "rr", "deadline"], help_heading = SCHEDULING)]
    priority: Option<PolicyArgument>,
    /// SCHED_FIFO with this priority: same as -P f:PRIORITY
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99), conflicts_with_all = ["rr", "deadline"], help_heading = SCHEDULING, hide_short_help = true)]
    fifo: Option<u8>,
    /// SCHED_RR with this priority: same as -P r:PRIORITY
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99), conflicts_with = "deadline", help_heading = SCHEDULING, hide_short_help = true)]
    rr: Option<u8>,
    /// SCHED_DEADLINE: same as -P d:RUNTIME/PERIOD
    #[arg(long, value_name = "RUNTIME/PERIOD", value_parser = deadline, help_heading = SCHEDULING, hide_short_help = true)]
    deadline: Option<PartOfPeriod>,
    /// Lock memory (mlockall) and prefault 256 KiB of stack
    #[arg(long, help_heading = SCHEDULING, hide_short_help = true)]
    mlockall: bool,
    /// Disable idle states with exit latency above TIME
    ///
    /// Holds /dev/cpu_dma_latency open during the run (PM QoS). 0 disables all idle states. A number without a unit is
    /// in microseconds.
    #[arg(long, value_name = "TIME", value_parser = exit_latency, help_heading = SYSTEM_WIDE)]
    dma_latency: Option<u32>,
    /// Disable real-time throttling
    ///
    /// Sets kernel.sched_rt_runtime_us to -1, and the runtime of the fair server (Linux 6.12) to 0.
    #[arg(long, help_heading = SYSTEM_WIDE, hide_short_help = true)]
    no_throttling: bool,
    /// Spin under a real-time policy despite throttling
    #[arg(long, conflicts_with = "no_throttling", help_heading = SCHEDULING, hide_short_help = true)]
    accept_throttling: bool,
    /// Set the cpufreq governor, for example performance
    #[arg(long, value_name = "NAME", help_heading = SYSTEM_WIDE, hide_short_help = true)]
    governor: Option<String>,
    /// Disable turbo frequencies
    #[arg(long, help_heading = SYSTEM_WIDE, hide_short_help = true)]
    no_turbo: bool,
    /// Continue without settings that are refused
    ///
    /// The result lists the refused settings.
    #[arg(long, help_heading = SCHEDULING, hide_short_help = true)]
    best_effort: bool,
    /// Directory of the change journal [default: /run/hpt]
    ///
    /// hpt records each setting in the journal before changing it. `hpt restore` restores the settings
    /// after a crash.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = SYSTEM_WIDE, hide_short_help = true)]
    journal: Option<PathBuf>,
}

/// The runtime that a SCHED_DEADLINE thread has in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PartOfPeriod {
    runtime: Duration,
    period: Duration,
}

impl PartOfPeriod {
    const fn class(self) -> Policy {
        Policy::Deadline { runtime: self.runtime, deadline: self.period, period: self.period }
    }
}

/// A scheduling policy, as given to `--priority`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PolicyArgument(Policy);

/// Parses `f:80`, `r:80`, `d:2ms/10ms`, `d:2ms:10ms`, `o` and `o:0`.
fn policy(text: &str) -> Result<PolicyArgument, String> {
    let wrong = || {
        let meant = text.parse::<u8>().ok().filter(|priority| (1..=99).contains(priority));
        let meant = meant.map(|priority| format!("; did you mean f:{priority}?")).unwrap_or_default();
        format!("expected f:PRIORITY, r:PRIORITY, d:RUNTIME/PERIOD or o{meant}")
    };
    let (class, parameters) = text.split_once(':').unwrap_or((text, ""));
    let priority = || match parameters.parse() {
        Ok(priority @ 1..=99) => Ok(priority),
        _ => Err(format!("expected a priority from 1 to 99, for example {class}:80")),
    };
    let class = match class {
        "f" => Policy::Fifo(priority()?),
        "r" => Policy::RoundRobin(priority()?),
        "d" => part_of_period(&parameters.replacen(':', "/", 1), "d:")?.class(),
        "o" if ["", "0"].contains(&parameters) => Policy::Other,
        _ => return Err(wrong()),
    };
    Ok(PolicyArgument(class))
}

/// Parses `2ms/10ms`.
fn deadline(text: &str) -> Result<PartOfPeriod, String> {
    part_of_period(text, "")
}

/// Parses `2ms/10ms`. `prefix` is the text before the value on the command line, for messages.
fn part_of_period(text: &str, prefix: &str) -> Result<PartOfPeriod, String> {
    let wrong = || format!("expected a runtime and a period, for example {prefix}2ms/10ms");
    let (runtime, period) = text.split_once('/').ok_or_else(wrong)?;
    if is_bare_number(runtime) || is_bare_number(period) {
        let with_unit = |text| if is_bare_number(text) { format!("{text}ms") } else { text.to_owned() };
        return Err(format!("time unit missing: write {prefix}{}/{}", with_unit(runtime), with_unit(period)));
    }
    let duration = |text| humantime::parse_duration(text).map_err(|error| format!("{error}; {}", wrong()));
    let (runtime, period) = (duration(runtime)?, duration(period)?);
    if runtime.is_zero() || runtime > period {
        return Err("the runtime must be positive and no longer than the period".to_owned());
    }
    Ok(PartOfPeriod { runtime, period })
}

/// Parses an exit latency in microseconds: `0`, `10` or `10us`, as cyclictest and rtla do.
fn exit_latency(text: &str) -> Result<u32, String> {
    let wrong = || "expected a time in whole microseconds, for example 0, 10us or 1ms".to_owned();
    let us = match text.parse::<u128>() {
        Ok(us) => us,
        Err(_) => {
            let time = humantime::parse_duration(text).map_err(|_| wrong())?;
            if time.subsec_nanos() % 1_000 != 0 {
                return Err(wrong());
            }
            time.as_micros()
        }
    };
    u32::try_from(us).ok().filter(|us| *us <= LONGEST_EXIT_US).ok_or_else(|| "must be between 0 and 2000s".to_owned())
}

/// Fails if the kernel refuses to pin a thread to one of these CPUs. `None` means any CPU.
pub(crate) fn check_cpus(cpus: &[Option<usize>]) -> Result<(), Failure> {
    cpus.iter().flatten().try_for_each(|&cpu| Pinned::new(cpu).map(drop)).map_err(Failure::from)
}

/// Returns whether threads on these CPUs that never block would leave none of the CPUs on which the rest of hpt may
/// run. `None` stands for a thread that is not pinned.
pub(crate) fn leaves_no_cpu(cpus: &[Option<usize>]) -> bool {
    let left = allowed_cpus().into_iter().filter(|&cpu| !cpus.contains(&Some(cpu))).count();
    left <= cpus.iter().filter(|cpu| cpu.is_none()).count()
}

/// System settings for a thread with a dedicated core.
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
    /// Returns the default options for a thread on this CPU.
    pub(crate) fn on(cpu: Option<CpuChoice>) -> Self {
        Self { cpu, ..Self::default() }
    }

    /// Returns whether a thread that never blocks would leave no CPU time for others, on the only CPU on which the rest
    /// of hpt may run.
    pub(crate) fn leaves_nothing(&self, context: &Context) -> bool {
        self.realtime.leaves_nothing() && leaves_no_cpu(&[self.cpu(context)])
    }

    /// Fails if the kernel refuses the requested CPU.
    pub(crate) fn check_cpu(&self) -> Result<(), Failure> {
        match self.cpu {
            Some(CpuChoice::Number(cpu)) if !self.realtime.best_effort => check_cpus(&[Some(cpu)]),
            _ => Ok(()),
        }
    }

    /// Returns the CPU of the thread, or `None` if the thread is not to be pinned.
    pub(crate) fn cpu(&self, context: &Context) -> Option<usize> {
        // The kernel does not allow pinning a SCHED_DEADLINE thread.
        if self.cpu.is_none() && self.realtime.is_by_deadline() { None } else { context.cpu(self.cpu) }
    }

    /// Calls [`RealtimeOptions::listen`].
    pub(crate) fn listen(&self, context: &Context) -> Result<(), Failure> {
        self.realtime.listen(context)
    }

    /// Applies the requested settings to the calling thread, which takes the measurements, and to the
    /// system. `by` is the command that the journal records.
    pub(crate) fn hold(&self, context: &Context, conduct: Behavior, by: &str) -> Result<SettingsGuard, Failure> {
        let setup = self.realtime.of_a_thread(conduct, self.cpu(context));
        self.realtime.apply(self.realtime.of_the_machine(setup), context, conduct, by)
    }
}

impl RealtimeOptions {
    /// Returns the options for the system and for a thread with a dedicated core. The settings of
    /// the system are required; the thread gets SCHED_FIFO 99 if permitted.
    pub(crate) fn of_a_core_of_its_own(alone: &Alone, journal: Option<&Path>) -> (Self, Self) {
        let Alone { no_throttling, no_turbo, governor } = alone.clone();
        let machine =
            Self { no_throttling, no_turbo, governor, journal: journal.map(Path::to_owned), ..Self::default() };
        let thread = Self { fifo: Some(99), accept_throttling: true, best_effort: true, ..Self::default() };
        (machine, thread)
    }

    /// As [`listen`](Self::listen), and makes SIGUSR1 ask for the result so far. If the measurement restores something
    /// itself, no signal ends hpt before that.
    pub(crate) fn listen_for_all(&self, is_restored: bool, context: &Context) -> Result<(), Failure> {
        if is_restored {
            context.signals.listen_until_the_end()?;
        } else {
            self.listen(context)?;
        }
        context.signals.listen_for_requests()
    }

    /// Makes Ctrl-C and SIGTERM end the measurement, but not hpt. If system settings are changed, neither a second
    /// signal nor a hang-up ends hpt.
    pub(crate) fn listen(&self, context: &Context) -> Result<(), Failure> {
        let changes = self.of_the_machine(Setup::blocking()).changes_the_machine();
        if changes { context.signals.listen_until_the_end() } else { context.signals.listen() }
    }

    pub(crate) const fn locks_memory(&self) -> bool {
        self.mlockall
    }

    /// Returns whether refused settings are skipped.
    pub(crate) const fn is_by_best_effort(&self) -> bool {
        self.best_effort
    }

    /// Returns the requested scheduling policy.
    pub(crate) fn class(&self) -> Option<Policy> {
        let fifo = || self.fifo.map(Policy::Fifo);
        let rr = || self.rr.map(Policy::RoundRobin);
        let deadline = || self.deadline.map(PartOfPeriod::class);
        self.priority.map(|PolicyArgument(class)| class).or_else(fifo).or_else(rr).or_else(deadline)
    }

    /// Returns whether threads run under SCHED_DEADLINE, which does not allow pinning.
    pub(crate) fn is_by_deadline(&self) -> bool {
        matches!(self.class(), Some(Policy::Deadline { .. }))
    }

    /// Returns whether a thread that never blocks would leave no CPU time for others.
    pub(crate) fn leaves_nothing(&self) -> bool {
        matches!(self.class(), Some(Policy::Fifo(_) | Policy::RoundRobin(_))) && self.no_throttling
    }

    /// Returns the option that changes a setting of the system, if there is one.
    pub(crate) fn option_that_changes_settings(&self) -> Option<&'static str> {
        let options = [
            ("--no-throttling", self.no_throttling),
            ("--no-turbo", self.no_turbo),
            ("--governor", self.governor.is_some()),
        ];
        options.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
    }

    /// Returns whether the kernel throttles a thread with these options that never blocks, and this is not accepted.
    pub(crate) fn is_refused_while_throttled(&self) -> bool {
        let is_throttled = matches!(self.class(), Some(Policy::Fifo(_) | Policy::RoundRobin(_)));
        is_throttled && !self.no_throttling && !self.accept_throttling
    }

    /// Returns whether throttling is to be disabled.
    pub(crate) const fn turns_throttling_off(&self) -> bool {
        self.no_throttling
    }

    /// Applies the requested settings to the process and the system, for threads on these CPUs.
    /// `None` stands for a thread that is not pinned.
    pub(crate) fn hold_around(
        &self,
        context: &Context,
        cpus: &[Option<usize>],
        conduct: Behavior,
        by: &str,
    ) -> Result<SettingsGuard, Failure> {
        let mut setup = self.of_the_machine(Setup::new(conduct));
        if let Some(cpus) = cpus.iter().copied().collect::<Option<Vec<_>>>() {
            setup = setup.with_settings_on_cpus(cpus);
        }
        self.apply(setup, context, conduct, by)
    }

    /// Applies the requested settings to the calling thread, which is one of the measuring threads.
    pub(crate) fn hold_thread(
        &self,
        context: &Context,
        cpu: Option<usize>,
        conduct: Behavior,
        by: &str,
    ) -> Result<SettingsGuard, Failure> {
        // The wake-up latency is measured, so timer slack must not add to it.
        self.apply(self.of_a_thread(conduct, cpu).without_slack(), context, conduct, by)
    }

    fn apply(
        &self,
        mut setup: Setup,
        context: &Context,
        conduct: Behavior,
        by: &str,
    ) -> Result<SettingsGuard, Failure> {
        if setup.changes_the_machine() {
            setup = setup.with_name(by).with_journal(context.journal(self.journal.as_deref())?);
        }
        if self.best_effort {
            setup = setup.with_best_effort();
        }
        let held = setup.apply(&context.host)?;
        let has_fair_server = has_fair_server(&context.host.facts().kernel_release);
        let journal = self.journal.clone().unwrap_or_else(|| Journal::FOLDER.into());
        Ok(SettingsGuard { held, conduct, has_fair_server, refused_cpus: Vec::new(), journal })
    }

    fn of_a_thread(&self, conduct: Behavior, cpu: Option<usize>) -> Setup {
        let mut setup = Setup::new(conduct);
        if let Some(cpu) = cpu {
            setup = setup.with_cpu(cpu);
        }
        if let Some(class) = self.class() {
            setup = setup.with_policy(class);
        }
        if self.mlockall {
            setup = setup.with_stack(STACK_BYTES);
        }
        if self.accept_throttling { setup.with_throttling_accepted() } else { setup }
    }

    fn of_the_machine(&self, mut setup: Setup) -> Setup {
        if self.mlockall {
            setup = setup.with_memory_locked();
        }
        if let Some(us) = self.dma_latency {
            setup = setup.with_max_wakeup_latency(Duration::from_micros(us.into()));
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

    use hpt_realtime::Policy;

    use super::{PartOfPeriod, PolicyArgument, deadline, exit_latency, policy};

    #[test]
    fn a_policy_has_the_notation_of_rtla_and_chrt() {
        let ms = Duration::from_millis;
        let deadline = Policy::Deadline { runtime: ms(2), deadline: ms(10), period: ms(10) };
        for (text, class) in [
            ("f:80", Policy::Fifo(80)),
            ("r:1", Policy::RoundRobin(1)),
            ("d:2ms/10ms", deadline),
            ("d:2ms:10ms", deadline),
            ("o", Policy::Other),
            ("o:0", Policy::Other),
        ] {
            assert_eq!(policy(text), Ok(PolicyArgument(class)), "{text}");
        }
        for wrong in ["", "f", "f:", "f:0", "f:100", "r:-1", "d:2ms", "d:", "o:1", "o:x", "x:1", "80"] {
            assert!(policy(wrong).is_err(), "{wrong}");
        }
        assert!(policy("80").is_err_and(|why| why.ends_with("; did you mean f:80?")));
        assert!(policy("100").is_err_and(|why| !why.contains("did you mean")));
        for (wrong, right) in [("d:2/10", "d:2ms/10ms"), ("d:2:10", "d:2ms/10ms"), ("d:500us/1", "d:500us/1ms")] {
            assert_eq!(policy(wrong), Err(format!("time unit missing: write {right}")));
        }
    }

    #[test]
    fn an_exit_latency_is_a_time_or_microseconds() {
        for (text, us) in [("0", 0), ("10", 10), ("10us", 10), ("1ms", 1_000), ("2000s", 2_000_000_000)] {
            assert_eq!(exit_latency(text), Ok(us), "{text}");
        }
        for wrong in ["", "-1", "1.5", "500ns", "deep", "10 u", "µs"] {
            assert!(exit_latency(wrong).is_err_and(|why| why.contains("for example 0, 10us or 1ms")), "{wrong}");
        }
        for long in ["2000000001", "1h", "99999999999999999999"] {
            assert_eq!(exit_latency(long), Err("must be between 0 and 2000s".to_owned()));
        }
    }

    #[test]
    fn a_runtime_and_period_are_parsed_or_refused() {
        let ms = Duration::from_millis;
        assert_eq!(deadline("2ms/10ms"), Ok(PartOfPeriod { runtime: ms(2), period: ms(10) }));
        for wrong in ["", "2ms", "2/10", "0s/1s", "2s/1s", "1ms/", "/1ms", "1ms/1s/1s"] {
            assert!(deadline(wrong).is_err(), "{wrong}");
        }
    }
}
