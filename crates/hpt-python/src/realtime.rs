//! Settings of a time-critical thread, in a `with` block. System-wide settings, such as the governor, are those of the
//! command `hpt run`.

use std::{cell::RefCell, process, time::Duration};

use hpt_core::Host;
use hpt_realtime::{EffectiveSettings, Policy, RealtimeError, RealtimeGuard, Setup};
use pyo3::{
    Bound, PyAny, PyResult, Python,
    exceptions::{PyRuntimeError, PyValueError},
    pyclass, pymethods,
};

use crate::{Error, arguments, sources::with_causes};

thread_local! {
    /// The scopes that this thread has entered, and the guards that undo them.
    static ENTERED: RefCell<Vec<(usize, RealtimeGuard)>> = const { RefCell::new(Vec::new()) };
}

/// Undoes all settings of this thread. In a forked child, those of the memory are not inherited, and the parent keeps
/// its own.
pub(crate) fn undo_all() {
    ENTERED.with_borrow_mut(|entered| while entered.pop().is_some() {});
}

/// The settings of a thread, as read back from the kernel.
#[pyclass(frozen, get_all, module = "hpt")]
#[derive(Debug)]
pub(crate) struct Settings {
    /// The scheduling policy: "other", "fifo", "rr" and others; None if it cannot be read.
    policy: Option<String>,
    /// The real-time priority; None without a real-time policy.
    priority: Option<u32>,
    /// The CPUs that the thread may run on.
    cpus: Vec<usize>,
    /// The amount of the process's memory that is locked, in bytes; None if it cannot be read.
    locked_bytes: Option<u64>,
    /// The time by which the kernel may delay the thread's wake-ups, in nanoseconds; None if it cannot be read.
    timer_slack_ns: Option<u64>,
    /// The settings that were refused, with best_effort, and why. A setting has the name of its argument.
    refused: Vec<(String, String)>,
}

impl Settings {
    /// `policy_is` is the argument that states the policy.
    fn new(guard: &RealtimeGuard, policy_is: &str) -> Self {
        let EffectiveSettings { policy, priority, cpus, locked_bytes, timer_slack_ns, .. } = guard.effective();
        let refused = guard.refused();
        let argument = |setting| match setting {
            "policy" => policy_is,
            "memory" => "mlock",
            "wake-latency" => "max_wakeup_latency",
            other => other,
        };
        let refused =
            refused.iter().map(|refused| (argument(refused.setting).to_owned(), refused.error.to_string())).collect();
        Self { policy, priority, cpus, locked_bytes, timer_slack_ns, refused }
    }
}

#[pymethods]
impl Settings {
    fn __repr__(&self) -> String {
        let Self { cpus, refused, .. } = self;
        let policy = self.policy.as_deref().unwrap_or("unknown");
        let priority = self.priority.map_or_else(String::new, |priority| format!(" {priority}"));
        let number = |value: Option<u64>| value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
        let (locked, slack) = (number(self.locked_bytes), number(self.timer_slack_ns));
        let refused: Vec<&str> = refused.iter().map(|(setting, _)| setting.as_str()).collect();
        let refused = if refused.is_empty() { "nothing".to_owned() } else { refused.join(", ") };
        format!(
            "<Settings: policy {policy}{priority}, CPUs {cpus:?}, {locked} bytes locked, timer slack {slack} ns, \
             refused: {refused}>"
        )
    }
}

/// The base of `hpt.realtime`.
#[pyclass(frozen, subclass, module = "hpt._hpt", name = "_Realtime")]
#[derive(Debug)]
pub(crate) struct RealtimeScope {
    setup: Setup,
    /// The argument that states the policy.
    policy_is: &'static str,
    process: u32,
}

#[pymethods]
impl RealtimeScope {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    #[pyo3(signature = (*, fifo=None, rr=None, cpu=None, mlock=false, max_wakeup_latency=None, best_effort=false))]
    fn new(
        fifo: Option<i64>,
        rr: Option<i64>,
        cpu: Option<usize>,
        mlock: bool,
        max_wakeup_latency: Option<&Bound<'_, PyAny>>,
        best_effort: bool,
    ) -> PyResult<Self> {
        let policy = match (fifo, rr) {
            (None, None) => None,
            (Some(number), None) => Some(Policy::Fifo(priority(number)?)),
            (None, Some(number)) => Some(Policy::RoundRobin(priority(number)?)),
            (Some(_), Some(_)) => {
                return Err(PyValueError::new_err("a thread has one policy: leave out either fifo or rr"));
            }
        };
        let mut setup = Setup::blocking().without_slack();
        if let Some(policy) = policy {
            setup = setup.with_policy(policy);
        }
        if let Some(cpu) = cpu {
            setup = setup.with_cpu(cpu);
        }
        if mlock {
            setup = setup.with_memory_locked();
        }
        if let Some(latency) = max_wakeup_latency {
            let latency: Duration = arguments::duration(latency, "max_wakeup_latency")?;
            setup = setup.with_max_wakeup_latency(latency);
        }
        let setup = if best_effort { setup.with_best_effort() } else { setup };
        let policy_is = if rr.is_some() { "rr" } else { "fifo" };
        Ok(Self { setup, policy_is, process: process::id() })
    }

    fn __enter__(&self, py: Python<'_>) -> PyResult<Settings> {
        // The guard belongs to this thread.
        let applied = py.detach(|| {
            let guard = self.setup.apply(&Host::live())?;
            let settings = Settings::new(&guard, self.policy_is);
            ENTERED.with_borrow_mut(|entered| entered.push((self.key(), guard)));
            Ok(settings)
        });
        applied.map_err(|refused: RealtimeError| Error::new_err(with_causes(&refused)))
    }

    fn __exit__(
        &self,
        _type: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        ENTERED.with_borrow_mut(|entered| match entered.last() {
            Some((key, _)) if *key == self.key() => {
                entered.pop();
                Ok(())
            }
            // A child has undone its parent's settings.
            None if process::id() != self.process => Ok(()),
            _ => Err(PyRuntimeError::new_err(
                "this thread has not entered this realtime() last: leave them in reverse order, in the thread that entered them",
            )),
        })
    }
}

impl RealtimeScope {
    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

fn priority(number: i64) -> PyResult<u8> {
    let priority = u8::try_from(number).ok().filter(|priority| (1..=99).contains(priority));
    priority
        .ok_or_else(|| PyValueError::new_err(format!("a real-time priority is a number from 1 to 99, not {number}")))
}
