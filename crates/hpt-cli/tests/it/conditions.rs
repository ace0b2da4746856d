//! The conditions that a measurement records, on this machine and on one whose firmware reports throttling.

use std::{
    fs,
    process::{Command, Output},
};

use serde_json::Value;

use crate::support::{code, json, run, runner, stderr, stdout, words};

#[test]
fn every_measurement_records_its_conditions() {
    for arguments in [
        &["latency", "timer", "--count", "5"][..],
        &["latency", "poll", "--count", "5"],
        &["latency", "stall", "--duration", "20ms"],
        &["latency", "pairs", "--source", "monotonic", "--interval", "0s", "--count", "5"],
        &["sleep", "--length", "1ms", "--count", "2"],
        &["bench", "--source", "monotonic", "--count", "1000"],
    ] {
        let document = json(&run(&[arguments, &["--json"]].concat()));
        let conditions = &document["conditions"];
        assert!(conditions["readings"].as_u64() >= Some(2), "{arguments:?}: {conditions}");
        assert!(conditions["elapsed_s"].as_f64() > Some(0.0), "{arguments:?}: {conditions}");
        let cpus = conditions["cpus"].as_array().expect("a list");
        assert!(!cpus.is_empty(), "{arguments:?}: {conditions}");
        let measured = cpus.iter().map(|row| &row["cpu"]);
        assert!(!measured.clone().any(|cpu| *cpu == conditions["sampled_on_cpu"]), "{arguments:?}: {conditions}");
        if let Some(cpu) = document["results"][0]["cpu"].as_u64() {
            assert!(measured.into_iter().any(|row| *row == cpu), "{arguments:?}: {conditions}");
        }
    }
}

#[test]
fn conditions_are_shown_only_on_request() {
    let shown = |more: &[&str]| stdout(&run(&[&["sleep", "--length", "1us", "--count", "1"], more].concat()));
    assert!(!shown(&[]).contains("Conditions: ") && shown(&["-v"]).contains("Conditions: read "));
}

/// Runs hpt on a machine whose firmware reports these flags: a part of /sys is replaced in a mount namespace of its own.
/// `None` if this user may not do that.
fn on_raspberry_pi(flags: &str, arguments: &[&str]) -> Option<Output> {
    const SCRIPT: &str = r#"
        mount -t tmpfs none /sys/bus/platform/drivers || exit 99
        mkdir -p /sys/bus/platform/drivers/raspberrypi-firmware/soc:firmware || exit 99
        echo "$1" > /sys/bus/platform/drivers/raspberrypi-firmware/soc:firmware/get_throttled || exit 99
        shift
        exec "$@"
    "#;
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", SCRIPT, "sh", flags]);
    command.args(words()).args(arguments);
    let output = command.output().ok()?;
    let is_refused = output.status.code() == Some(99) || stderr(&output).contains("unshare");
    (!is_refused).then_some(output)
}

/// Returns the verdicts in a list of limits.
fn held(limits: &Value) -> Vec<Option<bool>> {
    limits.as_array().expect("a list").iter().map(|limit| limit["held"].as_bool()).collect()
}

#[test]
fn in_a_check_an_exceeded_limit_outweighs_a_spoiled_result() {
    if !runner().is_empty() {
        return skipped!("the emulator may not find its files in the namespace");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (file, xml) = (path("check.toml"), path("check.xml"));
    let line = "[[step]]\nname = \"a\"\ncommand = \"bench -n 1000 -s monotonic --strict\"\nlimits = ";
    for (limits, expected, verdicts, words, junit) in [
        (r#"["max=1ns"]"#, 1, vec![Some(false)], "limit: exceeded", [1, 0]),
        (r#"["max=1ns", "read=1h"]"#, 1, vec![Some(false), None], "limits: 1 of 2 exceeded, 1 unknown", [1, 1]),
        (r#"["read=1h"]"#, 3, vec![None], "limit: unknown", [0, 1]),
    ] {
        fs::write(&file, format!("{line}{limits}\n")).expect("ours");
        let Some(output) = on_raspberry_pi("4", &["check", &file, "--junit", &xml]) else {
            return skipped!("no mount namespace with a different /sys for this user");
        };
        assert_eq!(code(&output), expected, "{limits}: {}{}", stdout(&output), stderr(&output));
        assert!(stdout(&output).contains(words), "{limits}: {}", stdout(&output));
        let text = fs::read_to_string(&xml).expect("it was written");
        let [failures, errors] = junit;
        let count = format!("tests=\"{}\" skipped=\"0\" errors=\"{errors}\" failures=\"{failures}\"", verdicts.len());
        assert!(text.contains(&count), "{limits}: {text}");
        let document = json(&on_raspberry_pi("4", &["check", &file, "--json"]).expect("as before"));
        assert_eq!(held(&document["results"]), verdicts, "{document:#}");
        let word = if expected == 1 { "exceeded" } else { "unknown" };
        assert_eq!((&document["verdict"], &document["steps"][0]["verdict"]), (&word.into(), &word.into()));
    }
}

#[test]
fn throttling_is_a_note_and_with_strict_the_result_is_unknown() {
    if !runner().is_empty() {
        return skipped!("the emulator may not find its files in the namespace");
    }
    for arguments in [
        &["latency", "timer", "--count", "5"][..],
        &["latency", "poll", "--count", "5"],
        &["latency", "stall", "--duration", "20ms"],
        &["latency", "pairs", "--source", "monotonic", "--interval", "0s", "--count", "5"],
        &["sleep", "--length", "1us", "--count", "1"],
        &["bench", "--source", "monotonic", "--count", "1000"],
    ] {
        let notes = |document: &Value| document["notes"].to_string();
        let Some(output) = on_raspberry_pi("4", &[arguments, &["--json"]].concat()) else {
            return skipped!("no mount namespace with a different /sys for this user");
        };
        assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
        let document = json(&output);
        assert_eq!(document["conditions"]["firmware"]["throttled"], true, "{arguments:?}");
        assert!(notes(&document).contains("the firmware throttled the CPUs during the run"), "{document}");
        let strict = on_raspberry_pi("4", &[arguments, &["--json", "--strict"]].concat()).expect("as before");
        assert_eq!(code(&strict), 3, "{arguments:?}: {}", stderr(&strict));
        assert!(notes(&json(&strict)).contains("--strict: the result is unknown"), "{}", json(&strict));
        // An exceeded limit counts nevertheless, and a limit that held does not. Without a stall, nothing is exceeded.
        let limits = ["--json", "--strict", "--limit", "max=1ns,p50=1h"];
        let strict = on_raspberry_pi("4", &[arguments, &limits].concat()).expect("as before");
        let document = json(&strict);
        let expected = if document["results"][0]["stalls"] == 0 { (3, [None; 2]) } else { (1, [Some(false), None]) };
        assert_eq!(code(&strict), expected.0, "{arguments:?}: {}", stderr(&strict));
        assert_eq!(held(&document["limits"]), expected.1, "{arguments:?}: {document}");
        // It occurred before the run, but is over.
        let before = on_raspberry_pi("50000", &[arguments, &["--json"]].concat()).expect("as before");
        assert_eq!(json(&before)["conditions"]["firmware"]["throttled"], false, "{arguments:?}");
    }
}
