//! What the tests share.

/// Reports why a test, or a part of one, cannot run on this machine. The line goes straight to standard error, because the test harness swallows what `println!` and
/// `eprintln!` print in a test that passes.
macro_rules! skipped {
    ($($why:tt)*) => {{
        use std::io::Write as _;
        // One write for the line, so that two tests do not mix theirs.
        std::io::stderr().write_all(format!("skipped: {}\n", format_args!($($why)*)).as_bytes()).expect("standard error is open")
    }};
}

pub(crate) mod starter;
pub(crate) mod unsafe_calls;

use std::{
    ffi::OsString,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The right to change the source of the process's time, for one test at a time: who is kept waiting for a second by another thread is refused, and what is in use is
/// what the last one asked for.
pub(crate) fn alone_to_change_the_source() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Set in the process in which `is_alone` answers true.
const ALONE: &str = "HPT_TEST_ALONE";

/// Runs the test of this name once more, in a process of its own, where no other test has decided anything yet. There it answers true.
pub(crate) fn is_alone(name: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let said = starter::run(name).unwrap_or_else(|| {
        let output = once_more(name).output().expect("this program can be run again");
        starter::Said { success: output.status.success(), stdout: output.stdout, stderr: output.stderr }
    });
    let (stdout, stderr) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.success && stdout.contains("1 passed"), "{stdout}{stderr}");
    stderr.lines().filter_map(|line| line.strip_prefix("skipped: ")).for_each(|why| skipped!("{why}"));
    false
}

/// The words of the emulator that runs these tests, or none.
fn runner() -> Vec<OsString> {
    let runner = std::env::var("HPT_TEST_RUNNER").unwrap_or_default();
    runner.split_whitespace().map(OsString::from).collect()
}

/// This program, for one test.
fn once_more(name: &str) -> Command {
    let mut words = runner();
    words.push(std::env::current_exe().expect("this program is a file").into());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(["--exact", name, "--show-output"]).env(ALONE, "1");
    command
}
