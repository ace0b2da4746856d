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

pub(crate) mod unsafe_calls;

use std::{
    fs::File,
    io::{Read, Seek},
    process::{Command, Output},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// The right to change the source of the process's time, for one test at a time: who is kept waiting for a second by another thread is refused, and what is in use is
/// what the last one asked for.
pub(crate) fn alone_to_change_the_source() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the test of this name once more, in a process of its own, where what is decided first is nobody else's. There it answers true.
pub(crate) fn is_alone(name: &str) -> bool {
    const ALONE: &str = "HPT_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let runner = std::env::var("HPT_TEST_RUNNER").unwrap_or_default();
    let mut words = runner.split_whitespace().map(std::ffi::OsString::from).collect::<Vec<_>>();
    words.push(std::env::current_exe().expect("this program is a file").into());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(["--exact", name, "--show-output"]).env(ALONE, "1");
    let output = if runner.is_empty() {
        command.output().expect("this program can be run again")
    } else {
        // An emulator copies its own locks into a child as they are, also those that another thread just holds: now and then the child hangs before it is the program.
        (0..3)
            .find_map(|_| output_within(Duration::from_secs(180), &mut command))
            .unwrap_or_else(|| panic!("{name}, in a process of its own, did not end"))
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{errors}");
    errors.lines().filter_map(|line| line.strip_prefix("skipped: ")).for_each(|why| skipped!("{why}"));
    false
}

/// What a program says until it ends; one that takes longer is killed.
fn output_within(limit: Duration, command: &mut Command) -> Option<Output> {
    let files =
        [tempfile::tempfile(), tempfile::tempfile()].map(|file| file.expect("there is a folder for temporary files"));
    let [stdout, stderr] = [&files[0], &files[1]].map(|file| file.try_clone().expect("a file has two handles"));
    let mut child = command.stdout(stdout).stderr(stderr).spawn().expect("this program can be run again");
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("nobody else waits for it") {
            break status;
        }
        if begun.elapsed() > limit {
            child.kill().expect("it is a child of this process");
            child.wait().expect("nobody else waits for it");
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    };
    let [stdout, stderr] = files.map(said);
    Some(Output { status, stdout, stderr })
}

fn said(mut file: File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("a file can be read");
    bytes
}
