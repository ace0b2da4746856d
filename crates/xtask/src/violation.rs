//! A violation of a rule: its location and a message.

use std::fmt;

/// Code or text in the tree that a rule forbids.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The file.
    pub file: String,
    /// The line, from one.
    pub line: usize,
    /// A description of the problem.
    pub message: String,
}

impl Violation {
    /// Creates a violation at this location.
    #[must_use]
    pub fn new(file: &str, line: usize, message: String) -> Self {
        Self { file: file.to_owned(), line, message }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}
