//! `hpt schema`: prints the JSON Schema of a kind of document.

use clap::{Args, builder::PossibleValuesParser};
use hpt_document::schema;

use crate::{
    arguments::{Codes, after_help, without_documents},
    exit::Failure,
    output::{Answer, print_as_it_is},
};

const EXAMPLES: &str = "  \
  hpt schema                 list the kinds of documents
  hpt schema latency-timer   print the schema of hpt latency timer --json";

/// Print the JSON Schema of a command's output
///
/// The key "kind" of a document names its schema (JSON Schema, draft 2020-12). Without NAME, hpt lists the kinds.
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::of(None), EXAMPLES), args(without_documents()))]
pub(crate) struct SchemaArguments {
    /// Kind of document
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(schema::kinds()))]
    name: Option<String>,
}

pub(crate) fn run(arguments: &SchemaArguments) -> Result<Answer, Failure> {
    let text = match &arguments.name {
        Some(name) => schema::of(name).expect("the kind is one of the possible values").to_owned(),
        None => schema::kinds().collect::<Vec<_>>().join("\n") + "\n",
    };
    print_as_it_is(text.as_bytes()).map_err(Failure::Print)?;
    Ok(Answer::Yes)
}
