//! `cargo xtask`: runs the checks of this workspace.
//! Decides nothing: the library does.
#![forbid(unsafe_code)]

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use xtask::{
    Violation, cycles,
    figures::Figures,
    judge::{self, Answers, Board},
    layers,
    program::Program,
    rules::{RULES, UNSAFE_FORBIDDEN, UNSAFE_PLACES},
    tree::Tree,
    unsafe_code::{self, Places},
};

const USAGE: &str = "\
Usage: cargo xtask COMMAND

  layers   print the layers of each crate; fail on an import cycle or an import that the rules forbid
  unsafe   fail on unsafe code outside the places for it
  check    both
  figures  print the size of the project: tracked files, the longest sources, lines of bash and awk
  judge BOARD ANSWERS
           judge what an emulated board answered, a folder that scripts/test-boards leaves; print what is wrong, or
           what was shown
  doubt FOLDER BOARD...
           test the judges: plant what is wrong in the answers of boards that passed, FOLDER/BOARD/answers; fail if
           the judges do not notice

The rules are in crates/xtask/src/rules.rs, the judges in crates/xtask/src/judge. Exit codes: 0 all is as it should be, 1 something is not, 2 wrong usage.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (layers, unsafe_code) = match words.as_slice() {
        ["layers"] => (true, false),
        ["unsafe"] => (false, true),
        ["check"] => (true, true),
        ["figures"] => return finish(print_figures()),
        ["judge", board, answers] => return finish(judge_board(board, Path::new(answers))),
        ["doubt", folder, boards @ ..] if !boards.is_empty() => return finish(doubt_judges(Path::new(folder), boards)),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    finish(run(layers, unsafe_code).map(|violations| violations.is_empty()))
}

/// The exit code of a command that found everything as it should be, or not.
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

fn print_figures() -> io::Result<bool> {
    write!(io::stdout(), "{}", Figures::of(Path::new("."))?)?;
    Ok(true)
}

/// Prints what is wrong with a board's answers, a line each, and what they show on the last line.
fn judge_board(name: &str, answers: &Path) -> io::Result<bool> {
    let verdict = judge::judge(&board(name)?, &Answers::read(answers)?);
    let mut output = io::stdout().lock();
    for wrong in &verdict.wrong {
        writeln!(output, "{name}: {wrong}")?;
    }
    writeln!(output, "{name}: shown: {}", verdict.shown.join("; "))?;
    Ok(verdict.wrong.is_empty())
}

/// Prints what the judges noticed of what was planted in the answers of these boards.
fn doubt_judges(folder: &Path, names: &[&str]) -> io::Result<bool> {
    let answers = |name: &str| -> io::Result<(Board, Answers)> {
        Ok((board(name)?, Answers::read(&folder.join(name).join("answers"))?))
    };
    let boards = names.iter().map(|name| answers(name)).collect::<io::Result<Vec<_>>>()?;
    let doubts = judge::doubt(&boards);
    let mut output = io::stdout().lock();
    for doubt in &doubts {
        writeln!(output, "{doubt}")?;
    }
    Ok(doubts.iter().all(|doubt| doubt.missed.is_empty()))
}

/// Reads the file of a board.
fn board(name: &str) -> io::Result<Board> {
    let path = format!("boards/{name}.board");
    let error = |error: &dyn std::error::Error| io::Error::other(format!("{path}: {error}"));
    let text = fs::read_to_string(&path).map_err(|cause| error(&cause))?;
    Board::parse(name, &text).map_err(|cause| error(&cause))
}

/// Runs what was asked for, and prints the layers and what is not as it should be.
fn run(layers: bool, unsafe_code: bool) -> io::Result<Vec<Violation>> {
    let tree = Tree::read(Path::new("."))?;
    let mut violations = Vec::new();
    let mut output = io::stdout().lock();
    if layers {
        let (program, in_the_way) = Program::link(&tree);
        write!(output, "{}", cycles::Graph::of(&program, RULES).layers())?;
        violations.extend(in_the_way);
        violations.extend(cycles::check(&program, RULES));
        violations.extend(layers::check(&program, RULES));
    }
    if unsafe_code {
        let places = Places { allowed: UNSAFE_PLACES, forbidden: UNSAFE_FORBIDDEN };
        violations.extend(unsafe_code::check(&tree, places));
    }
    violations.sort();
    violations.dedup();
    for violation in &violations {
        writeln!(output, "{violation}")?;
    }
    let checked =
        if violations.is_empty() { "nothing forbidden".to_owned() } else { format!("{} violations", violations.len()) };
    writeln!(output, "{} files: {checked}", tree.sources().count())?;
    Ok(violations)
}
