//! What the longer programs share: where a result goes, what is noted beside it, and how Ctrl-C ends a measurement.
//! Measures nothing.

use std::{
    error::Error,
    fs,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use comfy_table::{CellAlignment, Table, presets};
use hpt_core::Host;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::report::{Machine, Provenance};

/// The version of the JSON of all these programs.
const SCHEMA: u32 = 1;

/// How all of them end.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  yes: measured, and nothing that was promised was broken
  1  a negative answer: a promise was broken
  2  could not tell, or wrong usage
Ctrl-C ends a measurement early: what was measured is printed and kept.";

/// Where the result goes, and what a record notes beside it.
#[derive(Clone, Debug, clap::Args)]
pub struct Keep {
    /// Write the result as JSON to this file too [default: print the table alone]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Note this day in the JSON
    #[arg(long, value_name = "YYYY-MM-DD")]
    date: Option<String>,
    /// Note this commit in the JSON
    #[arg(long, value_name = "COMMIT")]
    commit: Option<String>,
    /// Note this compiler in the JSON
    #[arg(long, value_name = "VERSION")]
    rustc: Option<String>,
}

/// A result with all that is needed to judge it.
#[derive(Debug, Serialize)]
struct Document<'a, R> {
    schema: u32,
    program: &'static str,
    provenance: Provenance,
    machine: Machine,
    result: &'a R,
}

/// What a program found, for its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is as promised.
    Kept,
    /// Something is not.
    Broken,
    /// Nothing could be found out.
    Unknown,
}

impl Keep {
    /// Prints `text`, and writes `result` where it was asked for.
    ///
    /// # Errors
    ///
    /// When it cannot be written. A closed pipe is not an error.
    pub fn publish<R: Serialize>(
        self,
        program: &'static str,
        pinned_cpu: Option<usize>,
        result: &R,
        text: &str,
    ) -> Result<(), Box<dyn Error>> {
        let Self { json, date, commit, rustc } = self;
        if let Some(file) = json {
            let provenance = Provenance { date, commit, rustc };
            let machine = Machine::of(&Host::live(), pinned_cpu);
            let document = Document { schema: SCHEMA, program, provenance, machine, result };
            fs::write(file, serde_json::to_string_pretty(&document)? + "\n")?;
        }
        match io::stdout().write_all(text.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// The exit code of `program`, and on standard error why it could not do its work.
#[must_use]
pub fn exit_code(program: &str, result: Result<Outcome, Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(Outcome::Kept) => ExitCode::SUCCESS,
        Ok(Outcome::Broken) => ExitCode::from(1),
        Ok(Outcome::Unknown) => ExitCode::from(2),
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether Ctrl-C or SIGTERM asked to end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From here on the first of these signals asks, and the second ends the program.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn listen() -> io::Result<Self> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&interrupt.0))?;
            signal_hook::flag::register(signal, Arc::clone(&interrupt.0))?;
        }
        Ok(interrupt)
    }

    /// Whether one came.
    #[must_use]
    pub fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A table, which is Markdown too; all columns but the first are figures.
#[must_use]
pub fn table<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    table.to_string()
}

/// Reads `20min` or `1m 30s`.
///
/// # Errors
///
/// What is wrong with it.
pub fn duration(text: &str) -> Result<Duration, humantime::DurationError> {
    humantime::parse_duration(text)
}

/// Reads `1000000000`, `1e9` or `2.5e6`.
///
/// # Errors
///
/// What is understood.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole, positive and below 2^53: just seen"
)]
pub fn count(text: &str) -> Result<u64, &'static str> {
    match text.parse::<f64>() {
        Ok(number) if (1.0..9e15).contains(&number) && number.fract() == 0.0 => Ok(number as u64),
        _ => Err("a whole number of at least 1, such as 1000 or 1e6"),
    }
}

#[cfg(test)]
mod tests {
    use super::{count, table};

    #[test]
    fn counts_are_whole_and_positive() {
        assert_eq!([count("1e9"), count("2.5e6"), count("17")], [Ok(1_000_000_000), Ok(2_500_000), Ok(17)]);
        assert!(["0", "-1", "0.5", "1e99", "many"].iter().all(|text| count(text).is_err()));
    }

    #[test]
    fn a_table_is_markdown() {
        let table = table(["who", "ns"], [["one".to_owned(), "1.0".to_owned()]]);
        assert!(table.starts_with("| who | ") && table.ends_with("| 1.0 |"), "{table}");
    }
}
