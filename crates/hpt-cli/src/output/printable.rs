//! The result of a subcommand, ready to be printed in any format.

use serde_json::Value;

use super::human::Block;

/// The answer for scripts. The module `exit` converts it to an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The operation succeeded, or the item is usable.
    Yes,
    /// A negative answer.
    No,
    /// The answer could not be determined.
    Unknown,
}

impl Answer {
    /// Returns the answer to both questions: no if one of the answers is no, otherwise unknown if one is unknown.
    #[must_use]
    pub(crate) const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Yes, Self::Yes) => Self::Yes,
        }
    }
}

/// The result of a subcommand, ready to be printed in any format.
#[derive(Debug)]
pub(crate) struct Document {
    /// The complete data, for programs.
    pub(crate) data: hpt_document::Document,
    /// The human-readable text.
    pub(crate) blocks: Vec<Block>,
    /// Warnings to print on standard error after the result.
    pub(crate) warnings: Vec<String>,
    /// The answer for scripts.
    pub(crate) answer: Answer,
    /// Whether this is one of several documents. Each of several documents is printed as one line of JSON.
    pub(crate) one_of_several: bool,
}

impl Document {
    /// Creates a document from `data` and its human-readable text.
    pub(crate) fn new(data: impl Into<hpt_document::Document>, blocks: Vec<Block>) -> Self {
        Self { data: data.into(), blocks, warnings: Vec::new(), answer: Answer::Yes, one_of_several: false }
    }

    /// Returns the data as JSON.
    pub(crate) fn value(&self) -> Value {
        serde_json::to_value(&self.data).expect("documents are structs of numbers, names and lists")
    }
}
