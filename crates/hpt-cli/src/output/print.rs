//! Prints documents on standard output: one file of this folder for each format.
//! Knows no subcommand and measures nothing.

use std::io::{self, Write};

use super::{
    csv,
    human::{self, Block, Look},
    json,
    metrics::{self, gauge::Gauge},
    openmetrics,
    printable::Document,
};
use clap::ValueEnum;
use hpt_document::head::Head;

/// How a document is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Human,
    Json,
    Csv,
    Openmetrics,
}

/// Whether documents of that kind have metrics.
pub(crate) fn has_metrics(kind: &str) -> bool {
    metrics::are_of(kind)
}

/// The metrics of a document as node_exporter's textfile collector takes them; `None` of one that has none.
pub(crate) fn textfile(data: &hpt_document::Document) -> Option<String> {
    Some(openmetrics::textfile(metrics::of(data)?))
}

/// The same of figures that a document will have, while they are measured.
pub(crate) fn textfile_so_far(head: &Head, gauges: Vec<Gauge>) -> String {
    openmetrics::textfile(metrics::complete(head, gauges))
}

/// Prints `document` on standard output. A reader that went away is not an error.
pub(crate) fn print(document: &Document, format: Format) -> io::Result<()> {
    write_out(rendered(document, format, Look::of_stdout()).as_bytes()).map(|_| ())
}

/// Prints what is no document, but a file's content.
pub(crate) fn print_as_it_is(content: &[u8]) -> io::Result<()> {
    write_out(content).map(|_| ())
}

/// Prints a page for people that is no document.
pub(crate) fn print_page(blocks: &[Block]) -> io::Result<()> {
    write_out(human::render(blocks, Look::of_stdout()).as_bytes()).map(|_| ())
}

/// Prints one of several documents, and says whether anybody still reads. `first`: it is the first of its kind, and has a header where the format has one.
pub(crate) fn print_one_of_several(document: &Document, format: Format, first: bool) -> io::Result<bool> {
    let text = rendered(document, format, Look::of_stdout());
    let shown = match (format, first) {
        (Format::Csv, false) => text.split_once('\n').map_or("", |(_, rows)| rows),
        (Format::Human | Format::Json | Format::Openmetrics, _) | (Format::Csv, true) => &text,
    };
    write_out(shown.as_bytes())
}

/// The text of a document; `look` is that of a page for people.
pub(crate) fn rendered(document: &Document, format: Format, look: Look) -> String {
    match format {
        Format::Human => human::render(&document.blocks, look),
        Format::Json => json::render(&document.value(), document.one_of_several),
        Format::Csv => csv::render(&document.data.rows()),
        // Of one of several the last has the figures of all.
        Format::Openmetrics => openmetrics::render(&document.data).unwrap_or_default(),
    }
}

/// Whether somebody reads it.
fn write_out(content: &[u8]) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(content).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
        Ok(()) => Ok(true),
    }
}
