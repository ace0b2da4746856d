//! Conventions of the command line: exit codes, signals, help that fits a screen, colors, quiet and
//! verbose.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::support::{
    at_a_terminal::AtATerminal, code, commands, host, hpt, is_root, json, run, runner, stderr, stdout,
    unsafe_calls::send, words,
};

/// The measuring commands, each with a run that does not end by itself in this test. Only the doctor
/// has no such run: it takes about five seconds.
const MEASURING: [&[&str]; 13] = [
    &["read", "monotonic", "--interval", "1s", "--count", "100000"],
    &["bench", "--count", "4e9", "--source", "monotonic"],
    &["calibrate", "--duration", "1day", "--source", "boottime"],
    &["sleep", "--length", "10ms", "--count", "1000000", "--strategy", "nanosleep"],
    &["latency", "timer", "--cpu", "any", "--duration", "1day"],
    &["latency", "timer", "--by", "hpt", "--cpu", "any", "--duration", "1day"],
    &["latency", "poll", "--cpu", "any", "--interval", "20ms", "--duration", "1day"],
    &["latency", "stall", "--cpu", "any", "--duration", "1day"],
    &["latency", "pairs", "--interval", "10ms", "--count", "4000000"],
    &["watch", "--duration", "1day", "--no-compare-cpus", "--cpu", "any"],
    &["watch", "--no-compare-cpus", "--cpu", "any"],
    &["experiment", "pairs"],
    &["doctor", "--measure"],
];

#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn exit_codes_distinguish_yes_no_wrong_usage_and_unknown() {
    let captured = host("amd-epyc-zen3-kvm");
    let captured = captured.as_str();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let empty = folder.path().to_str().expect("UTF-8");
    let check = |limit: &str| {
        let path = folder.path().join(format!("{limit}.toml"));
        let step = format!("[[step]]\nname = \"a\"\ncommand = \"latency timer -n 9 -c any\"\nlimits = [\"{limit}\"]\n");
        std::fs::write(&path, step).expect("ours");
        path.to_str().expect("UTF-8").to_owned()
    };
    let [held, exceeded, unknown] = ["max=1h", "max=1ns", "p99=1h"].map(check);
    let table: [(&[&str], i32); 67] = [
        // Success, or a positive answer.
        (&[], 0),
        (&["--help"], 0),
        (&["-V"], 0),
        (&["help", "latency"], 0),
        (&["probe"], 0),
        (&["probe", "monotonic"], 0),
        (&["probe", "--json", "-q"], 0),
        (&["read", "monotonic", "boottime", "-n", "2"], 0),
        (&["bench", "-n", "100", "-s", "monotonic"], 0),
        (&["calibrate", "-d", "5ms", "-s", "boottime"], 0),
        (&["sleep", "-n", "1", "-l", "100us"], 0),
        (&["latency", "timer", "-n", "3", "-c", "any"], 0),
        (&["latency", "pairs", "-n", "3", "-i", "0s", "-s", "monotonic"], 0),
        (&["schema"], 0),
        (&["schema", "probe"], 0),
        (&["completions", "bash"], 0),
        (&["experiment"], 0),
        (&["doctor", "--host", captured], 0),
        (&["doctor", "--host", captured, "--for", "realtime"], 0),
        (&["restore", "--list", "--journal", empty], 0),
        (&["clocksource", "--host", captured], 0),
        (&["latency", "timer", "-n", "3", "-c", "any", "--limit", "max=1h"], 0),
        (&["latency", "pairs", "-n", "3", "-i", "0s", "-s", "monotonic", "--limit", "max=1h"], 0),
        (&["sleep", "-n", "1", "-l", "100us", "--limit", "p50=1h"], 0),
        (&["bench", "-n", "100", "-s", "monotonic", "--limit", "read=1h"], 0),
        (&["check", &held], 0),
        // A negative answer.
        (&["latency", "timer", "-n", "3", "-c", "any", "--limit", "max=1ns"], 1),
        (&["sleep", "-n", "1", "-l", "100us", "--strategy", "nanosleep", "--limit", "max=1ns"], 1),
        (&["check", &exceeded], 1),
        (&["probe", "--host", captured, "arm-counter"], 1),
        (&["doctor", "--host", captured, "--for", "realtime", "--fail-on", "low"], 1),
        (&["latency", "timer", "-d", "1h", "-c", "any", "--stop-above", "1us"], 1),
        (&["run", "--", "false"], 1),
        // A usage error.
        (&["prob"], 2),
        (&["probe", "tcs"], 2),
        (&["probe", "--no-such-option"], 2),
        (&["probe", "--json", "--format", "csv"], 2),
        (&["probe", "-q", "-v"], 2),
        (&["probe", "--color", "sometimes"], 2),
        (&["probe", "--host", "/nonexistent"], 2),
        (&["read", "tcs"], 2),
        (&["bench", "--count", "0"], 2),
        (&["bench", "--cpu", "99999"], 2),
        (&["bench", "--format", "openmetrics"], 2),
        (&["calibrate", "--duration", "0s"], 2),
        (&["latency", "timer", "-P", "f:0"], 2),
        (&["latency", "timer", "--raw", "/nonexistent/samples"], 2),
        (&["latency", "pairs", "--raw", "/nonexistent/samples"], 2),
        (&["report", "--from", "/nonexistent.json"], 2),
        (&["schema", "weather"], 2),
        (&["latency", "timer", "--limit", "p50=banana"], 2),
        (&["latency", "pairs", "--limit", "missed=0"], 2),
        (&["bench", "--limit", "p99.99=1us"], 2),
        (&["check", "/nonexistent.toml"], 2),
        (&["check", "--headroom", "2"], 2),
        (&["check", captured], 2),
        (&["calibrate", "--source", "monotonic", "--reference", "monotonic"], 2),
        (&["report", "--output", "-"], 2),
        (&["--textfile", "hpt.prom"], 2),
        // No.
        (&["calibrate", "--saved", "--state-dir", empty], 1),
        // Unknown: it could not be measured or does not exist.
        (&["latency", "timer", "-n", "100", "-c", "any", "--limit", "p99.99=1h"], 3),
        (&["check", &unknown], 3),
        (&["calibrate", "-d", "5ms", "-s", "thread-cpu"], 3),
        (&["bench", "-n", "1", "-s", "pit"], 3),
        (&["read", "pit"], 3),
        // The exit codes of hpt run itself.
        (&["run", "--cpu", "99999", "--", "true"], 125),
        (&["run", "--", "/nonexistent"], 127),
    ];
    for (arguments, expected) in table {
        let output = run(arguments);
        assert_eq!(code(&output), expected, "{arguments:?}: {}", stderr(&output));
        let said = stderr(&output);
        // A rejected command prints an error and no result.
        if expected == 2 {
            assert!(said.starts_with("hpt: error: ") && stdout(&output).is_empty(), "{arguments:?}: {said}");
        }
        assert!(!said.contains("os error") && !said.contains("panicked"), "{arguments:?}: {said}");
    }
}

#[test]
fn every_run_ended_by_a_signal_prints_its_result_and_reports_the_signal() {
    if !runner().is_empty() {
        return skipped!("the emulator stands between hpt and its signals");
    }
    for arguments in MEASURING {
        let is_endless = arguments[0] == "watch" && !arguments.contains(&"--duration");
        for (signal, number) in [("SIGINT", libc::SIGINT), ("SIGTERM", libc::SIGTERM), ("SIGHUP", libc::SIGHUP)] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let mut command = hpt();
            command.args(arguments).arg("--json").env("XDG_STATE_HOME", folder.path());
            let mut running = AtATerminal::start(&mut command);
            // The doctor ends by itself after some seconds, for which this thread may have to wait for a
            // CPU. Its bar may stay at zero on a machine with one CPU.
            let mut is_late = false;
            if arguments[0] == "doctor" {
                running.wait_until_shown("it polls", |shown| shown.contains("polling"));
                let lines = running.stop();
                is_late = lines.is_none_or(|lines| !lines.iter().any(|line| line.contains(" % ")));
            } else {
                while !running.has_something_to_say() {
                    assert!(!running.has_ended(), "{arguments:?}");
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
            }
            if !running.has_ended() {
                send(running.id(), number);
                running.go_on();
            }
            let output = running.output();
            if is_late {
                skipped!("{signal} to {arguments:?}: it had measured before this thread ran again");
                continue;
            }
            let expected = if is_endless { 0 } else { 128 + number };
            assert_eq!(code(&output), expected, "{signal} to {arguments:?}: {}", stderr(&output));
            // The last of several documents has the result.
            let text = stdout(&output);
            let last = if text.starts_with("{\n") { text.as_str() } else { text.lines().last().unwrap_or_default() };
            let document: Value =
                serde_json::from_str(last).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"));
            assert_eq!(document["interrupted"], true, "{arguments:?}");
        }
    }
}

#[test]
fn under_nohup_a_hang_up_does_not_end_the_run() {
    if !runner().is_empty() {
        return skipped!("the emulator stands between hpt and its signals");
    }
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).args(words());
    command.args(["watch", "--interval", "100ms", "--json"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = command.spawn().expect("a shell");
    let mut lines = BufReader::new(running.stdout.take().expect("it is a pipe")).lines();
    let mut has_line = || lines.next().is_some_and(|line| line.is_ok());
    // The handlers are installed before the first interval.
    assert!(has_line());
    send(running.id(), libc::SIGHUP);
    // The interval that was running may have ended already.
    assert!((0..3).all(|_| has_line()), "it goes on");
    send(running.id(), libc::SIGTERM);
    let _rest = lines.count();
    running.wait().expect("it is ours");
}

#[test]
fn a_cpu_is_refused_before_a_progress_bar_is_drawn() {
    for mode in ["timer", "poll", "stall"] {
        let running = AtATerminal::start(hpt().args(["latency", mode, "--cpu", "0,99999", "--color", "never"]));
        let output = running.output();
        let said = stderr(&output);
        assert!(
            said.starts_with("hpt: error: no such CPU: 99999 (present: ") && !said.contains(" %"),
            "{mode}: {said}"
        );
        assert_eq!(code(&output), 2);
    }
}

#[test]
fn several_cpus_can_be_a_range() {
    let usable: Vec<u64> = json(&run(&["latency", "timer", "-n", "1", "-c", "all", "--json"]))["results"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| row["cpu"].as_u64().expect("a number"))
        .collect();
    let (first, last) = (usable[0], usable[usable.len() - 1]);
    if last - first + 1 != usable.len() as u64 {
        return skipped!("the usable CPUs are not a range: {usable:?}");
    }
    let range = json(&run(&["latency", "timer", "-n", "1", "-c", &format!("{first}-{last}"), "--json"]));
    assert_eq!(range["results"].as_array().map(Vec::len), Some(usable.len()));
}

#[test]
fn back_to_back_pairs_end_at_once() {
    if !runner().is_empty() {
        return skipped!("the emulator stands between hpt and its signals");
    }
    let mut running = AtATerminal::start(hpt().args(["experiment", "pairs", "--count", "1e12", "--json"]));
    // The run takes decades, so the bar stays at zero.
    running.wait_until_shown("the bar was drawn twice", |shown| shown.matches(" %").count() > 1);
    running.interrupt();
    let output = running.output();
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    let document: Value = serde_json::from_str(&stdout(&output)).expect("the result");
    assert_eq!(document["interrupted"], true);
}

#[test]
fn the_short_help_of_every_command_fits_a_terminal() {
    for words in commands().iter().filter(|words| !words.is_empty()) {
        let output = run(&[&words.iter().map(String::as_str).collect::<Vec<_>>()[..], &["-h"]].concat());
        let text = stdout(&output);
        assert_eq!(code(&output), 0, "{words:?}");
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(
            text.lines().count() <= 24 && widest <= 80,
            "{words:?}: {} lines, {widest} columns",
            text.lines().count()
        );
    }
    let overview = run(&[]);
    let text = stdout(&overview);
    assert!(text.contains("\n  hpt latency timer  measure"), "a command stands apart from its explanation: {text}");
    assert!(text.lines().count() <= 24 && text.contains("hpt doctor"), "{text}");
}

#[test]
fn each_kind_has_a_schema() {
    for kind in stdout(&run(&["schema"])).lines() {
        assert_eq!(
            stdout(&run(&["schema", kind])),
            hpt_document::schema::of(kind).expect("every kind has one"),
            "{kind}"
        );
    }
}

#[test]
fn colors_follow_the_option_and_the_environment() {
    let colored = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = hpt();
        command.args(arguments).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        let output = command.envs(variables.iter().copied()).output().expect("the binary was built");
        (stdout(&output).contains('\u{1b}'), stderr(&output).contains('\u{1b}'))
    };
    let explain = ["probe", "monotonic"];
    assert_eq!(colored(&explain, &[]), (false, false));
    assert_eq!(colored(&[&explain[..], &["--color", "always"]].concat(), &[("NO_COLOR", "1")]), (true, false));
    assert_eq!(colored(&explain, &[("CLICOLOR_FORCE", "1")]), (true, false));
    assert_eq!(colored(&explain, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]), (false, false));
    assert_eq!(colored(&["probe", "tcs", "--color=always"], &[]), (false, true));
    assert_eq!(colored(&["probe", "--nonsense", "--color=always"], &[]), (false, true));
    assert!(colored(&["probe", "--help", "--color=always"], &[]).0);
}

#[test]
fn quiet_prints_only_the_result_and_verbose_reports_the_steps() {
    let line = ["bench", "--count", "10", "--source", "monotonic"];
    let said = |more: &[&str]| stderr(&run(&[&line[..], more].concat()));
    assert_eq!(said(&["--quiet"]), "");
    assert!(said(&["--verbose"]).contains("hpt: opened monotonic (read path: "), "{}", said(&["--verbose"]));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let capture = |name: &str, more: &[&str]| {
        let path = folder.path().join(name);
        stderr(&run(&[&["capture", path.to_str().expect("UTF-8")][..], more].concat()))
    };
    assert_eq!((capture("a", &["-q"]).as_str(), is_root()), ("", is_root()));
}
