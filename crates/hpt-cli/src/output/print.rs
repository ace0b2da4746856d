//! Functions that print documents on standard output. Each format has its own module. This module does not depend on
//! subcommands and measures nothing.

use std::io::{self, Write};

use super::{
    csv,
    human::{self, Block, Look},
    json, message,
    metrics::{self, gauge::Gauge},
    openmetrics,
    printable::Document,
};
use clap::ValueEnum;
use hpt_document::head::Head;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Human,
    Json,
    Csv,
    Openmetrics,
}

pub(crate) fn has_metrics(kind: &str) -> bool {
    metrics::are_of(kind)
}

/// Returns the metrics of a document in the format of node_exporter's textfile collector, or `None` for a document
/// without metrics.
pub(crate) fn textfile(data: &hpt_document::Document) -> Option<String> {
    Some(openmetrics::textfile(metrics::of(data)?))
}

/// Returns the metrics of a measurement that is still running, in the format of node_exporter's textfile collector.
pub(crate) fn textfile_so_far(head: &Head, gauges: Vec<Gauge>) -> String {
    openmetrics::textfile(metrics::complete(head, gauges))
}

/// Prints `document` on standard output. A closed pipe is not an error.
pub(crate) fn print(document: &Document, format: Format) -> io::Result<()> {
    write_out(rendered(document, format, Look::of_stdout()).as_bytes()).map(|_| ())
}

/// Prints the result so far on standard error. Standard output is only for the result at the end, so that a program that
/// reads it receives one complete document. JSON is on one line.
pub(crate) fn print_so_far(mut document: Document, format: Format) {
    document.one_of_several = true;
    message::write_text(&rendered(&document, format, Look::of_stderr()));
}

/// Prints the content of a file unchanged.
pub(crate) fn print_as_it_is(content: &[u8]) -> io::Result<()> {
    write_out(content).map(|_| ())
}

/// Prints text that does not belong to a document.
pub(crate) fn print_page(blocks: &[Block]) -> io::Result<()> {
    write_out(human::render(blocks, Look::of_stdout()).as_bytes()).map(|_| ())
}

/// Returns the number of columns of standard output.
pub(crate) fn columns() -> usize {
    Look::of_stdout().width.into()
}

/// Prints one of several documents. Returns whether standard output still has a reader. `first` marks the first
/// document of a kind, which is printed with a header if the format has headers.
pub(crate) fn print_one_of_several(document: &Document, format: Format, first: bool) -> io::Result<bool> {
    let text = rendered(document, format, Look::of_stdout());
    let shown = match (format, first) {
        (Format::Csv, false) => text.split_once('\n').map_or("", |(_, rows)| rows),
        (Format::Human | Format::Json | Format::Openmetrics, _) | (Format::Csv, true) => &text,
    };
    write_out(shown.as_bytes())
}

/// Returns the text of a document. `look` applies only to the human-readable format.
pub(crate) fn rendered(document: &Document, format: Format, look: Look) -> String {
    match format {
        Format::Human => human::render(&document.blocks, look),
        Format::Json => json::render(&document.value(), document.one_of_several),
        Format::Csv => csv::render(&columns_of(document), &document.data.rows()),
        // If there are several documents, the last one contains the figures of all of them.
        Format::Openmetrics => openmetrics::render(&document.data).unwrap_or_default(),
    }
}

/// Returns the names of the columns that CSV has for a document.
fn columns_of(document: &Document) -> Vec<String> {
    let (value, rows) = (document.value(), document.data.rows_key());
    let kind = value["kind"].as_str().unwrap_or_default();
    rows.map(|rows| hpt_document::schema::columns(kind, rows)).unwrap_or_default()
}

/// Writes to standard output. Returns whether standard output still has a reader.
fn write_out(content: &[u8]) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(content).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
        Ok(()) => Ok(true),
    }
}
