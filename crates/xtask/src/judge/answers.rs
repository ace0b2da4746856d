//! The answers of a board: one file per step and stream, as saved by `scripts/test-boards`.

use std::{collections::BTreeMap, fs, io, path::Path};

/// The extensions of answers: standard output, standard error, exit code, and the file that
/// `hpt capture` wrote.
const KINDS: [&str; 4] = ["out", "err", "status", "capture"];

/// The answers of a board, by file name: `STEP.out`, `STEP.err`, `STEP.status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    files: BTreeMap<String, String>,
}

impl Answers {
    /// Reads all answers in a directory.
    ///
    /// # Errors
    ///
    /// Fails if the directory or one of its files cannot be read.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let kind = path.extension().and_then(|kind| kind.to_str());
            let (Some(name), Some(kind)) = (path.file_name().and_then(|name| name.to_str()), kind) else { continue };
            if KINDS.contains(&kind) {
                // The output of a program may not be text.
                files.insert(name.to_owned(), String::from_utf8_lossy(&fs::read(&path)?).into_owned());
            }
        }
        Ok(Self { files })
    }

    /// Returns the text of a file, or `None` if there is no such file.
    #[must_use]
    pub fn file(&self, name: &str) -> Option<&str> {
        self.files.get(name).map(String::as_str)
    }

    /// Returns the standard output of a step; empty if the step did not run.
    #[must_use]
    pub fn out(&self, step: &str) -> &str {
        self.file(&format!("{step}.out")).unwrap_or_default()
    }

    /// Returns the standard error of a step; empty if the step did not run.
    #[must_use]
    pub fn err(&self, step: &str) -> &str {
        self.file(&format!("{step}.err")).unwrap_or_default()
    }

    /// Returns the exit code of a step, or `None` if the step did not complete.
    #[must_use]
    pub fn status(&self, step: &str) -> Option<i32> {
        self.file(&format!("{step}.status"))?.trim().parse().ok()
    }

    /// Adds a file, or replaces it.
    pub fn put(&mut self, name: &str, text: impl Into<String>) {
        self.files.insert(name.to_owned(), text.into());
    }

    /// Removes a file.
    pub fn remove(&mut self, name: &str) {
        self.files.remove(name);
    }
}
