//! The keys at the start of most documents: the version of the layout, the kind of document, the version of hpt, and
//! the machine.

use serde::{Deserialize, Serialize};

use crate::words::word_enum;

/// The version of the document layout that this version of hpt reads and writes. It applies to all kinds of documents.
pub const SCHEMA: u32 = 2;

/// The keys at the start of most documents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Head {
    /// The version of the document layout.
    pub schema: u32,
    /// The kind of document.
    pub kind: String,
    /// The version of hpt.
    pub hpt: String,
    /// The machine that the document describes.
    pub machine: Machine,
}

/// The machine that a document describes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// Whether this is the machine that hpt ran on; false for a captured machine.
    pub live: bool,
    /// The instruction set architecture.
    pub architecture: String,
    /// The name of the processor.
    pub cpu: Option<String>,
    /// The name of the board, from the device tree.
    pub board: Option<String>,
    /// The hypervisor, by the name that it reports.
    pub hypervisor: Option<String>,
    /// The emulator that runs the machine, if it can be determined.
    pub emulated_by: Option<String>,
    /// The release of the kernel (`uname -r`).
    pub kernel_release: String,
    /// The version of the kernel (`uname -v`).
    pub kernel_version: String,
    /// The kernel's active clocksource.
    pub clocksource: Option<String>,
    /// The clocksources that the kernel offers.
    pub available_clocksources: Option<Vec<String>>,
    /// Whether the process has a vDSO.
    pub vdso: bool,
    /// Whether the process may read the counter, according to prctl(PR_GET_TSC).
    pub counter_permission: CounterPermission,
}

word_enum! {
    /// Whether the process may read the counter, according to prctl(PR_GET_TSC).
    pub enum CounterPermission {
        /// Reading the counter is permitted.
        Enabled = "enabled",
        /// Reading the counter raises SIGSEGV.
        Forbidden = "forbidden",
        /// The kernel does not report the permission.
        Unknown = "unknown",
    }
}
