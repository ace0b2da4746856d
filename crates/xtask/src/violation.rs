//! A violation of a rule: its place and what is wrong.
//! Contains no rule.

use std::fmt;

/// Something in the tree that a rule forbids.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The file that it is in.
    pub file: String,
    /// Its line, from one.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl Violation {
    /// A violation at this place.
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
