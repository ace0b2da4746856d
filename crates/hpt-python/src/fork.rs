//! What a forked child undoes, and the refusal of subinterpreters.

use std::sync::OnceLock;

use pyo3::{PyResult, Python, exceptions::PyImportError, pyfunction};

use crate::realtime;

/// Undoes the settings of `realtime` in a forked child, which os.register_at_fork calls.
#[pyfunction]
#[pyo3(name = "_after_fork_in_child")]
pub(crate) fn after_fork_in_child() {
    realtime::undo_all();
}

/// Refuses to be imported by a second interpreter of this process. Python's types would belong to the first one, whose
/// end would leave the second one without them. CPython 3.12 and newer refuses some of them itself.
pub(crate) fn refuse_another_interpreter(py: Python<'_>) -> PyResult<()> {
    static INTERPRETER: OnceLock<usize> = OnceLock::new();
    let this = py.import("builtins")?.as_ptr().addr();
    if *INTERPRETER.get_or_init(|| this) != this {
        return Err(PyImportError::new_err("another of the subinterpreters of this process has imported it"));
    }
    Ok(())
}
