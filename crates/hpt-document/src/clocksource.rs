//! The document of `hpt clocksource`: the kernel's clocksources and boot parameters.

use serde::{Deserialize, Serialize};

use crate::head::Head;

/// The clocksources of the kernel, and the boot parameters that affect them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt clocksource: the kernel's clocksources"))]
pub struct ClocksourceDocument {
    /// The keys at the start of the document: `schema`, `kind`, `hpt` and `machine`.
    #[serde(flatten)]
    pub head: Head,
    /// The clocksources, including those that the kernel does not offer.
    pub sources: Vec<ClocksourceRow>,
    /// Whether the active clocksource is the best one of this machine; null if hpt does not know that.
    #[serde(default)]
    pub best: Option<bool>,
    /// The reason why the active clocksource is not the best one; null if it is, or if that is unknown.
    #[serde(default)]
    pub finding: Option<String>,
    /// The state of the kernel log: whether it could be read, and if not, why.
    pub log: KernelLogState,
    /// Whether the kernel command line (/proc/cmdline) could be read. If not, `set` is false for every boot parameter.
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
    /// The kernel's name for the clocksource.
    pub name: String,
    /// Whether the kernel offers the clocksource.
    pub available: bool,
    /// Whether the clocksource is active.
    pub current: bool,
    /// The counter that the clocksource reads; null if hpt does not know the clocksource.
    pub counter: Option<String>,
    /// A description of how clocks are read while this clocksource is active; null if hpt does not know the
    /// clocksource.
    pub read_cost: Option<String>,
    /// The possible problems of the clocksource.
    pub risk: Option<String>,
    /// The evidence that the machine has this clocksource.
    pub evidence: String,
    /// The lines of the kernel log that explain why the clocksource is not offered. Empty if it is offered, or if there
    /// are no such lines.
    pub log_lines: Vec<String>,
}

/// The state of the kernel log: whether it could be read, and if not, why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelLogState {
    /// Whether the log could be read.
    pub readable: bool,
    /// Whether the log is complete, that is, begins with the first line that the kernel wrote.
    pub complete: bool,
    /// The reason why the log could not be read; null if it was read.
    pub reason: Option<String>,
    /// A way to make the log readable.
    pub fix: Option<String>,
}

/// A boot parameter that affects clocksources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BootParameter {
    /// The parameter as it is set or, if it is not set, as it could be set. A value in capitals is a placeholder.
    pub parameter: String,
    /// Whether the kernel was booted with this parameter.
    pub set: bool,
    /// The effect of the parameter; null for a value that hpt does not know.
    pub effect: Option<String>,
    /// The situations in which to use the parameter, and its disadvantages.
    pub advice: Option<String>,
}
