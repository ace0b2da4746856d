//! Stalls caused by stopping hpt are detected, each separately, around the time in which hpt was
//! certainly stopped.

use std::{fs, process::Output, thread, time::Duration};

use hpt_core::Instant as Moment;
use serde_json::Value;

use crate::{
    live::interrupted,
    support::{
        at_a_terminal::AtATerminal,
        code, hpt, is_stopped, json, run, stderr,
        unsafe_calls::{go_on, stop},
        wait_until,
    },
};

const LONGEST_HOLD: Duration = Duration::from_secs(1);
/// The maximum difference between the clocks of the two processes.
const CLOCKS_NS: u64 = 1_000;

/// Returns the run time of the measuring thread so far, in nanoseconds; `None` if the kernel does
/// not count it. The first thread draws on the terminal, and a named one observes the conditions.
/// Of the others, which an emulator may have too, the measuring thread runs the most.
fn ran_ns(process: u32) -> Option<u64> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let others = entries.map(|entry| entry.path()).filter(|path| {
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        !path.ends_with(process.to_string()) && name.trim_end() != "conditions"
    });
    let ran = others.filter_map(|path| {
        let text = fs::read_to_string(path.join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    ran.max().filter(|&ns| ns > 0)
}

/// A stop, with certain bounds on CLOCK_MONOTONIC.
struct Stop {
    /// The thread ran at some time after this, since the previous stop or the start.
    ran_after: u64,
    stopped: u64,
    still: u64,
    /// The thread has run again before this.
    ran_before: u64,
}

/// A line of `--raw`.
#[derive(Debug)]
struct Found {
    start: u64,
    end: u64,
    uncertain: u64,
    cause: String,
    is_shared: bool,
}

#[test]
#[expect(clippy::too_many_lines, reason = "one run, judged from all sides")]
fn every_external_stop_is_found_as_a_separate_stall() {
    const STOPS: usize = 10;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let raw = folder.path().join("stalls");
    let mut command = hpt();
    command.args(["latency", "stall", "--duration", "30min", "--above", "1ms", "--format", "json", "--raw"]).arg(&raw);
    let mut watching = AtATerminal::start(&mut command);
    let process = watching.id();
    // The bar moves when the thread is in its loop.
    watching.wait_until_it_measures();
    if ran_ns(process).is_none() {
        return skipped!("this kernel does not count how long threads run");
    }
    let ran_for = |ns: u64| {
        let from = ran_ns(process).unwrap_or(0);
        wait_until("hpt has run", || ran_ns(process).unwrap_or(0) >= from + ns);
    };
    let now = || Moment::now().nanos_since(Moment::EPOCH);
    let (mut stops, mut ran_after, mut hold) = (Vec::new(), 0, Duration::from_millis(20));
    for _ in 0..STOPS {
        stop(process);
        wait_until("hpt is stopped", || is_stopped(process));
        let stopped = now();
        thread::sleep(hold);
        let still = now();
        go_on(process);
        ran_for(5_000_000);
        let ran_before = now();
        stops.push(Stop { ran_after, stopped, still, ran_before });
        // On a busy machine, hpt waits for a CPU before and after a stop. The next stop is longer
        // than that, so that it is most of the stall.
        hold = hold.max(4 * Duration::from_nanos(ran_before - still)).min(LONGEST_HOLD);
        ran_after = still;
    }
    watching.interrupt();
    let output = watching.output();
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    let document = json(&output);
    let lines = fs::read_to_string(&raw).expect("it was written");
    let found: Vec<Found> = lines
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<u64>().expect("a number");
            let (start, end, uncertain) = (number(1), number(1) + number(2), number(3));
            Found { start, end, uncertain, cause: words[4].to_owned(), is_shared: words.get(5) == Some(&"shared") }
        })
        .collect();
    let mut around = Vec::new();
    let mut judged = 0;
    for Stop { ran_after, stopped, still, ran_before } in stops {
        let is = |found: &Found| found.start <= stopped + CLOCKS_NS && found.end + CLOCKS_NS >= still;
        let place = found.iter().position(is).unwrap_or_else(|| panic!("{stopped} to {still}: {found:?}"));
        around.push(place);
        let stall = &found[place];
        let slack = stall.uncertain + CLOCKS_NS;
        assert!(stall.start + slack >= ran_after, "it ran after {ran_after}: {stall:?}");
        assert!(stall.end <= ran_before + slack, "it ran before {ran_before}: {stall:?}");
        // Waiting for a busy CPU before and after may have been most of the stall. In a window with
        // other stalls, the evidence cannot be assigned.
        let beside = (stall.end - stall.start).saturating_sub(still - stopped);
        if !stall.is_shared && (beside + CLOCKS_NS) * 2 < (stall.end - stall.start).saturating_sub(stall.uncertain) {
            assert_eq!(stall.cause, "stopped", "{stall:?}");
            judged += 1;
        }
    }
    if judged == 0 {
        skipped!("the causes, this machine is too busy");
    }
    around.dedup();
    assert_eq!(around.len(), STOPS, "each is one of its own: {around:?}");
    let row = &document["results"][0];
    assert_eq!(row["stalls"].as_u64(), Some(found.len() as u64));
    let causes =
        document["causes"].as_array().expect("rows").iter().map(|row| row["stalls"].as_u64().expect("a number"));
    assert_eq!(causes.sum::<u64>(), found.len() as u64);
}

/// Stops and continues a run of half an hour repeatedly, until it ends because of its results.
fn stopped_until_it_ends(arguments: &[&str]) -> Output {
    let mut command = hpt();
    command.args(["latency", "stall", "--duration", "30min", "--format", "json"]).args(arguments);
    let mut running = AtATerminal::start(&mut command);
    // If hpt is stopped before the measurement, it may find its source too slow for the limit and
    // reject it.
    wait_until("it measures", || running.has_ended() || running.has_something_to_say());
    wait_until("it ends", || {
        if !running.has_ended() {
            stop(running.id());
            thread::sleep(Duration::from_millis(2));
            go_on(running.id());
        }
        running.has_ended()
    });
    running.output()
}

#[test]
fn an_excessive_stall_ends_the_run_and_an_unsuitable_source_is_refused() {
    // Each stop takes two milliseconds.
    let above = "1ms";
    let output = stopped_until_it_ends(&["--above", above, "--stop-above", "1us"]);
    let document: Value = json(&output);
    assert_eq!((code(&output), document["stopped_at_ns"].is_u64()), (1, true), "{document}");
    let output = stopped_until_it_ends(&["--count", "3", "--above", above]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(json(&output)["results"][0]["stalls"].as_u64() >= Some(3));
    for source in ["thread-cpu", "process-cpu"] {
        let output = run(&["latency", "stall", "--source", source, "--duration", "10ms"]);
        assert_eq!(code(&output), 2);
        assert!(stderr(&output).contains("counts only while the thread runs"), "{}", stderr(&output));
    }
    let output = run(&["latency", "stall", "--source", "monotonic-coarse", "--above", "10us", "--duration", "10ms"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("--above"), "{}", stderr(&output));
}

#[test]
fn an_interrupted_stall_measurement_prints_its_results() {
    let (document, code) = interrupted(&["latency", "stall", "--duration", "1h", "--cpu", "all"]);
    assert_eq!((code, &document["interrupted"]), (Some(130), &Value::Bool(true)));
}
