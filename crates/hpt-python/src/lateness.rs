//! The distribution of how late a loop or a sleeper was.

use hpt_core::stats::Histogram;
use pyo3::{Bound, PyAny, PyResult, exceptions::PyValueError, pyclass, pymethods};

use crate::arguments;

/// How late waits ended: a distribution in bounded memory, as it was when it was read.
///
/// The count, the sum, the minimum and the maximum are exact; quantiles are exact to 1 %.
#[pyclass(frozen, module = "hpt")]
#[derive(Clone, Debug)]
pub(crate) struct Lateness {
    nanos: Histogram,
    least_ns: u64,
    largest_ns: u64,
    sum_ns: u64,
    /// The last wait. It is added before the next one: its memory is cold when a wait ends.
    last_ns: Option<u64>,
}

impl Lateness {
    pub(crate) fn new() -> Self {
        Self { nanos: Histogram::with_digits(2), least_ns: u64::MAX, largest_ns: 0, sum_ns: 0, last_ns: None }
    }

    pub(crate) fn record(&mut self, late_ns: i64) {
        self.settle();
        self.last_ns = Some(u64::try_from(late_ns).unwrap_or(0));
    }

    /// Returns the distribution of all waits so far.
    pub(crate) fn read(&self) -> Self {
        let mut read = self.clone();
        read.settle();
        read
    }

    /// Adds the last wait.
    pub(crate) fn settle(&mut self) {
        let Some(late_ns) = self.last_ns.take() else { return };
        self.nanos.record(late_ns);
        self.least_ns = self.least_ns.min(late_ns);
        self.largest_ns = self.largest_ns.max(late_ns);
        self.sum_ns = self.sum_ns.saturating_add(late_ns);
    }

    fn is_empty(&self) -> bool {
        self.nanos.samples() == 0
    }
}

fn seconds(nanos: u64) -> f64 {
    arguments::seconds(i64::try_from(nanos).unwrap_or(i64::MAX))
}

#[pymethods]
impl Lateness {
    /// The number of waits.
    #[getter]
    fn count(&self) -> u64 {
        self.nanos.samples()
    }

    /// The smallest lateness in seconds; None without waits.
    #[getter]
    fn min(&self) -> Option<f64> {
        (!self.is_empty()).then(|| seconds(self.least_ns))
    }

    /// The largest lateness in seconds; None without waits.
    #[getter]
    fn max(&self) -> Option<f64> {
        (!self.is_empty()).then(|| seconds(self.largest_ns))
    }

    /// The mean lateness in seconds; None without waits.
    #[getter]
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    fn mean(&self) -> Option<f64> {
        (!self.is_empty()).then(|| seconds(self.sum_ns) / self.count() as f64)
    }

    /// Returns the lateness in seconds that the share `q` of the waits does not exceed; None without waits.
    fn quantile(&self, q: f64) -> PyResult<Option<f64>> {
        if !(0.0..=1.0).contains(&q) {
            return Err(PyValueError::new_err(format!("a quantile is a number from 0 to 1, not {q}")));
        }
        Ok(self.nanos.quantile(q).map(|ns| seconds(ns.min(self.largest_ns))))
    }

    /// Returns the number of waits that were later than `limit` seconds, exact to 1 % of the limit.
    fn count_above(&self, limit: &Bound<'_, PyAny>) -> PyResult<u64> {
        let limit = arguments::duration(limit, "limit")?;
        Ok(*self.nanos.samples_above(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)).end())
    }

    /// Returns the classes that contain waits, in ascending order: the largest lateness in seconds, and the number of
    /// waits.
    fn classes(&self) -> Vec<(f64, u64)> {
        self.nanos.classes().map(|class| (seconds(class.largest_ticks), class.samples)).collect()
    }

    fn __repr__(&self) -> String {
        let us = |q| self.nanos.quantile(q).map_or(0.0, |ns| seconds(ns.min(self.largest_ns)) * 1e6);
        let (count, largest) = (self.count(), seconds(self.largest_ns) * 1e6);
        format!("<Lateness of {count} waits: p50 {:.1} us, p99 {:.1} us, max {largest:.1} us>", us(0.5), us(0.99))
    }
}
