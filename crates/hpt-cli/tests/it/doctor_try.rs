//! `hpt doctor --try`: what it refuses before it changes anything.

use crate::support::{code, run, stderr};

#[test]
fn a_wrong_measurement_is_refused_before_anything_is_changed() {
    for (with, why) in [
        ("latency tmer", "unrecognized subcommand"),
        ("latency timer --raw x", "writes no files"),
        ("doctor", "hpt doctor has no limits"),
        ("", "--with"),
        ("latency timer --no-throttling", "omit it"),
    ] {
        let output = run(&["doctor", "--try", "--yes", "--with", with]);
        assert_eq!(code(&output), 2, "{with}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{with}: {}", stderr(&output));
    }
}

#[test]
fn options_that_do_not_fit_are_refused() {
    for words in [
        &["doctor", "--keep"][..],
        &["doctor", "--yes"],
        &["doctor", "--try", "--measure"],
        &["doctor", "--try", "--fail-on", "high"],
        &["doctor", "--try", "--force"],
        &["doctor", "--try", "--figure", "missed"],
        &["doctor", "--try", "--format", "openmetrics"],
        &["doctor", "--try", "--cpu", "9999"],
    ] {
        let output = run(words);
        assert_eq!(code(&output), 2, "{words:?}: {}", stderr(&output));
    }
}

#[test]
fn without_root_or_a_terminal_nothing_is_tried() {
    // The goal has no problem with a fix at run time, so root changes nothing either.
    let output = run(&["doctor", "--try", "--for", "general"]);
    let is_root = !stderr(&output).contains("requires root");
    assert_eq!(code(&output), if is_root { 0 } else { 3 }, "{}", stderr(&output));
    let output = run(&["doctor", "--try"]);
    let text = stderr(&output);
    let is_explained = [
        // A machine on which no fix can be applied, and one that has none to try, need no confirmation.
        code(&output) == 3 || code(&output) == 0,
        code(&output) == 2 && text.contains("use --yes to confirm"),
    ];
    assert!(is_explained.contains(&true), "{}: {text}", code(&output));
}
