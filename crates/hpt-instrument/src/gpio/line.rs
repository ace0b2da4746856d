//! Requests lines: an output, or an input that reports its edges. Restores each line when it is released.

use std::{io, time::Duration};

use hpt_sys::{
    gpio::{EdgeEvent, Line, Use},
    host::Host,
};

use super::{
    Chip, Direction, GpioError, error,
    registers::{PinDriver, PinLevel},
};

/// An edge on a line, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Edge {
    /// The time at which the kernel's interrupt handler ran, in nanoseconds on `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Whether the edge was a rising edge, according to the level that the kernel read shortly after the interrupt.
    pub rising: bool,
    /// The sequence number of the edge on its line. A gap means that edges were lost because the kernel's buffer was
    /// full.
    pub number: u32,
}

impl Edge {
    /// Creates an edge that occurred at `at_ns`, in nanoseconds on `CLOCK_MONOTONIC`.
    #[must_use]
    pub const fn new(at_ns: u64, rising: bool, number: u32) -> Self {
        Self { at_ns, rising, number }
    }
}

/// The state of a line before it was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestedLine {
    Input,
    Output(bool),
}

/// A line that this process has requested exclusively.
#[derive(Debug)]
struct Taken {
    line: Line,
    name: String,
    found: RequestedLine,
    is_changed: bool,
}

impl Taken {
    /// Requests the line without changing it, and reads its state.
    fn request(chip: &Chip, offset: u32, consumer: &str) -> Result<Self, GpioError> {
        let state = chip.line(offset)?;
        let name = chip.name_of(offset, state.name.as_deref());
        let busy = |consumer: Option<String>| {
            let unknown = || "the kernel (a driver or an alternate function of the pin)".to_owned();
            GpioError::Busy {
                line: name.clone(),
                consumer: consumer.map_or_else(unknown, |consumer| format!("{consumer:?}")),
            }
        };
        if state.is_used {
            return Err(busy(state.consumer));
        }
        let line = chip.device.request(offset, consumer, Use::AsItIs).map_err(|cause| match cause.raw_os_error() {
            Some(libc::EBUSY) => busy(chip.line(offset).ok().and_then(|state| state.consumer)),
            _ => GpioError::Refused { line: name.clone(), what: "cannot be requested", cause },
        })?;
        let found = match state.direction {
            Direction::Input => RequestedLine::Input,
            Direction::Output => {
                let level = line.level();
                RequestedLine::Output(level.map_err(|cause| GpioError::Refused {
                    line: name.clone(),
                    what: "is an output whose level cannot be read, so it could not be restored",
                    cause,
                })?)
            }
        };
        Ok(Self { line, name, found, is_changed: false })
    }

    fn put_back(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.is_changed) {
            return Ok(());
        }
        match self.found {
            RequestedLine::Input => self.line.change(Use::Input),
            RequestedLine::Output(level) => self.line.change(Use::Output(level)),
        }
    }

    fn end(mut self) -> Result<(), GpioError> {
        self.put_back().map_err(|cause| GpioError::NotPutBack { line: self.name.clone(), cause })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let _ = self.put_back();
    }
}

/// An output line. Dropping this value restores the previous state of the line: input, or output with its previous
/// level.
///
/// If the process is killed, the line keeps its state, because the kernel releases the line without changing it.
#[derive(Debug)]
pub struct Output {
    taken: Taken,
    first: bool,
    /// `None` if the kernel drives the line.
    driver: Option<PinDriver>,
}

impl Output {
    /// Requests a line as an output under the consumer name `consumer`, and drives it to its current level.
    ///
    /// # Errors
    ///
    /// Returns [`GpioError`] if the line does not exist or is in use, or if its driver refuses the request.
    pub fn request(chip: &Chip, offset: u32, consumer: &str) -> Result<Self, GpioError> {
        let mut taken = Taken::request(chip, offset, consumer)?;
        let first = match taken.found {
            RequestedLine::Output(level) => level,
            // If the level of an input cannot be read, it is assumed to be low.
            RequestedLine::Input => taken.line.level().unwrap_or(false),
        };
        taken.is_changed = true;
        taken.line.change(Use::Output(first)).map_err(|cause| GpioError::Refused {
            line: taken.name.clone(),
            what: "cannot be driven",
            cause,
        })?;
        Ok(Self { taken, first, driver: None })
    }

    /// Requests a line as [`request`](Self::request) does. After that, [`set`](Self::set) writes a register of the SoC,
    /// which takes no system call. Supports the chips of BCM2835 to BCM2711 (Raspberry Pi 1 to 4). The registers are
    /// mapped from /dev/gpiomem if there is one, otherwise from /dev/mem.
    ///
    /// Only the kernel changes the function of the pin. A pin that another device of the SoC uses is refused.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`request`](Self::request), and [`GpioError::NoRegisters`] if the chip has other registers,
    /// if they cannot be mapped, or if they do not show what the kernel has done with the line.
    ///
    /// # References
    ///
    /// BCM2835 ARM Peripherals, chapter 6, General Purpose I/O: GPSETn and GPCLRn.
    pub fn request_with_registers(chip: &Chip, offset: u32, consumer: &str, host: &Host) -> Result<Self, GpioError> {
        let driver = PinDriver::open(host, chip, offset)?;
        let output = Self::request(chip, offset, consumer)?;
        driver.require_output(chip, offset, output.taken.line.level().ok())?;
        Ok(Self { driver: Some(driver), ..output })
    }

    /// Returns the level that the line had when it was requested.
    #[must_use]
    pub const fn first_level(&self) -> bool {
        self.first
    }

    /// Returns a readable name for the line.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.taken.name
    }

    /// Drives the line to `level`.
    ///
    /// # Errors
    ///
    /// Returns the driver's error. Errors occur only if the chip is connected through a bus or was removed. Writing a
    /// register does not fail.
    #[inline]
    pub fn set(&self, level: bool) -> io::Result<()> {
        match &self.driver {
            Some(driver) => {
                driver.set(level);
                Ok(())
            }
            None => self.taken.line.set(level),
        }
    }

    /// Restores and releases the line.
    ///
    /// # Errors
    ///
    /// Returns [`GpioError::NotPutBack`] with the driver's error if the line cannot be restored.
    pub fn release(self) -> Result<(), GpioError> {
        self.taken.end()
    }
}

/// An input line that reports rising and falling edges. Dropping this value restores the previous state of the line.
#[derive(Debug)]
pub struct Input {
    taken: Taken,
}

impl Input {
    /// Requests a line as an input under the consumer name `consumer`, and enables edge detection.
    ///
    /// # Errors
    ///
    /// Returns [`GpioError`] if the line does not exist, is in use, or does not support interrupts.
    pub fn request(chip: &Chip, offset: u32, consumer: &str) -> Result<Self, GpioError> {
        let mut taken = Taken::request(chip, offset, consumer)?;
        taken.is_changed = true;
        taken.line.change(Use::Edges).map_err(|cause| error::of_edges(taken.name.clone(), cause))?;
        Ok(Self { taken })
    }

    /// Returns a readable name for the line.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.taken.name
    }

    /// Returns the next edge if one is already available.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error, for example if the chip was removed.
    #[inline]
    pub fn edge(&self) -> io::Result<Option<Edge>> {
        let event = self.taken.line.event()?;
        Ok(event.map(|EdgeEvent { at_ns, rising, number }| Edge { at_ns, rising, number }))
    }

    /// Blocks in the kernel until an edge is available or `at_most`, rounded down to whole milliseconds, has elapsed. A
    /// signal may end the wait earlier.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error, for example if the chip was removed.
    #[inline]
    pub fn wait(&self, at_most: Duration) -> io::Result<()> {
        self.taken.line.wait(at_most)
    }

    /// Restores and releases the line.
    ///
    /// # Errors
    ///
    /// Returns [`GpioError::NotPutBack`] with the driver's error if the line cannot be restored.
    pub fn release(self) -> Result<(), GpioError> {
        self.taken.end()
    }
}

/// An input line whose level is read from a register of the SoC, without interrupts and without a system call. Dropping
/// this value restores the previous state of the line.
#[derive(Debug)]
pub struct LevelInput {
    taken: Taken,
    level: PinLevel,
}

impl LevelInput {
    /// Requests a line as an input under the consumer name `consumer`, and maps the register of its level as
    /// [`PinLevel::open`] does. A pin that another device of the SoC uses is refused.
    ///
    /// # Errors
    ///
    /// Returns [`GpioError`] if the line does not exist or is in use, and [`GpioError::NoRegisters`] if the chip has
    /// other registers, if they cannot be mapped, or if they do not show that the line is an input.
    pub fn request(chip: &Chip, offset: u32, consumer: &str, host: &Host) -> Result<Self, GpioError> {
        let level = PinLevel::open(host, chip, offset)?;
        let state = chip.line(offset)?;
        level.require_no_other_function(offset, &chip.name_of(offset, state.name.as_deref()))?;
        let mut taken = Taken::request(chip, offset, consumer)?;
        taken.is_changed = true;
        taken.line.change(Use::Input).map_err(|cause| GpioError::Refused {
            line: taken.name.clone(),
            what: "cannot be made an input",
            cause,
        })?;
        level.require_input(chip, offset)?;
        Ok(Self { taken, level })
    }

    /// Returns a readable name for the line.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.taken.name
    }

    /// Returns the level of the line.
    #[must_use]
    pub const fn level(&self) -> &PinLevel {
        &self.level
    }

    /// Restores and releases the line.
    ///
    /// # Errors
    ///
    /// Returns [`GpioError::NotPutBack`] with the driver's error if the line cannot be restored.
    pub fn release(self) -> Result<(), GpioError> {
        self.taken.end()
    }
}
