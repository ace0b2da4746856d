//! The two lines of a measurement, requested from the kernel.

use hpt_core::{Host, PosixClock};
use hpt_document::{gpio_latency::GpioListening, gpio_line::GpioDrive};
use hpt_instrument::{
    gpio::{FoundLine, GpioError, Input, LevelInput, Output, PinLevel},
    measure::{EdgeWaiting, Loopback},
};
use hpt_realtime::Behavior;

use crate::sampling::gpio_pulse::{CONSUMER, request};

/// Returns whether a thread that waits for edges in this way blocks.
pub(super) const fn behavior(listen: GpioListening) -> Behavior {
    match listen {
        GpioListening::Poll => Behavior::Blocks,
        GpioListening::Spin | GpioListening::Level => Behavior::Spins,
    }
}

/// The end at which edges arrive.
enum Listener {
    Edges(Input, EdgeWaiting),
    Level(LevelInput),
    /// The level of the output itself.
    Output(PinLevel),
}

/// Both lines. Dropping this value restores them.
pub(super) struct RequestedLines {
    output: Output,
    listener: Listener,
}

impl RequestedLines {
    /// Requests the input before the output is driven.
    pub(super) fn new(
        (out, input): (&FoundLine, &FoundLine),
        (drive, listen): (GpioDrive, GpioListening),
        host: &Host,
    ) -> Result<Self, GpioError> {
        let (chip, offset) = (&input.chip, input.line.offset);
        let edges = |waiting| Ok(Listener::Edges(Input::request(chip, offset, CONSUMER)?, waiting));
        let listener = match listen {
            GpioListening::Poll => edges(EdgeWaiting::Blocking),
            GpioListening::Spin => edges(EdgeWaiting::Polling),
            GpioListening::Level if is_same(out, input) => PinLevel::open(host, chip, offset).map(Listener::Output),
            GpioListening::Level => LevelInput::request(chip, offset, CONSUMER, host).map(Listener::Level),
        }?;
        Ok(Self { output: request(drive, &out.chip, out.line.offset, host)?, listener })
    }

    /// Returns the level that the output had when it was requested.
    pub(super) const fn first_level(&self) -> bool {
        self.output.first_level()
    }

    pub(super) fn wire(&self, clock: PosixClock) -> Loopback<'_> {
        match &self.listener {
            Listener::Edges(input, waiting) => Loopback::new(&self.output, input, clock, *waiting),
            Listener::Level(input) => Loopback::of_level(&self.output, input.level(), clock),
            Listener::Output(level) => Loopback::of_level(&self.output, level, clock),
        }
    }

    /// Restores and releases both lines. Returns the failures.
    pub(super) fn release(self) -> Vec<GpioError> {
        let output = self.output.release();
        let input = match self.listener {
            Listener::Edges(input, _) => input.release(),
            Listener::Level(input) => input.release(),
            Listener::Output(_) => Ok(()),
        };
        [output, input].into_iter().filter_map(Result::err).collect()
    }
}

/// Returns whether both are one line.
pub(super) fn is_same(one: &FoundLine, other: &FoundLine) -> bool {
    (one.chip.name(), one.line.offset) == (other.chip.name(), other.line.offset)
}
