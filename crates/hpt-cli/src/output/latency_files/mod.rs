//! Files with the counts of a run, in formats that other tools can read: one format per module.

pub(crate) mod counts;
mod cyclictest;
mod hdr;
mod line;

use serde::{Deserialize, Serialize};
use std::{
    io,
    path::{Path, PathBuf},
};

pub(crate) use self::counts::{RunDescription, ThreadLatencies};
use super::files::{self, WriteError};

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Form {
    /// The histogram format of cyclictest, which is text.
    Cyclictest,
    /// The JSON format of cyclictest, `file_version` 1.
    CyclictestJson,
    /// An interval log of HdrHistogram.
    Hdr,
    /// All counts of a thread on one line.
    Line,
}

/// A requested file and its format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LatencyFile {
    format: Form,
    path: PathBuf,
}

/// Parses FORMAT=FILE, for example `cyclictest=latency.hist`.
pub(crate) fn latency_file(text: &str) -> Result<LatencyFile, String> {
    let formats = "cyclictest, cyclictest-json, hdr, line";
    let (format, path) =
        text.split_once('=').ok_or_else(|| format!("expected FORMAT=FILE, where FORMAT is one of: {formats}"))?;
    let format = match format {
        "cyclictest" => Form::Cyclictest,
        "cyclictest-json" => Form::CyclictestJson,
        "hdr" => Form::Hdr,
        "line" => Form::Line,
        _ => return Err(format!("unknown format {format:?}; the available formats are: {formats}")),
    };
    if path.is_empty() {
        Err("the file name after `=` is missing".to_owned())
    } else {
        Ok(LatencyFile { format, path: path.into() })
    }
}

impl LatencyFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Rejects a file that cannot be written. Called before the measurement.
    pub(crate) fn check(&self) -> Result<(), WriteError> {
        files::check(&self.path).map_err(|cause| self.failed(cause))
    }

    /// Writes the file. A regular file is replaced atomically.
    pub(crate) fn write(&self, threads: &[ThreadLatencies], about: RunDescription<'_>) -> Result<(), WriteError> {
        let text = match self.format {
            Form::Cyclictest => cyclictest::text(threads),
            Form::CyclictestJson => cyclictest::json(threads, about),
            Form::Hdr => hdr::log(threads, about),
            Form::Line => line::text(threads),
        };
        files::replace(&self.path, text.as_bytes()).map_err(|cause| self.failed(cause))
    }

    fn failed(&self, cause: io::Error) -> WriteError {
        WriteError { path: self.path.clone(), cause }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Form, LatencyFile, latency_file};

    #[test]
    fn a_file_and_its_format_are_parsed_or_refused() {
        assert_eq!(latency_file("hdr=a=b"), Ok(LatencyFile { format: Form::Hdr, path: "a=b".into() }));
        for wrong in ["hdr", "hdr=", "excel=a", ""] {
            assert!(latency_file(wrong).is_err(), "{wrong}");
        }
    }
}
