//! `--explain` with the kernel's trace of this machine: its instance, its removal, and its document.

use std::{collections::BTreeSet, fs, process::Stdio, thread, time::Duration};

use serde_json::Value;

use crate::support::{
    code, hpt, is_root, json, run, stderr,
    unsafe_calls::{ask_to_end, send},
    wait_until, wait_while_running,
};

const INSTANCES: &str = "/sys/kernel/tracing/instances";

fn instances() -> BTreeSet<String> {
    let entries = fs::read_dir(INSTANCES).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn of_process(process: u32) -> Vec<String> {
    instances().into_iter().filter(|name| name.starts_with(&format!("hpt-{process}-"))).collect()
}

/// Returns whether this test can use the kernel's trace.
fn can_trace() -> bool {
    is_root() && fs::read_dir(INSTANCES).is_ok()
}

/// Returns the explained samples of a document, whose parts must add up.
fn explained_of(document: &Value) -> Vec<Value> {
    assert_eq!(document["explain"]["available"], true, "{}", document["explain"]);
    let explained = document["explained"].as_array().expect("a list");
    for sample in explained {
        let parts = sample["parts"].as_array().expect("a list");
        let sum: u64 = parts.iter().map(|part| part["duration_ns"].as_u64().expect("a number")).sum();
        assert_eq!(Some(sum), sample["latency_ns"].as_u64(), "{sample}");
    }
    explained.clone()
}

/// Returns whether a process is stopped, or has ended and was not waited for.
fn is_stopped_or_ended(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("a child that was not waited for");
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 'Z']))
}

#[test]
fn a_trace_that_cannot_be_recorded_does_not_prevent_the_measurement() {
    let output = run(&["latency", "timer", "--cpu", "any", "--count", "20", "--explain", "--format", "json"]);
    let document = json(&output);
    assert_eq!(code(&output), 0);
    let recording = &document["explain"];
    let is_available = recording["available"].as_bool().expect("a truth value");
    assert_eq!(recording["reason"].is_null(), is_available, "{recording}");
    if !is_available {
        assert_eq!(document["explained"], serde_json::json!([]));
    }
}

#[test]
fn the_parts_of_each_sample_add_up_and_the_instance_is_removed() {
    if !can_trace() {
        return skipped!("this needs root and a tracefs that is mounted at /sys/kernel/tracing");
    }
    let child = hpt()
        .args(["latency", "timer", "--cpu", "any", "--count", "300", "--explain=50", "--format", "json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let process = child.id();
    let output = child.wait_with_output().expect("a child");
    assert_eq!(of_process(process), [] as [String; 0]);
    let explained = explained_of(&json(&output));
    assert_eq!(explained.len(), 50);
}

#[test]
fn a_stall_is_divided_into_parts_and_the_instance_is_removed() {
    if !can_trace() {
        return skipped!("this needs root and a tracefs that is mounted at /sys/kernel/tracing");
    }
    let arguments = ["latency", "stall", "--cpu", "any", "--count", "1", "--duration", "1h", "--explain"];
    let mut child =
        hpt().args(arguments).args(["--format", "json"]).stdout(Stdio::piped()).spawn().expect("the binary was built");
    let process = child.id();
    // A stopped process stalls on every machine. The first stops may come before the measurement begins.
    while child.try_wait().expect("it is ours").is_none() {
        send(process, libc::SIGSTOP);
        wait_until("the process is stopped", || is_stopped_or_ended(process));
        thread::sleep(Duration::from_millis(20));
        send(process, libc::SIGCONT);
        thread::sleep(Duration::from_millis(100));
    }
    let output = child.wait_with_output().expect("a child");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(of_process(process), [] as [String; 0]);
    assert!(!explained_of(&json(&output)).is_empty());
}

#[test]
fn each_sleep_of_each_method_can_be_explained() {
    if !can_trace() {
        return skipped!("this needs root and a tracefs that is mounted at /sys/kernel/tracing");
    }
    let arguments = ["sleep", "--cpu", "any", "--length", "100us,1ms", "--count", "10", "--explain=1000"];
    let child =
        hpt().args(arguments).args(["--format", "json"]).stdout(Stdio::piped()).spawn().expect("the binary was built");
    let process = child.id();
    let output = child.wait_with_output().expect("a child");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(of_process(process), [] as [String; 0]);
    let document = json(&output);
    let methods = document["results"].as_array().expect("a list");
    let sleeps: u64 = methods.iter().map(|row| row["samples"].as_u64().expect("a number")).sum();
    assert_eq!(explained_of(&document).len() as u64, sleeps);
    assert_eq!(sleeps, 2 * 5 * 10);
}

#[test]
fn a_line_that_cannot_be_used_is_refused_as_without_the_option() {
    for lines in [
        ["--output-line", "gpiochip99999:0", "--input-line", "gpiochip99999:1"],
        ["--output-line", "/dev/null:0", "--input-line", "/dev/null:1"],
    ] {
        let plain = run(&[&["latency", "gpio"][..], &lines].concat());
        let explained = run(&[&["latency", "gpio", "--explain"][..], &lines].concat());
        assert_ne!(code(&plain), 0, "{lines:?}");
        assert_eq!((code(&explained), stderr(&explained)), (code(&plain), stderr(&plain)), "{lines:?}");
        assert_eq!(explained.stdout, plain.stdout, "{lines:?}");
    }
    let zero = ["latency", "gpio", "--output-line", "0", "--input-line", "1", "--explain=0"];
    assert_eq!(code(&run(&zero)), 2);
}

#[test]
fn an_ended_run_removes_its_instance_and_restore_removes_that_of_a_killed_run() {
    if !can_trace() {
        return skipped!("this needs root and a tracefs that is mounted at /sys/kernel/tracing");
    }
    let start = || {
        let arguments = ["latency", "timer", "--cpu", "any", "--duration", "1h", "--explain", "--format", "json"];
        let mut child = hpt().args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("built");
        let process = child.id();
        wait_while_running(&mut child, "an instance", || {
            of_process(process).iter().any(|name| {
                fs::read_to_string(format!("{INSTANCES}/{name}/tracing_on")).is_ok_and(|on| on.trim() == "1")
            })
        });
        child
    };
    // Two at once: each has its own.
    let (mut first, mut second) = (start(), start());
    ask_to_end(first.id());
    first.wait().expect("a child");
    assert_eq!(of_process(first.id()).len(), 0);
    assert!(!of_process(second.id()).is_empty());
    // A running hpt keeps its instance.
    run(&["restore"]);
    assert!(!of_process(second.id()).is_empty());
    send(second.id(), libc::SIGKILL);
    second.wait().expect("a child");
    let listed = json(&run(&["restore", "--list", "--format", "json"]));
    let path = format!("instances/hpt-{}-", second.id());
    let is_listed = |row: &serde_json::Value| {
        let is_its = row["path"].as_str().is_some_and(|text| text.starts_with(&path));
        is_its && row["setting"] == "trace-instance" && row["outcome"] == "listed"
    };
    // From now on, any `hpt restore`, such as that of another test, removes the instance.
    let is_removed = of_process(second.id()).is_empty();
    assert!(is_removed || listed["settings"].as_array().is_some_and(|rows| rows.iter().any(is_listed)), "{listed}");
    // The kernel may still use the instance for a moment.
    wait_until("the instance is removed", || {
        run(&["restore"]);
        of_process(second.id()).is_empty()
    });
}
