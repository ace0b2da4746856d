//! Periodic loops: a grid of deadlines, and the waits for them.

use std::{sync::Mutex, time::Duration};

use hpt_core::pace::Overrun;
use pyo3::{Bound, PyAny, PyRef, PyResult, Python, exceptions::PyValueError, pyclass, pymethods};

use crate::{
    arguments,
    instant::Instant,
    lateness::Lateness,
    sleeper::{Woken, briefly, in_use, target},
    waiting::{self, Ended},
};

/// The grid of a loop, and what has become of its periods.
#[derive(Debug)]
struct State {
    /// `None` during a wait, which uses it alone.
    sleeper: Option<Box<hpt_core::Sleeper>>,
    next: hpt_core::Instant,
    /// The periods that were skipped since the last one that started.
    skipped: u64,
    ticks: u64,
    missed: u64,
    late: Lateness,
}

impl State {
    /// Plans the next period. Returns its start. May be called again if the wait for it was given up.
    fn plan(&mut self, overrun: Overrun, period: Duration) -> hpt_core::Instant {
        self.late.settle();
        let plan = overrun.plan(self.next, period, hpt_core::Instant::now());
        self.next = plan.deadline;
        self.skipped += plan.skipped;
        plan.deadline
    }

    /// Starts the period that was planned.
    fn start(&mut self, period: Duration, ended: Ended) -> Woken {
        let (deadline, missed) = (Instant(self.next), std::mem::take(&mut self.skipped));
        self.ticks += 1;
        self.missed += missed;
        self.late.record(ended.late_ns);
        self.next = self.next.saturating_add(period);
        Woken { deadline, late_ns: ended.late_ns, gil_ns: ended.gil_ns, missed }
    }
}

/// Starts periods of `period` seconds: `for tick in Pacer(0.001)`.
///
/// Each deadline is a fixed time after the previous deadline, so delays do not accumulate. The first one is a period from
/// now. If the work takes longer than a period, "skip" skips the periods that have passed, "catch_up" starts each of them
/// at once, and "reset" begins a new grid. p99, p999 and cpu_share are the targets of a Sleeper.
#[pyclass(frozen, module = "hpt")]
#[derive(Debug)]
pub(crate) struct Pacer {
    period: Duration,
    overrun: Overrun,
    state: Mutex<State>,
}

#[pymethods]
impl Pacer {
    #[new]
    #[pyo3(signature = (period, *, overrun="skip", p99=None, p999=None, cpu_share=None))]
    fn new(
        period: &Bound<'_, PyAny>,
        overrun: &str,
        p99: Option<&Bound<'_, PyAny>>,
        p999: Option<&Bound<'_, PyAny>>,
        cpu_share: Option<f64>,
    ) -> PyResult<Self> {
        let period = arguments::positive(period, "period")?;
        let overrun = match overrun {
            "skip" => Overrun::Skip,
            "catch_up" => Overrun::CatchUp,
            "reset" => Overrun::Reset,
            other => {
                let wrong = format!("overrun is \"skip\", \"catch_up\" or \"reset\", not {other:?}");
                return Err(PyValueError::new_err(wrong));
            }
        };
        let sleeper = hpt_core::Sleeper::new().with_target(target(p99, p999, cpu_share)?);
        let next = hpt_core::Instant::now().saturating_add(period);
        let sleeper = Some(Box::new(sleeper));
        let state = State { sleeper, next, skipped: 0, ticks: 0, missed: 0, late: Lateness::new() };
        Ok(Self { period, overrun, state: Mutex::new(state) })
    }

    /// Waits until the next period starts.
    fn wait(&self, py: Python<'_>) -> PyResult<Woken> {
        let (mut sleeper, deadline) = {
            let mut state = briefly(&self.state);
            let sleeper = state.sleeper.take().ok_or_else(|| in_use("Pacer"))?;
            (sleeper, state.plan(self.overrun, self.period))
        };
        let ended = waiting::until(py, deadline, |early| _ = sleeper.sleep_until(early));
        let mut state = briefly(&self.state);
        state.sleeper = Some(sleeper);
        Ok(state.start(self.period, ended?))
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Woken> {
        self.wait(py)
    }

    /// Begins a new grid: the next deadline is one period from now.
    fn reset(&self) -> PyResult<()> {
        let mut state = briefly(&self.state);
        if state.sleeper.is_none() {
            return Err(in_use("Pacer"));
        }
        state.next = hpt_core::Instant::now().saturating_add(self.period);
        state.skipped = 0;
        Ok(())
    }

    /// The period in seconds.
    #[getter]
    fn period(&self) -> f64 {
        self.period.as_secs_f64()
    }

    /// The number of periods that were started.
    #[getter]
    fn ticks(&self) -> u64 {
        briefly(&self.state).ticks
    }

    /// The number of periods that never started, because the work or the wake-up before them took too long.
    #[getter]
    fn missed(&self) -> u64 {
        briefly(&self.state).missed
    }

    /// How late the periods started.
    #[getter]
    fn lateness(&self) -> Lateness {
        briefly(&self.state).late.read()
    }

    /// Plans the next period for hpt.aio, which waits in another way. Returns its start.
    fn _plan(&self) -> Instant {
        Instant(briefly(&self.state).plan(self.overrun, self.period))
    }

    /// Starts the period that was planned, when hpt.aio has waited for it.
    fn _start(&self, gil_ns: i64) -> Woken {
        let mut state = briefly(&self.state);
        let late_ns = hpt_core::Instant::now().signed_nanos_since(state.next);
        state.start(self.period, Ended { late_ns, gil_ns, precise: Duration::ZERO })
    }
}
