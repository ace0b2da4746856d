//! GPIO lines by the kernel's character device: which there are, one that is driven, one whose edges are told.
//! Measures nothing, and touches no line but those that are named to it.
//!
//! A line is requested from the kernel, so that nobody else has it meanwhile; one that somebody has is refused. What a line was, an input or an output and of which level, is
//! looked at first and put back when it is let go.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use hpt_core::gpio::{Input, LineName, Output};
//!
//! let (out_chip, out) = "GPIO22".parse::<LineName>()?.find()?;
//! let (in_chip, input) = "GPIO23".parse::<LineName>()?.find()?;
//! let input = Input::request(&in_chip, input.offset, "my-program")?;
//! let output = Output::request(&out_chip, out.offset, "my-program")?;
//! output.set(true)?;
//! input.wait(Duration::from_secs(1))?;
//! println!("{:?}", input.edge()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chip;
mod error;
mod line;
mod name;

pub use self::{
    chip::{Chip, Direction, LineState, chips},
    error::GpioError,
    line::{Edge, Input, Output},
    name::LineName,
};
