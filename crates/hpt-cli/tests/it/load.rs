//! Load during a measurement: both phases are measured, and no process of the load outlives hpt.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use crate::schemas::validate;
use crate::support::{
    code, hpt, json, run, runner, stderr, stdout, wait_until, wait_while_running, wake_ups, write_program,
};

/// A run of two short phases. It uses the built-in loads if its PATH has no stress-ng.
const SHORT: [&str; 10] =
    ["latency", "timer", "--cpu", "any", "--interval", "1ms", "--count", "20", "--json", "--load"];
/// A PATH without any program.
const NO_PROGRAMS: &str = "/nonexistent";

/// The processes that have inherited this mark, by number, with their command lines.
fn marked(mark: &str) -> BTreeMap<u32, String> {
    let wanted = format!("HPT_TEST_MARK={mark}");
    let numbers = fs::read_dir("/proc")
        .expect("a system with /proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let found = numbers.filter_map(|number: u32| {
        let read = |name: &str| fs::read(format!("/proc/{number}/{name}")).ok();
        let environment = read("environ")?;
        let is_marked = environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes());
        let line = String::from_utf8_lossy(&read("cmdline")?).replace('\0', " ");
        is_marked.then_some((number, line))
    });
    found.collect()
}

fn workers(mark: &str) -> Vec<u32> {
    let is_worker = |line: &str| line.split(' ').nth(1) == Some("__load");
    marked(mark).into_iter().filter(|(_, line)| is_worker(line)).map(|(number, _)| number).collect()
}

/// A process that is killed even if the test fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a shell whose child is a worker of the load. The shell stands for hpt.
fn parent_of_worker(kind: &str, mark: &str) -> Killed {
    let mut command = Command::new("sh");
    command.args(["-c", r#""$1" __load $$ "$2" "$3" 1048576 /tmp & wait"#, "sh", env!("CARGO_BIN_EXE_hpt"), kind]);
    command.arg(hpt_realtime::allowed_cpus()[0].to_string()).env("HPT_TEST_MARK", mark);
    Killed(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("a shell"))
}

/// The CPU time of a process in clock ticks. proc_pid_stat(5).
fn cpu_ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

fn is_translated() -> bool {
    let is_translated = !runner().is_empty();
    if is_translated {
        skipped!("the emulator is not the program that hpt would start again");
    }
    is_translated
}

#[test]
fn both_phases_are_in_one_document() {
    if is_translated() {
        return;
    }
    let mut command = hpt();
    command.args(SHORT).arg("cpu,memory,fork,disk,timers,cpu").env("PATH", NO_PROGRAMS);
    let output = command.output().expect("the binary was built");
    if stderr(&output).contains("is free; omit") {
        return skipped!("{}", stderr(&output));
    }
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document = json(&output);
    validate(&document);
    let loaded = &document["loaded"];
    for results in [&document["results"], &loaded["results"]] {
        assert_eq!(wake_ups(&results[0]), 20, "{document}");
    }
    let load = &loaded["load"];
    assert_eq!(load["kinds"], serde_json::json!(["cpu", "memory", "fork", "disk", "timers"]), "each kind once");
    assert_eq!((&load["program"], &load["version"]), (&"hpt".into(), &env!("CARGO_PKG_VERSION").into()));
    let cpus = load["cpus"].as_array().expect("a list").len() as u64;
    assert_eq!(load["processes"], 5 * cpus);
    assert!(
        load["memory_bytes"].as_u64() >= Some(cpus << 20) && load["disk_bytes"].as_u64() >= Some(cpus << 20),
        "{load}"
    );
    let directory = load["disk_directory"].as_str().expect("a directory");
    let files = fs::read_dir(directory).expect("a directory").flatten();
    assert!(!files.into_iter().any(|file| file.file_name().to_string_lossy().starts_with("hpt-load-")));
    assert!(loaded["conditions"]["cpus"].as_array().is_some_and(|cpus| !cpus.is_empty()), "{loaded}");
}

#[test]
fn the_table_shows_both_phases_side_by_side() {
    if is_translated() {
        return;
    }
    for command in [
        &["latency", "timer", "--cpu", "any", "--count", "5"][..],
        &["latency", "poll", "--cpu", "any", "--count", "5"],
        &["latency", "stall", "--cpu", "any", "--duration", "20ms"],
        &["sleep", "--length", "1ms", "--count", "2"],
        &["bench", "--source", "monotonic", "--count", "1000"],
    ] {
        let output = hpt().args(command).args(["--load", "cpu"]).env("PATH", NO_PROGRAMS).output();
        let output = output.expect("the binary was built");
        assert_eq!(code(&output), 0, "{command:?}: {}", stderr(&output));
        let text = stdout(&output);
        for part in ["Idle: ", "Under load: ", "Load: cpu by the built-in loads on CPU", " idle ", " loaded "] {
            assert!(text.contains(part), "{command:?}: {part}\n{text}");
        }
        let limited =
            hpt().args(command).args(["--load", "cpu", "--limit", "max=1h"]).env("PATH", NO_PROGRAMS).output();
        let text = stdout(&limited.expect("the binary was built"));
        // The table of the results comes before the verdicts on both phases.
        let header = text.lines().find(|line| line.contains(" phase ")).unwrap_or_default();
        assert!(!header.is_empty() && !header.contains("verdict"), "{command:?}: {text}");
        assert_eq!(
            (text.matches("Limit: held").count(), text.matches("\nmax=1h ").count()),
            (1, 1),
            "{command:?}: {text}"
        );
    }
}

#[test]
fn a_load_uses_its_cpu() {
    if is_translated() {
        return;
    }
    let mark = format!("uses-{}", std::process::id());
    let mut running = parent_of_worker("cpu", &mark);
    wait_while_running(&mut running.0, "a worker exists", || !workers(&mark).is_empty());
    let worker = workers(&mark)[0];
    wait_while_running(&mut running.0, "the worker uses CPU time", || cpu_ticks(worker) > 5);
}

#[test]
fn no_worker_outlives_its_parent_even_if_the_parent_is_killed() {
    if is_translated() {
        return;
    }
    let kinds = ["cpu", "memory", "fork", "disk", "timers"];
    for number in 0..100 {
        let mark = format!("killed-{}-{number}", std::process::id());
        let mut parent = parent_of_worker(kinds[number % kinds.len()], &mark);
        // Half of the parents are killed while the worker starts, at some time.
        if number % 2 == 0 {
            wait_while_running(&mut parent.0, "a worker exists", || !workers(&mark).is_empty());
        } else {
            thread::sleep(Duration::from_micros(number as u64 * 100));
        }
        parent.0.kill().expect("ours");
        parent.0.wait().expect("ours");
        wait_until("no process of the load is left", || marked(&mark).is_empty());
    }
}

#[test]
fn no_process_is_left_after_hpt_was_killed_or_has_ended() {
    if is_translated() {
        return;
    }
    let run = |mark: &str| {
        let mut command = hpt();
        command.args(["latency", "timer", "--cpu", "any", "--interval", "10ms", "--count", "100"]);
        command.args(["--load", "cpu,fork,timers"]).env("PATH", NO_PROGRAMS).env("HPT_TEST_MARK", mark);
        Killed(command.stdout(Stdio::null()).spawn().expect("the binary was built"))
    };
    let mark = format!("hpt-killed-{}", std::process::id());
    let mut running = run(&mark);
    // The loaded phase takes a second, for which this thread may have to wait for a CPU.
    let mut has_ended = false;
    wait_until("a worker exists, or hpt has ended", || {
        has_ended = running.0.try_wait().expect("ours").is_some();
        has_ended || !workers(&mark).is_empty()
    });
    if has_ended {
        skipped!("killing hpt under load: it ended before this thread ran again");
    }
    running.0.kill().expect("ours");
    running.0.wait().expect("ours");
    wait_until("no process of the load is left", || marked(&mark).is_empty());
    let mark = format!("hpt-ended-{}", std::process::id());
    let mut running = run(&mark);
    assert!(running.0.wait().expect("ours").success());
    // Its last short-lived processes may still be ending.
    wait_until("no process of the load is left", || marked(&mark).is_empty());
}

/// Writes a program that stands for stress-ng.
fn stress_ng(folder: &Path, text: &str) {
    let text = format!("#!/bin/sh\n[ \"$1\" = --version ] && {{ echo 'stress-ng, version 9.8 (x)'; exit; }}\n{text}\n");
    write_program(&folder.join("stress-ng"), &text);
}

#[test]
fn an_installed_stress_ng_generates_the_load_and_its_failure_is_reported() {
    if is_translated() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let run = || {
        let mut command = hpt();
        command.args(SHORT).arg("cpu,timers").env("PATH", &path).output().expect("the binary was built")
    };
    let called = folder.path().join("called");
    stress_ng(folder.path(), &format!("echo \"$@\" > {}; exec sleep 1000", called.display()));
    let output = run();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let load = &json(&output)["loaded"]["load"];
    assert_eq!((&load["program"], &load["version"]), (&"stress-ng".into(), &"9.8".into()));
    let arguments = fs::read_to_string(&called).expect("it was called");
    assert!(
        arguments.starts_with("--quiet --oomable --timeout 0 --taskset ") && arguments.contains(" --cpu "),
        "{arguments}"
    );
    stress_ng(folder.path(), "exit 1");
    let output = run();
    // The idle phase is not lost.
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    let document = json(&output);
    validate(&document);
    assert_eq!(wake_ups(&document["results"][0]), 20, "{document:#}");
    // On a busy machine it may end only during the measurement.
    let late = "a load ended before the measurement did: stress-ng";
    let refused = "there is no loaded phase: cannot start the load: stress-ng ended at once";
    let expected = if document["loaded"].is_null() { refused } else { late };
    assert!(document["notes"].to_string().contains(expected), "{document:#}");
}

#[test]
fn wrong_loads_are_refused() {
    for (arguments, why) in [
        (&["--load", "banana"][..], "invalid value 'banana'"),
        (&["--load-cpus", "0"], "--load"),
        (&["--load", "cpu", "--load-cpus", "any"], "--load-cpus requires CPU numbers, or all"),
        (&["--load", "cpu", "--load-cpus", "8191"], "no such CPU: 8191"),
    ] {
        let output = run(&[&["sleep", "--length", "1us", "--count", "1"], arguments].concat());
        assert_eq!(code(&output), 2, "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{arguments:?}: {}", stderr(&output));
    }
}
