//! `hpt latency gpio --list`: GPIO chips and their lines.

use serde::{Deserialize, Serialize};

use crate::head::Head;

/// The GPIO chips of the machine, their lines, and the users of the lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt latency gpio --list: GPIO chips and their lines"))]
pub struct GpioListDocument {
    /// The first keys of every document.
    #[serde(flatten)]
    pub head: Head,
    /// The chips.
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
    /// The label from its driver.
    pub label: Option<String>,
    /// Number of lines on the chip.
    pub lines: Option<u32>,
    /// Why the chip could not be opened, and how to fix that.
    pub reason: Option<String>,
}

/// One line of a chip, and its user.
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
    /// The name of the program or driver that uses the line, if the kernel reports one.
    pub consumer: Option<String>,
    /// Whether the line is active-low.
    pub active_low: bool,
}

/// One line of a chip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GpioLine {
    /// The kernel's name for the chip.
    pub chip: String,
    /// The label from the chip's driver.
    pub label: String,
    /// The line's number on the chip.
    pub line: u32,
    /// The name of the line, if the board defines one.
    pub name: Option<String>,
}
