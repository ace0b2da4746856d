//! The documentation: runs every command line in it, and compares the output, except for figures.
//! Command lines that cannot run have a mark with the reason (see docs/contributing/documentation.md); they are only
//! checked against the options of hpt. Ctrl-C ends measurements that take longer than a second.

use std::{
    fs,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
};

use crate::support::{
    at_a_terminal::AtATerminal,
    host, hosts,
    pages::{Block, Line, Mark, Page, difference, pages, parsed, picture, project, questions},
    run, runner, stderr, stdout,
    unsafe_calls::interrupt_group,
    wait_until, words, write_program,
};

/// The programs with which a command line that is run may begin. Others need a mark, because of
/// their side effects.
const HARMLESS: [&str; 6] = ["hpt", "./hpt", "sudo", "uname", "jq", "awk"];

struct Came {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Creates a directory with a program `hpt`, which runs the built one, and with other programs that
/// the block needs.
fn folder(block: &Block) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let quoted: Vec<_> = words().iter().map(|word| format!("'{word}'")).collect();
    let mut hpt = format!("exec {} \"$@\"", quoted.join(" "));
    for mark in &block.marks {
        match mark {
            Mark::Of { machine, .. } => hpt += &format!(" --host '{}'", host(machine)),
            Mark::WithoutSudo { .. } => program(folder.path(), "sudo", "exec \"$@\""),
            Mark::NotRun { .. } => {}
        }
    }
    program(folder.path(), "hpt", &hpt);
    folder
}

fn program(folder: &Path, name: &str, text: &str) {
    write_program(&folder.join(name), &format!("#!/bin/sh\n{text}\n"));
}

/// Runs a command line as a reader of the page would. Unless `to_its_end`, presses Ctrl-C when its
/// progress bar has moved, or when it has printed something and continues.
fn typed(folder: &Path, command: &str, to_its_end: bool) -> Came {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    // The shell survives Ctrl-C, to return the exit code.
    shell.args(["-c", &format!("trap : INT\n{command}\n")]).current_dir(folder).process_group(0);
    shell.env("PATH", format!("{}:{path}", folder.display())).env("XDG_STATE_HOME", folder.join("state"));
    // With NO_COLOR there is no progress bar.
    shell.env_remove("NO_COLOR").stdin(Stdio::null());
    let mut shell = AtATerminal::start(&mut shell);
    let mut pressed = to_its_end;
    wait_until(command, || {
        if !pressed && shell.has_something_to_say() && measures(shell.id()) {
            interrupt_group(shell.id());
            pressed = true;
        }
        shell.has_ended()
    });
    let output = shell.output();
    Came { code: output.status.code(), stdout: stdout(&output), stderr: stderr(&output).replace('\r', "") }
}

/// Whether a process in the process group, other than the shell, handles Ctrl-C. Commands that do
/// not measure end by themselves.
fn measures(group: u32) -> bool {
    let processes = fs::read_dir("/proc").expect("Linux has it");
    processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok()).any(|process| {
        let told = |file: &str| fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
        let stat = told("stat");
        let of_the_group =
            stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(2)) == Some(&group.to_string());
        let caught =
            told("status").lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigCgt:")?.trim(), 16).ok());
        process != group && of_the_group && caught.is_some_and(|signals| signals & (1 << (libc::SIGINT - 1)) != 0)
    })
}

/// Replaces CPU numbers that this machine does not have with its last CPU.
fn with_a_cpu_of_this_machine(command: &str) -> String {
    let last = fs::read_to_string("/proc/self/status").ok().and_then(|status| {
        let allowed =
            status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:").map(str::trim).map(str::to_owned));
        allowed?.rsplit([',', '-']).next()?.parse::<u32>().ok()
    });
    let mut words: Vec<String> = command.split(' ').map(str::to_owned).collect();
    for place in 1..words.len() {
        let asked = words[place].parse::<u32>().ok().filter(|_| ["-c", "--cpu"].contains(&words[place - 1].as_str()));
        if let Some(last) = last.filter(|last| asked.is_some_and(|asked| asked > *last)) {
            words[place] = last.to_string();
        }
    }
    words.join(" ")
}

/// Returns the problem with the result of a command line.
fn fault(line: &Line, came: &Came) -> Option<String> {
    if came.code == Some(127) && came.stderr.contains("jq: ") && came.stderr.contains("not found") {
        skipped!("there is no jq for {}", line.command);
        return None;
    }
    let is_refused = came.stderr.contains("For more information, try") || came.stderr.contains("panicked");
    // 1 is a negative answer. 3 is an answer if there is output.
    let is_answer = match came.code {
        // 130 and 143: it was interrupted because it takes long.
        Some(0 | 1 | 130 | 143) => true,
        Some(3) => !came.stdout.is_empty(),
        _ => false,
    };
    if is_refused || !is_answer {
        return Some(format!("exit code {:?}\n{}\n{}", came.code, came.stdout, came.stderr));
    }
    (!line.shown.is_empty()).then(|| difference(&line.shown, &came.stdout)).flatten()
}

/// Returns the problems with the commands of a page that are run.
fn faults(page: &Page) -> Vec<String> {
    let mut faults = Vec::new();
    for block in &page.blocks {
        let folder = folder(block);
        for line in &block.lines {
            if line.not_run(&block.marks).is_some() {
                continue;
            }
            let place = format!("{}:{}: {}", page.name, line.number, line.command);
            if line.command.contains("sudo ")
                && !block.marks.iter().any(|mark| matches!(mark, Mark::WithoutSudo { .. }))
            {
                faults.push(format!("{place}\nneeds a mark: it takes root"));
                continue;
            }
            if !HARMLESS.iter().any(|program| line.command.split(' ').next() == Some(program)) {
                faults.push(format!("{place}\nneeds a mark: it is no command of hpt's"));
                continue;
            }
            let command = with_a_cpu_of_this_machine(&line.command);
            // If the page shows output, the command must run to its end.
            let came = typed(folder.path(), &command, !line.shown.is_empty());
            let found = fault(line, &came);
            faults.extend(found.map(|fault| format!("{place}\n{fault}")));
        }
    }
    faults
}

#[test]
fn the_examples_in_the_pages_match_the_output_of_hpt() {
    if !runner().is_empty() {
        skipped!("under an emulator the pages' commands are held against what hpt takes, and not run");
        return;
    }
    // All pages run at the same time, because most of the time is waiting.
    let pages = pages();
    let faults: Vec<String> = std::thread::scope(|scope| {
        let pages: Vec<_> = pages.iter().map(|page| scope.spawn(|| faults(page))).collect();
        pages.into_iter().flat_map(|page| page.join().expect("it is run")).collect()
    });
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

#[test]
fn every_mark_has_a_reason_and_an_existing_subject() {
    for page in pages() {
        for block in &page.blocks {
            for mark in &block.marks {
                let place = || format!("{}: {mark:?}, above {:?}", page.name, block.lines.first());
                assert!(mark.why().split_whitespace().count() > 1, "{}", place());
                match mark {
                    Mark::NotRun { beginning, .. } => {
                        assert!(block.lines.iter().any(|line| line.command.starts_with(beginning)), "{}", place());
                    }
                    Mark::WithoutSudo { .. } => {
                        assert!(block.lines.iter().any(|line| line.command.contains("sudo ")), "{}", place());
                    }
                    Mark::Of { machine, .. } => assert!(hosts().contains(machine), "{}", place()),
                }
            }
        }
    }
}

#[test]
fn hpt_accepts_every_option_in_the_pages() {
    let mut asked: Vec<String> = Vec::new();
    for page in pages() {
        let commands =
            page.blocks.iter().flat_map(|block| &block.lines).map(|line| (line.number, line.command.as_str()));
        for (number, command) in commands.chain(page.spans.iter().map(|(number, span)| (*number, span.as_str()))) {
            for question in questions(command) {
                if asked.contains(&question) {
                    continue;
                }
                let words: Vec<&str> = question.split_whitespace().skip(1).collect();
                let answer = run(&words);
                let is_taken = answer.status.success() && stdout(&answer).contains("Usage:");
                // Text may mention an option without its value.
                assert!(
                    is_taken
                        || ["a value is required for", "needs a priority"]
                            .iter()
                            .any(|why| stderr(&answer).contains(why)),
                    "{}:{number}: {command}\n{}",
                    page.name,
                    stderr(&answer)
                );
                asked.push(question);
            }
        }
    }
    assert!(asked.len() > 50, "the pages have more commands: {asked:?}");
}

#[test]
fn every_path_in_the_pages_exists() {
    for page in pages() {
        for line in page.blocks.iter().flat_map(|block| &block.lines) {
            for word in line.command.split_whitespace() {
                let is_of_the_project =
                    ["scripts/", "dist/", "docs/", "examples/"].iter().any(|folder| word.starts_with(folder));
                if is_of_the_project && !word.contains('*') {
                    assert!(project().join(word).exists(), "{}:{}: {word}", page.name, line.number);
                }
            }
        }
    }
}

/// Figures and sources differ between machines, but headings do not, and no source is missing
/// anywhere.
#[test]
fn the_screenshots_have_the_printed_headings_and_rows() {
    if !runner().is_empty() {
        skipped!("under an emulator the pictures' commands are not run");
        return;
    }
    let block = Block { marks: Vec::new(), lines: Vec::new() };
    let folder = folder(&block);
    for (name, headings) in [("docs/probe.svg", 8), ("docs/latency.svg", 12)] {
        let lines = picture(name);
        let command = lines[0][0].1.strip_prefix("$ ").expect("the first line is the command");
        let printed = typed(folder.path(), command, false).stdout;
        let rows: Vec<Vec<&str>> = printed.lines().map(|line| line.split_whitespace().collect()).collect();
        let mut compared = 0;
        for line in lines.iter().filter(|line| line.len() > 2 && line.iter().all(|(dim, _)| *dim)) {
            let shown: Vec<&str> = line.iter().flat_map(|(_, words)| words.split_whitespace()).collect();
            // The test's run is shorter, and may be too short for a percentile of the picture.
            let is_percentile = |word: &&str| word.starts_with("p9");
            let always: Vec<&str> = shown.iter().copied().filter(|word| !is_percentile(word)).collect();
            let is_shown = |row: &&Vec<&str>| {
                row.iter().filter(|word| !is_percentile(word)).eq(&always)
                    && row.iter().all(|word| shown.contains(word))
            };
            assert!(rows.iter().any(|row| is_shown(&row)), "{name}: {shown:?} is not in\n{printed}");
            compared += shown.len();
        }
        assert!(compared >= headings, "{name} has {compared} headings");
        for line in lines.iter().filter(|line| line.len() > 2 && ["yes", "no", "best"].contains(&line[1].1.as_str())) {
            assert!(
                rows.iter().any(|row| row.first() == Some(&line[0].1.as_str())),
                "{name}: {line:?} is not in\n{printed}"
            );
        }
    }
}

/// Returns a page with one block, and the lines above it.
fn page(marks: &str, block: &str) -> Page {
    parsed("a page".to_owned(), &format!("{marks}\n```console\n{block}\n```\n"))
}

#[test]
fn a_wrong_example_in_a_page_is_detected() {
    for (marks, lie) in [
        ("", "$ hpt probe --nothing-of-the-kind"),
        ("", "$ hpt probe nothing-of-the-kind"),
        ("", "$ hpt nothing-of-the-kind"),
        ("", "$ nothing-of-the-kind"),
        ("", "$ sudo hpt restore"),
        ("", "$ touch something"),
        ("", "$ hpt --version\nhpt 0.1.0, by another"),
        ("", "$ hpt --version\nHPT 0.1.0"),
        ("<!-- of amd-epyc-zen3-kvm: an example -->", "$ hpt clocksource\n…\nin use hpet\n…"),
    ] {
        if runner().is_empty() {
            assert!(!faults(&page(marks, lie)).is_empty(), "{lie}");
        }
    }
    let told = page("", "$ hpt --version\nhpt 99.0.0");
    assert_eq!(if runner().is_empty() { faults(&told) } else { Vec::new() }, Vec::<String>::new());
    let marked = page("<!-- not run, nothing: there is none -->", "$ nothing-of-the-kind");
    assert_eq!(faults(&marked), Vec::<String>::new());
    let marked_apart = page("<!-- not run: of another block -->\n\nWords.\n", "$ nothing");
    assert!(marked_apart.blocks[0].marks.is_empty(), "{marked_apart:?}");
}

#[test]
fn figures_may_differ_but_words_may_not() {
    let shown = "late 12.3 µs (p99) by #### 950 ms\nof … by tsc";
    assert_eq!(difference(shown, "late 1 ms (p99)\nby ## - of this and that, by 1 by tsc"), None);
    assert_eq!(difference("1 ██▎ 2", "5 █ 7"), None);
    assert_eq!(difference("a …", "a"), None);
    assert_eq!(difference("\"…\" 1", "\"tsc\" 2"), None);
    assert!(difference("\"…\"", "tsc").is_some());
    assert_eq!(difference("… b", "a a b"), None);
    for other in ["late 12.3 µs (p50) by 950 ms of by tsc", "late 1 s (p99) by 1 ms of by tsc and more", ""] {
        assert!(difference(shown, other).is_some(), "{other}");
    }
}
