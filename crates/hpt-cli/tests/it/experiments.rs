//! Experiments on this machine: saved parts, resumed runs, and results of interrupted runs.

use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Command, Output, Stdio},
};

use hpt_realtime::allowed_cpus;
use serde_json::Value;

use crate::{
    realtime::{SameConditions, Throttling},
    schemas::validate,
    support::{
        CURRENT_CLOCKSOURCE,
        at_a_terminal::AtATerminal,
        code, hpt, is_on_a_writable_file_system, is_root, json, run, stderr, tells_its_boot,
        unsafe_calls::{interrupt, limit_realtime},
        wait_while_running,
    },
};

fn states(document: &Value) -> Vec<(String, String)> {
    let experiments = document["experiments"].as_array().expect("a list").iter();
    let parts = experiments.flat_map(|one| one["parts"].as_array().expect("a list"));
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    parts.map(|part| (text(&part["name"]), text(&part["state"]))).collect()
}

#[test]
fn finished_parts_are_reused_only_on_request() {
    let _same = SameConditions::for_a_while();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    let experiment = |more: &[&str]| {
        let arguments = ["experiment", "calls", "period", "--count", "50", "--state-dir", store, "--format", "json"];
        let output = run(&[&arguments[..], more].concat());
        assert!(code(&output) < 2, "{}", stderr(&output));
        json(&output)
    };
    let first = experiment(&[]);
    assert!(states(&first).iter().all(|(_, state)| state == "measured"), "{first}");
    let rows = first["results"].as_array().expect("rows");
    let measured = rows.iter().filter(|row| row["measured"].is_f64()).count();
    assert!(measured >= 7 && rows.iter().all(|row| row["published"].is_f64() || row["measured"].is_f64()), "{first}");
    let again = experiment(&["--resume"]);
    if again["notes"].to_string().contains("not saved") {
        return skipped!("this machine does not tell which boot it is");
    }
    assert!(states(&again).iter().all(|(_, state)| state == "resumed"), "{again}");
    assert_eq!(again["results"], first["results"]);
    // A different affinity makes it a different measurement.
    let unpinned = run(&[
        "experiment",
        "period",
        "--count",
        "50",
        "--cpu",
        "any",
        "--resume",
        "--state-dir",
        store,
        "--format",
        "json",
    ]);
    assert!(states(&json(&unpinned)).iter().all(|(_, state)| state == "measured"));
    assert!(stderr(&unpinned).contains("the conditions differ"), "{}", stderr(&unpinned));
    // A different number of samples makes it a different measurement.
    let more = run(&["experiment", "period", "--count", "51", "--resume", "--state-dir", store, "--format", "json"]);
    assert!(states(&json(&more)).iter().all(|(_, state)| state == "measured"));
    let anew = experiment(&[]);
    assert!(states(&anew).iter().all(|(_, state)| state == "measured"), "{anew}");
}

#[test]
fn an_interrupted_experiment_prints_its_results_and_can_be_resumed() {
    if !tells_its_boot() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    let mut child = hpt()
        .args(["experiment", "pairs", "--state-dir", store, "--format", "json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let first = folder.path().join("experiment-pairs-back-to-back-1000");
    wait_while_running(&mut child, "the first part is kept", || first.exists());
    interrupt(child.id());
    let mut text = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut text).expect("UTF-8");
    let status = child.wait().expect("started");
    let document: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(status.code(), Some(130));
    let seen = states(&document);
    let states_alone: Vec<_> = seen.iter().map(|(_, state)| state.as_str()).collect();
    // The signal may arrive before the second experiment has started.
    assert!(matches!(states_alone[..], ["measured", "interrupted" | "not-started", "not-started"]), "{states_alone:?}");
    assert_eq!(document["interrupted"], true);
    assert!(document["results"][0]["measured"].is_f64(), "{document}");
    let not_begun = document["results"].as_array().expect("rows").iter().filter(|row| row["state"] == "not-measured");
    assert!(not_begun.count() >= 2, "{document}");
}

/// Returns the number of samples of a long part, after comparing it with its distribution.
fn samples(document: &Value) -> u64 {
    let row = &document["results"][1];
    let classes = row["distribution"].as_array().expect("classes").iter();
    let samples = row["samples"].as_u64().expect("a number");
    assert_eq!(classes.map(|class| class[1].as_u64().expect("a count")).sum::<u64>(), samples, "{document}");
    samples
}

/// Runs a long part, and interrupts it when its progress bar has moved.
fn interrupted_part(arguments: &[&str]) -> Value {
    let mut running = AtATerminal::start(hpt().args(arguments));
    running.wait_until_it_measures();
    running.interrupt();
    let output = running.output();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Each run requests ten minutes, and is interrupted before the end.
#[test]
fn a_long_part_resumes_where_it_was_interrupted() {
    if !tells_its_boot() {
        return;
    }
    let _same = SameConditions::for_a_while();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    let arguments = ["experiment", "isolated-core", "--count", "600000", "--state-dir", store, "--format", "json"];
    let resumed = [&arguments[..], &["--resume"]].concat();
    let part = |document: &Value| document["experiments"][0]["parts"][0].clone();
    let first = interrupted_part(&resumed);
    let made = samples(&first);
    assert_eq!((&part(&first)["state"], &part(&first)["resumed"]), (&"interrupted".into(), &0.into()), "{first}");
    assert!(made > 0, "{first}");
    let second = interrupted_part(&resumed);
    assert_eq!(part(&second)["resumed"], made, "{second}");
    assert!(samples(&second) > made, "{second}");
    // A saved part with fewer samples does not replace one with more: the run resumes from the
    // larger one.
    let anew = interrupted_part(&arguments);
    assert_eq!(part(&anew)["resumed"], 0, "{anew}");
    let third = interrupted_part(&resumed);
    assert_eq!(part(&third)["resumed"], samples(&second).max(samples(&anew)), "{third}");
}

#[test]
fn a_part_interrupted_at_any_point_can_be_finished_later() {
    const ALL: u64 = 1_500;
    if !tells_its_boot() {
        return;
    }
    let _same = SameConditions::for_a_while();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    let count = ALL.to_string();
    let arguments =
        ["experiment", "isolated-core", "--count", &count, "--resume", "--state-dir", store, "--format", "json"];
    // Interrupted in the middle, unless the signal is late. In that case the part is complete.
    let first = interrupted_part(&arguments);
    let made = samples(&first);
    assert_eq!(states(&first)[0].1, if made < ALL { "interrupted" } else { "measured" }, "{first}");
    let second = json(&run(&arguments));
    assert_eq!(second["experiments"][0]["parts"][0]["resumed"], made, "{second}");
    assert_eq!(states(&second)[0].1, if made < ALL { "measured" } else { "resumed" }, "{second}");
    assert_eq!(samples(&second), ALL);
    let third = json(&run(&arguments));
    assert_eq!((states(&third)[0].1.as_str(), &third["results"]), ("resumed", &second["results"]));
}

#[test]
fn samples_of_another_policy_are_not_added_to_an_earlier_run() {
    let _same = SameConditions::for_a_while();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    let arguments =
        ["experiment", "isolated-core", "--count", "20", "--resume", "--state-dir", store, "--format", "json"];
    let limited = || {
        let output = limit_realtime(hpt().args(arguments)).output().expect("built");
        (states(&json(&output))[0].1.clone(), stderr(&output))
    };
    let first = run(&arguments);
    if stderr(&first).contains("not saved") {
        return skipped!("this machine does not tell which boot it is");
    }
    let (state, told) = limited();
    assert_eq!(state, "measured", "{told}");
    // Missing settings and differing conditions are reported before the measurement.
    assert!(told.contains("isolated-core: without policy: "), "{told}");
    assert!(told.contains("is measured again: the conditions differ (then "), "{told}");
    assert_eq!(limited().0, "resumed");
}

#[test]
fn a_core_is_measured_without_throttling_if_another_core_exists() {
    let _same = SameConditions::for_a_while();
    let obstacle = Throttling::obstacle().or((allowed_cpus().len() < 2).then_some("one CPU is left here"));
    if let Some(obstacle) = obstacle {
        return skipped!("{obstacle}");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    let names = ["experiment", "isolated-core", "--count", "20", "--no-throttling", "--state-dir", store];
    let output = run(&[&names[..], &["--journal", store, "--format", "json"]].concat());
    assert!(code(&output) < 2, "{}", stderr(&output));
    assert_eq!(states(&json(&output))[0].1, "measured");
}

#[test]
fn invalid_requests_are_refused_before_the_measurement() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    let names = ["experiment", "period", "isolated-core", "--count", "20", "--state-dir", store, "--journal", store];
    let output = run(&[&names[..], &["--governor", "no-such-governor"]].concat());
    assert_eq!((code(&output), output.stdout.len()), (3, 0), "{}", stderr(&output));
    assert!(stderr(&output).contains("governor"), "{}", stderr(&output));
    assert!(!folder.path().join("experiment-period-100-us-20").exists());
}

#[test]
fn a_failed_save_is_reported_at_once_and_the_rest_is_measured() {
    if !tells_its_boot() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    // A directory cannot be replaced by a file.
    std::fs::create_dir(folder.path().join("experiment-calls-calls-1000")).expect("ours");
    // The pairs take more than an hour, so a line that arrives before the end was printed
    // immediately.
    let arguments = ["experiment", "calls", "pairs", "--count", "1000", "--state-dir", store, "--format", "json"];
    let mut child = hpt().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("built");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let told = lines.find(|line| line.contains("not saved")).expect("the note is printed");
    assert!(told.contains("calls is not saved"), "{told}");
    let next = folder.path().join("experiment-pairs-back-to-back-1000");
    wait_while_running(&mut child, "the next part is kept", || next.exists());
    interrupt(child.id());
    let mut text = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut text).expect("UTF-8");
    child.wait().expect("started");
    let document: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(states(&document)[0].1, "measured");
    assert_eq!(document["interrupted"], true);
}

#[test]
fn an_unusable_saved_part_is_reported_before_the_measurement() {
    let _same = SameConditions::for_a_while();
    let arguments = |store: &str| {
        ["experiment", "period", "--count", "20", "--resume", "--state-dir", store, "--format", "json"]
            .map(str::to_owned)
    };
    let spoil: [(&str, Spoils, bool); 4] = [
        ("is corrupt", |file| std::fs::write(file, "nonsense").expect("ours"), true),
        ("is corrupt", |file| cut(file, 200), true),
        ("is stale", of_another_boot, true),
        ("cannot read", in_the_place_of, false),
    ];
    for (told, spoil, replaced) in spoil {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = folder.path().to_str().expect("UTF-8");
        let file = folder.path().join("experiment-period-100-us-20");
        let first = hpt().args(arguments(store)).output().expect("built");
        if !file.exists() {
            return skipped!("this machine does not tell which boot it is: {}", stderr(&first));
        }
        spoil(&file);
        let output = hpt().args(arguments(store)).output().expect("built");
        assert!(stderr(&output).contains("period, 100 µs is measured again"), "{told}: {}", stderr(&output));
        assert!(stderr(&output).contains(told), "{told}: {}", stderr(&output));
        let seen = states(&json(&output));
        assert_eq!([seen[0].1.as_str(), seen[1].1.as_str()], ["measured", "resumed"], "{told}");
        // An unreadable file may be valid, and is not replaced.
        let again = hpt().args(arguments(store)).output().expect("built");
        let state = &states(&json(&again))[0].1;
        assert_eq!(state, if replaced { "resumed" } else { "measured" }, "{told}");
    }
}

/// A modification of a saved file.
type Spoils = fn(&Path);

fn cut(file: &Path, length: u64) {
    std::fs::File::options().write(true).open(file).and_then(|file| file.set_len(length)).expect("ours");
}

fn of_another_boot(file: &Path) {
    let text = std::fs::read_to_string(file).expect("ours");
    let other = "boot 11111111-1111-1111-1111-111111111111";
    let lines = text.split('\n').map(|line| if line.starts_with("boot ") { other } else { line });
    std::fs::write(file, lines.collect::<Vec<_>>().join("\n")).expect("ours");
}

fn in_the_place_of(file: &Path) {
    std::fs::remove_file(file).and_then(|()| std::fs::create_dir(file)).expect("ours");
}

#[test]
fn concurrent_experiments_are_reported_and_lose_no_results() {
    if !tells_its_boot() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    let mut first = hpt()
        .args(["experiment", "pairs", "--count", "1000", "--state-dir", store])
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary was built");
    // It locks the directory before the measurement, and saves its first part long before its end.
    let part = folder.path().join("experiment-pairs-back-to-back-1000");
    wait_while_running(&mut first, "the first part is kept", || part.exists());
    let second = run(&["experiment", "period", "--count", "20", "--state-dir", store]);
    assert!(first.try_wait().expect("started").is_none(), "it measured meanwhile");
    interrupt(first.id());
    first.wait().expect("started");
    assert!(stderr(&second).contains("another hpt experiment"), "{}", stderr(&second));
    assert!(folder.path().join("experiment-period-1-ms-20").exists());
}

#[test]
fn a_measurement_without_a_state_directory_runs_and_warns_at_once() {
    let output = run(&["experiment", "period", "--count", "20", "--state-dir", "/dev/null/none", "--format", "json"]);
    assert!(code(&output) < 2 && stderr(&output).contains("finished parts are not saved"), "{}", stderr(&output));
    let document = json(&output);
    assert!(document["results"][0]["measured"].is_f64() && document["notes"][0].as_str().is_some(), "{document}");
}

#[test]
fn every_short_experiment_has_figures_with_source_samples_spread_and_conditions() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    let document = json(&run(&["experiment", "all", "--short", "--state-dir", store, "--format", "json"]));
    validate(&document);
    assert!(document["experiments"].as_array().is_some_and(|list| list.len() >= 9), "{document}");
    assert!(states(&document).iter().all(|(_, state)| state == "measured"), "{document}");
    assert!(document["thread"]["policy"].is_string() && document["cpu"].is_u64(), "{document}");
    for row in document["results"].as_array().expect("rows") {
        assert!(row["method"].as_str().is_some_and(|how| !how.is_empty()), "{row}");
        assert_eq!(row["state"] == "measured", row["measured"].is_f64(), "{row}");
        assert!(row["measured"].is_null() || row["samples"].as_u64() > Some(0), "{row}");
        let counted = row["distribution"].as_array().expect("classes").iter().map(|class| class[1].as_u64());
        assert!([Some(0), row["samples"].as_u64()].contains(&counted.sum()), "{row}");
        let of_a_loop =
            |what: &str| what.starts_with("usual latency") || what.contains("mean with") || what.ends_with(": polled");
        let is_a_loop = row["quantity"].as_str().is_some_and(of_a_loop);
        let has_distribution = row["distribution"].as_array().is_some_and(|classes| !classes.is_empty());
        assert!(!is_a_loop || has_distribution || row["measured"].is_null(), "{row}");
    }
    let what = |name: &str| {
        let rows = document["results"].as_array().expect("rows").iter();
        rows.filter(|row| row["experiment"] == name).map(|row| row["quantity"].to_string()).collect::<String>()
    };
    assert!(["calls", "cost", "clock-sources"].iter().all(|name| what(name).contains(": single read")), "{document}");
}

#[test]
fn the_system_is_changed_only_on_request() {
    let current = || std::fs::read_to_string(CURRENT_CLOCKSOURCE).ok();
    let before = current();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    let arguments = ["--short", "--state-dir", store, "--journal", store];
    let experiment = |more: &[&str]| {
        let output = hpt().arg("experiment").args(more).args(arguments).stdin(Stdio::null()).output();
        output.expect("the binary was built")
    };
    for (wrong, told) in [
        (&["calls", "--all-clock-sources"][..], "only to the experiment clock-sources"),
        (&["calls", "--no-turbo"], "only to the experiment isolated-core"),
        (&["clock-sources", "--yes"], "--all-clock-sources"),
    ] {
        let output = experiment(wrong);
        assert_eq!(code(&output), 2);
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
    }
    let several = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/available_clocksource")
        .is_ok_and(|names| names.split_whitespace().count() > 1);
    let asked = experiment(&["clock-sources", "--all-clock-sources"]);
    if several && is_on_a_writable_file_system(CURRENT_CLOCKSOURCE) {
        let (expected, told) = if is_root() { (2, "use --yes to confirm") } else { (3, "run as root") };
        assert_eq!(code(&asked), expected);
        assert!(stderr(&asked).contains(told), "{}", stderr(&asked));
        assert_eq!(std::fs::read_dir(folder.path()).expect("ours").count(), 0, "nothing was written down");
    } else if !several {
        skipped!("the kernel offers one clock source only");
    }
    assert_eq!(current(), before);
}

/// Runs the experiment `period` in a network of its own, with these commands before it.
fn with_frames(prepare: &str, frames: &str) -> Output {
    const COUNT: &str = "20";
    let mut experiment = hpt();
    experiment.args(["experiment", "period", "--count", COUNT, "--state-dir", "/dev/null/none", "--format", "json"]);
    experiment.args(["--frames", frames]);
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", &format!("{prepare} exec \"$@\""), "sh"]).arg(experiment.get_program());
    command.args(experiment.get_args()).stdin(Stdio::null()).output().expect("unshare is there")
}

#[test]
fn a_frame_returns_over_a_veth_pair_or_counts_as_lost() {
    const PAIR: &str = "ip link add hpt0 type veth peer name hpt1 &&";
    const UP: &str = "ip link set hpt0 up && ip link set hpt1 up &&";
    let there = ["unshare", "ip"].iter().all(|name| Command::new(name).arg("--help").output().is_ok());
    let pair = Command::new("unshare").args(["--net", "sh", "-c", &format!("{PAIR} {UP} true")]).output();
    if !there || !pair.is_ok_and(|pair| pair.status.success()) {
        return skipped!("no veth pair can be made here: it needs root, `unshare` and `ip`");
    }
    let refused = [
        ("", "hpt0,hpt1", 2, "there is no network interface \"hpt0\""),
        (PAIR, "hpt0,hpt1", 3, "run `ip link set hpt0 up`"),
        ("ip link set lo up &&", "lo,hpt1", 2, "there is no network interface \"hpt1\""),
    ];
    for (prepare, frames, expected, told) in refused {
        let output = with_frames(prepare, frames);
        assert_eq!((code(&output), output.stdout.len()), (expected, 0), "{}", stderr(&output));
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
    }
    let document = json(&with_frames(&format!("{PAIR} {UP}"), "hpt0,hpt1"));
    validate(&document);
    let row = |what: &str| {
        let mut rows = document["results"].as_array().expect("rows").iter();
        rows.find(|row| row["quantity"] == what).cloned().unwrap_or_else(|| panic!("{what}: {document}"))
    };
    assert!(row("1 ms with a frame, system clock")["measured"].is_f64(), "{document}");
    // Every frame has returned or is lost, however busy the machine is.
    let trips = row("1 ms, round trip of a frame");
    let method = trips["method"].as_str().expect("a method");
    let lost = method.split_once(" lost").and_then(|(before, _)| before.rsplit(' ').next()?.parse::<u64>().ok());
    assert_eq!(lost.map(|lost| lost + trips["samples"].as_u64().unwrap_or(0)), Some(20), "{trips}");
}

#[test]
fn the_list_contains_every_experiment_and_its_published_figures() {
    let document = json(&run(&["experiment", "--format", "json"]));
    assert!(document["experiments"].as_array().is_some_and(|list| list.len() >= 9));
    let rows = document["results"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["published"].is_f64() && row["measured"].is_null()), "{document}");
}
