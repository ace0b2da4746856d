//! Lists GPIO lines, drives outputs and detects edges on inputs, through the kernel's character device. On a Raspberry Pi
//! 1 to 4, also drives outputs and reads levels through registers, without a system call. Does not measure latency.
//! Changes only the lines that the caller requests.
//!
//! The kernel grants a line to only one program at a time, and refuses a request for a line that is already in use. The
//! previous state of a line (its direction and, for an output, its level) is read before the line is changed, and is
//! restored when the line is released.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use hpt_instrument::gpio::{Input, LineName, Output};
//!
//! let out = "GPIO22".parse::<LineName>()?.find()?;
//! let input = "GPIO23".parse::<LineName>()?.find()?;
//! let input = Input::request(&input.chip, input.line.offset, "my-program")?;
//! let output = Output::request(&out.chip, out.line.offset, "my-program")?;
//! output.set(true)?;
//! input.wait(Duration::from_secs(1))?;
//! println!("{:?}", input.edge()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chip;
mod error;
mod line;
mod name;
mod registers;

pub use self::{
    chip::{Chip, Direction, FoundLine, LineState, chips},
    error::GpioError,
    line::{Edge, Input, LevelInput, Output},
    name::LineName,
    registers::PinLevel,
};
