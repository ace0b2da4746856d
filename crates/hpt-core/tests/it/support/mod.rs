//! Helpers of the tests.

pub(crate) mod starter;
pub(crate) mod unsafe_calls;

use std::{
    ffi::OsString,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
};

use hpt_core::Host;

/// The exclusive right of a test to change the source of the process's clock: a change that waits
/// for another thread for a second is refused, and the most recent change determines the source.
pub(crate) fn alone_to_change_the_source() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Set in the process in which `is_alone` returns true.
const ALONE: &str = "HPT_TEST_ALONE";

/// Runs the test with this name again in a separate process, in which no other test has changed
/// anything. Returns true there.
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

/// Returns how often a test repeats something: `few` times on an emulated machine, which is much slower.
pub(crate) fn times<N>(many: N, few: N) -> N {
    if Host::live().emulator().is_some() { few } else { many }
}

/// Returns the words of the emulator that runs these tests, or none.
fn runner() -> Vec<OsString> {
    let runner = std::env::var("HPT_TEST_RUNNER").unwrap_or_default();
    runner.split_whitespace().map(OsString::from).collect()
}

/// Returns a command that runs this program for one test.
fn once_more(name: &str) -> Command {
    let mut words = runner();
    words.push(std::env::current_exe().expect("this program is a file").into());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(["--exact", name, "--show-output"]).env(ALONE, "1");
    command
}
