//! All settings of a time-critical thread: requested together, applied in a suitable order, and undone in reverse
//! order. This module does not change settings that are not requested.

use std::{marker::PhantomData, time::Duration};

use hpt_sys::{host::Host, slack::NoSlack};

use super::{
    AwakeCpus, Behavior, EffectiveSettings, LockedMemory, Pinned, Policy, PolicyGuard, RealtimeError, ShortSlice,
    allowed_cpus, limits::Limits, machine, prefault_stack,
};
use crate::knobs::{Change, Changing, Journal, KnobError, Setting};

/// The requested settings of a time-critical thread.
///
/// Nothing is changed until [`apply`](Self::apply) is called. Dropping the returned [`RealtimeGuard`] restores all
/// settings. System-wide settings are changed only if they are requested here. Each such change is recorded beforehand;
/// see [`knobs`](crate::knobs).
#[derive(Clone, Debug)]
#[must_use = "nothing is changed until the setup is applied"]
pub struct Setup {
    behavior: Behavior,
    cpu: Option<usize>,
    around: Option<Vec<usize>>,
    policy: Option<Policy>,
    memory_locked: bool,
    stack_bytes: Option<usize>,
    without_slack: bool,
    slice: Option<Duration>,
    waking_within: Option<Duration>,
    without_throttling: bool,
    governor: Option<String>,
    without_turbo: bool,
    throttling_accepted: bool,
    best_effort: bool,
    journal: Option<Journal>,
    by: String,
}

impl Setup {
    /// Creates an empty request for a thread that blocks repeatedly and thereby lets other threads run.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_realtime::{Policy, Setup};
    ///
    /// // For a loop that sleeps in each period.
    /// let setup = Setup::blocking().with_policy(Policy::Fifo(50)).with_memory_locked();
    /// assert!(!setup.changes_the_machine());
    /// ```
    pub fn blocking() -> Self {
        Self::new(Behavior::Blocks)
    }

    /// Creates an empty request for a thread that never blocks. RT throttling pauses such a thread for part of every
    /// second. While throttling is on, a real-time policy is therefore refused, unless throttling is
    /// [accepted](Self::with_throttling_accepted).
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::{Policy, Setup};
    ///
    /// let setup = Setup::spinning().with_policy(Policy::Fifo(50));
    /// match setup.apply(&Host::live()) {
    ///     Ok(_held) => println!("neither a limit nor throttling stops this thread"),
    ///     Err(refused) => println!("{refused}"),
    /// }
    /// ```
    pub fn spinning() -> Self {
        Self::new(Behavior::Spins)
    }

    /// Creates an empty request: [`blocking`](Self::blocking) or [`spinning`](Self::spinning).
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_realtime::{Behavior, Setup};
    ///
    /// /// The caller knows whether its thread blocks.
    /// fn setup(behavior: Behavior) -> Setup {
    ///     Setup::new(behavior).with_memory_locked().without_slack()
    /// }
    ///
    /// assert!(!setup(Behavior::Spins).changes_the_machine());
    /// ```
    pub fn new(behavior: Behavior) -> Self {
        Self {
            behavior,
            cpu: None,
            around: None,
            policy: None,
            memory_locked: false,
            stack_bytes: None,
            without_slack: false,
            slice: None,
            waking_within: None,
            without_throttling: false,
            governor: None,
            without_turbo: false,
            throttling_accepted: false,
            best_effort: false,
            journal: None,
            by: "a program using hpt-realtime".to_owned(),
        }
    }

    /// Pins the thread to this CPU. A thread under [`Policy::Deadline`] cannot be pinned, unless the CPU has a cpuset
    /// partition of its own.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::{Setup, allowed_cpus};
    ///
    /// let cpu = allowed_cpus()[0];
    /// let held = Setup::blocking().with_cpu(cpu).apply(&Host::live())?;
    /// assert_eq!(held.cpu(), Some(cpu));
    /// # Ok::<(), hpt_realtime::RealtimeError>(())
    /// ```
    pub fn with_cpu(mut self, cpu: usize) -> Self {
        self.cpu = Some(cpu);
        self
    }

    /// Applies system-wide settings to these CPUs instead of the calling thread's CPUs, to prepare the system for
    /// several threads.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use hpt_core::Host;
    /// use hpt_realtime::Setup;
    ///
    /// // The threads that run on these CPUs apply their own policies.
    /// let setup = Setup::blocking().with_settings_on_cpus([2, 3]).with_governor("performance");
    /// let _held = setup.apply(&Host::live())?;
    /// # Ok::<(), hpt_realtime::RealtimeError>(())
    /// ```
    pub fn with_settings_on_cpus(mut self, cpus: impl Into<Vec<usize>>) -> Self {
        self.around = Some(cpus.into());
        self
    }

    /// Sets the scheduling policy of the thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::{Policy, Setup};
    ///
    /// match Setup::blocking().with_policy(Policy::Fifo(50)).apply(&Host::live()) {
    ///     Ok(held) => assert_eq!(held.effective().priority, Some(50)),
    ///     Err(refused) => println!("{refused}"),
    /// }
    /// ```
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Locks all memory of the process.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::Setup;
    ///
    /// match Setup::blocking().with_memory_locked().apply(&Host::live()) {
    ///     Ok(held) => println!("{:?} bytes are locked", held.effective().locked_bytes),
    ///     Err(refused) => println!("{refused}"),
    /// }
    /// ```
    pub fn with_memory_locked(mut self) -> Self {
        self.memory_locked = true;
        self
    }

    /// Touches this number of bytes of the thread's stack in advance.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::Setup;
    ///
    /// match Setup::blocking().with_memory_locked().with_stack(64 << 10).apply(&Host::live()) {
    ///     Ok(_held) => println!("64 KiB of the stack are in memory"),
    ///     Err(refused) => println!("{refused}"),
    /// }
    /// ```
    pub fn with_stack(mut self, bytes: usize) -> Self {
        self.stack_bytes = Some(bytes);
        self
    }

    /// Sets the thread's timer slack to 1 ns, the minimum.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::Setup;
    ///
    /// let held = Setup::blocking().without_slack().apply(&Host::live())?;
    /// println!("timer slack: {:?} ns", held.effective().timer_slack_ns);
    /// # Ok::<(), hpt_realtime::RealtimeError>(())
    /// ```
    pub fn without_slack(mut self) -> Self {
        self.without_slack = true;
        self
    }

    /// Sets the thread's time slice, 0.1 ms or longer, for waits beside other threads that need its CPU. See
    /// [`ShortSlice`]. For a thread without real-time policy, since Linux 6.12.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Host;
    /// use hpt_realtime::Setup;
    ///
    /// let setup = Setup::blocking().with_slice(Duration::from_micros(100)).with_best_effort();
    /// let held = setup.apply(&Host::live())?;
    /// for refused in held.refused() {
    ///     println!("without {}: {}", refused.setting, refused.error);
    /// }
    /// # Ok::<(), hpt_realtime::RealtimeError>(())
    /// ```
    pub fn with_slice(mut self, slice: Duration) -> Self {
        self.slice = Some(slice);
        self
    }

    /// Limits the exit latency of CPU idle states to `latency` (PM QoS), in whole microseconds; zero keeps all CPUs out
    /// of idle states.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Host;
    /// use hpt_realtime::Setup;
    ///
    /// let setup = Setup::blocking().with_max_wakeup_latency(Duration::from_micros(20));
    /// match setup.apply(&Host::live()) {
    ///     Ok(held) => println!("{:?} µs at most", held.effective().wake_latency_us),
    ///     Err(refused) => println!("{refused}"),
    /// }
    /// ```
    pub fn with_max_wakeup_latency(mut self, latency: Duration) -> Self {
        self.waking_within = Some(latency);
        self
    }

    /// Disables RT throttling system-wide, and disables the fair server on this thread's CPUs. A busy-waiting thread
    /// then occupies its CPU completely.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use hpt_core::Host;
    /// use hpt_realtime::{Policy, Setup};
    ///
    /// let setup = Setup::spinning().with_cpu(3).with_policy(Policy::Fifo(50)).without_throttling();
    /// assert!(setup.changes_the_machine());
    /// let _held = setup.apply(&Host::live())?;
    /// # Ok::<(), hpt_realtime::RealtimeError>(())
    /// ```
    pub fn without_throttling(mut self) -> Self {
        self.without_throttling = true;
        self
    }

    /// Sets the frequency governor of this thread's CPUs, for example `performance`. This setting is system-wide.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use hpt_core::Host;
    /// use hpt_realtime::Setup;
    ///
    /// let held = Setup::blocking().with_cpu(3).with_governor("performance").apply(&Host::live())?;
    /// assert_eq!(held.effective().governors, ["performance"]);
    /// # Ok::<(), hpt_realtime::RealtimeError>(())
    /// ```
    pub fn with_governor(mut self, name: impl Into<String>) -> Self {
        self.governor = Some(name.into());
        self
    }

    /// Disables frequencies above the nominal frequency. This setting is system-wide.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use hpt_core::Host;
    /// use hpt_realtime::Setup;
    ///
    /// let held = Setup::blocking().without_turbo().apply(&Host::live())?;
    /// assert_eq!(held.effective().turbo, Some(false));
    /// # Ok::<(), hpt_realtime::RealtimeError>(())
    /// ```
    pub fn without_turbo(mut self) -> Self {
        self.without_turbo = true;
        self
    }

    /// Allows a real-time policy for a busy-waiting thread even if throttling is on.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::{Policy, RealtimeError, Setup};
    ///
    /// let host = Host::live();
    /// let setup = Setup::spinning().with_policy(Policy::Fifo(1));
    /// if let Err(RealtimeError::Throttled { throttling, .. }) = setup.apply(&host) {
    ///     println!("accepting that {throttling}");
    ///     let _held = setup.with_throttling_accepted().with_best_effort().apply(&host)?;
    /// }
    /// # Ok::<(), RealtimeError>(())
    /// ```
    pub fn with_throttling_accepted(mut self) -> Self {
        self.throttling_accepted = true;
        self
    }

    /// Skips settings that are refused, and lists them in the guard. Without best effort, the first refusal undoes
    /// everything and is returned as the error.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::Setup;
    ///
    /// // No machine has this CPU.
    /// let held = Setup::blocking().with_cpu(100_000).with_best_effort().apply(&Host::live())?;
    /// let refused: Vec<_> = held.refused().iter().map(|refused| refused.setting).collect();
    /// assert_eq!(refused, ["cpu"]);
    /// # Ok::<(), hpt_realtime::RealtimeError>(())
    /// ```
    pub fn with_best_effort(mut self) -> Self {
        self.best_effort = true;
        self
    }

    /// Sets the journal that records the system-wide changes. By default, this is the journal in [`Journal::FOLDER`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use hpt_core::Host;
    /// use hpt_realtime::{Setup, knobs::Journal};
    ///
    /// let host = Host::live();
    /// let journal = Journal::open("/run/my-daemon", &host)?;
    /// let _held = Setup::blocking().without_turbo().with_journal(journal).apply(&host)?;
    /// # Ok::<(), hpt_realtime::RealtimeError>(())
    /// ```
    pub fn with_journal(mut self, journal: Journal) -> Self {
        self.journal = Some(journal);
        self
    }

    /// Sets the program name that the journal records with system-wide changes.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use hpt_core::Host;
    /// use hpt_realtime::Setup;
    ///
    /// let _held = Setup::blocking().without_turbo().with_name("my-daemon").apply(&Host::live())?;
    /// # Ok::<(), hpt_realtime::RealtimeError>(())
    /// ```
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.by = name.into();
        self
    }

    /// Returns whether this setup changes system-wide settings. Such settings stay changed if the process is killed.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_realtime::{Policy, Setup};
    ///
    /// assert!(!Setup::blocking().with_policy(Policy::Fifo(50)).changes_the_machine());
    /// assert!(Setup::blocking().without_turbo().changes_the_machine());
    /// ```
    #[must_use]
    pub const fn changes_the_machine(&self) -> bool {
        self.without_throttling || self.governor.is_some() || self.without_turbo
    }

    /// Applies the settings to the calling thread, and to the system if requested.
    ///
    /// # Errors
    ///
    /// Returns [`RealtimeError`] for the first setting that was refused; everything applied before it is undone. With
    /// [best effort](Self::with_best_effort), returns an error only for a system snapshot.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::{Policy, Setup};
    ///
    /// match Setup::blocking().with_policy(Policy::Fifo(50)).without_slack().apply(&Host::live()) {
    ///     Ok(held) => {
    ///         // The time-critical work.
    ///         drop(held);
    ///     }
    ///     Err(refused) => println!("{refused}"),
    /// }
    /// ```
    pub fn apply(&self, host: &Host) -> Result<RealtimeGuard, RealtimeError> {
        if !host.is_live() {
            return Err(RealtimeError::Captured);
        }
        self.put_in_force(host)
    }

    fn put_in_force(&self, host: &Host) -> Result<RealtimeGuard, RealtimeError> {
        let mut held = RealtimeGuard {
            host: host.clone(),
            cpu: None,
            steps: Vec::new(),
            refused: Vec::new(),
            bound_to_its_thread: PhantomData,
        };
        let mut changing = None;
        let own = || self.cpu.map_or_else(allowed_cpus, |cpu| vec![cpu]);
        let cpus = self.around.clone().unwrap_or_else(own);
        // The thread is pinned first, because the other settings depend on it. The policy is applied last, so that
        // applying the other settings does not delay other threads.
        if let Some(cpu) = self.cpu {
            let pinned = self.step(&mut held, "cpu", |_| Ok(Step::Cpu(Box::new(Pinned::new(cpu)?))))?;
            held.cpu = pinned.then_some(cpu);
        }
        if self.without_throttling {
            let settings = machine::without_throttling(host, &cpus);
            self.change(&mut held, &mut changing, "throttling", settings)?;
        }
        if let Some(governor) = &self.governor {
            let settings = machine::governor_settings(host, &cpus, governor);
            self.change(&mut held, &mut changing, "governor", settings)?;
        }
        if self.without_turbo {
            let settings = machine::no_turbo_settings(host, &cpus);
            self.change(&mut held, &mut changing, "turbo", settings)?;
        }
        if let Some(latency) = self.waking_within {
            self.step(&mut held, "wake-latency", |_| Ok(Step::Awake(AwakeCpus::with_latency(latency)?)))?;
        }
        if self.memory_locked {
            self.step(&mut held, "memory", |_| Ok(Step::Memory(LockedMemory::new()?)))?;
        }
        if let Some(bytes) = self.stack_bytes {
            self.step(&mut held, "stack", |_| prefault_stack(bytes).map(|()| Step::Stack))?;
        }
        if self.without_slack {
            self.step(&mut held, "timer-slack", |_| Ok(Step::Slack(NoSlack::hold())))?;
        }
        if let Some(slice) = self.slice {
            self.step(&mut held, "slice", |_| Ok(Step::Slice(ShortSlice::new(slice)?)))?;
        }
        if let Some(policy) = self.policy {
            self.step(&mut held, "policy", |host| {
                self.refuse_what_a_limit_would_end(host, policy)?;
                self.refuse_if_throttled(host, policy, &cpus)?;
                Ok(Step::Policy(PolicyGuard::new(policy)?))
            })?;
        }
        Ok(held)
    }

    fn refuse_what_a_limit_would_end(&self, host: &Host, policy: Policy) -> Result<(), RealtimeError> {
        if self.behavior == Behavior::Blocks || !policy.is_throttled() {
            return Ok(());
        }
        match Limits::of_this_thread(host).realtime_timeout_us {
            None | Some(u64::MAX) => Ok(()),
            Some(us) => Err(RealtimeError::Timeout { policy, limit: Duration::from_micros(us) }),
        }
    }

    fn refuse_if_throttled(&self, host: &Host, policy: Policy, cpus: &[usize]) -> Result<(), RealtimeError> {
        if self.behavior == Behavior::Blocks || self.throttling_accepted || !policy.is_throttled() {
            return Ok(());
        }
        match machine::throttling(host, cpus) {
            Some(throttling) => Err(RealtimeError::Throttled { policy, throttling }),
            None => Ok(()),
        }
    }

    /// Applies one step, and returns whether it was applied.
    fn step(
        &self,
        held: &mut RealtimeGuard,
        setting: &'static str,
        step: impl FnOnce(&Host) -> Result<Step, RealtimeError>,
    ) -> Result<bool, RealtimeError> {
        match step(&held.host) {
            Ok(step) => {
                held.steps.push(step);
                Ok(true)
            }
            Err(error) if self.best_effort => {
                held.refused.push(Refused { setting, error });
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Changes system-wide settings, each in a separate step. With best effort, a refused setting does not undo the
    /// settings that were applied before it.
    fn change(
        &self,
        held: &mut RealtimeGuard,
        changing: &mut Option<Changing>,
        what: &'static str,
        settings: Result<Vec<Setting>, RealtimeError>,
    ) -> Result<(), RealtimeError> {
        let settings = match settings {
            Ok(settings) => settings,
            Err(error) => {
                self.step(held, what, |_| Err(error))?;
                return Ok(());
            }
        };
        for Setting { knob, value } in settings {
            self.step(held, what, |host| {
                let refused = |cause| RealtimeError::Knob { what, cause };
                let is_so = knob.value().map_err(refused)? == value;
                // If this process may not change the setting, it is enough that the setting has the requested value.
                // Otherwise, other processes are also prevented from changing the setting, and a value that a killed
                // process left behind is not accepted.
                match knob.may_be_set() {
                    Err(_) if is_so => return Ok(Step::AsItWas),
                    may => may.map_err(refused)?,
                }
                // One lock covers all settings. It prevents changes by other processes, but not the next change by
                // this process.
                let changing = match changing {
                    Some(changing) => changing,
                    None => {
                        let journal = self.journal.clone();
                        let journal = journal.map_or_else(|| Journal::open(Journal::FOLDER, host), Ok)?;
                        changing.insert(journal.changing(&self.by)?)
                    }
                };
                let mut change = changing.begin(&knob).map_err(refused)?;
                if !is_so {
                    change.set(&value).map_err(refused)?;
                }
                Ok(Step::Knob(Box::new(change)))
            })?;
        }
        Ok(())
    }
}

/// A step that is undone when this value is dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "guards are only dropped")]
enum Step {
    Cpu(Box<Pinned>),
    Policy(PolicyGuard),
    Memory(LockedMemory),
    Stack,
    Slack(NoSlack),
    Slice(ShortSlice),
    Awake(AwakeCpus),
    Knob(Box<Change>),
    AsItWas,
}

/// A requested setting that is not in effect, and the reason.
#[derive(Debug)]
#[non_exhaustive]
pub struct Refused {
    /// The setting: `cpu`, `throttling`, `governor`, `turbo`, `wake-latency`, `memory`, `stack`, `timer-slack`, `slice`
    /// or `policy`.
    pub setting: &'static str,
    /// The reason why the setting is not in effect, with the fix.
    pub error: RealtimeError,
}

/// A guard for the settings that a [`Setup`] applied. Dropping the guard, even on a panic, undoes all steps in reverse
/// order.
///
/// Nothing is restored if the process is killed or calls [`std::process::exit`]. The journal then still contains the
/// system-wide settings, and [`Journal::restore`] restores them.
#[derive(Debug)]
#[must_use = "all settings are restored when the guard is dropped"]
pub struct RealtimeGuard {
    host: Host,
    cpu: Option<usize>,
    steps: Vec<Step>,
    refused: Vec<Refused>,
    bound_to_its_thread: PhantomData<*const ()>,
}

impl RealtimeGuard {
    /// Returns the CPU to which this setup pinned the thread, if any.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::Setup;
    ///
    /// let held = Setup::blocking().apply(&Host::live())?;
    /// // No CPU was requested.
    /// assert_eq!(held.cpu(), None);
    /// # Ok::<(), hpt_realtime::RealtimeError>(())
    /// ```
    #[must_use]
    pub const fn cpu(&self) -> Option<usize> {
        self.cpu
    }

    /// Returns the settings that were requested with best effort and are not in effect.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::Setup;
    ///
    /// let setup = Setup::blocking().with_memory_locked().without_slack();
    /// let held = setup.with_best_effort().apply(&Host::live())?;
    /// for refused in held.refused() {
    ///     println!("without {}: {}", refused.setting, refused.error);
    /// }
    /// # Ok::<(), hpt_realtime::RealtimeError>(())
    /// ```
    #[must_use]
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// Returns the settings in effect now, as read back from the kernel.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::{Setup, allowed_cpus};
    ///
    /// let cpu = allowed_cpus()[0];
    /// let held = Setup::blocking().with_cpu(cpu).apply(&Host::live())?;
    /// assert_eq!(held.effective().cpus, [cpu]);
    /// # Ok::<(), hpt_realtime::RealtimeError>(())
    /// ```
    #[must_use]
    pub fn effective(&self) -> EffectiveSettings {
        EffectiveSettings::of_this_thread(&self.host)
    }

    /// Undoes all steps in reverse order, and returns the errors of system-wide settings that could not be restored.
    /// The journal keeps the entries of these settings. Dropping the guard also undoes all steps, but returns nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::Setup;
    ///
    /// let held = Setup::blocking().without_slack().apply(&Host::live())?;
    /// // The time-critical work.
    /// for error in held.undo() {
    ///     eprintln!("{error}");
    /// }
    /// # Ok::<(), hpt_realtime::RealtimeError>(())
    /// ```
    #[must_use = "settings that could not be restored must be reported"]
    pub fn undo(mut self) -> Vec<KnobError> {
        self.undo_all()
    }

    fn undo_all(&mut self) -> Vec<KnobError> {
        let mut failed = Vec::new();
        while let Some(step) = self.steps.pop() {
            if let Step::Knob(change) = step {
                failed.extend(change.restore().err());
            }
        }
        failed
    }
}

impl Drop for RealtimeGuard {
    fn drop(&mut self) {
        // The error cannot be returned here, but the journal still holds the original value.
        let _ = self.undo_all();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{RealtimeGuard, Setup};
    use crate::{
        EffectiveSettings, Policy, RealtimeError, Throttling, allowed_cpus,
        knobs::{Contents, Journal},
        machine::tests::Machine,
        memory::ONE_AT_A_TIME,
        state::Binding,
    };
    use hpt_sys::host::{BootId, Host};

    const RUNTIME: &str = "proc/sys/kernel/sched_rt_runtime_us";
    const GOVERNOR: &str = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor";
    const BOOST: &str = "sys/devices/system/cpu/cpufreq/boost";

    fn journal(machine: &Machine) -> Journal {
        let boot = BootId::parse("0f9c1f39-3b44-4a4f-8a43-0c3a7f4c2a10").expect("a boot identity");
        Journal::bound_to(machine.folder.path().join("state"), Binding { boot, processor: "any".to_owned() })
    }

    fn entries(machine: &Machine) -> usize {
        match journal(machine).contents().expect("readable") {
            Contents::Entries(entries) => entries.len(),
            Contents::Nothing | Contents::OfAnotherBoot => 0,
        }
    }

    /// Requests all settings, on a simulated machine made of files.
    fn everything(machine: &Machine) -> Setup {
        machine.write(BOOST, "1");
        Setup::spinning()
            .with_cpu(allowed_cpus()[0])
            .with_policy(Policy::Fifo(2))
            .with_memory_locked()
            .with_stack(64 << 10)
            .without_slack()
            .with_max_wakeup_latency(Duration::from_micros(5))
            .without_throttling()
            .with_governor("performance")
            .without_turbo()
            .with_journal(journal(machine))
            .with_name("a test")
    }

    fn names(held: &RealtimeGuard) -> Vec<&'static str> {
        held.refused().iter().map(|refused| refused.setting).collect()
    }

    #[test]
    fn every_setting_is_applied_and_then_restored() {
        let _alone = ONE_AT_A_TIME.lock();
        let machine = Machine::new("950000");
        if allowed_cpus()[0] > 1 {
            return skipped!("the machine made of files has CPUs 0 and 1");
        }
        let before = EffectiveSettings::of_this_thread(&Host::live());
        let held = everything(&machine)
            .with_best_effort()
            .put_in_force(&machine.host)
            .expect("best effort skips refused settings");
        // The files of the simulated machine require no permission here; which settings of this thread take effect
        // depends on the kernel.
        let refused = names(&held);
        assert!(
            !["cpu", "throttling", "governor", "turbo", "stack", "timer-slack"]
                .iter()
                .any(|name| refused.contains(name)),
            "{held:?}"
        );
        assert_eq!((machine.read(RUNTIME).as_str(), machine.read(BOOST).as_str()), ("-1", "0"));
        assert_eq!((machine.read(GOVERNOR).as_str(), entries(&machine)), ("performance", 3));
        let during = EffectiveSettings::of_this_thread(&Host::live());
        assert_eq!(during.cpus, [allowed_cpus()[0]]);
        for (name, in_force) in [
            ("policy", during.priority == Some(2)),
            ("memory", during.locked_bytes > before.locked_bytes),
            ("wake-latency", during.wake_latency_us.is_some_and(|latency| latency <= 5)),
        ] {
            assert_ne!(refused.contains(&name), in_force, "{name} {held:?}");
            if !in_force {
                skipped!("{name} requires root");
            }
        }
        drop(held);
        let after = EffectiveSettings::of_this_thread(&Host::live());
        let scheduling =
            |told: &EffectiveSettings| (told.cpus.clone(), told.policy.clone(), told.timer_slack_ns, told.locked_bytes);
        assert_eq!(scheduling(&after), scheduling(&before));
        assert_eq!((machine.read(RUNTIME).as_str(), machine.read(BOOST).as_str()), ("950000", "1"));
        assert_eq!((machine.read(GOVERNOR).as_str(), entries(&machine)), ("powersave", 0));
    }

    #[test]
    fn the_first_refusal_restores_earlier_settings() {
        let _alone = ONE_AT_A_TIME.lock();
        let machine = Machine::new("950000");
        let cpus = allowed_cpus();
        let refused = everything(&machine).with_governor("haste").put_in_force(&machine.host);
        let error = refused.expect_err("there is no such governor");
        let expected = matches!(error, RealtimeError::NoSuchGovernor { .. } | RealtimeError::NoSuchSetting { .. });
        assert!(expected, "{error}");
        assert_eq!((machine.read(RUNTIME).as_str(), entries(&machine)), ("950000", 0));
        assert_eq!(allowed_cpus(), cpus);
        let wanted = Setup::blocking().with_cpu(100_000);
        assert!(matches!(wanted.put_in_force(&machine.host), Err(RealtimeError::Cpu(_))));
        let held = wanted.with_best_effort().put_in_force(&machine.host).expect("best effort skips refused settings");
        assert_eq!((names(&held), held.cpu()), (vec!["cpu"], None));
    }

    #[test]
    fn a_policy_is_refused_to_a_non_blocking_thread_if_a_limit_would_kill_the_program() {
        let machine = Machine::new("-1");
        machine
            .write("proc/thread-self/limits", "Max realtime timeout      200000               unlimited            us");
        let spins = Setup::spinning().with_policy(Policy::Fifo(1));
        // Accepting throttling does not imply accepting this limit.
        for setup in [spins.clone(), spins.clone().with_throttling_accepted()] {
            let refused = setup.put_in_force(&machine.host).expect_err("it would be killed");
            assert!(matches!(refused, RealtimeError::Timeout { limit, .. } if limit.as_millis() == 200), "{refused}");
            assert!(refused.to_string().contains("prlimit --rttime=unlimited"), "{refused}");
        }
        machine
            .write("proc/thread-self/limits", "Max realtime timeout      unlimited            unlimited            us");
        let refused = spins.put_in_force(&machine.host).err();
        assert!(!matches!(refused, Some(RealtimeError::Timeout { .. })), "{refused:?}");
    }

    #[test]
    fn a_policy_is_refused_if_throttling_affects_it_unless_accepted() {
        let machine = Machine::new("950000");
        let spins = Setup::spinning().with_policy(Policy::RoundRobin(1));
        let refused = spins.put_in_force(&machine.host).expect_err("throttling is on");
        assert!(
            matches!(refused, RealtimeError::Throttled { throttling: Throttling::Bandwidth { .. }, .. }),
            "{refused}"
        );
        for allowed in [
            spins.clone().with_throttling_accepted(),
            spins.clone().without_throttling().with_journal(journal(&machine)),
            Setup::blocking().with_policy(Policy::RoundRobin(1)),
        ] {
            match allowed.put_in_force(&machine.host) {
                Ok(held) => assert_eq!(held.effective().policy.as_deref(), Some("rr")),
                Err(RealtimeError::Policy { remedy, .. }) => skipped!("{remedy}"),
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn concurrent_setups_do_not_change_the_system() {
        let machine = Machine::new("950000");
        let setup = Setup::blocking().without_throttling().with_journal(journal(&machine));
        let held = setup.put_in_force(&machine.host).expect("a file accepts any value");
        assert_eq!(entries(&machine), 1);
        // A temporary setting ends with the guard that made it.
        assert!(matches!(setup.put_in_force(&machine.host), Err(RealtimeError::Journal(_))));
        assert_eq!(machine.read(RUNTIME), "-1");
        machine.write(BOOST, "1");
        let second = Setup::blocking().without_turbo().with_journal(journal(&machine));
        assert!(matches!(second.put_in_force(&machine.host), Err(RealtimeError::Journal(_))));
        drop(held);
        drop(second.put_in_force(&machine.host).expect("the first change has ended"));
        // A setting that already has the requested value is not a change.
        machine.write(RUNTIME, "-1");
        drop(setup.put_in_force(&machine.host).expect("no change needed"));
        assert_eq!((machine.read(RUNTIME).as_str(), entries(&machine)), ("-1", 0));
        machine.write(RUNTIME, "950000");
        assert_eq!((machine.read(RUNTIME).as_str(), machine.read(BOOST).as_str()), ("950000", "1"));
    }

    #[test]
    fn settings_are_restored_after_a_panic() {
        let machine = Machine::new("950000");
        let panicked = std::panic::catch_unwind(|| {
            let setup = Setup::blocking().without_throttling().with_journal(journal(&machine));
            let _held = setup.put_in_force(&machine.host).expect("a file accepts any value");
            assert_eq!(machine.read(RUNTIME), "-1");
            panic!("in the middle");
        });
        assert!(panicked.is_err());
        assert_eq!((machine.read(RUNTIME).as_str(), entries(&machine)), ("950000", 0));
    }

    #[test]
    fn system_settings_can_be_applied_for_the_cpus_of_other_threads() {
        let machine = Machine::new("-1");
        for cpu in ["cpu0", "cpu1"] {
            machine.write(&format!("sys/kernel/debug/sched/fair_server/{cpu}/runtime"), "50000000");
            machine.write(&format!("sys/kernel/debug/sched/fair_server/{cpu}/period"), "1000000000");
        }
        let setup = Setup::spinning().with_settings_on_cpus([1]).without_throttling();
        let held = setup.with_journal(journal(&machine)).put_in_force(&machine.host).expect("a file accepts any value");
        let runtimes =
            ["cpu0", "cpu1"].map(|cpu| machine.read(&format!("sys/kernel/debug/sched/fair_server/{cpu}/runtime")));
        assert_eq!((runtimes, held.cpu()), (["50000000", "0"].map(str::to_owned), None));
        drop(held);
        assert_eq!(machine.read("sys/kernel/debug/sched/fair_server/cpu1/runtime"), "50000000");
    }

    #[test]
    fn a_setting_that_cannot_be_restored_is_reported_and_stays_in_the_journal() {
        let machine = Machine::new("950000");
        machine.write(BOOST, "1");
        let setup = Setup::blocking().without_throttling().without_turbo();
        let setup = setup.with_journal(journal(&machine));
        let held = setup.put_in_force(&machine.host).expect("a file accepts any value");
        std::fs::remove_file(machine.folder.path().join(RUNTIME)).expect("ours");
        let failed = held.undo();
        assert!(matches!(failed.as_slice(), [_]), "{failed:?}");
        assert_eq!((machine.read(BOOST).as_str(), entries(&machine)), ("1", 1));
        machine.write(RUNTIME, "950000");
        assert!(setup.put_in_force(&machine.host).expect("no setting is left changed").undo().is_empty());
        assert_eq!((machine.read(RUNTIME).as_str(), entries(&machine)), ("950000", 0));
    }

    #[test]
    fn a_captured_machine_is_not_changed() {
        let machine = Machine::new("950000");
        let setup = Setup::blocking().without_throttling();
        assert!(matches!(setup.apply(&machine.host), Err(RealtimeError::Captured)));
        assert!(setup.changes_the_machine() && machine.read(RUNTIME) == "950000");
    }
}
