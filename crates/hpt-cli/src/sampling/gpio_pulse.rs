//! A GPIO line that is toggled at each deadline, for an oscilloscope, and the ways to drive a line.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use clap::Args;
use hpt_core::Host;
use hpt_document::gpio_line::GpioDrive;
use hpt_instrument::gpio::{Chip, FoundLine, GpioError, LineName, Output, PinLevel};

use crate::{arguments::word, exit::causes};

/// The name under which hpt requests a line.
pub(crate) const CONSUMER: &str = "hpt";

/// Requests a line of the chip as an output.
pub(crate) fn request(drive: GpioDrive, chip: &Chip, offset: u32, host: &Host) -> Result<Output, GpioError> {
    match drive {
        GpioDrive::Kernel => Output::request(chip, offset, CONSUMER),
        GpioDrive::Registers => Output::request_with_registers(chip, offset, CONSUMER, host),
    }
}

/// Describes how a line is driven.
pub(crate) const fn drive_words(drive: GpioDrive) -> &'static str {
    match drive {
        GpioDrive::Kernel => "through the kernel (ioctl)",
        GpioDrive::Registers => "through the registers of the SoC",
    }
}

/// The options for a line that is toggled.
#[derive(Debug, Args, Serialize, Deserialize)]
pub(crate) struct PulseOptions {
    /// Toggle this GPIO line at each deadline
    ///
    /// An oscilloscope can then measure the latency. LINE is, for example, GPIO17 or gpiochip0:17.
    /// Requires a single thread.
    #[arg(long, value_name = "LINE", hide_short_help = true)]
    pulse: Option<LineName>,
    /// How to drive the line of --pulse
    ///
    /// kernel: with a system call. registers: with a write to GPSET or GPCLR of a Raspberry Pi 1 to 4, without one.
    #[arg(long, value_parser = word::<GpioDrive>(), value_name = "HOW", default_value = "kernel", requires = "pulse", hide_short_help = true)]
    drive: GpioDrive,
}

impl PulseOptions {
    pub(crate) const fn is_requested(&self) -> bool {
        self.pulse.is_some()
    }

    /// Requests the line, if there is one.
    pub(crate) fn open(&self, host: &Host) -> Result<Option<Pulse>, GpioError> {
        let open = |name| Pulse::open(name, self.drive, host);
        self.pulse.as_ref().map(open).transpose()
    }
}

/// A GPIO line, which is driven by a single thread, and its last level.
#[derive(Debug)]
pub(crate) struct Pulse {
    found: FoundLine,
    output: Output,
    drive: GpioDrive,
    level: AtomicBool,
    /// The last error number that the kernel returned, or zero if no error occurred.
    refused: AtomicI32,
}

impl Pulse {
    fn open(name: &LineName, drive: GpioDrive, host: &Host) -> Result<Self, GpioError> {
        let found = name.find()?;
        let output = request(drive, &found.chip, found.line.offset, host)?;
        let level = AtomicBool::new(output.first_level());
        Ok(Self { found, output, drive, level, refused: AtomicI32::new(0) })
    }

    /// Returns the name of the line, and how it is driven.
    pub(crate) fn about(&self) -> (String, GpioDrive) {
        (self.output.name().to_owned(), self.drive)
    }

    /// Maps the register of the line's level.
    pub(crate) fn level(&self, host: &Host) -> Result<PinLevel, GpioError> {
        PinLevel::open(host, &self.found.chip, self.found.line.offset)
    }

    /// Drives the line to its other level, and returns it.
    #[inline]
    pub(crate) fn toggle(&self) -> bool {
        let level = !self.level.load(Ordering::Relaxed);
        self.level.store(level, Ordering::Relaxed);
        if let Err(error) = self.output.set(level) {
            self.refused.store(error.raw_os_error().unwrap_or(-1), Ordering::Relaxed);
        }
        level
    }

    /// Restores and releases the line. Returns a message for each failure.
    pub(crate) fn end(self) -> Vec<String> {
        let refused = self.refused.load(Ordering::Relaxed);
        let refused = (refused != 0).then(|| {
            let error = std::io::Error::from_raw_os_error(refused);
            format!("{} was not toggled at every deadline: {error}", self.output.name())
        });
        let released = self.output.release().err().map(|error| causes(&error));
        refused.into_iter().chain(released).collect()
    }
}
