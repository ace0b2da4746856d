//! What a subcommand found, ready to be printed in any format.
//! Prints nothing.

use serde_json::Value;

use super::human::Block;

/// How a document answers a script: `exit` makes a code of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Done, or usable.
    Yes,
    /// A negative answer.
    No,
    /// Could not tell.
    Unknown,
}

/// What a subcommand found, ready to be printed in any format.
#[derive(Debug)]
pub(crate) struct Document {
    /// The whole of it, for programs.
    pub(crate) data: hpt_document::Document,
    /// The same for people.
    pub(crate) blocks: Vec<Block>,
    /// What to say on standard error after the result.
    pub(crate) warnings: Vec<String>,
    /// The answer for scripts.
    pub(crate) answer: Answer,
    /// Whether it is one of several, printed one after another: a line of JSON each.
    pub(crate) one_of_several: bool,
}

impl Document {
    /// A document of `data`, with what people read of it.
    pub(crate) fn new(data: impl Into<hpt_document::Document>, blocks: Vec<Block>) -> Self {
        Self { data: data.into(), blocks, warnings: Vec::new(), answer: Answer::Yes, one_of_several: false }
    }

    /// The data as JSON.
    pub(crate) fn value(&self) -> Value {
        serde_json::to_value(&self.data).expect("documents are structs of numbers, names and lists")
    }
}
