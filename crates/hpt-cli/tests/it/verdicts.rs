//! Limits on measurements (`--limit`), and checks with several steps (`hpt check`): exit codes, documents, and files.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

use crate::{
    schemas::validate,
    support::{
        at_a_terminal::AtATerminal,
        code, hpt, is_root, json,
        pages::project,
        run, runner, stderr, stdout,
        unsafe_calls::{ask_to_end, send},
        wait_while_running, wake_ups,
    },
};

/// Short runs of commands with limits, each with a limit on a quantity that not every command has.
const LIMITED: [(&[&str], &str); 5] = [
    (&["latency", "timer", "-n", "100", "-c", "any"], "missed=100000"),
    (&["latency", "poll", "-n", "100", "-c", "any"], "p75=1h"),
    (&["latency", "pairs", "-n", "100", "-i", "0s", "-s", "monotonic"], "mean=10s"),
    (&["sleep", "-n", "3", "-l", "100us", "--strategy", "nanosleep"], "p50=1h"),
    (&["bench", "-n", "1000", "-s", "monotonic"], "read=1s"),
];

fn with(line: &[&str], limits: &[&str]) -> Output {
    let limits = limits.iter().flat_map(|limit| ["--limit", limit]);
    run(&line.iter().copied().chain(limits).collect::<Vec<_>>())
}

fn held(output: &Output) -> Vec<Option<bool>> {
    let document = json(output);
    validate(&document);
    document["limits"].as_array().expect("a list").iter().map(|limit| limit["held"].as_bool()).collect()
}

#[test]
fn limits_decide_the_exit_code_of_every_command_that_has_them() {
    for (line, own) in LIMITED {
        let as_json = [line, &["--json"]].concat();
        let held_run = with(&as_json, &["max=1h"]);
        assert_eq!((code(&held_run), held(&held_run)), (0, vec![Some(true)]), "{line:?}: {}", stderr(&held_run));
        let exceeded = with(&as_json, &["max=1ns,p50=1h"]);
        assert_eq!((code(&exceeded), held(&exceeded)), (1, vec![Some(false), Some(true)]), "{line:?}");
        let own = with(&as_json, &[own]);
        assert_eq!(code(&own), 0, "{line:?}: {}", stdout(&own));
        for wrong in ["p50=banana", "max", "max=5", "weather=1ms", "max=1ms,"] {
            let output = with(line, &[wrong]);
            assert_eq!((code(&output), stdout(&output)), (2, String::new()), "{line:?} {wrong}");
            assert!(stderr(&output).contains("for '--limit <"), "{line:?} {wrong}: {}", stderr(&output));
        }
    }
    // A run without a stall is below the threshold of stalls.
    let stall = ["latency", "stall", "-d", "100ms", "-c", "any", "--json"];
    let output = with(&stall, &["max=1h"]);
    assert_eq!((code(&output), held(&output)), (0, vec![Some(true)]));
    let never = [&stall[..], &["--above", "50s"]].concat();
    let output = with(&never, &["max=1min", "max=1us", "p99=1h", "stalls=0"]);
    assert_eq!(code(&output), 3, "{}", stdout(&output));
    let document = json(&output);
    assert_eq!(held(&output), [Some(true), None, None, Some(true)], "{document:#}");
}

#[test]
fn a_quantile_with_too_few_samples_is_unknown_and_states_how_many_it_takes() {
    let line = ["latency", "timer", "--count", "100", "--cpu", "any"];
    let output = with(&line, &["p99.99=1h"]);
    assert_eq!(code(&output), 3);
    let text = stdout(&output);
    assert!(text.contains("\nLimit: unknown\n"), "{text}");
    // Missed deadlines are samples, too, so there may be more than 100.
    assert!(text.contains("p99.99=1h: p99.99 needs 100000 samples, and there are "), "{text}");
    let limit = json(&with(&[&line[..], &["--json"]].concat(), &["p99.99=1h"]))["limits"][0].clone();
    assert_eq!((&limit["held"], &limit["quantity"]), (&Value::Null, &json!("p99.99")));
    assert!(limit["samples"].as_u64() >= Some(100), "{limit:#}");
    // An exceeded limit outweighs an unknown one.
    assert_eq!(code(&with(&line, &["p99.99=1h,max=1ns"])), 1);
}

/// Every sentence about a limit states how many samples exceed it, whether the limit held or not, and claims no
/// confidence: late samples come in bursts, so their number is not the number of independent observations.
#[test]
fn the_verdict_on_a_limit_states_how_many_samples_exceed_it() {
    let line = ["latency", "timer", "--count", "100", "--cpu", "any"];
    let joined = |output: &Output| stdout(output).split_whitespace().collect::<Vec<_>>().join(" ");
    let held = joined(&with(&line, &["max=1h"]));
    assert!(held.contains("max=1h: none of ") && held.contains(" samples exceeds it."), "{held}");
    let exceeded = joined(&with(&line, &["max=1ns,p50=1ns"]));
    for limit in ["max=1ns", "p50=1ns"] {
        let samples = exceeded
            .split(&format!("{limit}: "))
            .nth(1)
            .and_then(|rest| rest.split(" samples exceed it, 0.000 % are within.").next());
        let [above, samples] = samples.expect(&exceeded).split(" of ").collect::<Vec<_>>().try_into().expect(&exceeded);
        assert_eq!(above, samples, "{exceeded}");
    }
    for text in [held, exceeded, joined(&run(&[&line[..], &["-v"]].concat()))] {
        assert!(!text.contains("confidence") && !text.contains("fewer than 3"), "{text}");
    }
    for (command, own) in LIMITED {
        let limits = json(&with(&[command, &["--json"]].concat(), &["max=1ns", "max=1h", own]))["limits"].clone();
        assert!(limits[0]["above"].as_u64().is_some_and(|above| above > 0), "{command:?}: {limits:#}");
        assert!(limits[0]["reason"].as_str().is_some_and(|reason| reason.contains(" exceed")), "{limits:#}");
        assert_eq!(limits[1]["above"], 0, "{command:?}: {limits:#}");
    }
}

#[test]
fn a_limit_applies_to_every_row_and_names_the_worst() {
    let output = with(&["bench", "-n", "1000", "--json", "-s", "monotonic,boottime"], &["read=1h"]);
    let document = json(&output);
    let limit = &document["limits"][0];
    let slowest = document["results"].as_array().expect("rows").iter().max_by(|one, other| {
        let cost = |row: &Value| row["per_read_ns"].as_f64().expect("a number");
        cost(one).total_cmp(&cost(other))
    });
    let slowest = slowest.expect("two rows");
    // A row whose clock takes a system call has that in its name, too.
    let worst = limit["worst_row"].as_str().expect("a name");
    assert_eq!((&limit["rows"], worst.split(" (").next()), (&json!(2), slowest["id"].as_str()), "{document:#}");
    assert_eq!(limit["seen_ns"], slowest["per_read_ns"]);
}

#[test]
fn a_warm_up_is_discarded_and_stated() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let raw = folder.path().join("samples");
    let run_with = |warm_up: &[&str]| {
        let line = ["latency", "timer", "-n", "10", "-c", "any", "--raw", raw.to_str().expect("UTF-8"), "--json"];
        let document = json(&run(&[&line[..], warm_up].concat()));
        validate(&document);
        let lines = fs::read_to_string(&raw).expect("it was written").lines().count();
        assert_eq!((wake_ups(&document["results"][0]), lines), (10, 10), "{document:#}");
        document
    };
    let without = run_with(&[]);
    assert_eq!((&without["warm_up_ns"], &without["warm_up_samples"]), (&json!(0), &json!(0)));
    let with = run_with(&["--warm-up", "20ms"]);
    assert_eq!(with["warm_up_ns"], 20_000_000);
    let discarded = with["warm_up_samples"].as_u64().expect("a number");
    // One deadline a millisecond, unless some were missed.
    assert!((1..=20).contains(&discarded), "{with:#}");
    let notes = with["notes"].as_array().expect("notes");
    let is_stated = |note: &Value| note.as_str().is_some_and(|note| note.contains("of the warm-up (20 ms)"));
    assert!(notes.iter().any(is_stated), "{with:#}");
    let stall = json(&run(&["latency", "stall", "-d", "50ms", "-c", "any", "--warm-up", "50ms", "--json"]));
    validate(&stall);
    assert_eq!(stall["warm_up_ns"], 50_000_000);
}

#[test]
fn commands_with_one_thread_warm_up_before_they_count() {
    for (line, samples, key) in [
        (&["sleep", "-n", "3", "-l", "100us,200us", "--strategy", "nanosleep"][..], 3, "samples"),
        (&["bench", "-n", "1000", "-s", "monotonic,boottime"], 1_000, "reads"),
        (&["latency", "pairs", "-n", "5", "-i", "0s,1ms", "-s", "monotonic"], 5, "samples"),
        (&["latency", "pairs", "-n", "5", "-i", "1ms", "-s", "monotonic"], 5, "samples"),
    ] {
        let with = |warm_up: &[&str]| {
            let document = json(&run(&[line, &["--json"], warm_up].concat()));
            validate(&document);
            let rows = document["results"].as_array().expect("rows");
            assert!(!rows.is_empty() && rows.iter().all(|row| row[key] == samples), "{line:?}: {document:#}");
            document
        };
        let without = with(&[]);
        assert_eq!((&without["warm_up_ns"], &without["warm_up_samples"]), (&json!(0), &json!(0)));
        let with = with(&["--warm-up", "20ms"]);
        assert_eq!(with["warm_up_ns"], 20_000_000);
        assert!(with["warm_up_samples"].as_u64() > Some(0), "{line:?}: {with:#}");
        assert!(with["notes"].to_string().contains("of the warm-up (20 ms)"), "{line:?}: {with:#}");
    }
}

#[test]
fn a_warm_up_that_is_too_short_for_a_sample_ends() {
    for line in [&["sleep", "-n", "3", "-l", "100us"][..], &["bench", "-n", "100"], &["latency", "pairs", "-n", "5"]] {
        let document = json(&run(&[line, &["--json", "--warm-up", "1us"]].concat()));
        assert_eq!(document["warm_up_ns"], 1_000, "{line:?}: {document:#}");
        assert!(document["warm_up_samples"].as_u64() > Some(0), "{line:?}: {document:#}");
    }
}

#[test]
fn a_warm_up_that_is_interrupted_has_no_result() {
    if !runner().is_empty() {
        return skipped!("the emulator stands between hpt and its signals");
    }
    for line in [&["sleep"][..], &["bench"], &["latency", "pairs"]] {
        let mut command = hpt();
        let mut running = AtATerminal::start(command.args(line).args(["--warm-up", "1day", "--json"]));
        running.wait_until_shown("it warms up", |shown| shown.contains("warm-up"));
        running.interrupt();
        let output = running.output();
        assert_eq!(code(&output), 130, "{line:?}: {}", stderr(&output));
        let document: Value = serde_json::from_str(&stdout(&output)).expect("a document");
        validate(&document);
        assert_eq!((&document["interrupted"], &document["results"]), (&json!(true), &json!([])), "{line:?}");
    }
}

#[test]
fn sigusr1_prints_the_result_so_far_on_standard_error() {
    if !runner().is_empty() {
        return skipped!("the emulator stands between hpt and its signals");
    }
    for line in [
        &["latency", "timer", "--duration", "1day", "--cpu", "any"][..],
        &["latency", "poll", "--duration", "1day", "--cpu", "any"],
        // A pinned thread leaves a CPU for answers, if there are two.
        &["latency", "stall", "--duration", "1day"],
        &["latency", "pairs", "--interval", "0s,1ms/2ms", "--count", "100000000", "--cpu", "any"],
        &["sleep", "--length", "1ms", "--count", "100000000", "--cpu", "any"],
        // There is a result as soon as the first source is complete.
        &["bench", "--source", "monotonic,boottime,tai,realtime,monotonic-raw", "--count", "5e7", "--cpu", "any"],
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let said = folder.path().join("said");
        let mut command = hpt();
        command.args(line).arg("--json");
        let file = fs::File::create(&said).expect("ours");
        let mut child = command.stdout(Stdio::piped()).stderr(file).spawn().expect("the binary was built");
        // Before hpt listens, SIGUSR1 would end it.
        let status = format!("/proc/{}/status", child.id());
        wait_while_running(&mut child, "it listens", || {
            let status = fs::read_to_string(&status).unwrap_or_default();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
            u64::from_str_radix(caught.trim(), 16).is_ok_and(|mask| mask & (1 << (libc::SIGUSR1 - 1)) != 0)
        });
        let so_far = || -> Option<Value> {
            let text = fs::read_to_string(&said).expect("ours");
            text.lines().find_map(|line| serde_json::from_str(line).ok())
        };
        let id = child.id();
        wait_while_running(&mut child, "it prints the result", || {
            send(id, libc::SIGUSR1);
            so_far().is_some()
        });
        ask_to_end(child.id());
        let output = child.wait_with_output().expect("a child");
        let early = so_far().expect("it was printed");
        validate(&early);
        let is_marked = |note: &Value| note.as_str().is_some_and(|note| note.contains("the result so far (SIGUSR1)"));
        assert!(early["notes"].as_array().is_some_and(|notes| notes.iter().any(is_marked)), "{early:#}");
        assert_eq!(early["interrupted"], false);
        // Standard output is one document: that of the end.
        let document: Value = serde_json::from_str(&stdout(&output)).expect("one document");
        validate(&document);
        assert_eq!(document["interrupted"], true);
    }
}

/// A file of a check with one step for each exit code of a measurement.
fn check_file(folder: &Path, steps: &[(&str, &str)]) -> String {
    let step = |(name, limits): &(&str, &str)| {
        format!("[[step]]\nname = \"{name}\"\ncommand = \"latency timer -n 100 -c any\"\nlimits = [\"{limits}\"]\n")
    };
    let path = folder.join("check.toml");
    fs::write(&path, steps.iter().map(step).collect::<String>()).expect("ours");
    path.to_str().expect("UTF-8").to_owned()
}

const HELD: (&str, &str) = ("held", "max=1h");
const EXCEEDED: (&str, &str) = ("exceeded", "max=1ns");
const UNKNOWN: (&str, &str) = ("unknown", "p99.99=1h");
const WRONG: (&str, &str) = ("wrong", "p50=banana");

#[test]
fn a_check_exits_by_its_worst_step() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (steps, expected) in [
        (&[HELD][..], 0),
        (&[EXCEEDED], 1),
        (&[UNKNOWN], 3),
        (&[HELD, UNKNOWN], 3),
        (&[HELD, EXCEEDED, UNKNOWN], 1),
        (&[HELD, EXCEEDED, UNKNOWN, WRONG], 2),
    ] {
        let file = check_file(folder.path(), steps);
        let output = run(&["check", &file]);
        assert_eq!(code(&output), expected, "{steps:?}: {}{}", stdout(&output), stderr(&output));
        if expected == 2 {
            assert_eq!(stdout(&output), "");
            assert!(stderr(&output).contains("step \"wrong\": invalid value 'p50=banana'"), "{}", stderr(&output));
            continue;
        }
        for (name, _) in steps {
            assert!(stdout(&output).contains(&format!("\n{name} ")), "{}", stdout(&output));
        }
        let document = json(&run(&["check", &file, "--json"]));
        validate(&document);
        assert_eq!(document["results"].as_array().map(Vec::len), Some(steps.len()));
        for step in document["steps"].as_array().expect("steps") {
            validate(&step["document"]);
        }
    }
    let file = check_file(folder.path(), &[HELD, EXCEEDED]);
    assert_eq!(code(&run(&["check", &file, "--step", "held"])), 0);
    assert_eq!(code(&run(&["check", &file, "--step", "absent"])), 2);
}

#[test]
fn a_wrong_check_file_is_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("check.toml");
    let file = path.to_str().expect("UTF-8");
    let step = |command: &str| format!("[[step]]\nname = \"a\"\ncommand = \"{command}\"\n");
    for (text, why) in [
        (String::new(), "it has no [[step]]"),
        ("[[step]]\nname = \"a\"\n".to_owned(), "line 1: missing field `command`"),
        (step("latency timer"), "step \"a\" has no limits, so it could not fail"),
        (step("probe"), "step \"a\": hpt probe has no limits"),
        (step("latency gpio --list"), "step \"a\": hpt latency has no limits"),
        (step("rm -rf /"), "step \"a\": unrecognized subcommand 'rm'"),
        (step("bench --json --limit read=1s"), "options for the output belong to hpt check itself"),
        (step("bench --svg a.svg --limit read=1s"), "step \"a\": a step writes no files"),
        (step("latency timer --raw=a --limit max=1s"), "step \"a\": a step writes no files"),
        (step("check"), "step \"a\": unrecognized subcommand 'check'; a step is bench, sleep"),
    ] {
        fs::write(&path, &text).expect("ours");
        let output = run(&["check", file]);
        assert_eq!((code(&output), stdout(&output)), (2, String::new()), "{text}");
        assert!(stderr(&output).contains(why), "{text}: {}", stderr(&output));
    }
    let absent = run(&["check", "/nonexistent.toml"]);
    assert_eq!(code(&absent), 2);
    assert!(stderr(&absent).contains("hpt: hint: `hpt check --init /nonexistent.toml`"), "{}", stderr(&absent));
    fs::write(&path, step("bench -n 10 -s monotonic --limit read=1h")).expect("ours");
    assert_eq!(code(&run(&["check", file, "--junit", "/nonexistent/check.xml"])), 2);
}

#[test]
fn a_step_that_cannot_be_measured_is_unknown_and_the_others_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("check.toml");
    let text = "[[step]]\nname = \"none\"\ncommand = \"bench -n 1 -s pit --limit read=1s\"\n\
                [[step]]\nname = \"some\"\ncommand = \"bench -n 10 -s monotonic --limit read=1h\"\n";
    fs::write(&path, text).expect("ours");
    let output = run(&["check", path.to_str().expect("UTF-8"), "--json"]);
    assert_eq!(code(&output), 3);
    let document = json(&output);
    validate(&document);
    let states: Vec<&Value> = document["steps"].as_array().expect("steps").iter().map(|step| &step["state"]).collect();
    assert_eq!(states, ["failed", "measured"], "{document:#}");
    assert!(document["steps"][0]["reason"].as_str().is_some_and(|why| why.contains("pit")), "{document:#}");
}

#[test]
fn an_interrupted_check_prints_and_saves_what_it_measured() {
    if !runner().is_empty() {
        return skipped!("the emulator stands between hpt and its signals");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (path, junit) = (folder.path().join("check.toml"), folder.path().join("check.xml"));
    let text = "[[step]]\nname = \"short\"\ncommand = \"bench -n 10 -s monotonic --limit read=1h\"\n\
                [[step]]\nname = \"long\"\ncommand = \"latency timer -c any -d 1day --limit max=1h\"\n\
                [[step]]\nname = \"later\"\ncommand = \"bench -n 10 -s monotonic --limit read=1h\"\n";
    fs::write(&path, text).expect("ours");
    let mut command = hpt();
    command.arg("check").arg(&path).arg("--junit").arg(&junit).arg("--json");
    let mut running = AtATerminal::start(&mut command);
    running.wait_until_shown("the second step runs", |shown| shown.contains("wake-ups"));
    running.interrupt();
    let output = running.output();
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    let document: Value = serde_json::from_str(&stdout(&output)).expect("the result");
    validate(&document);
    let states: Vec<&Value> = document["steps"].as_array().expect("steps").iter().map(|step| &step["state"]).collect();
    assert_eq!(states, ["measured", "interrupted", "not-started"], "{document:#}");
    assert_eq!(document["interrupted"], true);
    let xml = fs::read_to_string(&junit).expect("it was written");
    assert!(xml.contains("the check was interrupted") && !xml.contains("<skipped"), "{xml}");
}

#[test]
fn the_first_check_is_written_from_what_the_machine_does_and_then_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("mine.toml");
    let file = path.to_str().expect("UTF-8");
    let output = run(&["check", "--init", file, "--headroom", "1000", "--rounds", "2", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document = json(&output);
    validate(&document);
    for row in document["results"].as_array().expect("rows") {
        let (limit, seen) = (row["limit_ns"].as_f64().expect("a time"), row["seen_ns"].as_f64().expect("a time"));
        assert!(limit >= seen, "{row:#}");
    }
    let text = fs::read_to_string(&path).expect("it was written");
    assert!(
        text.contains("[[step]]\nname = \"read\"\ncommand = \"bench --source monotonic\"\nlimits = [\"read="),
        "{text}"
    );
    let again = run(&["check", "--init", file]);
    assert_eq!(code(&again), 2, "{}", stdout(&again));
    assert!(stderr(&again).contains("exists; replace it with --force"), "{}", stderr(&again));
    assert_eq!(code(&run(&["check", file, "--step", "read"])), 0);
}

#[test]
fn files_of_a_check_do_not_follow_links_of_another_user() {
    if !is_root() {
        return skipped!("only root is refused to follow links of other users");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious").expect("ours");
    let file = check_file(folder.path(), &[HELD]);
    let link = folder.path().join("link.xml");
    symlink(&victim, &link).expect("ours");
    let given = Command::new("chown").args(["-h", "65534:65534"]).arg(&link).status().expect("chown");
    assert!(given.success());
    let output = run(&["check", &file, "--junit", link.to_str().expect("UTF-8")]);
    assert_ne!(code(&output), 0, "{}", stdout(&output));
    // --init replaces the link itself, if at all.
    assert_eq!(code(&run(&["check", "--init", link.to_str().expect("UTF-8")])), 2);
    assert_eq!(fs::read_to_string(&victim).expect("ours"), "precious");
}

/// Returns the files for `hpt check` that the packages contain.
fn shipped() -> Vec<PathBuf> {
    let entries = fs::read_dir(project().join("dist/check")).expect("it is there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.sort();
    files
}

#[test]
fn the_shipped_checks_are_valid() {
    assert_eq!(shipped().len(), 3);
    for path in shipped() {
        // A wrong name is found only after all command lines of the file were read.
        let output = run(&["check", path.to_str().expect("UTF-8"), "--step", "absent"]);
        assert_eq!(code(&output), 2);
        assert!(stderr(&output).contains("it has no step \"absent\""), "{}: {}", path.display(), stderr(&output));
    }
}

/// Returns the JUnit XML of a check with a step for each verdict.
fn junit(folder: &Path) -> PathBuf {
    let file = check_file(folder, &[HELD, EXCEEDED, UNKNOWN]);
    let path = folder.join("check.xml");
    assert_eq!(code(&run(&["check", &file, "--junit", path.to_str().expect("UTF-8")])), 1);
    path
}

#[test]
fn junitparser_reads_the_verdicts() {
    let python = std::env::var("HPT_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = |module: &str| Command::new(&python).args(["-c", module]).stderr(Stdio::null()).status();
    if !has("import junitparser").is_ok_and(|status| status.success()) {
        return skipped!(
            "{python} has no junitparser; `pip install junitparser`, and set HPT_TEST_PYTHON to its python"
        );
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = "import sys, junitparser
xml = junitparser.JUnitXml.fromfile(sys.argv[1])
print(xml.tests, xml.failures, xml.errors, xml.skipped)
for suite in xml:
    for case in suite:
        print(suite.name, case.name, *[type(result).__name__ for result in case.result])";
    let output = Command::new(&python).args(["-c", script]).arg(junit(folder.path())).output().expect("it is there");
    let expected = "3 1 1 0\nheld max=1h\nexceeded max=1ns Failure\nunknown p99.99=1h Error\n";
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed.replace("None", "0"), expected, "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_verdicts_are_valid_junit() {
    // The schema of the Jenkins plug-in xunit (junit-10.xsd). No package contains it.
    let Some(schema) = std::env::var_os("HPT_JUNIT_SCHEMA") else {
        return skipped!("HPT_JUNIT_SCHEMA does not name junit-10.xsd, the schema of the Jenkins plug-in xunit");
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let python = std::env::var("HPT_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = "import sys
from lxml import etree
schema = etree.XMLSchema(etree.parse(sys.argv[1]))
schema.assertValid(etree.parse(sys.argv[2]))";
    let output = Command::new(&python).args(["-c", script]).arg(schema).arg(junit(folder.path())).output();
    let output = output.expect("python is there");
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("No module named 'lxml'") {
        return skipped!("{python} has no lxml");
    }
    assert!(output.status.success(), "{said}");
}

#[test]
fn a_check_file_that_is_a_device_is_refused() {
    let output = run(&["check", "/dev/zero"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("it is not a regular file"), "{}", stderr(&output));
}
