//! Points in time on `CLOCK_MONOTONIC`.

use pyo3::{
    Bound, IntoPyObjectExt, Py, PyAny, PyResult, Python, exceptions::PyOverflowError, pyclass, pyfunction, pymethods,
    types::PyAnyMethods,
};

use crate::arguments;

/// Returns the time of CLOCK_MONOTONIC, in nanoseconds.
///
/// The clock is that of time.monotonic_ns().
#[pyfunction]
pub(crate) fn monotonic_ns() -> i64 {
    hpt_core::Instant::now().as_nanos()
}

/// A point in time on CLOCK_MONOTONIC, exact to the nanosecond.
///
/// `instant + seconds` and `instant - seconds` are points in time, and `later - earlier` is a number of seconds. It can be
/// pickled, for another process of this machine: the epoch changes when the machine starts.
#[pyclass(frozen, eq, ord, hash, module = "hpt", name = "Instant")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Instant(pub(crate) hpt_core::Instant);

#[pymethods]
impl Instant {
    /// Returns the current time.
    #[staticmethod]
    fn now() -> Self {
        Self(hpt_core::Instant::now())
    }

    /// Returns the point in time that is `nanos` nanoseconds after the epoch of CLOCK_MONOTONIC.
    #[staticmethod]
    fn from_nanos(nanos: i64) -> Self {
        Self(hpt_core::Instant::from_nanos(nanos))
    }

    /// Returns the nanoseconds since the epoch of CLOCK_MONOTONIC.
    pub(crate) fn as_nanos(&self) -> i64 {
        self.0.as_nanos()
    }

    /// Returns the point in time that is `nanos` nanoseconds later, or earlier if it is negative.
    fn add_nanos(&self, nanos: i64) -> PyResult<Self> {
        let sum = self.0.as_nanos().checked_add(nanos);
        sum.map(Self::from_nanos).ok_or_else(out_of_range)
    }

    /// Returns the seconds since this point in time; negative if it is in the future.
    fn elapsed(&self) -> f64 {
        arguments::seconds(self.elapsed_ns())
    }

    /// Returns the nanoseconds since this point in time; negative if it is in the future.
    fn elapsed_ns(&self) -> i64 {
        hpt_core::Instant::now().signed_nanos_since(self.0)
    }

    /// Returns the nanoseconds from `earlier` to this point in time; negative if `earlier` is later.
    fn nanos_since(&self, earlier: &Self) -> i64 {
        self.0.signed_nanos_since(earlier.0)
    }

    fn __add__(&self, seconds: &Bound<'_, PyAny>) -> PyResult<Self> {
        let sum = self.0.checked_add(arguments::duration(seconds, "the time that is added")?);
        sum.map(Self).ok_or_else(out_of_range)
    }

    fn __sub__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if let Ok(earlier) = other.cast::<Self>() {
            return arguments::seconds(self.nanos_since(earlier.get())).into_py_any(py);
        }
        let difference = self.0.checked_sub(arguments::duration(other, "the time that is subtracted")?);
        difference.map(Self).ok_or_else(out_of_range)?.into_py_any(py)
    }

    /// Returns how to copy and to pickle it.
    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<(Py<PyAny>, (i64,))> {
        Ok((slf.get_type().getattr("from_nanos")?.unbind(), (slf.get().as_nanos(),)))
    }

    fn __repr__(&self) -> String {
        format!("Instant.from_nanos({})", self.0.as_nanos())
    }
}

fn out_of_range() -> pyo3::PyErr {
    PyOverflowError::new_err("the result is more than 292 years from the epoch of CLOCK_MONOTONIC")
}
