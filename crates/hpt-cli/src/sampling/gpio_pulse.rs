//! A GPIO line that is toggled at each deadline, for an oscilloscope. Measures nothing.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use hpt_core::gpio::{GpioError, LineName, Output};

use crate::exit::causes;

/// A GPIO line, which is driven by a single thread, and its last level.
#[derive(Debug)]
pub(crate) struct Pulse {
    output: Output,
    level: AtomicBool,
    /// The last error number that the kernel returned, or zero if no error occurred.
    refused: AtomicI32,
}

impl Pulse {
    pub(crate) fn open(name: &LineName) -> Result<Self, GpioError> {
        let found = name.find()?;
        let output = Output::request(&found.chip, found.line.offset, "hpt")?;
        let level = AtomicBool::new(output.first_level());
        Ok(Self { output, level, refused: AtomicI32::new(0) })
    }

    /// Returns the name of the line.
    pub(crate) fn name(&self) -> String {
        self.output.name().to_owned()
    }

    /// Drives the line to its other level.
    #[inline]
    pub(crate) fn toggle(&self) {
        let level = !self.level.load(Ordering::Relaxed);
        self.level.store(level, Ordering::Relaxed);
        if let Err(error) = self.output.set(level) {
            self.refused.store(error.raw_os_error().unwrap_or(-1), Ordering::Relaxed);
        }
    }

    /// Restores and releases the line. Returns a message for each failure.
    pub(crate) fn end(self) -> Vec<String> {
        let refused = self.refused.load(Ordering::Relaxed);
        let name = self.name();
        let refused = (refused != 0).then(|| {
            let error = std::io::Error::from_raw_os_error(refused);
            format!("{name} was not toggled at every deadline: {error}")
        });
        let released = self.output.release().err().map(|error| causes(&error));
        refused.into_iter().chain(released).collect()
    }
}
