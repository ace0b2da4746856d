//! Runs that end unexpectedly: hpt prints or saves the result so far, or reports what is missing.

use std::{
    fs,
    io::Read,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::support::{
    code, hpt, is_root, json, run, runner, stderr,
    unsafe_calls::{ask_to_end, send},
    wake_ups, words,
};

/// A measurement that runs until a signal.
const ENDLESS: [&str; 10] =
    ["latency", "timer", "--cpu", "any", "--interval", "1ms", "--duration", "1h", "--format", "json"];

fn word(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn started(arguments: &[&str]) -> Child {
    let mut command = hpt();
    command.args(ENDLESS).args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary was built")
}

fn samples(document: &Value) -> u64 {
    let results = document["results"].as_array().expect("a list");
    // A thread without a sample has no result.
    let of_row =
        |row: &Value| if row["missed"].is_null() { row["samples"].as_u64().expect("a number") } else { wake_ups(row) };
    results.iter().map(of_row).sum()
}

/// Waits until samples have reached the file.
fn wait_for_samples(raw: &Path, child: &mut Child) {
    while !fs::metadata(raw).is_ok_and(|about| about.len() > 0) {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before it measured");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_run_ended_by_a_signal_at_any_time_keeps_every_sample() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut seed = 7_u64;
    let mut measured = 0;
    for number in 0..20 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (raw, counts) = (folder.path().join(format!("{number}.raw")), folder.path().join(format!("{number}.txt")));
        let child = started(&["--raw", word(&raw), "--write", &format!("cyclictest={}", word(&counts))]);
        thread::sleep(Duration::from_millis(seed >> 40) / 40_000);
        ask_to_end(child.id());
        let output = child.wait_with_output().expect("a child");
        let lines = fs::read_to_string(&raw).map_or(0, |text| text.lines().count() as u64);
        if output.status.code().is_none() {
            // The signal arrived before the handler was installed, so nothing was measured.
            assert_eq!(lines, 0, "{number}: samples were measured before hpt listened");
            continue;
        }
        assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
        if output.stdout.is_empty() {
            assert!(lines == 0 && !stderr(&output).is_empty(), "{number}: {lines} samples, and nothing is said");
            continue;
        }
        let document = json(&output);
        assert_eq!(lines, samples(&document), "{number}: {}", stderr(&output));
        assert!(counts.exists() || lines == 0, "{number}: {}", stderr(&output));
        measured += lines;
    }
    // If no signal arrived during a measurement, nothing was tested. Send one during a measurement.
    if measured == 0 {
        let raw = folder.path().join("last.raw");
        let mut child = started(&["--raw", word(&raw)]);
        wait_for_samples(&raw, &mut child);
        ask_to_end(child.id());
        let output = child.wait_with_output().expect("a child");
        let lines = fs::read_to_string(&raw).expect("it is there").lines().count() as u64;
        assert_eq!(lines, samples(&json(&output)));
    }
}

#[test]
fn a_run_whose_directory_vanishes_prints_its_results_and_names_the_unwritten_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let vanishing = folder.path().join("vanishing");
    fs::create_dir(&vanishing).expect("ours");
    let (raw, counts) = (vanishing.join("samples"), vanishing.join("counts"));
    let mut child = started(&["--raw", word(&raw), "--write", &format!("cyclictest={}", word(&counts))]);
    wait_for_samples(&raw, &mut child);
    fs::remove_dir_all(&vanishing).expect("ours");
    ask_to_end(child.id());
    let output = child.wait_with_output().expect("a child");
    assert!(samples(&json(&output)) > 0, "{}", stderr(&output));
    let said = stderr(&output);
    for lost in [&raw, &counts] {
        assert!(said.contains(&format!("cannot write {}", word(lost))), "{said}");
    }
    assert_ne!(code(&output), 0);
}

#[test]
fn a_run_on_a_full_disk_prints_its_results_and_keeps_the_old_file() {
    if !is_root() || !runner().is_empty() {
        return skipped!("only root can mount a small file system");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let small = folder.path().join("small");
    fs::create_dir(&small).expect("ours");
    // The file system disappears with its namespace, so print its content.
    let script = "mount -t tmpfs -o size=16k none \"$0\" || exit 42
        echo old > \"$0/counts\"
        dd if=/dev/zero of=\"$0/filling\" bs=4k 2> /dev/null
        \"$@\"; echo \"exit $?\" >&2; cat \"$0/counts\" >&2; ls -A \"$0\" >&2";
    let (counts, raw) = (format!("cyclictest={}", word(&small.join("counts"))), small.join("samples"));
    let mut child = Command::new("unshare")
        .args(["-m", "sh", "-c", script, word(&small)])
        .args(words())
        .args(["latency", "timer", "--cpu", "any", "--interval", "1ms", "--count", "5000", "--format", "json"])
        .args(["--write", &counts, "--raw", word(&raw)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("unshare");
    let (mut printed, mut said) = (String::new(), String::new());
    child.stdout.take().expect("piped").read_to_string(&mut printed).expect("UTF-8");
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("UTF-8");
    if [Some(1), Some(42)].contains(&child.wait().expect("a child").code()) {
        return skipped!("no file system can be mounted here: {said}");
    }
    let document: Value = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(samples(&document), 5_000);
    for lost in [small.join("counts"), raw] {
        assert!(said.contains(&format!("cannot write {}", word(&lost))), "{said}");
    }
    assert!(said.contains("no space left") && said.contains("\nold\n") && !said.contains("exit 0"), "{said}");
    assert!(!said.contains("\n.tmp"), "nothing unfinished is left: {said}");
}

#[test]
fn a_missing_directory_is_refused_before_the_measurement() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let lost = folder.path().join("absent/any");
    for option in [["--write", &format!("cyclictest={}", word(&lost))], ["--raw", word(&lost)]] {
        let output = run(&[&ENDLESS[..], &option].concat());
        assert!(code(&output) == 2 && output.stdout.is_empty(), "{}", stderr(&output));
    }
}

#[test]
fn a_sigill_that_another_process_sends_is_not_blamed_on_the_cycle_counter() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let raw = folder.path().join("samples");
    let mut child = started(&["--raw", word(&raw)]);
    wait_for_samples(&raw, &mut child);
    send(child.id(), libc::SIGILL);
    let output = child.wait_with_output().expect("a child");
    assert_eq!(output.status.signal(), Some(libc::SIGILL), "{}", stderr(&output));
    assert!(!stderr(&output).contains("cycle counter"), "{}", stderr(&output));
}

#[test]
fn back_to_back_pairs_end_after_a_signal() {
    if !runner().is_empty() {
        return skipped!("the emulator stands between hpt and its signals");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = hpt();
    // The run takes decades: it ends because of the signal or not at all.
    command.args(["experiment", "pairs", "--count", "1e12", "--json"]).env("XDG_STATE_HOME", folder.path());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary was built");
    let listens = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("a child");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("the kernel lists them");
        u64::from_str_radix(caught.trim(), 16).expect("a mask") & (1 << (libc::SIGINT - 1)) != 0
    };
    while !listens() {
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(Duration::from_secs(1));
    send(child.id(), libc::SIGINT);
    let output = child.wait_with_output().expect("a child");
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    assert_eq!(json(&output)["interrupted"], true);
}
