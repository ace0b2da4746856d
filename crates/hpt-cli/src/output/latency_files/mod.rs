//! Files with the counts of a run, in the forms that other tools read: one form per file.
//! Measures nothing.

pub(crate) mod counts;
mod cyclictest;
mod hdr;
mod line;

use std::{
    io,
    path::{Path, PathBuf},
};

pub(crate) use self::counts::{RunDescription, ThreadLatencies};
use super::files::{self, WriteError};

/// The form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// cyclictest's histogram in text.
    Cyclictest,
    /// cyclictest's JSON, file_version 1.
    CyclictestJson,
    /// An interval log of HdrHistogram.
    Hdr,
    /// All counts in one line.
    Line,
}

/// A file that is wanted, and its form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LatencyFile {
    form: Form,
    path: PathBuf,
}

/// Reads `cyclictest=latency.hist`.
pub(crate) fn latency_file(text: &str) -> Result<LatencyFile, String> {
    let forms = "cyclictest, cyclictest-json, hdr, line";
    let (form, path) = text.split_once('=').ok_or_else(|| format!("FORM=FILE; forms: {forms}"))?;
    let form = match form {
        "cyclictest" => Form::Cyclictest,
        "cyclictest-json" => Form::CyclictestJson,
        "hdr" => Form::Hdr,
        "line" => Form::Line,
        _ => return Err(format!("no form is called {form:?}; there are {forms}")),
    };
    if path.is_empty() { Err("a file after the =".to_owned()) } else { Ok(LatencyFile { form, path: path.into() }) }
}

impl LatencyFile {
    /// Where it goes.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses a file that cannot be written before anything is measured.
    pub(crate) fn check(&self) -> Result<(), WriteError> {
        files::check(&self.path).map_err(|cause| self.failed(cause))
    }

    /// Replaces the file in one step, where it is a file.
    pub(crate) fn write(&self, threads: &[ThreadLatencies], about: RunDescription<'_>) -> Result<(), WriteError> {
        let text = match self.form {
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
    fn a_file_and_its_form_are_read_or_refused() {
        assert_eq!(latency_file("hdr=a=b"), Ok(LatencyFile { form: Form::Hdr, path: "a=b".into() }));
        for wrong in ["hdr", "hdr=", "excel=a", ""] {
            assert!(latency_file(wrong).is_err(), "{wrong}");
        }
    }
}
