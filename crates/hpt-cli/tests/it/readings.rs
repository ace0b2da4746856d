//! `hpt read`: readings of this machine's clocks, in order and with the digits of their resolution.

use std::{
    os::unix::process::CommandExt,
    process::Command,
    time::{Duration, Instant, SystemTime},
};

use serde_json::Value;

use crate::support::{code, copied_for_everybody, is_root, json, run, runner, stderr, stdout};

fn since_1970() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_nanos()).expect("before 2554")
}

fn ticks(row: &Value) -> u64 {
    row["ticks"].as_u64().expect("a number")
}

#[test]
fn readings_of_the_time_of_day_lie_between_those_of_another_program() {
    let before = since_1970();
    let document = json(&run(&["read", "realtime", "-n", "50", "--json"]));
    let after = since_1970();
    let rows = document["results"].as_array().expect("a list");
    assert_eq!(rows.len(), 50);
    let all: Vec<u64> = rows.iter().map(ticks).collect();
    if all.is_sorted() && before <= after {
        assert!(all.iter().all(|reading| (before..=after).contains(reading)), "{before} {all:?} {after}");
    } else {
        skipped!("the time of day was set back meanwhile");
    }
    for row in rows {
        let nanos = row["time_s"].as_str().expect("a clock").replace('.', "");
        assert_eq!(nanos, row["ticks"].to_string(), "{row}");
    }
}

#[test]
fn each_round_reads_every_source_and_waits_for_the_interval() {
    let begun = Instant::now();
    let document = json(&run(&["read", "monotonic", "boottime", "-n", "4", "-i", "2ms", "--json"]));
    assert!(begun.elapsed() >= Duration::from_millis(6), "three intervals");
    let rows = document["results"].as_array().expect("a list");
    let named: Vec<(u64, &str)> = rows
        .iter()
        .map(|row| (row["number"].as_u64().expect("a number"), row["id"].as_str().expect("a name")))
        .collect();
    let expected: Vec<(u64, &str)> = (1..=4).flat_map(|number| [(number, "monotonic"), (number, "boottime")]).collect();
    assert_eq!(named, expected);
    for id in ["monotonic", "boottime"] {
        assert!(rows.iter().filter(|row| row["id"] == id).map(ticks).is_sorted(), "{rows:?}");
    }
    assert_eq!(document["interval_ns"], 2_000_000);
}

#[test]
fn a_coarse_clock_is_printed_only_to_its_resolution_and_a_counter_in_ticks() {
    let probe = json(&run(&["probe", "realtime-coarse", "--json"]));
    let resolution_ns = probe["sources"][0]["resolution_ns"].as_f64().expect("the kernel reports it");
    let document = json(&run(&["read", "realtime-coarse", "realtime", "--json"]));
    let time = |row: usize| document["results"][row]["time_s"].as_str().expect("a clock").to_owned();
    let decimals = |time: &str| time.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let finest_ns = 1e9 / 10_f64.powi(i32::try_from(decimals(&time(0))).expect("at most nine"));
    assert!(finest_ns <= resolution_ns && finest_ns * 10.0 > resolution_ns, "{} for {resolution_ns} ns", time(0));
    let shown = stdout(&run(&["read", "realtime-coarse"]));
    let reading = shown.split_whitespace().find(|word| word.starts_with(&time(0)[..6])).expect("the same seconds");
    assert_eq!(decimals(reading), decimals(&time(0)), "{shown}");
    for counter in ["tsc", "arm-counter"] {
        let output = run(&["read", counter, "--json"]);
        if code(&output) == 0 {
            assert_eq!(json(&output)["results"][0]["time_s"], Value::Null);
            assert!(stdout(&run(&["read", counter])).contains("ticks"));
        }
    }
}

#[test]
fn a_source_without_permission_is_refused_with_a_fix_and_prints_no_reading() {
    if !is_root() || !runner().is_empty() {
        return skipped!("only root can become a plain user; the other tests run as one");
    }
    let (_folder, binary) = copied_for_everybody();
    let plain = |source: &str| {
        let mut command = Command::new(&binary);
        command.args(["read", "monotonic", source]).uid(65_534).gid(65_534).current_dir("/");
        command.output().expect("it can be run")
    };
    let is_for_root = |source: &&&str| {
        let probe = json(&run(&["probe", source, "--json"]));
        probe["sources"][0]["available"] == true && code(&plain(source)) != 0
    };
    let candidates = ["acpi-pm", "hpet", "bcm-systimer", "perf-cycles", "ptp0"];
    let found: Vec<&&str> = candidates.iter().filter(is_for_root).collect();
    if found.is_empty() {
        return skipped!("root and plain users can read the same sources here");
    }
    for source in found {
        let output = plain(source);
        assert_eq!((code(&output), stdout(&output).as_str()), (3, ""), "{source}");
        assert!(stderr(&output).contains(source) && stderr(&output).contains("hpt: hint: "), "{}", stderr(&output));
    }
}
