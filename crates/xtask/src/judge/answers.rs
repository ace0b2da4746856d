//! The answers of a board: a file for each stream of each step, as `scripts/test-boards` keeps them.
//! Does not judge them.

use std::{collections::BTreeMap, fs, io, path::Path};

/// The kinds of files that are answers: standard output, standard error, exit code, and what
/// `hpt capture` wrote.
const KINDS: [&str; 4] = ["out", "err", "status", "capture"];

/// The answers of a board, by file name: `STEP.out`, `STEP.err`, `STEP.status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    files: BTreeMap<String, String>,
}

impl Answers {
    /// Reads every answer in a folder.
    ///
    /// # Errors
    ///
    /// The folder or one of its files cannot be read.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let kind = path.extension().and_then(|kind| kind.to_str());
            let (Some(name), Some(kind)) = (path.file_name().and_then(|name| name.to_str()), kind) else { continue };
            if KINDS.contains(&kind) {
                // What a program printed need not be text.
                files.insert(name.to_owned(), String::from_utf8_lossy(&fs::read(&path)?).into_owned());
            }
        }
        Ok(Self { files })
    }

    /// The text of a file, or `None` if there is no such file.
    #[must_use]
    pub fn file(&self, name: &str) -> Option<&str> {
        self.files.get(name).map(String::as_str)
    }

    /// What the step printed to standard output; empty if the board did not get to it.
    #[must_use]
    pub fn out(&self, step: &str) -> &str {
        self.file(&format!("{step}.out")).unwrap_or_default()
    }

    /// What the step printed to standard error; empty if the board did not get to it.
    #[must_use]
    pub fn err(&self, step: &str) -> &str {
        self.file(&format!("{step}.err")).unwrap_or_default()
    }

    /// The exit code of the step, or `None` if the board did not get to its end.
    #[must_use]
    pub fn status(&self, step: &str) -> Option<i32> {
        self.file(&format!("{step}.status"))?.trim().parse().ok()
    }

    /// Replaces a file, or adds it.
    pub fn put(&mut self, name: &str, text: impl Into<String>) {
        self.files.insert(name.to_owned(), text.into());
    }

    /// Removes a file.
    pub fn remove(&mut self, name: &str) {
        self.files.remove(name);
    }
}
