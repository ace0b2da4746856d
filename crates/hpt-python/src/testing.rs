//! The clock that a test moves.

use std::cell::RefCell;

use hpt_core::{Clock, testing};
use pyo3::{Bound, PyAny, PyRef, PyResult, exceptions::PyRuntimeError, pyclass, pyfunction, pymethods};

use crate::{arguments, instant::Instant};

thread_local! {
    /// The clocks that this thread has entered, and whose guards leave them.
    static ENTERED: RefCell<Vec<(usize, testing::Entered)>> = const { RefCell::new(Vec::new()) };
}

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
        Self { clock: start.map_or_else(testing::FrozenClock::new, |start| testing::FrozenClock::starting_at(start.0)) }
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

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        ENTERED.with_borrow_mut(|entered| entered.push((slf.key(), slf.clock.enter())));
        slf
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
            _ => Err(PyRuntimeError::new_err(
                "this thread has not entered this clock last: leave clocks in reverse order, in the thread that entered them",
            )),
        })
    }
}

impl FrozenClock {
    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}
