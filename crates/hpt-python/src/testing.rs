//! The clock that a test moves.

use std::{
    cell::RefCell,
    sync::{Mutex, PoisonError},
};

use hpt_core::{Clock, testing};
use pyo3::{Bound, Py, PyAny, PyResult, exceptions::PyRuntimeError, pyclass, pyfunction, pymethods};

use crate::{arguments, instant::Instant};

thread_local! {
    /// The clocks that this thread has entered, and whose guards leave them.
    static ENTERED: RefCell<Vec<(testing::Entered, Py<FrozenClock>)>> = const { RefCell::new(Vec::new()) };
}

/// The clocks without an object in Python. hpt-core keeps each clock in memory: a new object takes one of these.
static RELEASED: Mutex<Vec<testing::FrozenClock>> = Mutex::new(Vec::new());

/// Returns whether this thread has entered a FrozenClock.
#[pyfunction]
#[pyo3(name = "_is_frozen")]
pub(crate) fn is_frozen() -> bool {
    ENTERED.with_borrow(|entered| !entered.is_empty())
}

/// A clock that stands still until a test advances it.
///
/// As a context manager, it is the clock of this thread in its block, for everything in hpt. A sleep advances it to the
/// deadline and returns at once.
#[pyclass(frozen, module = "hpt.testing")]
#[derive(Debug)]
pub(crate) struct FrozenClock {
    clock: testing::FrozenClock,
}

#[pymethods]
impl FrozenClock {
    /// Creates a clock that shows `start`, by default the current time.
    #[new]
    #[pyo3(signature = (start=None))]
    fn new(start: Option<&Instant>) -> Self {
        let start = start.map_or_else(hpt_core::Instant::now, |start| start.0);
        let released = RELEASED.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let clock = released.unwrap_or_else(|| testing::FrozenClock::starting_at(start));
        clock.set(start);
        Self { clock }
    }

    /// Returns the time of this clock.
    fn now(&self) -> Instant {
        Instant(self.clock.now())
    }

    /// Moves the clock forward by `seconds` (a number or a timedelta).
    fn advance(&self, seconds: &Bound<'_, PyAny>) -> PyResult<()> {
        self.clock.advance(arguments::duration(seconds, "seconds")?);
        Ok(())
    }

    fn __enter__(slf: &Bound<'_, Self>) -> Py<Self> {
        let entered = (slf.get().clock.enter(), slf.clone().unbind());
        ENTERED.with_borrow_mut(|all| all.push(entered));
        slf.clone().unbind()
    }

    fn __exit__(
        slf: &Bound<'_, Self>,
        _type: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        ENTERED.with_borrow_mut(|entered| match entered.last() {
            Some((_, last)) if last.is(slf) => {
                entered.pop();
                Ok(())
            }
            _ => Err(PyRuntimeError::new_err(
                "this thread has not entered this clock last: leave clocks in reverse order, in the thread that entered them",
            )),
        })
    }
}

impl Drop for FrozenClock {
    /// Releases the clock. No thread reads it: those that have entered it keep its object.
    fn drop(&mut self) {
        RELEASED.lock().unwrap_or_else(PoisonError::into_inner).push(self.clock);
    }
}
