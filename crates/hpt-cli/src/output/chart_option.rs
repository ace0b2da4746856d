//! The option `--svg`, which draws a chart of a result.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use hpt_document::Document;

use super::{
    OUTPUT, chart,
    files::{self, WriteError},
};

/// The error for a chart that could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChartError {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("cannot write a chart to {path}")]
    Undrawn {
        path: PathBuf,
        #[source]
        why: chart::Unreadable,
    },
}

/// The options of a subcommand whose result can be drawn.
#[derive(Debug, Args, Serialize, Deserialize)]
pub(crate) struct ChartOption {
    /// Write a chart of the result to FILE, in SVG format
    ///
    /// The file is replaced atomically.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = OUTPUT, hide_short_help = true)]
    svg: Option<PathBuf>,
}

/// The file that a chart is written to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChartFile<'a>(&'a Path);

impl ChartOption {
    pub(crate) fn file(&self) -> Option<ChartFile<'_>> {
        self.svg.as_deref().map(ChartFile)
    }
}

impl ChartFile<'_> {
    /// Rejects a file that cannot be written. Called before the measurement.
    pub(crate) fn check(self) -> Result<(), WriteError> {
        files::check(self.0).map_err(|cause| self.failed(cause))
    }

    /// Draws the document and replaces the file.
    pub(crate) fn draw(self, document: &Document) -> Result<(), ChartError> {
        let drawn = chart::of(document).map_err(|why| ChartError::Undrawn { path: self.0.to_owned(), why })?;
        Ok(files::replace(self.0, drawn.file().as_bytes()).map_err(|cause| self.failed(cause))?)
    }

    fn failed(self, cause: std::io::Error) -> WriteError {
        WriteError { path: self.0.to_owned(), cause }
    }
}
