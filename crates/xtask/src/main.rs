//! `cargo xtask`: runs the checks of this workspace that read Rust.
//! Decides nothing: the library does.
#![forbid(unsafe_code)]

use std::{
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use xtask::{
    Violation, cycles,
    figures::Figures,
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

The rules are in crates/xtask/src/rules.rs. Exit codes: 0 all is as it should be, 1 something is not, 2 wrong usage.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (layers, unsafe_code) = match words.as_slice() {
        ["layers"] => (true, false),
        ["unsafe"] => (false, true),
        ["check"] => (true, true),
        ["figures"] => return print_figures(),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(layers, unsafe_code) {
        Ok(violations) if violations.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cargo xtask: {error}");
            ExitCode::from(2)
        }
    }
}

fn print_figures() -> ExitCode {
    match Figures::of(Path::new(".")).and_then(|figures| write!(io::stdout(), "{figures}")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask: {error}");
            ExitCode::from(2)
        }
    }
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
