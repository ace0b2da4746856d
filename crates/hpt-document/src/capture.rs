//! The document of `hpt capture`: the files in a capture.

use serde::{Deserialize, Serialize};

/// The files that hpt looked for when it captured a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt capture: the captured files"))]
pub struct CaptureDocument {
    /// The version of the document layout.
    pub schema: u32,
    /// The kind of document.
    pub kind: String,
    /// The file that the capture was written to.
    pub file: String,
    /// Every file that hpt looked for.
    pub files: Vec<CapturedFile>,
}

/// One file of the captured machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapturedFile {
    /// The path of the file on the captured machine.
    pub path: String,
    /// Whether the file exists and could be read.
    pub captured: bool,
}
