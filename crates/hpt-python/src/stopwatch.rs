//! Measures how long a piece of work takes.

use std::sync::atomic::{AtomicI64, Ordering};

use hpt_core::Instant;
use pyo3::{Bound, PyAny, PyRef, PyResult, exceptions::PyRuntimeError, pyclass, pymethods};

use crate::arguments;

/// The time at which a stopwatch begins or ends if it has not.
const NOT_YET: i64 = i64::MIN;

/// Measures how long a piece of work takes.
///
/// As a context manager, it measures its block. A time includes two calls from Python, some 100 ns.
#[pyclass(frozen, module = "hpt")]
#[derive(Debug)]
pub(crate) struct Stopwatch {
    began_ns: AtomicI64,
    ended_ns: AtomicI64,
}

#[pymethods]
impl Stopwatch {
    #[new]
    fn new() -> Self {
        Self { began_ns: AtomicI64::new(NOT_YET), ended_ns: AtomicI64::new(NOT_YET) }
    }

    /// Begins a measurement, and discards the previous one.
    fn start(&self) {
        self.ended_ns.store(NOT_YET, Ordering::Relaxed);
        self.began_ns.store(Instant::now().as_nanos(), Ordering::Relaxed);
    }

    /// Ends the measurement. Returns its length in seconds.
    fn stop(&self) -> PyResult<f64> {
        self.ended_ns.store(Instant::now().as_nanos(), Ordering::Relaxed);
        self.elapsed()
    }

    /// The length of the measurement in seconds; until now if it has not ended.
    #[getter]
    fn elapsed(&self) -> PyResult<f64> {
        self.elapsed_ns().map(arguments::seconds)
    }

    /// The length of the measurement in nanoseconds; until now if it has not ended.
    #[getter]
    fn elapsed_ns(&self) -> PyResult<i64> {
        let now_ns = Instant::now().as_nanos();
        match (self.began_ns.load(Ordering::Relaxed), self.ended_ns.load(Ordering::Relaxed)) {
            (NOT_YET, _) => Err(PyRuntimeError::new_err("the stopwatch was not started: call start(), or use `with`")),
            (began_ns, NOT_YET) => Ok(now_ns - began_ns),
            (began_ns, ended_ns) => Ok(ended_ns - began_ns),
        }
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf.start();
        slf
    }

    fn __exit__(&self, _type: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>, _traceback: &Bound<'_, PyAny>) {
        self.ended_ns.store(Instant::now().as_nanos(), Ordering::Relaxed);
    }

    fn __repr__(&self) -> String {
        self.elapsed_ns().map_or_else(|_| "<Stopwatch, not started>".to_owned(), |ns| format!("<Stopwatch, {ns} ns>"))
    }
}
