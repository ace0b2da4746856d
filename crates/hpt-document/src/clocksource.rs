//! `hpt clocksource`: the kernel's clocksources and boot parameters.

use serde::{Deserialize, Serialize};

use crate::head::Head;

/// The clocksources of the kernel, and the boot parameters that affect them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt clocksource: the kernel's clocksources"))]
pub struct ClocksourceDocument {
    /// The first keys of every document.
    #[serde(flatten)]
    pub head: Head,
    /// The clocksources.
    pub sources: Vec<ClocksourceRow>,
    /// Whether the kernel log could be read.
    pub log: KernelLogState,
    /// Whether /proc/cmdline could be read. If not, every parameter counts as unset.
    pub command_line_readable: bool,
    /// The boot parameters that affect clocksources.
    pub boot_parameters: Vec<BootParameter>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// One clocksource of the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClocksourceRow {
    /// The kernel's name for it.
    pub name: String,
    /// Whether the kernel offers it.
    pub available: bool,
    /// Whether it is the active clocksource.
    pub current: bool,
    /// The counter it reads; null if hpt does not know it.
    pub counter: Option<String>,
    /// How a clock is read while this clocksource is active.
    pub read_cost: Option<String>,
    /// Its possible problems.
    pub risk: Option<String>,
    /// The evidence that the machine has this clocksource.
    pub evidence: String,
    /// The lines of the kernel log that state why it is not offered. Empty if it is offered, or if there are
    /// no such lines.
    pub log_lines: Vec<String>,
}

/// Whether the kernel log could be read, and if not, why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelLogState {
    /// Whether the log was read.
    pub readable: bool,
    /// Whether the log is complete: its first line is the first line that the kernel wrote.
    pub complete: bool,
    /// Why the log was not read.
    pub reason: Option<String>,
    /// How to make the log readable.
    pub fix: Option<String>,
}

/// A boot parameter that affects clocksources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BootParameter {
    /// The parameter as it is set, or as it would be set. A value in capitals is a placeholder.
    pub parameter: String,
    /// Whether the kernel was booted with it.
    pub set: bool,
    /// Its effect; null for a value that hpt does not know.
    pub effect: Option<String>,
    /// When to use it, and its disadvantages.
    pub advice: Option<String>,
}
