//! What the tests share.

pub(crate) mod unsafe_calls;

/// Runs the test of this name once more, in a process of its own, where what is decided first is nobody else's. There it answers true.
pub(crate) fn is_alone(name: &str) -> bool {
    const ALONE: &str = "HPT_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let runner = std::env::var("HPT_TEST_RUNNER").unwrap_or_default();
    let mut words = runner.split_whitespace().map(std::ffi::OsString::from).collect::<Vec<_>>();
    words.push(std::env::current_exe().expect("this program is a file").into());
    let output = std::process::Command::new(&words[0])
        .args(&words[1..])
        .args(["--exact", name, "--show-output"])
        .env(ALONE, "1")
        .output()
        .expect("this program can be run again");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said.lines().filter(|line| line.starts_with("skipped: ")).for_each(|line| println!("{line}"));
    false
}
