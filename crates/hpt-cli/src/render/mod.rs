//! Documents and how they are printed: one format per file.
//! Knows no subcommand and measures nothing.

mod csv;
pub(crate) mod html;
mod human;
mod json;
mod metrics;
mod openmetrics;

use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use self::human::Look;
pub(crate) use self::human::{Align, Block, Cell, Column, Table, Tone, remarks, short_time};

/// How a document is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Human,
    Json,
    Csv,
    Openmetrics,
}

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
    pub(crate) data: Value,
    /// The key in `data` of the rows that CSV prints.
    pub(crate) rows: &'static str,
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
    /// A document of `data`, whose rows for CSV stand under the key `rows`.
    pub(crate) fn new(data: &impl Serialize, rows: &'static str, blocks: Vec<Block>) -> Self {
        let data = serde_json::to_value(data).expect("documents are structs of numbers, names and lists");
        Self { data, rows, blocks, warnings: Vec::new(), answer: Answer::Yes, one_of_several: false }
    }
}

/// Whether documents of that kind have metrics.
pub(crate) fn has_metrics(kind: &str) -> bool {
    metrics::are_of(kind)
}

/// The metrics of a document as node_exporter's textfile collector takes them; `None` of one that has none.
pub(crate) fn textfile(data: &Value) -> Option<String> {
    openmetrics::textfile(data)
}

/// Prints `document` on standard output. A reader that went away is not an error.
pub(crate) fn print(document: &Document, format: Format) -> io::Result<()> {
    write_out(text(document, format).as_bytes()).map(|_| ())
}

/// Prints what is no document, but a file's content.
pub(crate) fn print_as_it_is(content: &[u8]) -> io::Result<()> {
    write_out(content).map(|_| ())
}

/// Prints one of several documents, and says whether anybody still reads. `first`: it is the first of its kind, and has a header where the format has one.
pub(crate) fn print_one_of_several(document: &Document, format: Format, first: bool) -> io::Result<bool> {
    let text = text(document, format);
    let shown = match (format, first) {
        (Format::Csv, false) => text.split_once('\n').map_or("", |(_, rows)| rows),
        (Format::Human | Format::Json | Format::Openmetrics, _) | (Format::Csv, true) => &text,
    };
    write_out(shown.as_bytes())
}

fn text(document: &Document, format: Format) -> String {
    match format {
        Format::Human => human::render(&document.blocks, Look::of_stdout()),
        Format::Json => json::render(document),
        Format::Csv => csv::render(document),
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

/// A figure for programs: three decimals are below anything that is measured here.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Documents of given figures, held against what they printed before.
/// Text of which parts may come from a file that another user made, as a terminal may have it: what a terminal obeys, and what turns the direction of
/// writing around, is written as its number.
pub(crate) fn without_escapes(text: &str) -> String {
    let is_obeyed = |letter: char| {
        let turns_around =
            matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns_around || letter.is_control() && letter != '\n'
    };
    let mut kept = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_obeyed(letter) { kept.extend(letter.escape_unicode()) } else { kept.push(letter) }
    }
    kept
}

#[cfg(test)]
pub(crate) mod golden {
    use std::path::Path;

    use hpt_core::{Host, host::Capture};

    use super::{Document, Look, csv, human, json};
    use crate::machine::Head;

    /// A captured machine to speak of.
    pub(crate) fn host() -> Host {
        let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hpt-core/tests/hosts");
        let capture = Capture::open(&hosts.join("amd-epyc-zen3-kvm.capture"));
        let capture = capture.expect("the captured machine is beside hpt-core's tests");
        let facts = serde_json::from_str(capture.facts()).expect("the facts are what hpt writes");
        Host::captured(capture, facts)
    }

    /// What a document of that machine begins with, whatever version this is.
    pub(crate) fn head(kind: &'static str) -> Head {
        let mut head = Head::of(kind, &host());
        head.hpt = "0.0.0";
        head
    }

    /// Compares every format with its snapshot.
    pub(crate) fn assert(name: &str, document: &Document) {
        insta::with_settings!({ snapshot_path => "../../tests/it/snapshots", prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(format!("{name}-human"), human::render(&document.blocks, Look { width: 80, colour: false }));
            insta::assert_snapshot!(format!("{name}-json"), json::render(document));
            insta::assert_snapshot!(format!("{name}-csv"), csv::render(document));
            if let Some(metrics) = super::openmetrics::render(&document.data) {
                insta::assert_snapshot!(format!("{name}-openmetrics"), metrics);
            }
        });
    }
}
