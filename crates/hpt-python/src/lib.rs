//! The extension module `hpt._hpt` of the Python package hpt: hpt-core and hpt-realtime for Python. The package's own
//! Python code adds asyncio, the decorator and the command.

#![forbid(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!("the Python package hpt requires Linux: it waits for signals and timers of its kernel");

mod arguments;
mod fork;
mod instant;
mod lateness;
mod marker;
mod pacer;
mod realtime;
mod sleeper;
mod sources;
mod stopwatch;
mod testing;
mod timer;
mod waiting;

use pyo3::{
    Bound, PyResult, create_exception,
    exceptions::PyException,
    pymodule,
    types::{PyModule, PyModuleMethods},
};

create_exception!(
    hpt,
    Error,
    PyException,
    "A source, a setting or a program is not available. The message has the fix."
);

/// Precise time, sleeps and periodic loops on Linux.
#[pymodule(gil_used = false)]
mod _hpt {
    use super::{Bound, PyModule, PyModuleMethods, PyResult, fork::refuse_another_interpreter};
    #[pymodule_export]
    use super::{
        Error,
        arguments::nanoseconds,
        fork::after_fork_in_child,
        instant::{Instant, monotonic_ns},
        lateness::Lateness,
        marker::mark,
        pacer::Pacer,
        realtime::{RealtimeScope, Settings},
        sleeper::{Sleeper, SleeperReport, Woken, sleep, sleep_until},
        sources::{Calibration, Choice, Source, calibrate, choose, sources},
        stopwatch::Stopwatch,
        testing::{FrozenClock, is_frozen},
        timer::Timer,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        refuse_another_interpreter(module.py())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
