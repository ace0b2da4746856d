//! A thread that was stopped for many periods: every deadline that it missed counts with its own latency, in every
//! output. With `--as cyclictest`, the stop is a single late sample.

use std::{fs, path::Path, process::Stdio, thread, time::Duration};

use serde_json::{Value, json};

use crate::{
    schemas::validate,
    support::{
        hpt, is_stopped, runner, stdout,
        unsafe_calls::{ask_to_end, go_on, send, stop},
        wait_until, wait_while_running,
    },
};

const PERIOD_NS: u64 = 1_000_000;

/// Measures every millisecond, stops the process for at least 100 periods, and lets it measure some more. Returns the
/// document and the raw samples: the latency of each wake-up.
fn stopped_for_a_hundred_periods(folder: &Path, options: &[&str]) -> (Value, Vec<u64>) {
    let (raw, said, counts) = (folder.join("raw"), folder.join("said"), folder.join("counts"));
    let mut command = hpt();
    command.args(["latency", "timer", "-i", "1ms", "-d", "1day", "-c", "any", "--json"]).args(options);
    command.arg("--raw").arg(&raw).arg("--write").arg(format!("cyclictest={}", counts.display()));
    let file = fs::File::create(&said).expect("ours");
    let mut child = command.stdout(Stdio::piped()).stderr(file).spawn().expect("the binary was built");
    let id = child.id();
    let status = format!("/proc/{id}/status");
    wait_while_running(&mut child, "it listens", || {
        let status = fs::read_to_string(&status).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
        u64::from_str_radix(caught.trim(), 16).is_ok_and(|mask| mask & (1 << (libc::SIGUSR1 - 1)) != 0)
    });
    // The number of samples in the latest result so far.
    let samples = || {
        send(id, libc::SIGUSR1);
        let text = fs::read_to_string(&said).expect("ours");
        let last = text.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
        last.and_then(|last| last["results"][0]["samples"].as_u64()).unwrap_or(0)
    };
    wait_while_running(&mut child, "it measures", || samples() > 0);
    stop(id);
    wait_until("it stopped", || is_stopped(id));
    thread::sleep(Duration::from_millis(100));
    let before = samples();
    go_on(id);
    wait_while_running(&mut child, "it measures again", || samples() > before + 50);
    ask_to_end(id);
    let output = child.wait_with_output().expect("a child");
    let document: Value = serde_json::from_str(&stdout(&output)).expect("one document");
    validate(&document);
    let lines = fs::read_to_string(&raw).expect("it was written");
    let late = lines.lines().map(|line| line.rsplit(' ').next().and_then(|ns| ns.parse().ok()).expect("a latency"));
    let late: Vec<u64> = late.collect();
    let text = fs::read_to_string(&counts).expect("it was written");
    let figure = |name: &str| {
        let figure =
            text.lines().find_map(|line| line.strip_prefix(name)).and_then(|figure| figure.trim().parse::<u64>().ok());
        figure.unwrap_or_else(|| panic!("{name}: {text}"))
    };
    let all = figure("# Total: ") + figure("# Histogram Overflows: ");
    assert_eq!(document["results"][0]["samples"], json!(all), "the file has the same samples");
    (document, late)
}

/// Returns the latency of each deadline: of the wake-ups, and of the deadlines that had passed by then.
fn of_deadlines(wakes: &[u64]) -> Vec<u64> {
    wakes.iter().flat_map(|&late| (0..=late / PERIOD_NS).map(move |missed| late - missed * PERIOD_NS)).collect()
}

/// Checks the figures of a row against its samples. Quantiles have three digits.
fn assert_figures(row: &Value, mut late: Vec<u64>) {
    late.sort_unstable();
    assert_eq!(row["samples"], json!(late.len()), "{row:#}");
    for (key, permille) in [("p50_ns", 500), ("p99_ns", 990)] {
        let Some(found) = row[key].as_f64() else {
            assert!(late.len() < 1_000 && permille == 990, "{row:#}");
            continue;
        };
        let exact = late[(late.len() * permille).div_ceil(1_000) - 1] as f64;
        assert!((found / exact - 1.0).abs() < 2e-3, "{key}: {found}, and {exact} from the samples");
    }
    assert_eq!(row["max_ns"].as_u64(), late.last().copied());
    let mean = late.iter().sum::<u64>() as f64 / late.len() as f64;
    assert!((row["mean_ns"].as_f64().expect("a mean") - mean).abs() < 1.0, "{row:#}");
    let of = |list: &Value, place: usize| {
        list.as_array().expect("a list").iter().map(|bin| bin[place].as_u64().expect("a count")).sum::<u64>()
    };
    let all = late.len() as u64;
    let heat_map = row["heat_map"].as_array().expect("columns").iter().map(|column| of(&column[1], 2)).sum::<u64>();
    assert_eq!((of(&row["histogram_ns"], 2), of(&row["time_series"], 1), heat_map), (all, all, all), "{row:#}");
    let above_10ms = late.iter().filter(|&&ns| ns >= 10_000_000).count();
    assert_eq!(row["above_10ms"], json!(above_10ms));
}

#[test]
fn a_missed_deadline_counts_with_its_own_latency() {
    if !runner().is_empty() {
        return skipped!("the emulator stands between hpt and its signals");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let limits = ["--limit", "max=50ms"];
    let (document, wakes) = stopped_for_a_hundred_periods(folder.path(), &limits);
    assert_eq!(document["missed_deadlines"], "counted");
    let row = &document["results"][0];
    let late = of_deadlines(&wakes);
    let missed = late.len() - wakes.len();
    assert!(missed >= 95, "{missed} deadlines were missed");
    assert_eq!(row["missed"], json!(missed));
    let above = late.iter().filter(|&&ns| ns > 50_000_000).count();
    assert!(above >= 45);
    let counted = document["limits"][0]["above"].as_u64().expect("a count");
    assert!(counted.abs_diff(above as u64) <= 1, "{counted} {above}");
    assert_figures(row, late);
}

#[test]
fn as_cyclictest_a_stop_is_one_late_sample() {
    if !runner().is_empty() {
        return skipped!("the emulator stands between hpt and its signals");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (document, wakes) = stopped_for_a_hundred_periods(folder.path(), &["--as", "cyclictest"]);
    assert_eq!(document["missed_deadlines"], "left-out");
    let row = &document["results"][0];
    let missed: u64 = wakes.iter().map(|late| late / PERIOD_NS).sum();
    assert_eq!(row["missed"], json!(missed));
    assert_figures(row, wakes);
}
