//! Threads that are moved from the CPU they are pinned to, as by the kernel when the CPU goes
//! offline: hpt reports the samples from other CPUs, and pins the thread again.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::Stdio,
};

use hpt_realtime::allowed_cpus;
use serde_json::Value;

use crate::{
    schemas::validate,
    support::{
        at_a_terminal::AtATerminal,
        code, hpt, json, stderr,
        unsafe_calls::{allow_cpus, interrupt},
        wait_until,
    },
};

/// The first and the last CPU that this test may use.
fn two_cpus() -> Option<(usize, usize)> {
    let cpus = allowed_cpus();
    Some((*cpus.first()?, *cpus.last()?)).filter(|(first, last)| first != last)
}

fn status(process: u32, thread: u32, key: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/status")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

fn is_pinned(process: u32, thread: u32, cpu: usize) -> bool {
    status(process, thread, "Cpus_allowed_list").is_some_and(|list| list == cpu.to_string())
}

/// Returns the thread of a measuring process that may run on that CPU only.
fn thread_on(process: u32, cpu: usize) -> u32 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let mut threads = threads.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    threads.find(|&thread| is_pinned(process, thread, cpu)).expect("a thread is pinned before it measures")
}

/// Returns the run time of the thread so far, in nanoseconds.
fn ran_ns(process: u32, thread: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/schedstat")).unwrap_or_default();
    text.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Options of a run that does not end during a test.
const LONG: [&str; 4] = ["--duration", "30min", "--format", "json"];

/// Returns the document of a run with one thread that measured on `cpu`, on `other`, and on `cpu`
/// again. In the end its affinity includes both, as when the kernel brings the CPU online again.
fn moved_and_back(arguments: &[&str], (other, cpu): (usize, usize)) -> Option<Value> {
    let mut running = AtATerminal::start(hpt().args(arguments).args(["--cpu", &cpu.to_string()]).args(LONG));
    // The set-up also runs on the pinned thread, for an unknown time, and does not notice a move.
    running.wait_until_it_measures();
    let process = running.id();
    let thread = thread_on(process, cpu);
    if ran_ns(process, thread) == 0 {
        return None;
    }
    let works = || {
        let from = ran_ns(process, thread);
        wait_until("it has measured", || ran_ns(process, thread) >= from + 20_000_000);
    };
    works();
    allow_cpus(thread, &[other]);
    works();
    allow_cpus(thread, &[other, cpu]);
    wait_until("it is pinned again", || is_pinned(process, thread, cpu));
    works();
    running.interrupt();
    let output = running.output();
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    let document = json(&output);
    validate(&document);
    Some(document)
}

#[track_caller]
fn was_away_once(document: &Value, (other, cpu): (usize, usize)) {
    let away = document["cpu_absences"].as_array().expect("a list");
    assert_eq!(away.len(), 1, "{document:#}");
    let away = &away[0];
    assert_eq!((&away["cpu"], &away["offline"]), (&cpu.into(), &false.into()), "{away:#}");
    assert!(away["ran_on_cpus"].as_array().expect("a list").contains(&other.into()), "{away:#}");
    assert!(away["samples"].as_u64() > Some(0), "{away:#}");
    assert!(away["to_s"].as_f64() >= away["from_s"].as_f64() && away["to_s"].is_number(), "{away:#}");
    let notes = document["notes"].as_array().expect("a list");
    let named = format!("the thread of CPU {cpu} was allowed to run on CPU {other} from");
    assert!(notes.iter().any(|note| note.as_str().is_some_and(|note| note.starts_with(&named))), "{notes:?}");
}

#[test]
fn wake_ups_on_another_cpu_are_not_counted_for_the_pinned_one() {
    let Some(cpus) = two_cpus() else { return skipped!("there is one CPU only") };
    for arguments in [&["latency", "poll"][..], &["latency", "timer", "--interval", "100us"]] {
        let Some(document) = moved_and_back(arguments, cpus) else {
            return skipped!("this kernel does not count how long threads run");
        };
        was_away_once(&document, cpus);
        let row = &document["results"][0];
        assert!(row["cpu"] == cpus.1 && row["samples"].as_u64() > Some(0), "{row:#}");
    }
}

#[test]
fn stalls_on_another_cpu_are_not_counted_for_the_pinned_one() {
    let Some(cpus) = two_cpus() else { return skipped!("there is one CPU only") };
    let Some(document) = moved_and_back(&["latency", "stall"], cpus) else {
        return skipped!("this kernel does not count how long threads run");
    };
    was_away_once(&document, cpus);
    let row = &document["results"][0];
    assert!(row["elapsed_ns"].as_u64() > Some(0), "{row:#}");
    // The window in which it was moved still counts for its CPU.
    let others = document["cpu_absences"][0]["samples"].as_u64().expect("a number") > 1;
    assert!(!others || row["elapsed_on_other_cpus_ns"].as_u64() > Some(0), "{document:#}");
}

#[test]
fn rounds_of_a_watch_on_another_cpu_are_reported() {
    let Some((other, cpu)) = two_cpus() else { return skipped!("there is one CPU only") };
    let mut command = hpt();
    command.args(["watch", "--no-compare-cpus", "--interval", "100ms", "--cpu", &cpu.to_string()]).args(LONG);
    let mut watch = command.stdout(Stdio::piped()).spawn().expect("the binary was built");
    let process = watch.id();
    let lines = BufReader::new(watch.stdout.take().expect("piped")).lines();
    let document = |line: std::io::Result<String>| {
        serde_json::from_str::<Value>(&line.expect("UTF-8")).expect("a document a line")
    };
    let mut documents = lines.map(document);
    let mut next = |is_so: fn(u64) -> bool| {
        documents.find(|document| document["rounds_on_other_cpus"].as_u64().is_some_and(is_so)).expect("it goes on")
    };
    next(|elsewhere| elsewhere == 0);
    // The ID of the first thread is the process ID.
    allow_cpus(process, &[other]);
    validate(&next(|elsewhere| elsewhere > 0));
    allow_cpus(process, &[cpu]);
    next(|elsewhere| elsewhere == 0);
    interrupt(process);
    let summary = documents.last().expect("a summary");
    watch.wait().expect("started");
    validate(&summary);
    assert_eq!((&summary["kind"], &summary["cpu"]), (&"watch-summary".into(), &cpu.into()));
    was_away_once(&summary, (other, cpu));
}

/// It is pinned again at the end of a part, not during it.
#[test]
fn a_measurement_reports_parts_made_on_another_cpu() {
    let Some((other, cpu)) = two_cpus() else { return skipped!("there is one CPU only") };
    let mut command = hpt();
    command.args(["latency", "pairs", "--interval", "1ms", "--count", "1000000", "--format", "json"]);
    let mut running = AtATerminal::start(command.args(["--cpu", &cpu.to_string()]));
    // Some sources set the affinity of the thread when they are opened, which would undo the move.
    running.wait_until_it_measures();
    // The ID of the first thread is the process ID.
    allow_cpus(running.id(), &[other]);
    running.interrupt();
    let document = json(&running.output());
    validate(&document);
    let away = &document["cpu_absences"][0];
    assert_eq!((&away["cpu"], &away["to_s"], &away["samples"]), (&cpu.into(), &Value::Null, &1.into()), "{document:#}");
    assert_eq!(away["ran_on_cpus"], Value::from(vec![other]));
    let notes = document["notes"].as_array().expect("a list");
    assert!(notes.iter().any(|note| note.as_str().is_some_and(|note| note.ends_with("(1 ms)"))), "{notes:?}");
}
