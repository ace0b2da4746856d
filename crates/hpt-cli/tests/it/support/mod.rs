//! Helpers of the tests: running hpt, its streams as text, captured machines.

/// Reports why a test, or a part of it, cannot run on this machine. Writes directly to standard
/// error, because the test harness suppresses the output of `println!` and `eprintln!` in passing
/// tests.
macro_rules! skipped {
    ($($why:tt)*) => {{
        use std::io::Write as _;
        // One write per line, so that tests do not mix their lines.
        std::io::stderr().write_all(format!("skipped: {}\n", format_args!($($why)*)).as_bytes()).expect("standard error is open")
    }};
}

pub(crate) mod at_a_terminal;
pub(crate) mod pages;
pub(crate) mod random;
pub(crate) mod unsafe_calls;

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use hpt_sys::host::{Capture, Entry};
use serde_json::Value;

/// The words before the built command that run it: an emulator for binaries of other architectures
/// (see `scripts/test-qemu`), or nothing.
pub(crate) fn runner() -> Vec<String> {
    let runner = std::env::var("HPT_TEST_RUNNER").unwrap_or_default();
    runner.split_whitespace().map(str::to_owned).collect()
}

/// Returns the words that run the built command.
pub(crate) fn words() -> Vec<String> {
    unsafe_calls::heed_the_terminal();
    let mut words = runner();
    words.push(env!("CARGO_BIN_EXE_hpt").to_owned());
    words
}

/// Returns a command that runs `program` on the same architecture.
pub(crate) fn command(program: &[String]) -> Command {
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]);
    command
}

/// Returns the built command with an environment that does not access the user's own state.
pub(crate) fn hpt() -> Command {
    let mut command = command(&words());
    command.env_remove("NO_COLOR").env("XDG_STATE_HOME", "/proc/nonexistent/state");
    command
}

/// The maximum time that a test waits. Only a hang takes this long.
const HANG: Duration = Duration::from_secs(600);

/// Waits for a condition, on machines of any speed.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < HANG, "still not so: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for a condition that `child` brings about. The child must not end before.
#[track_caller]
pub(crate) fn wait_while_running(child: &mut Child, what: &str, mut is_so: impl FnMut() -> bool) {
    wait_until(what, || {
        let ended = child.try_wait().expect("it is ours");
        let so = is_so();
        assert!(so || ended.is_none(), "{ended:?} before this was so: {what}");
        so
    });
}

/// Returns this file in /proc of each thread of a process.
pub(crate) fn of_threads(process: u32, file: &str) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::read_to_string(entry.path().join(file)).ok()).collect()
}

pub(crate) fn is_stopped(process: u32) -> bool {
    // The state follows the name, which is in parentheses.
    let states = of_threads(process, "stat");
    let state = |stat: &String| stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with('T'));
    !states.is_empty() && states.iter().all(|stat| state(stat) == Some(true))
}

/// The kernel's clocksource, which root can change.
pub(crate) const CURRENT_CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Whether the file system of a setting can be written. In a container, /sys is often read-only, even for root.
pub(crate) fn is_on_a_writable_file_system(setting: &str) -> bool {
    let opened = fs::OpenOptions::new().write(true).open(setting);
    let is_writable = !opened.is_err_and(|error| error.kind() == std::io::ErrorKind::ReadOnlyFilesystem);
    if !is_writable {
        skipped!("{setting} is on a read-only file system");
    }
    is_writable
}

/// Whether this machine has a boot ID. Without one, measurements are not saved.
pub(crate) fn tells_its_boot() -> bool {
    let tells = fs::read_to_string("/proc/sys/kernel/random/boot_id").is_ok_and(|boot| !boot.trim().is_empty());
    if !tells {
        skipped!("this machine does not tell which boot it is");
    }
    tells
}

/// Writes a program, in a separate process: a file that this process has open for writing, even in
/// a child that another test is just starting, cannot be executed.
pub(crate) fn write_program(path: &Path, text: &str) {
    let mut writer = Command::new("sh")
        .args(["-c", r#"cat >"$1" && chmod 755 "$1""#, "sh"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("every machine has a shell");
    writer.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    assert!(writer.wait().expect("started").success(), "{} is written", path.display());
}

/// The result of `hpt doctor --measure` on this machine. It takes seconds, and several tests use
/// it.
pub(crate) fn measuring_doctor() -> &'static Value {
    static FOUND: OnceLock<Value> = OnceLock::new();
    FOUND.get_or_init(|| json(&run(&["doctor", "--measure", "--format", "json"])))
}

/// A copy of the built command that every user can run, and its directory. Other users may have no
/// access to the build directory.
pub(crate) fn copied_for_everybody() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let binary = folder.path().join("hpt");
    // Written in a separate process, for the same reason as in `write_program`.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_hpt")).arg(&binary).status();
    assert!(copied.expect("cp is there").success());
    for path in [folder.path(), &binary] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("ours");
    }
    (folder, binary)
}

/// Runs hpt with `arguments`.
pub(crate) fn run(arguments: &[&str]) -> Output {
    hpt().args(arguments).output().expect("the binary was built")
}

/// Returns standard output as text.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("hpt prints UTF-8")
}

/// Returns standard error as text, without messages of the emulator on children that ended at a
/// tried instruction.
pub(crate) fn stderr(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).expect("hpt prints UTF-8");
    text.split_inclusive('\n').filter(|line| !line.starts_with("qemu: uncaught target signal")).collect()
}

/// Returns the exit code. A signal fails the test.
#[track_caller]
pub(crate) fn code(output: &Output) -> i32 {
    let text = || format!("{:?}\n{}\n{}", output.status, stdout(output), stderr(output));
    assert!(!stderr(output).contains("panicked"), "{}", text());
    output.status.code().unwrap_or_else(|| panic!("ended by a signal: {}", text()))
}

/// Returns standard output as JSON: the last document, if there are several.
#[track_caller]
pub(crate) fn json(output: &Output) -> Value {
    let documents = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    let documents: Result<Vec<Value>, _> = documents.collect();
    let last = documents.map(|mut documents| documents.pop());
    match last {
        Ok(Some(last)) => last,
        Ok(None) => panic!("no document\n{}", stderr(output)),
        Err(error) => panic!("{error}\n{}\n{}", stdout(output), stderr(output)),
    }
}

fn captures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../hpt-sys/tests/hosts")
}

/// Returns the number of wake-ups of a row of `hpt latency timer` or `poll`: the samples without the missed deadlines.
pub(crate) fn wake_ups(row: &Value) -> u64 {
    let number = |key: &str| row[key].as_u64().unwrap_or_else(|| panic!("{key}: {row}"));
    number("samples") - number("missed")
}

/// Returns the file of a captured machine.
pub(crate) fn host(name: &str) -> String {
    let path = captures().join(format!("{name}.capture"));
    path.to_str().expect("the checkout's path is UTF-8").to_owned()
}

/// Returns a captured machine that the test can change.
pub(crate) fn capture_of(name: &str) -> Capture {
    Capture::open(Path::new(&host(name))).unwrap_or_else(|refused| panic!("{refused:?}"))
}

/// Returns the files of a capture, by path.
pub(crate) fn contents(capture: &Capture) -> Vec<(String, Vec<u8>)> {
    let content = |entry: &Entry| match entry {
        Entry::File(content) => Some(content.clone()),
        _ => None,
    };
    capture.entries().filter_map(|(path, entry)| Some((path.to_owned(), content(entry)?))).collect()
}

/// Writes a file of a capture.
pub(crate) fn set(capture: &mut Capture, path: &str, content: impl AsRef<[u8]>) {
    capture.insert(path, Entry::File(content.as_ref().to_vec())).expect("a sound path");
}

/// Creates a file with that content in a temporary directory, and returns its path as a word.
pub(crate) fn written(content: impl AsRef<[u8]>) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("machine.capture");
    fs::write(&path, content).expect("ours");
    let word = path.to_str().expect("UTF-8").to_owned();
    (folder, word)
}

/// Returns the names of the captured machines.
pub(crate) fn hosts() -> Vec<String> {
    let entries = fs::read_dir(captures()).expect("the captured machines are beside hpt-core's tests");
    let names = entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> =
        names.map(|name| name.strip_suffix(".capture").expect("all of them are captures").to_owned()).collect();
    names.sort();
    names
}

/// Returns the path of a page of the documentation.
pub(crate) fn docs(page: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page)
}

/// Whether the tests run as root.
pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// Returns the words of each command, beginning with those of `hpt` itself, which are none. There is a manual page for
/// each command.
pub(crate) fn commands() -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    assert_eq!(code(&run(&["manual", folder.path().to_str().expect("UTF-8")])), 0);
    let pages = std::fs::read_dir(folder.path()).expect("pages").map(|entry| entry.expect("a page").file_name());
    let words = pages.map(|page| {
        let page = page.into_string().expect("UTF-8");
        page.trim_end_matches(".1").split('-').skip(1).map(str::to_owned).collect()
    });
    let mut commands: Vec<Vec<String>> = words.collect();
    commands.sort_unstable();
    assert!(commands.len() > 25, "{commands:?}");
    commands
}
