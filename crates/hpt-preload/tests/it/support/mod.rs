//! Shared by the tests: starting a program with or without the library, and reading its output.

/// Reports why a test, or a part of one, cannot run on this machine. The line is written directly to standard error,
/// because the test harness captures the output of `println!` and `eprintln!` in a test that passes.
macro_rules! skipped {
    ($($why:tt)*) => {{
        use std::io::Write as _;
        // One write for the whole line, so that the lines of two tests do not mix.
        std::io::stderr().write_all(format!("skipped: {}\n", format_args!($($why)*)).as_bytes()).expect("standard error is open")
    }};
}

pub(crate) mod unsafe_calls;

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::program::PROGRAM;

/// The output of a program that ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The output of the test program itself.
    pub(crate) stdout: String,
    /// The report of the library; `None` if it was not loaded.
    pub(crate) statistic: Option<Statistic>,
}

/// The counts of the library.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Statistic {
    pub(crate) served: u64,
    pub(crate) passed_on: u64,
}

impl Statistic {
    /// Parses the library's report, in which the two counts are the only numbers.
    fn read(line: &str) -> Option<Self> {
        let said = line.strip_prefix("hpt-preload: ")?;
        let mut numbers = said.split_whitespace().filter_map(|word| word.parse().ok());
        Some(Self { served: numbers.next()?, passed_on: numbers.next()? })
    }
}

/// Returns the library that cargo built for these tests; `None`, with a report, if it cannot be loaded.
pub(crate) fn library() -> Option<PathBuf> {
    if cfg!(target_feature = "crt-static") {
        skipped!("a static program cannot load a library");
        return None;
    }
    let tests = std::env::current_exe().expect("this program has a path");
    Some(tests.with_file_name("libhpt_preload.so"))
}

/// Runs a program of `program.rs` with these libraries, and requires it to succeed.
#[track_caller]
pub(crate) fn run(name: &str, libraries: &[&Path]) -> Ended {
    let runner = std::env::var("HPT_TEST_RUNNER").unwrap_or_default();
    let tests = std::env::current_exe().expect("this program has a path");
    let mut words: Vec<_> = runner.split_whitespace().map(PathBuf::from).collect();
    words.push(tests);
    let preload: Vec<_> =
        libraries.iter().map(|library| library.to_str().expect("the build's path is UTF-8")).collect();
    let output = Command::new(&words[0])
        .args(&words[1..])
        .env(PROGRAM, name)
        .env("LD_PRELOAD", preload.join(":"))
        .env("HPT_PRELOAD_VERBOSE", "1")
        .output()
        .expect("this program can be started again");
    judge(name, &output)
}

#[track_caller]
fn judge(name: &str, output: &Output) -> Ended {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {:?}\n{stdout}\n{stderr}", output.status);
    // Of several libraries, the first one called reports first.
    let statistic = stderr.lines().find_map(Statistic::read);
    Ended { stdout, statistic }
}
