//! Arguments of Python: lengths of time in seconds.

use std::time::Duration;

use pyo3::{
    Bound, PyAny, PyResult,
    exceptions::{PyOverflowError, PyTypeError, PyValueError},
    pyfunction,
    types::{PyAnyMethods, PyDelta, PyInt, PyTypeMethods},
};

/// Returns a length of time that is a number of seconds or a `timedelta`. `name` is that of the argument.
pub(crate) fn duration(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Duration> {
    match value.extract::<f64>() {
        Ok(seconds) => from_seconds(seconds, name),
        // A whole number that is too large for a float.
        Err(raised) if value.is_instance_of::<PyInt>() && raised.is_instance_of::<PyOverflowError>(value.py()) => {
            from_seconds(f64::INFINITY, name)
        }
        // What `__float__` raises, KeyboardInterrupt included.
        Err(raised) if !raised.is_instance_of::<PyTypeError>(value.py()) => Err(raised),
        Err(_) if value.is_instance_of::<PyDelta>() => {
            let refused = |_| PyValueError::new_err(format!("{name} must not be negative"));
            let duration = value.extract::<Duration>().map_err(refused)?;
            within_range(Some(duration), duration.as_secs_f64(), name)
        }
        Err(_) => {
            let found = value.get_type().name()?;
            Err(PyTypeError::new_err(format!("{name} must be a number of seconds or a timedelta, not {found}")))
        }
    }
}

fn from_seconds(seconds: f64, name: &str) -> PyResult<Duration> {
    if seconds.is_nan() {
        return Err(PyValueError::new_err(format!("{name} is not a number (NaN)")));
    }
    if seconds < 0.0 {
        return Err(PyValueError::new_err(format!("{name} must not be negative; it is {seconds} s")));
    }
    within_range(Duration::try_from_secs_f64(seconds).ok(), seconds, name)
}

/// Returns a length of time that the clock can show.
fn within_range(duration: Option<Duration>, seconds: f64, name: &str) -> PyResult<Duration> {
    duration
        .filter(|duration| i64::try_from(duration.as_nanos()).is_ok())
        .ok_or_else(|| PyValueError::new_err(format!("{name} must be shorter than 292 years; it is {seconds} s")))
}

/// Returns a length of time in nanoseconds, for hpt.aio.
#[pyfunction]
#[pyo3(name = "_nanoseconds")]
pub(crate) fn nanoseconds(value: &Bound<'_, PyAny>, name: &str) -> PyResult<i64> {
    // It is within the range of the clock.
    Ok(duration(value, name)?.as_nanos().try_into().unwrap_or(i64::MAX))
}

/// Returns a length of time that must be longer than zero.
pub(crate) fn positive(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Duration> {
    let duration = duration(value, name)?;
    if duration.is_zero() {
        return Err(PyValueError::new_err(format!("{name} must be at least a nanosecond")));
    }
    Ok(duration)
}

/// Returns nanoseconds as seconds.
#[expect(clippy::cast_precision_loss, reason = "the exact number is offered as well")]
pub(crate) fn seconds(nanos: i64) -> f64 {
    nanos as f64 / 1e9
}
