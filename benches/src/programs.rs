//! Shared code of the longer programs: output of results with their provenance, and Ctrl-C.
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

/// The version of the JSON output of these programs.
const SCHEMA: u32 = 1;

/// The exit codes of these programs.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  measured; no promise was broken
  1  a promise was broken
  2  no result, or wrong usage
Ctrl-C ends a measurement early; the results so far are printed and kept.";

/// Where to write the result, and the provenance for a record.
#[derive(Clone, Debug, clap::Args)]
pub struct Keep {
    /// Also write the result as JSON to this file [default: print the table only]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Date for the JSON
    #[arg(long, value_name = "YYYY-MM-DD")]
    date: Option<String>,
    /// Commit for the JSON
    #[arg(long, value_name = "COMMIT")]
    commit: Option<String>,
    /// Compiler version for the JSON
    #[arg(long, value_name = "VERSION")]
    rustc: Option<String>,
}

/// A result with all information that is needed to judge it.
#[derive(Debug, Serialize)]
struct Document<'a, R> {
    schema: u32,
    program: &'static str,
    provenance: Provenance,
    machine: Machine,
    result: &'a R,
}

/// The outcome of a program, which determines its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All promises were kept.
    Kept,
    /// A promise was broken.
    Broken,
    /// There is no result.
    Unknown,
}

impl Keep {
    /// Prints `text`, and writes `result` to the requested file.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written. A closed pipe is not an error.
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

/// Returns the exit code of `program`, and prints an error on standard error.
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

/// A request to end by Ctrl-C or SIGTERM.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs the handlers: the first of these signals is a request, and the second ends the
    /// program.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects a handler.
    pub fn listen() -> io::Result<Self> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&interrupt.0))?;
            signal_hook::flag::register(signal, Arc::clone(&interrupt.0))?;
        }
        Ok(interrupt)
    }

    /// Returns whether a request was received.
    #[must_use]
    pub fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Returns a table, which is also Markdown. All columns except the first are right-aligned.
#[must_use]
pub fn table<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    table.to_string()
}

/// Parses `20min` or `1m 30s`.
///
/// # Errors
///
/// Returns the reason if the text is not a duration.
pub fn duration(text: &str) -> Result<Duration, humantime::DurationError> {
    humantime::parse_duration(text)
}

/// Parses `1000000000`, `1e9` or `2.5e6`.
///
/// # Errors
///
/// Returns a description of valid numbers.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole, positive and below 2^53, as just checked"
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
