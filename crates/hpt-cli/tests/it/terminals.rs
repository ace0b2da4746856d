//! Output on a terminal: narrow terminals, progress, and Ctrl-C.

use hpt_realtime::allowed_cpus;

use crate::support::{
    at_a_terminal::{AtATerminal, screen},
    code, host, hpt, runner, stderr, stdout,
};

/// Returns the numbers of a text, in order.
fn numbers(text: &str) -> Vec<String> {
    let words = text.split_whitespace().map(|word| word.trim_matches(|letter| "()[],.;:".contains(letter)));
    let mut numbers: Vec<String> =
        words.filter(|word| word.starts_with(|first: char| first.is_ascii_digit())).map(str::to_owned).collect();
    numbers.sort();
    numbers
}

#[test]
fn no_number_is_broken_on_a_narrow_terminal() {
    let machines = ["amd-epyc-zen3-kvm", "derived-raspberry-pi-4-untuned", "qemu-q35", "derived-tsc-dropped"];
    for machine in machines.map(host) {
        for arguments in [&["probe"][..], &["probe", "tsc"], &["clocksource"], &["doctor"]] {
            let shown = |columns: u16| {
                let mut command = hpt();
                command.args(arguments).args(["--host", &machine, "--color", "never"]);
                stderr(&AtATerminal::start_with_output(columns, &mut command).output())
            };
            let wide = numbers(&shown(400));
            for columns in [40, 60] {
                let text = shown(columns);
                let narrow = numbers(&text);
                let count = |list: &[String], number: &String| list.iter().filter(|one| *one == number).count();
                let broken: Vec<_> = wide.iter().filter(|one| count(&narrow, one) < count(&wide, one)).collect();
                assert!(broken.is_empty(), "{arguments:?} at {columns} columns: {broken:?}\n{text}");
            }
        }
    }
}

#[test]
fn a_progress_bar_is_erased_after_ctrl_c() {
    if !runner().is_empty() {
        return skipped!("the emulator stands between hpt and its signals");
    }
    for arguments in [
        &["latency", "timer", "--duration", "1h"][..],
        &["sleep", "--length", "100ms", "--count", "100000"],
        &["calibrate", "--duration", "1h"],
    ] {
        let mut running = AtATerminal::start_with_output(80, hpt().args(arguments).args(["--color", "never"]));
        running.wait_until_shown("the bar is drawn", |shown| shown.contains(" % "));
        running.press_ctrl_c();
        let output = running.output();
        assert_eq!(code(&output), 130);
        let lines = screen(&stderr(&output), 80);
        // The bars of a histogram consist of full blocks, but only a progress bar has a part that is not done.
        let shows_a_bar = |line: &&String| line.contains('\u{2591}');
        assert_eq!(lines.iter().find(shows_a_bar), None, "{arguments:?}: {lines:#?}");
        assert!(!lines.iter().any(|line| line.contains("^C")), "{arguments:?}: {lines:#?}");
        assert!(lines[0].len() > 2, "the result begins at the top, {arguments:?}: {lines:#?}");
    }
}

#[test]
fn a_run_shows_a_line_per_cpu_that_is_updated_and_then_erased() {
    if !runner().is_empty() {
        return skipped!("the emulator stands between hpt and its signals");
    }
    let cpus = allowed_cpus();
    let [_, .., last] = cpus.as_slice() else {
        return skipped!("there is no CPU that is not measured");
    };
    let cpu = last.to_string();
    for mode in ["timer", "poll", "stall"] {
        let arguments = ["latency", mode, "--duration", "1h", "--cpu", &cpu, "--color", "never"];
        let mut running = AtATerminal::start_with_output(80, hpt().args(arguments));
        let line = format!("CPU {cpu}  n ");
        let counts = |shown: &str| {
            let after = shown.split(&line).skip(1).filter_map(|rest| rest.split_whitespace().next()?.parse().ok());
            let mut counts: Vec<u64> = after.collect();
            counts.dedup();
            counts
        };
        // On an idle CPU, the number of stalls may not increase for a long time.
        let is_updated =
            |shown: &str| if mode == "stall" { shown.matches(&line).count() > 2 } else { counts(shown).len() > 2 };
        running.wait_until_shown("the line is updated", is_updated);
        running.press_ctrl_c();
        let output = running.output();
        let text = stderr(&output);
        assert!(counts(&text).is_sorted(), "{text}");
        for part in ["  last ", "  p50 ", "  p99 ", "  max "] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let lines = screen(&text, 80);
        assert!(!lines.iter().any(|shown| shown.contains(&line)), "{lines:#?}");
    }
}

#[test]
fn no_line_is_shown_if_every_cpu_is_measured_or_in_a_pipe() {
    for mode in ["timer", "stall"] {
        let line = ["latency", mode, "--duration", "2500ms", "--color", "never"];
        for cpu in ["all", "any"] {
            let shown = stderr(&AtATerminal::start(hpt().args(line).args(["--cpu", cpu])).output());
            assert!(shown.contains(" % ") && !shown.contains("  n "), "{mode}: {shown}");
        }
        let output = hpt().args(line).output().expect("the binary was built");
        assert!(!stderr(&output).contains("  n ") && !stdout(&output).contains("  n "), "{mode}: {}", stderr(&output));
    }
}

#[test]
fn ctrl_c_does_not_shift_the_last_rows_of_a_watch() {
    if !runner().is_empty() {
        return skipped!("the emulator stands between hpt and its signals");
    }
    let arguments = ["watch", "--source", "monotonic", "--interval", "300ms", "--color", "never"];
    let mut running = AtATerminal::start_with_output(80, hpt().args(arguments));
    running.wait_until_shown("an interval is printed", |shown| shown.matches("monotonic").count() > 1);
    running.press_ctrl_c();
    let output = running.output();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let lines = screen(&stderr(&output), 80);
    assert!(!lines.iter().any(|line| line.contains("^C")), "{lines:#?}");
    let ends: Vec<usize> =
        lines.iter().filter_map(|line| line.find(" monotonic ").filter(|_| line.contains(" s "))).collect();
    assert!(ends.len() > 1 && ends.iter().all(|end| *end == ends[0]), "{lines:#?}");
}

#[test]
fn a_watch_redraws_one_table_and_erases_it_at_the_end() {
    if !runner().is_empty() {
        return skipped!("the emulator stands between hpt and its signals");
    }
    for columns in [40, 80] {
        let arguments = ["watch", "--source", "monotonic,boottime", "--interval", "100ms", "--no-compare-cpus"];
        let mut command = hpt();
        command.args(arguments).env_remove("NO_COLOR");
        let mut running = AtATerminal::start_with_output(columns, &mut command);
        let mut seen = String::new();
        running.wait_until_shown("the table was drawn some times", |shown| {
            let drawn = shown.rfind("so far").map_or("", |end| &shown[..end]);
            drawn.clone_into(&mut seen);
            shown.matches("so far").count() > 5
        });
        let lines = screen(&seen, columns.into());
        let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
        assert_eq!([count("offset"), count("monotonic"), count("boottime")], [1; 3], "{columns}: {lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() < usize::from(columns) - 2), "{columns}: {lines:#?}");
        let end = |name: &str| lines.iter().find(|line| line.starts_with(name)).map(|line| line.chars().count());
        assert_eq!(end("monotonic"), end("boottime"), "the columns are aligned: {lines:#?}");
        running.press_ctrl_c();
        let output = running.output();
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let lines = screen(&stderr(&output), columns.into());
        assert_eq!(lines[0], "Summary", "{lines:#?}");
        assert!(!lines.iter().any(|line| line.contains("^C") || line.contains("so far")), "{lines:#?}");
        let last = lines.iter().rfind(|line| !line.is_empty()).expect("a last line");
        assert!(["OK: no faults in ", "UNKNOWN"].iter().any(|start| last.starts_with(start)), "{lines:#?}");
    }
}

#[test]
fn a_watch_prints_rows_if_control_sequences_are_not_wanted() {
    let arguments = ["watch", "--source", "monotonic", "--interval", "100ms", "--duration", "300ms"];
    let mut command = hpt();
    command.args(arguments).env("NO_COLOR", "1");
    let shown = stderr(&AtATerminal::start_with_output(40, &mut command).output());
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    let rows: Vec<&str> = shown.lines().filter(|line| line.contains(" s monotonic ")).collect();
    assert!(!rows.is_empty() && rows.iter().all(|row| row.chars().count() == rows[0].chars().count()), "{shown}");
    let last = shown.trim_end().lines().last().unwrap_or_default();
    assert!(["OK: ", "UNKNOWN"].iter().any(|start| last.starts_with(start)), "{shown}");
}

/// Returns the different percentages that a progress bar showed, in order.
fn percentages(shown: &str) -> Vec<f64> {
    let before = shown.split(" %").filter_map(|before| before.split_whitespace().next_back()?.parse().ok());
    let mut found: Vec<f64> = before.collect();
    found.dedup();
    found
}

#[test]
fn a_measuring_doctor_shows_its_progress_while_it_polls() {
    if hpt_realtime::allowed_cpus().len() < 2 {
        return skipped!("the progress is drawn on another CPU, and there is only one");
    }
    let output = AtATerminal::start(hpt().args(["doctor", "--measure", "--json"])).output();
    let shown = stderr(&output);
    let polling = shown.split("waking").next().unwrap_or_default();
    let steps = percentages(polling);
    // The number of steps depends on how often the drawing thread runs.
    assert!(steps.iter().any(|step| (1.0..90.0).contains(step)), "{steps:?}: {shown}");
}

#[test]
fn a_report_shows_one_progress_for_all_parts_even_during_a_watch() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let page = folder.path().join("page.html");
    let mut command = hpt();
    command.args(["report", "--short", "--part", "timer,watch", "--color", "never", "--output"]).arg(&page);
    let output = AtATerminal::start(&mut command).output();
    let shown = stderr(&output);
    assert_eq!(code(&output), 0, "{shown}");
    assert!(shown.contains("1 of 2") && shown.contains("2 of 2") && shown.contains(" left"), "{shown}");
    // The progress never returns to its beginning, and moves while the watch runs.
    let steps = percentages(&shown);
    assert!(steps.windows(2).all(|two| two[0] <= two[1]), "{steps:?}: {shown}");
    let watch = &shown[shown.find("2 of 2").expect("it was shown")..];
    assert!(percentages(watch).len() > 1, "{watch}");
}
