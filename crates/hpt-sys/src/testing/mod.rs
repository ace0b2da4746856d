//! Support for the tests of hpt's crates.

#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub mod hosts;

/// Reports why a test, or part of a test, cannot run on this machine. The line is written directly to standard error,
/// because the test harness captures the output of `println!` and `eprintln!` in passing tests.
#[macro_export]
macro_rules! skipped {
    ($($why:tt)*) => {{
        use std::io::Write as _;
        // The whole line is written at once, so that lines from concurrent tests do not interleave.
        std::io::stderr().write_all(format!("skipped: {}\n", format_args!($($why)*)).as_bytes()).expect("standard error is open")
    }};
}

/// Returns the command line of the emulator that runs these tests, which is empty without an emulator, and the path of
/// this program. Tests need both to start this program as another process.
#[must_use]
pub fn own_program() -> (Vec<String>, std::path::PathBuf) {
    let runner = std::env::var("HPT_TEST_RUNNER").unwrap_or_default();
    let program = std::env::current_exe().expect("Linux reports the path of this program");
    (runner.split_whitespace().map(str::to_owned).collect(), program)
}
