//! The time sources of the machine, the best one, and their frequencies.

use std::{error::Error as StdError, ops::ControlFlow, time::Duration};

use hpt_core::{
    Host, Instant, SourceError,
    calibrate::{CalibrateError, calibrate_together},
    source,
};
use pyo3::{Bound, PyAny, PyErr, PyResult, Python, pyclass, pyfunction};

use crate::{Error, arguments};

/// The interval at which a calibration looks for signals.
const LOOK_AGAIN: Duration = Duration::from_micros(500);

/// Returns the message of an error and of its causes.
pub(crate) fn with_causes(error: &dyn StdError) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message.push_str(&format!(": {error}"));
        cause = error.source();
    }
    message
}

fn unavailable(error: &SourceError) -> PyErr {
    let message = with_causes(error);
    Error::new_err(remedy(error).map_or_else(|| message.clone(), |remedy| format!("{message}; {remedy}")))
}

/// Returns the change that makes the source readable, with the names of the Python package.
fn remedy(error: &SourceError) -> Option<String> {
    let remedy = error.remedy()?;
    Some(remedy.replace("source::names_on", "hpt.sources()").replace("source::choose", "hpt.choose()"))
}

/// A time source, on this machine.
#[pyclass(frozen, get_all, module = "hpt")]
#[derive(Debug)]
pub(crate) struct Source {
    /// The name, as `hpt probe` prints it.
    id: String,
    /// A short description.
    description: &'static str,
    /// Why it cannot be read here; None if it can.
    problem: Option<String>,
    /// The change that makes it readable; None if nothing is known.
    fix: Option<String>,
    /// The nominal frequency in hertz; None if it is not known.
    frequency_hz: Option<f64>,
    /// The smallest change that a reading can show, in nanoseconds; None if it is not known.
    resolution_ns: Option<f64>,
    /// How it is read: "register", "vdso", "system-call" and others; None if it cannot be read.
    read_path: Option<&'static str>,
    /// Whether the kernel trusts it.
    kernel_verdict: &'static str,
}

#[pyo3::pymethods]
impl Source {
    fn __repr__(&self) -> String {
        format!("<Source {}: {}>", self.id, self.problem.as_deref().unwrap_or("available"))
    }
}

/// Returns the time sources of the machine, also those that cannot be read, and why.
#[pyfunction]
pub(crate) fn sources(py: Python<'_>) -> Vec<Source> {
    let reports = py.detach(|| source::probe(&Host::live()));
    let one = |report: source::ProbeReport| {
        let (info, error) = match report.availability {
            Ok(info) => (Some(info), None),
            Err(error) => (None, Some(error)),
        };
        Source {
            id: report.id.to_string(),
            description: report.description,
            problem: error.as_ref().map(|error| with_causes(error)),
            fix: error.as_ref().and_then(remedy),
            frequency_hz: info.as_ref().and_then(|info| info.nominal).map(|nominal| nominal.frequency.hertz_f64()),
            resolution_ns: info.as_ref().and_then(hpt_core::SourceInfo::resolution_ns),
            read_path: info.as_ref().map(|info| info.read_path.name()),
            kernel_verdict: report.kernel.name(),
        }
    };
    reports.into_iter().map(one).collect()
}

/// The best time source of the machine, and why.
#[pyclass(frozen, get_all, module = "hpt")]
#[derive(Debug)]
pub(crate) struct Choice {
    /// The name of the source.
    id: String,
    /// Why it was chosen.
    reason: String,
    /// Each source, and why it was chosen or not.
    verdicts: Vec<(String, String)>,
}

/// Returns the best time source of the machine, and why. Measures some milliseconds.
#[pyfunction]
pub(crate) fn choose(py: Python<'_>) -> PyResult<Choice> {
    let chosen = py.detach(|| {
        let chosen = source::choose(&Host::live())?;
        let verdicts = chosen.selection.verdicts().iter();
        let verdicts = verdicts.map(|verdict| (verdict.id.to_string(), verdict.fitness.to_string())).collect();
        Ok(Choice { id: chosen.id().to_string(), reason: chosen.reason(), verdicts })
    });
    chosen.map_err(|error| unavailable(&error))
}

/// The frequency of a source, and how it was determined.
#[pyclass(frozen, get_all, module = "hpt")]
#[derive(Debug)]
pub(crate) struct Calibration {
    /// The name of the source.
    source: String,
    /// The name of the reference; None if the source was not measured.
    reference: Option<String>,
    /// The frequency in hertz.
    frequency_hz: f64,
    /// The worst-case error relative to the reference, in parts per million; None if there is no bound.
    bound_ppm: Option<f64>,
    /// The frequency error relative to the nominal frequency, in parts per million; None without a nominal frequency.
    error_ppm: Option<f64>,
    /// The number of readings on which it is based.
    pairs: usize,
    /// The time over which it was measured, in nanoseconds.
    window_ns: u64,
}

/// The reason why a calibration ended early.
enum Failure {
    Source(SourceError),
    Calibrate(CalibrateError),
    Signal(PyErr),
}

/// Measures the frequency of a source (by default the best one) for `seconds`, against CLOCK_MONOTONIC_RAW.
#[pyfunction]
#[pyo3(signature = (source=None, seconds=None))]
pub(crate) fn calibrate(
    py: Python<'_>,
    source: Option<&str>,
    seconds: Option<&Bound<'_, PyAny>>,
) -> PyResult<Calibration> {
    let window = match seconds {
        Some(seconds) => arguments::positive(seconds, "seconds")?,
        None => Duration::from_millis(100),
    };
    let name = source.map(str::to_owned);
    py.detach(|| measure(name.as_deref(), window)).map_err(|failure| match failure {
        Failure::Source(error) => unavailable(&error),
        Failure::Calibrate(error) => Error::new_err(with_causes(&error)),
        Failure::Signal(raised) => raised,
    })
}

fn measure(name: Option<&str>, window: Duration) -> Result<Calibration, Failure> {
    let host = Host::live();
    let source = match name {
        Some(name) => source::open(&host, name),
        None => source::choose(&host).map(|chosen| chosen.source),
    };
    let source = source.map_err(Failure::Source)?;
    let reference = source::open(&host, "monotonic-raw").map_err(Failure::Source)?;
    let (mut raised, mut looked) = (None, Instant::now());
    let mut results = calibrate_together(&[source.as_dyn()], reference.as_dyn(), window, || {
        if looked.elapsed() < LOOK_AGAIN {
            return ControlFlow::Continue(());
        }
        looked = Instant::now();
        raised = Python::attach(|py| py.check_signals().err());
        if raised.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if let Some(raised) = raised {
        return Err(Failure::Signal(raised));
    }
    let calibration = results.pop().expect("one result for each source").map_err(Failure::Calibrate)?;
    Ok(Calibration {
        source: calibration.source.to_string(),
        reference: calibration.reference.as_ref().map(ToString::to_string),
        frequency_hz: calibration.frequency.hertz_f64(),
        bound_ppm: calibration.bound_ppm(),
        error_ppm: calibration.error_ppm(),
        pairs: calibration.pairs,
        window_ns: calibration.window_ns,
    })
}
