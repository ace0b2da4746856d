//! `hpt compare`: how often it says that something differs, with recorded wake-ups; its exit codes, and what it says about
//! one run and several runs of each side.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    schemas::validate,
    support::{code, json, random::Random, run, stderr, stdout},
};

/// A document of `hpt latency timer` of this machine, whose figures a test replaces.
fn template() -> Value {
    let mut document = json(&run(&["latency", "timer", "-c", "0", "-n", "5", "--json"]));
    document["notes"] = json!([]);
    let row = &mut document["results"][0];
    for list in ["intervals", "time_series", "heat_map", "histogram_us", "histogram_ns"] {
        row[list] = json!([]);
    }
    for tail in ["p9999_ns", "p99999_ns"] {
        row[tail] = Value::Null;
    }
    row["not_run"]["share"] = 0.01.into();
    document["conditions"]["cpus"] = json!([]);
    document
}

/// Returns a run that began this many seconds after the first. Each CPU has its number of samples, p50, p99, p99.9 and
/// maximum.
fn run_of(template: &Value, start_s: usize, cpus: &[[u64; 5]]) -> Value {
    let mut document = template.clone();
    document["started_at"] =
        format!("2026-01-01T{:02}:{:02}:{:02}Z", start_s / 3_600, start_s / 60 % 60, start_s % 60).into();
    let row = document["results"][0].clone();
    let rows = cpus.iter().enumerate().map(|(cpu, figures)| {
        let mut row = row.clone();
        row["cpu"] = cpu.into();
        for (key, figure) in ["samples", "p50_ns", "p99_ns", "p999_ns", "max_ns"].iter().zip(figures) {
            row[*key] = (*figure).into();
        }
        row
    });
    document["results"] = rows.collect::<Vec<_>>().into();
    document
}

/// Returns the 240 recorded runs.
fn recorded() -> Vec<Vec<[u64; 5]>> {
    let numbers = |line: &str| line.split(',').map(|number| number.parse().expect("a number")).collect::<Vec<u64>>();
    let lines = include_str!("recorded/wake-ups-of-240-runs.csv").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| numbers(line).chunks(5).map(|cpu| cpu.try_into().expect("five")).collect()).collect()
}

/// The files of two sides.
struct Sides {
    folder: TempDir,
}

impl Sides {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the runs of a side, one after another, and returns the name of the file.
    fn write(&self, name: &str, runs: &[Value]) -> String {
        let text: Vec<String> = runs.iter().map(ToString::to_string).collect();
        fs::write(self.path(name), text.join("\n")).expect("ours");
        self.path(name).to_str().expect("UTF-8").to_owned()
    }

    fn compare(&self, first: &[Value], other: &[Value]) -> Value {
        let (first, other) = (self.write("a", first), self.write("b", other));
        let output = run(&["compare", &first, &other, "--json"]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        json(&output)
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn in_turns(random: &mut Random, runs: &[Value]) -> (Vec<Value>, Vec<Value>) {
    let pairs = runs.chunks_exact(2).map(|pair| match random.below(2) {
        0 => (pair[0].clone(), pair[1].clone()),
        _ => (pair[1].clone(), pair[0].clone()),
    });
    pairs.unzip()
}

/// A machine is compared with itself: groups of consecutive recorded runs, which are taken in turns.
#[test]
fn a_machine_rarely_differs_from_itself() {
    let (template, all, sides, mut random) = (template(), recorded(), Sides::new(), Random(48));
    assert_eq!(all.len(), 240);
    for runs in [3, 5] {
        let found = (0..100).filter(|_| {
            let begin = random.below(all.len() - 2 * runs + 1);
            let chosen = (begin..begin + 2 * runs).map(|at| run_of(&template, at, &all[at])).collect::<Vec<_>>();
            let (first, other) = in_turns(&mut random, &chosen);
            let compared = sides.compare(&first, &other);
            // All figures of both CPUs together: p50, p99, p99.9 and the maximum.
            assert_eq!((number(&compared["judged"]), &compared["method"]), (8, &json!("between-runs")), "{compared:#}");
            number(&compared["differing"]) > 0
        });
        let found = found.count();
        eprintln!("{runs} runs a side: {found} of 100 comparisons say that something differs");
        assert!(found <= 5, "{runs} runs a side: {found} of 100");
    }
}

/// Returns three runs a side, in turns, of which the second side has this p99 in multiples of the first.
fn three_a_side(template: &Value, factor: u64) -> (Vec<Value>, Vec<Value>) {
    let of = |at: usize, factor: u64| {
        run_of(
            template,
            at,
            &[[50_000, 20_000, (60_000 + 100 * at as u64) * factor, 90_000 * factor, 100_000 * factor]],
        )
    };
    (0..3).map(|at| (of(2 * at, 1), of(2 * at + 1, factor))).unzip()
}

#[test]
fn worse_values_fail_only_on_request() {
    let (template, sides) = (template(), Sides::new());
    let (first, other) = three_a_side(&template, 2);
    let (a, b) = (sides.write("a.json", &first), sides.write("b.json", &other));
    let page = sides.path("page.html").to_str().expect("UTF-8").to_owned();
    for (arguments, expected) in [
        (&["compare", &a, &b][..], 0),
        (&["compare", &a, &b, "--fail-on", "worse"], 1),
        // The other way round, it is better.
        (&["compare", &b, &a, "--fail-on", "worse"], 0),
        (&["compare", &a, &a, "--fail-on", "worse", "--quiet"], 0),
        (&["compare", &a, &b, "--fail-on", "lunch"], 2),
        (&["compare", &a], 2),
        (&["compare", &a, &b, "--output", &page, "--fail-on", "worse"], 1),
        (&["report", "--compare", &a, &b], 0),
    ] {
        assert_eq!(code(&run(arguments)), expected, "{arguments:?}: {}", stdout(&run(arguments)));
    }
    let compared = json(&run(&["compare", &a, &b, "--json"]));
    validate(&compared);
    assert_eq!((&compared["worse"], &compared["in_turns"]), (&json!(3), &json!(true)), "{compared:#}");
    assert_eq!(compared, json(&run(&["report", "--compare", &a, &b, "--json"])));
    let shown = stdout(&run(&["compare", &a, &b]));
    assert!(shown.starts_with("A and B differ in 3 of 4 values: wake-up latency, kernel's timer, "), "{shown}");
    let page = fs::read_to_string(page).expect("it was written");
    assert!(page.contains("A and B differ in 3 of 4 values") && page.contains("3 runs"), "{page}");
    // Nothing can be judged: the interval of one run is missing.
    let one =
        |run: &Value| sides.write(&run["started_at"].to_string().replace(['"', ':'], ""), std::slice::from_ref(run));
    let output = run(&["compare", &one(&first[0]), &one(&other[0]), "--fail-on", "worse"]);
    assert_eq!(code(&output), 3, "{}", stdout(&output));
    assert!(stdout(&output).starts_with("These two runs have no value that can be judged"), "{}", stdout(&output));
}

#[test]
fn runs_that_were_not_taken_in_turns_are_not_called_two_machines() {
    let (template, sides) = (template(), Sides::new());
    let (mut first, mut other) = three_a_side(&template, 2);
    for (at, run) in first.iter_mut().chain(&mut other).enumerate() {
        run["started_at"] = format!("2026-01-01T00:00:0{at}Z").into();
    }
    let (a, b) = (sides.write("a", &first), sides.write("b", &other));
    let shown = stdout(&run(&["compare", &a, &b]));
    assert!(shown.starts_with("The runs of A and B differ in 3 of 4 values"), "{shown}");
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("were not taken in turns"), "{shown}");
    // The order of the files does not matter, and neither does the order within a file.
    let (mut first, other) = three_a_side(&template, 2);
    first.reverse();
    assert_eq!(sides.compare(&other, &first)["in_turns"], true);
}

#[test]
fn settings_conditions_and_results_are_separate_lists() {
    let (template, sides) = (template(), Sides::new());
    let (first, mut other) = three_a_side(&template, 1);
    other[0]["thread"]["policy"] = "fifo".into();
    other[1]["interval_ns"] = 7_000_u64.into();
    other[2]["results"][0]["not_run"]["share"] = 0.25.into();
    let compared = sides.compare(&first, &other);
    assert_eq!(compared["differing"], 0, "{compared:#}");
    let names = |list: &str| {
        let rows = compared[list].as_array().expect("rows").iter();
        rows.filter_map(|row| row["setting"].as_str()).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(names("settings"), ["policy", "period"], "{compared:#}");
    assert!(names("conditions").contains(&"time without the CPU, highest share".to_owned()), "{compared:#}");
    // Figures with and without missed deadlines are different quantities.
    let (first, mut other) = three_a_side(&template, 1);
    other.iter_mut().for_each(|run| run["missed_deadlines"] = "left-out".into());
    assert_eq!(sides.compare(&first, &other)["judged"], 0);
}

#[test]
fn files_and_numbers_of_runs_that_allow_no_comparison_are_refused() {
    let (template, sides) = (template(), Sides::new());
    let (first, other) = three_a_side(&template, 1);
    let a = sides.write("a", &first);
    let whole = first[0].to_string();
    let mut probe = template;
    probe["kind"] = "capture".into();
    for (content, said) in [
        (whole.clone(), "give each side one run, or at least three"),
        (format!("{whole}{}", other[1]), "(2); give each side one run"),
        (format!("{whole}{}", &whole[..whole.len() / 2]), "it is truncated"),
        (format!("{whole} x"), "not JSON"),
        (String::new(), "the file is empty"),
        ("[1]".to_owned(), "not an hpt document"),
        (probe.to_string(), "a document of kind \"capture\" contains nothing to compare"),
        (whole.replace("\"schema\":2", "\"schema\":9"), "newer version"),
        (whole.replace("\"p50_ns\":20000", "\"p50_ns\":\"x\""), "document of kind \"latency-timer\""),
    ] {
        fs::write(sides.path("b"), &content).expect("ours");
        let output = run(&["compare", &a, sides.path("b").to_str().expect("UTF-8")]);
        assert_eq!(code(&output), 2, "{said}: {}", stdout(&output));
        assert!(stderr(&output).contains(said) && stdout(&output).is_empty(), "{said}: {}", stderr(&output));
    }
    let missing = run(&["compare", &a, "/nonexistent"]);
    assert!(code(&missing) == 2 && stderr(&missing).contains("no such file"), "{}", stderr(&missing));
}

/// Each kind of document that a command prints can be compared with another of its kind.
#[test]
fn documents_of_every_measurement_are_compared() {
    let sides = Sides::new();
    for (line, quantity) in [
        ("bench --count 200 --source monotonic", "single read, p50"),
        ("latency timer -n 20 -c 0 --by hpt", "hpt's Sleeper, p50"),
        ("latency poll -n 20 -c 0", "polling, max"),
        ("latency stall -d 50ms -c 0", "stalls, time lost"),
        ("sleep --length 100us --count 5 -c 0", "100 µs, std, p50"),
        ("watch -d 1s --interval 200ms", "frequency error against monotonic-raw"),
        ("calibrate -d 50ms", "frequency against"),
        ("probe", ""),
        ("doctor", ""),
    ] {
        let words: Vec<&str> = line.split(' ').chain(["--json"]).collect();
        let text = stdout(&run(&words));
        let write = |name: &str| {
            fs::write(sides.path(name), &text).expect("ours");
            sides.path(name).to_str().expect("UTF-8").to_owned()
        };
        let (a, b) = (write("a"), write("b"));
        let output = run(&["compare", &a, &b, "--json"]);
        assert_eq!(code(&output), 0, "{line}: {}", stderr(&output));
        let compared = json(&output);
        validate(&compared);
        assert_eq!(compared["differing"], 0, "{line}: {compared:#}");
        let rows = compared["results"].as_array().expect("rows");
        let has_it = rows.iter().any(|row| row["quantity"].as_str().is_some_and(|what| what.contains(quantity)));
        assert!(quantity.is_empty() || has_it, "{line}: no {quantity} in {compared:#}");
        assert!(Path::new(&a).exists() && stdout(&run(&["compare", &a, &b])).contains("Sides"), "{line}");
    }
}
