//! Lines that are requested: one that is driven, and one whose edges are told. Each is what it was again when it is let go.
//! Measures nothing.

use std::{io, time::Duration};

use super::{Chip, Direction, GpioError, error};
use crate::sys::gpio::{Event, Line, Use};

/// An edge of a line, as the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Edge {
    /// When the handler of its interrupt ran, in nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Whether it rose: the level that the line had when the kernel looked at it, a moment later.
    pub rising: bool,
    /// The edges of a line are counted; a gap in the numbers is what the kernel had no room to keep.
    pub number: u32,
}

impl Edge {
    /// An edge that was seen at this moment of `CLOCK_MONOTONIC`, in nanoseconds.
    #[must_use]
    pub const fn new(at_ns: u64, rising: bool, number: u32) -> Self {
        Self { at_ns, rising, number }
    }
}

/// What a line was before it was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Input,
    Output(bool),
}

/// A line that nobody else has.
#[derive(Debug)]
struct Taken {
    line: Line,
    name: String,
    found: Found,
    is_changed: bool,
}

impl Taken {
    /// Requests the line as it is, and looks at what that is.
    fn request(chip: &Chip, offset: u32, consumer: &str) -> Result<Self, GpioError> {
        let state = chip.line(offset)?;
        let name = chip.name_of(offset, state.name.as_deref());
        let busy = |consumer: Option<String>| {
            let unknown = || "the kernel (a driver, or another function of the pin)".to_owned();
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
            Direction::Input => Found::Input,
            Direction::Output => {
                let level = line.level();
                Found::Output(level.map_err(|cause| GpioError::Refused {
                    line: name.clone(),
                    what: "is an output whose level cannot be read, and so cannot be left as it is",
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
            Found::Input => self.line.change(Use::Input),
            Found::Output(level) => self.line.change(Use::Output(level)),
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

/// A line that is driven. When it is dropped, it is an input again, or has the level that it had.
///
/// A process that is killed leaves it as it is at that moment: the kernel lets it go, and does not change it.
#[derive(Debug)]
pub struct Output {
    taken: Taken,
    first: bool,
}

impl Output {
    /// Requests a line under the name of a consumer, and drives it to the level that it has.
    ///
    /// # Errors
    ///
    /// [`GpioError`]: there is no such line, somebody has it, or its driver refuses.
    pub fn request(chip: &Chip, offset: u32, consumer: &str) -> Result<Self, GpioError> {
        let mut taken = Taken::request(chip, offset, consumer)?;
        let first = match taken.found {
            Found::Output(level) => level,
            // An input that cannot be read is taken for low.
            Found::Input => taken.line.level().unwrap_or(false),
        };
        taken.is_changed = true;
        taken.line.change(Use::Output(first)).map_err(|cause| GpioError::Refused {
            line: taken.name.clone(),
            what: "cannot be driven",
            cause,
        })?;
        Ok(Self { taken, first })
    }

    /// The level that it had when it was requested.
    #[must_use]
    pub const fn first_level(&self) -> bool {
        self.first
    }

    /// How people would name it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.taken.name
    }

    /// Drives it to this level.
    ///
    /// # Errors
    ///
    /// What the driver answers: only chips behind a bus have anything to say, and ones that are taken away.
    #[inline]
    pub fn set(&self, level: bool) -> io::Result<()> {
        self.taken.line.set(level)
    }

    /// Lets the line go, as it was.
    ///
    /// # Errors
    ///
    /// [`GpioError::NotPutBack`], with what the driver answered.
    pub fn release(self) -> Result<(), GpioError> {
        self.taken.end()
    }
}

/// A line both of whose edges are told. When it is dropped, it is what it was.
#[derive(Debug)]
pub struct Input {
    taken: Taken,
}

impl Input {
    /// Requests a line under the name of a consumer, makes it an input, and has the kernel tell of its edges.
    ///
    /// # Errors
    ///
    /// [`GpioError`]: there is no such line, somebody has it, or it cannot give interrupts.
    pub fn request(chip: &Chip, offset: u32, consumer: &str) -> Result<Self, GpioError> {
        let mut taken = Taken::request(chip, offset, consumer)?;
        taken.is_changed = true;
        taken.line.change(Use::Edges).map_err(|cause| error::of_edges(taken.name.clone(), cause))?;
        Ok(Self { taken })
    }

    /// How people would name it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.taken.name
    }

    /// The next edge, if one is there already.
    ///
    /// # Errors
    ///
    /// What the kernel answers: the chip was taken away.
    #[inline]
    pub fn edge(&self) -> io::Result<Option<Edge>> {
        let event = self.taken.line.event()?;
        Ok(event.map(|Event { at_ns, rising, number }| Edge { at_ns, rising, number }))
    }

    /// Waits in the kernel until an edge is there, for whole milliseconds at most; a signal may end it earlier.
    ///
    /// # Errors
    ///
    /// As [`edge`](Self::edge).
    #[inline]
    pub fn wait(&self, at_most: Duration) -> io::Result<()> {
        self.taken.line.wait(at_most)
    }

    /// Lets the line go, as it was.
    ///
    /// # Errors
    ///
    /// [`GpioError::NotPutBack`], with what the driver answered.
    pub fn release(self) -> Result<(), GpioError> {
        self.taken.end()
    }
}
