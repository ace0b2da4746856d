//! `cargo xtask`: runs the checks of this workspace.
//! The library implements the checks.
#![forbid(unsafe_code)]

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use xtask::{
    judge::{self, Answers, Board},
    words,
};

const USAGE: &str = "\
Usage: cargo xtask COMMAND

  words    fail on retired phrases, and on Markdown lines over 100 characters
  judge BOARD ANSWERS
           judge the answers of an emulated board, a directory that scripts/test-boards writes; print the
           problems and the results
  guides BUILD
           print the steps with which a board runs the commands of the guides in docs/howto
  doubt DIR BOARD...
           test the judges: plant faults in the answers of boards that passed, DIR/BOARD/answers; fail if
           the judges do not notice one

The judges are in crates/xtask/src/judge.
Exit codes: 0 no violations, 1 violations found, 2 wrong usage, or a check could not run.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["words"] => finish(print_words()),
        ["judge", board, answers] => finish(judge_board(board, Path::new(answers))),
        ["guides", build] => {
            print!("{}", judge::guide_steps(build));
            ExitCode::SUCCESS
        }
        ["doubt", folder, boards @ ..] if !boards.is_empty() => finish(doubt_judges(Path::new(folder), boards)),
        _ => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Returns the exit code for the result of a check.
fn finish(is_well: io::Result<bool>) -> ExitCode {
    match is_well {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cargo xtask: {error}");
            ExitCode::from(2)
        }
    }
}

/// Prints the violations of the rules for text.
fn print_words() -> io::Result<bool> {
    let violations = words::check(Path::new("."))?;
    let mut output = io::stdout().lock();
    for violation in &violations {
        writeln!(output, "{violation}")?;
    }
    writeln!(output, "{} violations of the rules for text", violations.len())?;
    Ok(violations.is_empty())
}

/// Prints the problems of a board's answers, one per line, and the results on the last line.
fn judge_board(name: &str, answers: &Path) -> io::Result<bool> {
    let verdict = judge::judge(&board(name, answers)?, &Answers::read(answers)?);
    let mut output = io::stdout().lock();
    for wrong in &verdict.wrong {
        writeln!(output, "{name}: {wrong}")?;
    }
    writeln!(output, "{name}: shown: {}", verdict.shown.join("; "))?;
    Ok(verdict.wrong.is_empty())
}

/// Plants faults in the answers of these boards, and prints which the judges noticed.
fn doubt_judges(folder: &Path, names: &[&str]) -> io::Result<bool> {
    let answers = |name: &str| -> io::Result<(Board, Answers)> {
        let answers = folder.join(name).join("answers");
        Ok((board(name, &answers)?, Answers::read(&answers)?))
    };
    let boards = names.iter().map(|name| answers(name)).collect::<io::Result<Vec<_>>>()?;
    let doubts = judge::doubt(&boards);
    let mut output = io::stdout().lock();
    for doubt in &doubts {
        writeln!(output, "{doubt}")?;
    }
    Ok(doubts.iter().all(|doubt| doubt.missed.is_empty()))
}

/// Reads a board's file, and what `scripts/test-boards` ran of it, which it wrote beside the answers.
fn board(name: &str, answers: &Path) -> io::Result<Board> {
    let mut board = Board::parse(name, "").map_err(io::Error::other)?;
    for path in [Path::new("boards").join(format!("{name}.board")), answers.join("ran")] {
        let error = |error: &dyn std::error::Error| io::Error::other(format!("{}: {error}", path.display()));
        let text = fs::read_to_string(&path).map_err(|cause| error(&cause))?;
        board.read(&text).map_err(|cause| error(&cause))?;
    }
    Ok(board)
}
