//! hpt on this machine: order and format of the results, never durations.

use std::{
    io::Read,
    process::{Output, Stdio},
    time::{Duration, SystemTime},
};

use serde_json::Value;

use crate::support::{
    at_a_terminal::AtATerminal, code, hpt, json, measuring_doctor, run, stderr, stdout, unsafe_calls::interrupt,
    wait_while_running, wake_ups,
};

#[test]
fn probe_lists_every_source_with_a_reason() {
    let output = run(&["probe", "--all"]);
    assert_eq!(code(&output), 0);
    let text = stdout(&output);
    for name in [
        "tsc",
        "arm-counter",
        "hpet",
        "hpet-low",
        "acpi-pm",
        "pit",
        "arm-cycles",
        "perf-cycles",
        "perf-time",
        "realtime",
        "monotonic",
        "monotonic-raw",
        "boottime",
        "tai",
        "realtime-coarse",
        "monotonic-coarse",
        "process-cpu",
        "thread-cpu",
        "gettimeofday",
        "rtc0",
        "ptp0",
    ] {
        assert!(text.lines().any(|line| line.split_whitespace().next() == Some(name)), "{name} in\n{text}");
    }
    assert!(text.contains("hpt's choice"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn probe_answers_on_one_screen_and_keeps_every_source_in_the_document() {
    let text = stdout(&run(&["probe", "--quiet"]));
    assert!(text.starts_with("Best time source: ") && !text.contains("Why hpt did not"), "{text}");
    assert!(text.lines().count() <= 24, "{text}");
    assert!(stdout(&run(&["probe", "--verbose"])).contains("Why hpt did not choose the other sources"));
    let count = |arguments: &[&str]| json(&run(arguments))["sources"].as_array().expect("a list").len();
    assert_eq!(count(&["probe", "--json"]), count(&["probe", "--all", "--json"]));
}

#[test]
fn probe_of_one_source_answers_scripts_by_its_exit_code() {
    assert_eq!(code(&run(&["probe", "monotonic"])), 0);
    let tsc = run(&["probe", "tsc", "--format", "json"]);
    let usable = json(&tsc)["sources"][0]["available"].as_bool().expect("a yes or a no");
    assert_eq!(code(&tsc), i32::from(!usable));
    assert_eq!(code(&run(&["probe", "--source", "monotonic"])), 0);
}

#[test]
fn the_chosen_source_is_available() {
    let document = json(&run(&["probe", "--format", "json"]));
    let chosen = document["recommendation"]["source"].as_str().expect("CLOCK_MONOTONIC is always fit");
    let row = document["sources"].as_array().expect("rows").iter().find(|row| row["id"] == chosen).expect("listed");
    assert_eq!(
        (&row["available"], &row["constant_rate"], &row["revocable"]),
        (&Value::Bool(true), &Value::Bool(true), &Value::Bool(false))
    );
    assert!(row["read_cost_ns"].as_f64().expect("measured") > 0.0);
    assert!(row["granularity_ns"].as_f64().expect("measured") > 0.0);
}

#[test]
fn calibrate_prints_a_frequency_between_its_limits() {
    let output = run(&["calibrate", "--duration", "50ms", "--source", "monotonic,boottime", "--format", "json"]);
    assert_eq!(code(&output), 0);
    let rows = json(&output)["calibrations"].as_array().expect("rows").clone();
    assert_eq!(rows.len(), 2);
    for row in rows {
        let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} in {row}"));
        assert!(
            number("lowest_hz") <= number("frequency_hz") && number("frequency_hz") <= number("highest_hz"),
            "{row}"
        );
        assert!(number("bound_ppm") > 0.0 && number("pairs") >= 2.0, "{row}");
        assert_eq!(row["reference"], "monotonic-raw");
    }
}

#[test]
fn calibrate_accepts_another_reference() {
    let output = run(&[
        "calibrate",
        "--duration",
        "20ms",
        "--source",
        "monotonic-raw",
        "--reference",
        "boottime",
        "--format",
        "json",
    ]);
    assert_eq!((code(&output), json(&output)["calibrations"][0]["reference"].clone()), (0, "boottime".into()));
}

#[test]
fn cpu_time_has_no_rate_and_that_is_a_negative_answer() {
    let output = run(&["calibrate", "--duration", "5ms", "--source", "thread-cpu,monotonic", "--format", "json"]);
    assert_eq!(code(&output), 1);
    let failure = json(&output)["calibrations"][0]["failure"].as_str().expect("a reason").to_owned();
    assert!(failure.contains("thread"), "{failure}");
    assert_eq!(code(&run(&["calibrate", "--duration", "5ms", "--source", "thread-cpu"])), 3);
}

#[test]
fn a_saved_calibration_is_shown_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    let saved = run(&[
        "calibrate",
        "--duration",
        "20ms",
        "--source",
        "monotonic",
        "--save",
        "--state-dir",
        store,
        "--format",
        "json",
    ]);
    assert_eq!(code(&saved), 0, "{}", stderr(&saved));
    assert!(json(&saved)["saved_to"].as_str().is_some_and(|path| path.starts_with(store)));
    // A second source is saved in addition to the first.
    assert_eq!(
        code(&run(&["calibrate", "--duration", "20ms", "--source", "boottime", "--save", "--state-dir", store])),
        0
    );
    let shown = json(&run(&["calibrate", "--saved", "--state-dir", store, "--format", "json"]));
    let rows = shown["calibrations"].as_array().expect("rows");
    let names: Vec<_> = rows.iter().map(|row| row["source"].as_str().expect("a name")).collect();
    assert_eq!(names, ["monotonic", "boottime"]);
    assert_eq!(rows[0]["frequency_hz"], json(&saved)["calibrations"][0]["frequency_hz"]);
    assert_eq!(shown["measured_now"], false);
}

/// The words after the names of slow sources, in a note of `hpt bench`.
const SLOW: &str = " read fewer times than requested";

#[test]
fn bench_counts_its_calls_and_compares() {
    let output = run(&["bench", "--count", "2e4", "--format", "json"]);
    assert_eq!(code(&output), 0);
    let document = json(&output);
    let rows = document["results"].as_array().expect("rows");
    let of = |id: &str, path: Option<&str>| {
        let found = rows.iter().find(|row| row["id"] == id && path.is_none_or(|path| row["read_path"] == path));
        found.unwrap_or_else(|| panic!("{id} in {document}"))
    };
    assert!(of("monotonic", Some("syscall"))["reads"].as_u64() > Some(0));
    // Slow sources are read fewer times, and a note says so. On a busy machine, interruptions can
    // make any source slow. Few machines show the note, so the program is searched for its words.
    let program = std::fs::read(env!("CARGO_BIN_EXE_hpt")).expect("the binary was built");
    assert!(String::from_utf8_lossy(&program).contains(SLOW), "hpt uses other words for slow sources");
    let notes = document["notes"].as_array().expect("a list").iter().filter_map(Value::as_str);
    let slow: Vec<&str> = notes
        .filter_map(|note| note.split(SLOW).next().filter(|before| *before != note))
        .flat_map(|names| names.trim_end_matches(" was").trim_end_matches(" were").split(", "))
        .collect();
    assert_eq!(of("monotonic", None)["ratio_to_monotonic"], 1.0);
    let least = rows.iter().filter_map(|row| row["ratio_to_cheapest"].as_f64()).fold(f64::INFINITY, f64::min);
    assert!((least - 1.0).abs() < 1e-9, "{least}");
    for row in rows {
        let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} in {row}"));
        assert!(
            number("single_p50_ns") <= number("single_p99_ns") && number("single_p99_ns") <= number("single_max_ns"),
            "{row}"
        );
        let is_slow = slow.contains(&row["id"].as_str().expect("a name"));
        let all = (number("reads"), number("single_samples"), &row["complete"]);
        assert!(is_slow || all == (20_000.0, 20_000.0, &Value::Bool(true)), "{row} {slow:?}");
    }
    assert!(document["cpu"].is_number(), "pinned unless told otherwise");
}

#[test]
fn bench_counts_cycles_if_available() {
    let bench = json(&run(&["bench", "--count", "2e4", "--source", "monotonic", "--format", "json"]));
    let cycles = &bench["results"][0]["cycles_per_read"];
    match bench["cycles_source"].as_str() {
        Some(_) => assert!(cycles.as_f64().is_none_or(|cycles| cycles > 0.0), "{bench}"),
        None => assert_eq!(*cycles, Value::Null),
    }
    for id in ["arm-cycles", "perf-cycles"] {
        let row = &json(&run(&["probe", id, "--format", "json"]))["sources"][0];
        if row["available"] == true {
            assert_eq!((&row["constant_rate"], &row["revocable"]), (&Value::Bool(false), &Value::Bool(true)), "{row}");
            assert!(row["evidence"].to_string().contains("cycles per ns"), "{row}");
        } else {
            skipped!("no {id}: {}", row["reason"]);
        }
    }
}

#[test]
fn bench_runs_on_the_requested_cpu() {
    let anywhere =
        json(&run(&["bench", "--count", "100", "--source", "monotonic", "--cpu", "any", "--format", "json"]));
    assert_eq!(anywhere["cpu"], Value::Null);
    let here = json(&run(&["bench", "--count", "100", "--source", "monotonic", "--format", "json"]))["cpu"].clone();
    let there =
        run(&["bench", "--count", "100", "--source", "monotonic", "--cpu", &here.to_string(), "--format", "json"]);
    assert_eq!(json(&there)["cpu"], here);
}

/// Interrupts a run when its progress bar shows a first sample. Returns its output and exit code.
pub(crate) fn interrupted(arguments: &[&str]) -> (Value, Option<i32>) {
    let mut running = AtATerminal::start(hpt().args(arguments).args(["--format", "json"]));
    running.wait_until_it_measures();
    running.interrupt();
    ended(running)
}

/// Returns the document and the exit code of a run that ends by itself.
fn ended(running: AtATerminal) -> (Value, Option<i32>) {
    let output = running.output();
    let text = String::from_utf8_lossy(&output.stdout);
    let shown = String::from_utf8_lossy(&output.stderr);
    let document = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{shown}"));
    (document, output.status.code())
}

#[test]
fn sleep_compares_every_method_and_hpt_never_wakes_early() {
    let output = run(&["sleep", "--count", "4", "--length", "200us,2ms", "--format", "json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document = json(&output);
    let rows = document["results"].as_array().expect("rows");
    let seen: Vec<_> = rows.iter().map(|row| (row["duration_ns"].as_u64(), row["method"].as_str())).collect();
    let expected = [200_000, 2_000_000]
        .into_iter()
        .flat_map(|duration| ["std", "nanosleep", "fixed", "busy", "hpt"].map(|method| (Some(duration), Some(method))));
    assert_eq!(seen, expected.collect::<Vec<_>>());
    for row in rows {
        let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} in {row}"));
        assert_eq!(row["samples"], 4);
        assert!(number("p50_ns") <= number("max_ns"), "{row}");
        assert!(row["p99_ns"].is_null(), "four samples have no 99th percentile: {row}");
        if ["fixed", "busy", "hpt"].contains(&row["method"].as_str().expect("a name")) {
            assert_eq!(row["early"], 0, "{row}");
        }
    }
    let one = json(&run(&["sleep", "--count", "1", "--length", "1ms", "--strategy", "hpt", "--format", "json"]));
    assert_eq!(one["results"].as_array().map(Vec::len), Some(1));
}

#[test]
fn an_interrupted_sleep_prints_its_results() {
    let (document, code) = interrupted(&["sleep", "--count", "100000", "--length", "1ms"]);
    assert_eq!((code, &document["interrupted"]), (Some(130), &Value::Bool(true)));
    assert!(document["results"][0]["samples"].as_u64().is_some_and(|samples| samples > 0));
}

/// A short version of the paper's table: the system clock and the counters, back to back and after
/// pauses.
#[test]
fn pairs_of_every_source_are_read_after_every_kind_of_wait() {
    let arguments = ["latency", "pairs", "--count", "6", "--interval", "0s,2ms,1ms/3ms", "--format", "json"];
    let output = run(&arguments);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document = json(&output);
    let rows = document["results"].as_array().expect("rows");
    for waits in [Value::from(vec![0]), Value::from(vec![2_000_000]), Value::from(vec![1_000_000, 3_000_000])] {
        let of_this: Vec<_> = rows.iter().filter(|row| row["pauses_ns"] == waits).collect();
        assert!(of_this.iter().any(|row| row["id"] == "monotonic"), "{waits}");
        for row in of_this {
            let number = |key: &str| row[key].as_f64();
            assert_eq!(row["samples"], 6, "{row}");
            assert!(number("min_ns") <= number("p50_ns") && number("p50_ns") <= number("max_ns"), "{row}");
        }
    }
    let one = json(&run(&["latency", "pairs", "--count", "2", "--source", "monotonic", "--format", "json"]));
    assert_eq!(one["results"].as_array().map(Vec::len), Some(2), "in a row, and after 100 ms");
}

/// All outputs agree on the wake-ups: the table, the raw samples counted here, cyclictest's two
/// files, one line.
#[test]
fn all_output_files_contain_the_same_wake_ups() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let write = |form: &str| format!("{form}={}", path(form));
    let (raw, text, own, hdr, line) =
        (path("raw"), write("cyclictest"), write("cyclictest-json"), write("hdr"), write("line"));
    let mut arguments =
        vec!["latency", "timer", "--interval", "200us", "--count", "300", "--cpu", "all", "--raw", &raw];
    for one in [&text, &own, &hdr, &line] {
        arguments.extend(["--write", one]);
    }
    // The file of all samples contains the wake-ups alone.
    arguments.extend(["--as", "cyclictest", "--format", "json"]);
    let output = run(&arguments);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document = json(&output);
    let read = |name: &str| std::fs::read_to_string(path(name)).expect("it was written");
    let (raw, text, own, line) = (read("raw"), read("cyclictest"), read("cyclictest-json"), read("line"));
    let own: Value = serde_json::from_str(&own).expect("JSON");
    assert_eq!(raw.lines().count(), 300 * document["results"].as_array().expect("rows").len());
    assert!(read("hdr").lines().any(|line| line.starts_with("Tag=cpu0,")));
    for (number, row) in document["results"].as_array().expect("rows").iter().enumerate() {
        let cpu = row["cpu"].as_u64().expect("pinned").to_string();
        let mut counted = std::collections::BTreeMap::new();
        let mut deadlines = Vec::new();
        for sample in raw.lines().filter(|line| line.split(' ').next() == Some(cpu.as_str())) {
            let numbers: Vec<u64> = sample.split(' ').map(|word| word.parse().expect("a number")).collect();
            deadlines.push(numbers[1]);
            *counted.entry(numbers[2] / 1_000).or_insert(0_u64) += 1;
        }
        assert!(deadlines.windows(2).all(|two| (two[1] - two[0]) % 200_000 == 0 && two[1] > two[0]), "a grid");
        let below: u64 = counted.range(10_000..).map(|(_, count)| count).sum();
        assert_eq!(row["above_10ms"], below);
        let counted: Vec<_> = counted.into_iter().filter(|&(us, _)| us < 10_000).collect();
        let of_document: Vec<(u64, u64)> = serde_json::from_value(row["histogram_us"].clone()).expect("pairs");
        assert_eq!(of_document, counted);
        let of_own: std::collections::BTreeMap<String, u64> =
            serde_json::from_value(own["thread"][number.to_string()]["histogram"].clone()).expect("counts");
        let column = |us: u64| {
            let row = text.lines().find(|line| line.starts_with(&format!("{us:06} "))).expect("a line");
            row[7..].split('\t').nth(number).and_then(|count| count.parse().ok()).expect("a column")
        };
        let counts: Vec<u64> = line.lines().nth(number).expect("a line")["0us: ".len()..]
            .split(" (")
            .next()
            .expect("counts")
            .split(' ')
            .map(|count| count.parse().expect("a number"))
            .collect();
        for (us, count) in counted {
            assert_eq!(of_own.get(&us.to_string()), Some(&count));
            assert_eq!((column(us), counts[usize::try_from(us).expect("small")]), (count, count));
        }
    }
}

/// A rejected command leaves files unchanged and creates none. A pipe without a reader is reported
/// immediately; a pipe with a reader receives all samples.
#[test]
fn output_files_are_accepted_or_refused_before_anything_is_overwritten() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (kept, new, pipe) = (path("kept"), path("new"), path("pipe"));
    std::fs::write(&kept, "precious").expect("ours");
    for refused in [
        &["--at", "2001-01-01T00:00:00Z"][..],
        &["--source", "nonsense"],
        &["--count", "1", "--write", "line=/proc/nonexistent/a"],
        &["--cpu", "99999"],
    ] {
        for (file, write) in [(&kept, "line=kept"), (&new, "line=other")] {
            let write = write.replace('=', &format!("={}/", folder.path().display()));
            let wanted = if file == &new { vec!["--write", &write] } else { Vec::new() };
            let output = run(&[&["latency", "timer", "--raw", file][..], &wanted, refused].concat());
            assert_eq!(code(&output), 2, "{refused:?}");
        }
    }
    assert_eq!(std::fs::read_to_string(&kept).expect("ours"), "precious");
    let names = std::fs::read_dir(folder.path()).expect("readable").count();
    assert_eq!(names, 1, "nothing was made");
    let both = format!("line={kept}");
    let output = run(&["latency", "timer", "--count", "1", "--raw", &kept, "--write", &both]);
    assert!(code(&output) == 2 && stderr(&output).contains("the same file"), "{}", stderr(&output));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there");
    assert!(made.success());
    let output = run(&["latency", "timer", "--count", "1", "--raw", &pipe]);
    assert!(code(&output) == 3 && stderr(&output).contains("cannot write"), "{}", stderr(&output));
    // Opening a pipe for reading and writing does not block. The reader gets the end of file only
    // after this one is closed.
    let both = std::fs::File::options().read(true).write(true).open(&pipe).expect("ours");
    let mut reader = std::fs::File::open(&pipe).expect("ours");
    let read = std::thread::scope(|scope| {
        let read = scope.spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).expect("UTF-8");
            text
        });
        let output = run(&["latency", "timer", "--count", "5000", "--interval", "10us", "--raw", &pipe]);
        drop(both);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        read.join().expect("it does not panic")
    });
    assert_eq!(read.lines().count(), 5_000);
}

/// A symbolic link remains, and its target is replaced.
#[test]
fn output_is_written_through_a_link() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    std::fs::write(&file, "old").expect("ours");
    std::os::unix::fs::symlink(&file, &link).expect("ours");
    let form = format!("line={}", link.display());
    assert_eq!(code(&run(&["latency", "timer", "--count", "2", "--write", &form])), 0);
    assert!(std::fs::symlink_metadata(&link).expect("it is there").is_symlink());
    assert!(std::fs::read_to_string(&file).expect("ours").contains("us"));
}

/// A gnuplot line that many scripts use to draw the histogram of cyclictest.
#[test]
fn gnuplot_draws_the_histogram_in_the_format_of_cyclictest() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("histogram");
    let form = format!("cyclictest={}", file.display());
    let arguments = ["latency", "timer", "--cpu", "all", "--count", "200", "--interval", "200us", "--write", &form];
    let document = json(&run(&[&arguments[..], &["--format", "json"]].concat()));
    let within = document["results"][0]["samples"].as_u64().expect("a count")
        - document["results"][0]["above_10ms"].as_u64().expect("a count");
    let drawn = |script: &str| {
        let script = format!("set print '-'; file = '{}'; {script}", file.display());
        std::process::Command::new("gnuplot").args(["-e", &script]).output()
    };
    let sum = match drawn("stats file using 1:2 nooutput; print STATS_sum_y") {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skipped!("there is no gnuplot; Debian has it in gnuplot-nox");
            return;
        }
        sum => sum.expect("gnuplot is run"),
    };
    assert_eq!((code(&sum), stdout(&sum).trim()), (0, format!("{within}.0").as_str()), "{}", stderr(&sum));
    let picture =
        drawn("set terminal dumb; set logscale y; plot file using 1:2 with steps title 'CPU 0'").expect("it is run");
    assert_eq!((code(&picture), stderr(&picture).as_str()), (0, ""));
    assert!(stdout(&picture).contains("CPU 0") && stdout(&picture).contains('*'), "{}", stdout(&picture));
}

#[test]
fn a_run_ends_at_the_first_excessive_latency() {
    let output = run(&["latency", "timer", "--stop-above", "1us", "--duration", "1h", "--format", "json"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let document = json(&output);
    let rows = document["results"].as_array().expect("rows");
    assert!(rows[0]["max_ns"].as_u64() > Some(1_000));
    assert_eq!(document["stopped_at_ns"], rows[0]["max_at_ns"]);
}

/// The file has the printed metrics, except for parts that the older format does not support. No
/// other file remains in the directory.
#[test]
fn metrics_are_printed_and_saved() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("hpt.prom");
    let path = file.to_str().expect("UTF-8");
    for (command, wanted) in [
        (&["probe"][..], "hpt_source_usable{source=\"monotonic\"} 1.0"),
        (&["calibrate", "--duration", "100ms"], "hpt_calibration_succeeded{source="),
        (
            &["latency", "timer", "--count", "3", "--cpu", "any", "--as", "cyclictest"],
            "hpt_wakeup_samples{wait_method=\"kernel\",cpu=\"any\"} 3.0",
        ),
        (&["watch", "--duration", "300ms", "--no-compare-cpus"], "hpt_watch_faults{source="),
    ] {
        let output = run(&[command, &["--format", "openmetrics", "--textfile", path]].concat());
        let printed = stdout(&output);
        assert!(printed.contains(wanted) && printed.ends_with("# EOF\n"), "{command:?}: {printed}{}", stderr(&output));
        let kept = std::fs::read_to_string(&file).expect("it was kept");
        let older: String = printed
            .lines()
            .filter(|line| !line.starts_with("# UNIT") && *line != "# EOF")
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(kept, older);
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 1);
    }
    // The metrics of an interval are written during the run, even through a link whose target does
    // not exist yet.
    std::fs::remove_file(&file).expect("it is there");
    let link = folder.path().join("link.prom");
    std::os::unix::fs::symlink("hpt.prom", &link).expect("ours");
    let path = link.to_str().expect("UTF-8");
    let mut watch = hpt();
    watch.args(["watch", "--interval", "100ms", "--no-compare-cpus", "--textfile", path]).stdout(Stdio::null());
    let mut watch = watch.spawn().expect("the binary was built");
    wait_while_running(&mut watch, "an interval's figures are kept", || file.exists());
    interrupt(watch.id());
    watch.wait().expect("started");
    assert!(std::fs::read_to_string(&file).expect("it was kept").contains("hpt_watch_duration_seconds"));
    assert!(std::fs::symlink_metadata(&link).expect("it is there").is_symlink());
}

#[test]
fn wall_clock_latency_starts_at_the_requested_time() {
    let has_passed = |output: &Output| stderr(output).contains("is in the past");
    // All are started at the same time. One that starts too late on a slow machine must report that
    // correctly; the first one that starts in time is checked.
    let mut asked: Vec<_> = [2, 30, 300]
        .map(|seconds| {
            let at = humantime::format_rfc3339_seconds(SystemTime::now() + Duration::from_secs(seconds)).to_string();
            let mut command = hpt();
            command.args(["latency", "timer", "--at", &at, "--interval", "20ms", "--count", "3", "--format", "json"]);
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary was built");
            (at, child)
        })
        .into();
    let (at, output) = loop {
        let (at, child) = asked.remove(0);
        let output = child.wait_with_output().expect("started");
        assert!(SystemTime::now() > humantime::parse_rfc3339(&at).expect("a time"), "{}", stderr(&output));
        if !has_passed(&output) {
            break (at, output);
        }
        assert_eq!(code(&output), 2);
    };
    for (_, mut other) in asked {
        other.kill().and_then(|()| other.wait().map(drop)).expect("it is ours");
    }
    let document = json(&output);
    assert_eq!((&document["at"], &document["source"]), (&at.as_str().into(), &"realtime".into()));
    let result = &document["results"][0];
    let stepped = result["clock_stepped"].as_u64().expect("a count");
    assert_eq!(wake_ups(result) + stepped, 3, "{document}");
    // The time has passed by now.
    let late = run(&["latency", "poll", "--at", &at, "--interval", "20ms", "--count", "3"]);
    assert!(code(&late) == 2 && has_passed(&late), "{}", stderr(&late));
}

#[test]
fn latency_is_measured_with_the_requested_source() {
    let document = json(&run(&["latency", "timer", "--source", "monotonic", "--count", "3", "--format", "json"]));
    assert_eq!(document["source"], "monotonic");
    for unfit in ["realtime", "thread-cpu"] {
        let output = run(&["latency", "poll", "--source", unfit, "--count", "3"]);
        assert_eq!(code(&output), 2);
        assert!(stderr(&output).contains("as the clock of the measurement"), "{output:?}");
    }
}

#[test]
fn an_interrupted_latency_prints_its_results() {
    for mode in ["timer", "poll"] {
        let (document, code) = interrupted(&["latency", mode, "--duration", "1h"]);
        assert_eq!((code, &document["interrupted"]), (Some(130), &Value::Bool(true)), "{mode}");
        assert!(document["results"][0]["samples"].as_u64().is_some_and(|samples| samples > 0));
    }
    // After the first of two samples, the next one is an hour away. Ctrl-C must still end the run.
    let (document, code) = interrupted(&["latency", "timer", "--interval", "1h", "--count", "2"]);
    assert_eq!((code, &document["interrupted"]), (Some(130), &Value::Bool(true)));
    assert_eq!(document["results"][0]["samples"], 1);
}

#[test]
fn interrupted_pairs_are_printed() {
    let (document, code) = interrupted(&["latency", "pairs", "--interval", "1ms", "--count", "500000"]);
    assert_eq!((code, &document["interrupted"]), (Some(130), &Value::Bool(true)));
    assert!(document["results"][0]["samples"].as_u64().is_some_and(|samples| samples > 0));
    let (document, code) =
        interrupted(&["latency", "pairs", "--interval", "0s", "--count", "4000000000", "--source", "monotonic"]);
    assert_eq!((code, &document["interrupted"]), (Some(130), &Value::Bool(true)));
    assert!(document["results"][0]["samples"].as_u64().is_some_and(|samples| samples > 0));
}

#[test]
fn an_interrupted_bench_prints_its_results() {
    let (document, code) = interrupted(&["bench", "--count", "4e9", "--source", "monotonic"]);
    assert_eq!(code, Some(130));
    let row = &document["results"][0];
    assert_eq!((&document["interrupted"], &row["complete"]), (&Value::Bool(true), &Value::Bool(false)));
    assert!(row["reads"].as_u64().expect("a number") > 0 && row["per_read_ns"].as_f64().expect("a number") > 0.0);
}

#[test]
fn an_interrupted_calibration_prints_its_results() {
    let arguments = ["calibrate", "--duration", "15min", "--source", "boottime", "--format", "json"];
    let mut running = AtATerminal::start(hpt().args(arguments));
    // Right after the first readings, the window may be too short for a result.
    running.wait_until_done(0.2);
    running.interrupt();
    let (document, code) = ended(running);
    assert_eq!((code, &document["interrupted"]), (Some(130), &Value::Bool(true)));
    assert_eq!(document["calibrations"][0]["calibrated"], true, "{document}");
}

#[test]
fn a_captured_machine_is_explained_on_another_machine() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let machine = folder.path().join("my.capture");
    let machine = machine.to_str().expect("UTF-8");
    assert_eq!(code(&run(&["capture", machine])), 0);
    let (live, captured) =
        (run(&["probe", "--format", "json"]), run(&["probe", "--host", machine, "--format", "json"]));
    let (live, captured) = (json(&live), json(&captured));
    for key in ["cpu", "kernel_release", "clocksource"] {
        assert_eq!(live["machine"][key], captured["machine"][key]);
    }
    assert_eq!(
        (captured["machine"]["live"].as_bool(), captured["recommendation"]["source"].clone()),
        (Some(false), Value::Null)
    );
}

#[test]
fn a_watch_accuses_no_source_of_this_machine() {
    let output = run(&["watch", "--duration", "2s", "--interval", "500ms", "--format", "json"]);
    let text = stdout(&output);
    let summary: Value = serde_json::from_str(text.lines().last().expect("a summary")).expect("JSON");
    assert_eq!((code(&output), &summary["faulty"]), (0, &Value::Bool(false)), "{text}");
    assert!(summary["rounds"].as_u64().expect("a number") > 1, "{text}");
}

#[test]
fn a_watch_ends_with_exit_code_1_if_a_source_exceeds_the_limit() {
    // An independent counter is never exactly at its nominal rate; the kernel's own clocks may be.
    let arguments =
        ["watch", "--source", "tsc", "--threshold-ppm", "0.000001", "--duration", "1500ms", "--format", "json"];
    let output = run(&arguments);
    if stderr(&output).contains("cannot use the source") {
        return skipped!("no TSC: {}", stderr(&output));
    }
    let text = stdout(&output);
    let summary: Value = serde_json::from_str(text.lines().last().expect("a summary")).expect("JSON");
    let row = &summary["sources"][0];
    assert_eq!(code(&output) == 1, row["faults"].as_u64() > Some(0), "{text}");
    // Without a fault, it may be at its nominal rate within the bounds, which are wide on a busy
    // machine.
    let (off_ppm, bound_ppm) = (row["lowest_ppm"].as_f64().expect("a rate"), row["lowest_bound_ppm"].as_f64());
    assert!(code(&output) == 1 || off_ppm.abs() <= bound_ppm.expect("its bound") + 0.001, "{text}");
}

#[test]
fn an_interrupted_watch_prints_its_summary() {
    let mut child = hpt()
        .args(["watch", "--interval", "200ms", "--format", "json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let mut out = std::io::BufReader::new(child.stdout.take().expect("piped"));
    let mut first = String::new();
    std::io::BufRead::read_line(&mut out, &mut first).expect("an interval");
    interrupt(child.id());
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("the end");
    assert_eq!(child.wait().expect("started").code(), Some(0), "{first}{rest}");
    let summary: Value = serde_json::from_str(rest.lines().last().expect("a summary")).expect("JSON");
    assert_eq!((&summary["kind"], &summary["interrupted"]), (&Value::from("watch-summary"), &Value::Bool(true)));
}

#[test]
fn a_watch_ends_when_its_output_is_closed() {
    let mut child =
        hpt().args(["watch", "--interval", "100ms"]).stdout(Stdio::piped()).spawn().expect("the binary was built");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("started").code(), Some(0));
}

#[test]
fn the_absence_of_gpio_chips_is_explained() {
    let list = run(&["latency", "gpio", "--list", "--format", "json"]);
    let document = json(&list);
    let chips = document["chips"].as_array().expect("a list");
    if !chips.is_empty() {
        return skipped!("this machine has GPIO chips");
    }
    assert_eq!((code(&list), &document["lines"]), (1, &Value::Array(Vec::new())));
    assert!(document["notes"].to_string().contains("no /dev/gpiochip* exists"), "{document}");
    for arguments in [
        &["latency", "gpio", "--output-line", "22", "--input-line", "23"][..],
        &["latency", "gpio", "--output-line", "GPIO22", "--input-line", "gpiochip0:23", "--listen", "spin"],
        &["latency", "gpio", "--output-line", "22", "--input-line", "22", "--drive", "registers", "--listen", "level"],
        &["latency", "timer", "--count", "2", "--pulse", "GPIO17"],
        &["latency", "timer", "--count", "2", "--pulse", "GPIO17", "--drive", "registers"],
        &["experiment", "late-loop", "--short", "--pulse", "17", "--state-dir", "/dev/null/none"],
        &["latency", "poll", "--count", "2", "--pulse", "gpiochip0:17"],
    ] {
        let output = run(arguments);
        assert_eq!((code(&output), stdout(&output).as_str()), (3, ""), "{arguments:?}");
        assert!(stderr(&output).contains("no /dev/gpiochip* exists: "), "{}", stderr(&output));
    }
}

#[test]
fn a_pulse_line_requires_a_single_thread() {
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        return skipped!("this process may use one CPU only");
    }
    let output = run(&["latency", "timer", "--cpu", "all", "--pulse", "17"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("--pulse requires a single thread"), "{}", stderr(&output));
}

#[test]
fn a_measuring_doctor_reports_its_results() {
    let document = measuring_doctor();
    let measured = document["measured"].as_array().expect("it was asked to");
    let rules: Vec<&str> =
        document["rules"].as_array().expect("rules").iter().filter_map(|rule| rule["rule"].as_str()).collect();
    assert!(measured.len() >= 3, "{measured:?}");
    for row in measured {
        let bears_on = row["rules"].as_array().expect("rules");
        assert!(bears_on.iter().all(|rule| rules.contains(&rule.as_str().expect("a name"))), "{row}");
    }
    // A thread under SCHED_FIFO gives evidence of throttling. It requires the rights for that.
    let proved = document["rules"].as_array().expect("rules").iter().filter(|rule| {
        ["throttling", "fair-server"].contains(&rule["rule"].as_str().expect("a name")) && rule["verdict"] == "problem"
    });
    for rule in proved {
        let by_fifo =
            measured.iter().any(|row| row["result"].as_str().is_some_and(|result| result.contains("SCHED_FIFO")));
        assert_eq!(
            rule["observed"].as_str().is_some_and(|observed| observed.contains("; measured: ")),
            by_fifo,
            "{rule} {measured:?}"
        );
    }
}

#[test]
fn an_interrupted_doctor_prints_its_results() {
    // Wait until the progress line shows the measurement, then send the signal: during the seconds
    // of polling, or later.
    let mut running = AtATerminal::start(hpt().args(["doctor", "--measure", "--format", "json"]));
    running.wait_until_shown("it names what it does", |shown| shown.contains("polling"));
    // The measurement takes seconds, for which this thread may have to wait for a CPU.
    let Some(lines) = running.stop() else { return skipped!("hpt ended before this thread ran again") };
    running.interrupt();
    running.go_on();
    let (document, code) = ended(running);
    if !lines.iter().any(|line| line.contains(" % ")) {
        return skipped!("hpt had measured before this thread ran again: {lines:?}");
    }
    assert_eq!(code, Some(130));
    assert!(document["rules"].as_array().is_some_and(|rules| rules.len() > 30));
    let measured = document["measured"].as_array().expect("it was asked to");
    assert!(document["interrupted"] == true || measured.len() >= 3, "{document:#}");
}
