//! Sleeps of a thread.

use std::{
    sync::{Mutex, MutexGuard, TryLockError},
    time::Duration,
};

use hpt_core::sleep::{Target, until as sleep_here};
use pyo3::{
    Bound, PyAny, PyResult, Python,
    exceptions::{PyRuntimeError, PyValueError},
    pyclass, pyfunction, pymethods,
};

use crate::{arguments, instant::Instant, lateness::Lateness, waiting};

/// The end of a wait.
#[pyclass(frozen, get_all, module = "hpt")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Woken {
    /// The time at which the wait should have ended.
    pub(crate) deadline: Instant,
    /// The time from the deadline until Python code ran again, in nanoseconds.
    pub(crate) late_ns: i64,
    /// The part of late_ns for which the thread waited for the GIL, in nanoseconds.
    pub(crate) gil_ns: i64,
    /// The number of periods that were skipped before this one; 0 for a sleep.
    pub(crate) missed: u64,
}

impl Woken {
    /// Returns a wait that ended at its deadline.
    pub(crate) const fn at(deadline: hpt_core::Instant) -> Self {
        Self { deadline: Instant(deadline), late_ns: 0, gil_ns: 0, missed: 0 }
    }
}

#[pymethods]
impl Woken {
    /// The time from the deadline until Python code ran again, in seconds.
    #[getter]
    fn late(&self) -> f64 {
        arguments::seconds(self.late_ns)
    }

    fn __repr__(&self) -> String {
        let Self { deadline, late_ns, gil_ns, missed } = self;
        format!("<Woken {late_ns} ns after {}, GIL {gil_ns} ns, {missed} missed>", deadline.as_nanos())
    }
}

/// Sleeps precisely for `seconds` (a number or a timedelta).
///
/// In place of time.sleep(seconds). It learns from each sleep of its thread.
#[pyfunction]
pub(crate) fn sleep(py: Python<'_>, seconds: &Bound<'_, PyAny>) -> PyResult<Woken> {
    let start = hpt_core::Instant::now();
    sleep_until(py, &Instant(start.saturating_add(arguments::duration(seconds, "seconds")?)))
}

/// Sleeps precisely until `deadline`; returns at once if it has passed.
#[pyfunction]
pub(crate) fn sleep_until(py: Python<'_>, deadline: &Instant) -> PyResult<Woken> {
    let ended = waiting::until(py, deadline.0, |early| _ = sleep_here(early))?;
    Ok(Woken { deadline: *deadline, late_ns: ended.late_ns, gil_ns: ended.gil_ns, missed: 0 })
}

/// Returns the target that the arguments of a sleeper state.
pub(crate) fn target(
    p99: Option<&Bound<'_, PyAny>>,
    p999: Option<&Bound<'_, PyAny>>,
    cpu_share: Option<f64>,
) -> PyResult<Target> {
    if let Some(share) = cpu_share.filter(|share| !(0.0..=1.0).contains(share)) {
        return Err(PyValueError::new_err(format!("cpu_share is a number from 0 to 1, not {share}")));
    }
    let p99 = p99.map(|limit| arguments::duration(limit, "p99")).transpose()?;
    let p999 = p999.map(|limit| arguments::duration(limit, "p999")).transpose()?;
    match (p99, p999, cpu_share) {
        (None, None, None) => Ok(Target::Balanced),
        (Some(limit), None, None) => Ok(Target::P99(limit)),
        (None, Some(limit), None) => Ok(Target::P999(limit)),
        (None, None, Some(share)) => Ok(Target::CpuShare(share)),
        (Some(limit), None, Some(share)) => Ok(Target::P99WithinCpuShare(limit, share)),
        (_, Some(_), _) => Err(PyValueError::new_err("p999 cannot be combined with p99 or cpu_share: leave one out")),
    }
}

/// Returns what one thread at a time may use.
pub(crate) fn only_user<'a, T>(state: &'a Mutex<T>, what: &str) -> PyResult<MutexGuard<'a, T>> {
    match state.try_lock() {
        Ok(state) => Ok(state),
        Err(TryLockError::Poisoned(state)) => Ok(state.into_inner()),
        Err(TryLockError::WouldBlock) => Err(PyRuntimeError::new_err(format!(
            "another thread uses this {what}, or did so when this process was forked: create one for each thread"
        ))),
    }
}

/// A sleeper, and how late its sleeps ended.
#[derive(Debug)]
struct State {
    sleeper: hpt_core::Sleeper,
    late: Lateness,
    /// The time of all sleeps, and of their precise parts.
    slept: Duration,
    precise: Duration,
}

/// Sleeps precisely, for one thread. It learns from each of its sleeps: keep it.
///
/// The targets are upper limits. p99 and p999 limit the lateness in seconds of all but 1 % or 0.1 % of the sleeps,
/// however much CPU time that takes; cpu_share limits that CPU time, from 0 to 1.
#[pyclass(frozen, module = "hpt")]
#[derive(Debug)]
pub(crate) struct Sleeper {
    state: Mutex<State>,
}

#[pymethods]
impl Sleeper {
    #[new]
    #[pyo3(signature = (*, p99=None, p999=None, cpu_share=None))]
    fn new(p99: Option<&Bound<'_, PyAny>>, p999: Option<&Bound<'_, PyAny>>, cpu_share: Option<f64>) -> PyResult<Self> {
        let sleeper = hpt_core::Sleeper::new().with_target(target(p99, p999, cpu_share)?);
        Ok(Self {
            state: Mutex::new(State { sleeper, late: Lateness::new(), slept: Duration::ZERO, precise: Duration::ZERO }),
        })
    }

    /// Sleeps for `seconds` (a number or a timedelta).
    fn sleep(&self, py: Python<'_>, seconds: &Bound<'_, PyAny>) -> PyResult<Woken> {
        let start = hpt_core::Instant::now();
        self.until(py, &Instant(start.saturating_add(arguments::duration(seconds, "seconds")?)))
    }

    /// Sleeps until `deadline`; returns at once if it has passed.
    fn until(&self, py: Python<'_>, deadline: &Instant) -> PyResult<Woken> {
        let mut state = only_user(&self.state, "Sleeper")?;
        let State { sleeper, late, slept, precise } = &mut *state;
        late.settle();
        let start = hpt_core::Instant::now();
        let ended = waiting::until(py, deadline.0, |early| _ = sleeper.sleep_until(early))?;
        late.record(ended.late_ns);
        *slept += start.elapsed();
        *precise += ended.precise;
        Ok(Woken { deadline: *deadline, late_ns: ended.late_ns, gil_ns: ended.gil_ns, missed: 0 })
    }

    /// Returns the statistics of the sleeps so far.
    fn report(&self) -> PyResult<SleeperReport> {
        let state = only_user(&self.state, "Sleeper")?;
        let report = state.sleeper.report();
        // The sleeper has seen only the precise parts.
        let part = if state.slept.is_zero() { 0.0 } else { state.precise.as_secs_f64() / state.slept.as_secs_f64() };
        Ok(SleeperReport {
            lateness: state.late.read(),
            cpu_share: report.cpu_share * part,
            margin: report.margin.as_secs_f64(),
            target_is_met: report.target.is_met,
            needed_cpu_share: report.target.needed_cpu_share.map(|share| share * part),
        })
    }
}

/// The statistics of a Sleeper.
#[pyclass(frozen, get_all, module = "hpt")]
#[derive(Debug)]
pub(crate) struct SleeperReport {
    /// How late the sleeps ended.
    lateness: Lateness,
    /// The share of the time for which the thread used its CPU while it slept, from 0 to 1.
    cpu_share: f64,
    /// The time before the deadline from which on the last sleep kept its CPU busy, in seconds.
    margin: f64,
    /// Whether the target is met; None without a target, or after too few sleeps.
    target_is_met: Option<bool>,
    /// The CPU share that p99 or p999 takes; None if it is not known.
    needed_cpu_share: Option<f64>,
}
