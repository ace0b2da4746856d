//! `--explain` with the kernel's trace of this machine: its instance, its removal, and its document.

use std::{collections::BTreeSet, fs, process::Stdio};

use crate::support::{
    code, hpt, is_root, json, run,
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
    let document = json(&output);
    let explained = document["explained"].as_array().expect("a list");
    assert_eq!(explained.len(), 50);
    for sample in explained {
        let parts = sample["parts"].as_array().expect("a list");
        let sum: u64 = parts.iter().map(|part| part["duration_ns"].as_u64().expect("a number")).sum();
        assert_eq!(Some(sum), sample["latency_ns"].as_u64(), "{sample}");
    }
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
    assert_eq!(of_process(second.id()).len(), 1);
    // A running hpt keeps its instance.
    run(&["restore"]);
    assert_eq!(of_process(second.id()).len(), 1);
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
