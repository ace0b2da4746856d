//! The document of `hpt latency gpio --list`: GPIO chips and their lines.

use serde::{Deserialize, Serialize};

use crate::{head::Head, words::word_enum};

/// The GPIO chips of the machine, their lines, and the users of the lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt latency gpio --list: GPIO chips and their lines"))]
pub struct GpioListDocument {
    /// The keys at the start of the document: `schema`, `kind`, `hpt` and `machine`.
    #[serde(flatten)]
    pub head: Head,
    /// The GPIO chips.
    pub chips: Vec<GpioChip>,
    /// The lines of all chips that could be opened.
    pub lines: Vec<GpioListedLine>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// One GPIO chip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GpioChip {
    /// The device file of the chip.
    pub path: String,
    /// The kernel's name for the chip; null if the chip could not be opened.
    pub chip: Option<String>,
    /// The label that the driver gave the chip; null if the chip could not be opened.
    pub label: Option<String>,
    /// Number of lines on the chip; null if the chip could not be opened.
    pub lines: Option<u32>,
    /// The reason why the chip could not be opened, and a way to fix the problem.
    pub reason: Option<String>,
}

/// One line of a GPIO chip, and its user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GpioListedLine {
    /// The line.
    #[serde(flatten)]
    pub place: GpioLine,
    /// Whether the line is an input or an output.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::gpio_directions))]
    pub direction: String,
    /// Whether the line is in use. If so, no other program can request it.
    pub in_use: bool,
    /// The name of the program or driver that uses the line, if the kernel reports a name.
    pub consumer: Option<String>,
    /// Whether the line is active-low.
    pub active_low: bool,
}

/// One line of a GPIO chip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GpioLine {
    /// The kernel's name for the chip.
    pub chip: String,
    /// The label that the driver gave the chip.
    pub label: String,
    /// The number of the line on the chip.
    pub line: u32,
    /// The name of the line, if the board defines one.
    pub name: Option<String>,
}

word_enum! {
    /// The way in which an output line is driven.
    pub enum GpioDrive {
        /// Through the kernel, with a system call.
        Kernel = "kernel",
        /// Through the registers of the SoC, without a system call.
        Registers = "registers",
    }
}

/// The way in which lines are driven in documents without that field.
pub(crate) const fn by_the_kernel() -> GpioDrive {
    GpioDrive::Kernel
}
