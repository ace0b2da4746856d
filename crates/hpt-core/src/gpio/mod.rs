//! GPIO lines through the kernel's character device: listing them, driving one, and detecting edges on one. Measures
//! nothing, and changes only the lines that the caller names.
//!
//! The kernel grants a requested line to one program at a time, so that no other program can use it. A line that is
//! already in use is refused. The previous state of a line (input or output, and its level) is read first and restored
//! when the line is released.
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
