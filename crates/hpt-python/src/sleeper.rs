//! Sleeps of a thread.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hpt_core::sleep::{Report, Target, until as sleep_here};
use pyo3::{
    Bound, Py, PyAny, PyErr, PyResult, Python,
    exceptions::{PyRuntimeError, PyValueError},
    pyclass, pyfunction, pymethods,
    types::PyAnyMethods,
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

/// The fields of a `Woken`, in the order of its definition.
type Fields = (Instant, i64, i64, u64);

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

    /// Returns how to copy and to pickle it.
    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<(Py<PyAny>, Fields)> {
        let Self { deadline, late_ns, gil_ns, missed } = *slf.get();
        Ok((slf.get_type().getattr("_of")?.unbind(), (deadline, late_ns, gil_ns, missed)))
    }

    /// Returns the end of a wait that was copied.
    #[staticmethod]
    fn _of(deadline: &Instant, late_ns: i64, gil_ns: i64, missed: u64) -> Self {
        Self { deadline: *deadline, late_ns, gil_ns, missed }
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

/// Locks what is never locked while a thread waits or runs code of Python.
pub(crate) fn briefly<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the refusal of a wait with an object with which another one is running.
pub(crate) fn in_use(what: &str) -> PyErr {
    PyRuntimeError::new_err(format!(
        "this {what} is in use, by another thread or by the code that this signal handler interrupted, or was so when \
         this process was forked: create one for each thread and for each handler"
    ))
}

/// The largest number of sleeps for which the statistics that a sleep takes with it are kept.
const LONGEST_KEPT: u32 = 64;
/// The shortest sleep that always renews them. It has the time.
const ALWAYS_RENEWED: Duration = Duration::from_micros(900);

/// A sleeper, and how late its sleeps ended.
#[derive(Debug)]
struct State {
    /// `None` during a sleep, which uses it alone.
    sleeper: Option<Box<hpt_core::Sleeper>>,
    /// The statistics of the sleeper before one of the last sleeps, and the number of sleeps since.
    statistics: Report,
    kept: u32,
    late: Lateness,
    /// The time of all sleeps, and of their precise parts.
    slept: Duration,
    precise: Duration,
}

impl State {
    /// Takes the sleeper for a sleep until `deadline`.
    fn take(&mut self, deadline: hpt_core::Instant) -> PyResult<Box<hpt_core::Sleeper>> {
        let sleeper = self.sleeper.take().ok_or_else(|| in_use("Sleeper"))?;
        self.late.settle();
        self.kept += 1;
        if self.kept >= LONGEST_KEPT || deadline.remaining() >= ALWAYS_RENEWED {
            (self.statistics, self.kept) = (sleeper.report(), 0);
        }
        Ok(sleeper)
    }

    fn report(&self) -> SleeperReport {
        let report = self.sleeper.as_ref().map_or_else(|| self.statistics.clone(), |sleeper| sleeper.report());
        // The sleeper has seen only the precise parts.
        let part = if self.slept.is_zero() { 0.0 } else { self.precise.as_secs_f64() / self.slept.as_secs_f64() };
        SleeperReport {
            lateness: self.late.read(),
            cpu_share: report.cpu_share * part,
            margin: report.margin.as_secs_f64(),
            target_is_met: report.target.is_met,
            needed_cpu_share: report.target.needed_cpu_share.map(|share| share * part),
        }
    }
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
            state: Mutex::new(State {
                statistics: sleeper.report(),
                sleeper: Some(Box::new(sleeper)),
                kept: 0,
                late: Lateness::new(),
                slept: Duration::ZERO,
                precise: Duration::ZERO,
            }),
        })
    }

    /// Sleeps for `seconds` (a number or a timedelta).
    fn sleep(&self, py: Python<'_>, seconds: &Bound<'_, PyAny>) -> PyResult<Woken> {
        let start = hpt_core::Instant::now();
        self.until(py, &Instant(start.saturating_add(arguments::duration(seconds, "seconds")?)))
    }

    /// Sleeps until `deadline`; returns at once if it has passed.
    fn until(&self, py: Python<'_>, deadline: &Instant) -> PyResult<Woken> {
        let mut sleeper = briefly(&self.state).take(deadline.0)?;
        let start = hpt_core::Instant::now();
        let ended = waiting::until(py, deadline.0, |early| _ = sleeper.sleep_until(early));
        let slept = start.elapsed();
        let mut state = briefly(&self.state);
        state.sleeper = Some(sleeper);
        let ended = ended?;
        state.late.record(ended.late_ns);
        state.slept += slept;
        state.precise += ended.precise;
        Ok(Woken { deadline: *deadline, late_ns: ended.late_ns, gil_ns: ended.gil_ns, missed: 0 })
    }

    /// Returns the statistics of the sleeps so far, also while one is running.
    fn report(&self) -> SleeperReport {
        briefly(&self.state).report()
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
