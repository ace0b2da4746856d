//! Shell completion, and the format of the manual pages.

use std::{
    fs,
    io::ErrorKind,
    path::Path,
    process::{Command, Output},
};

use crate::support::{code, hpt, run, stderr, stdout, words, write_program};

/// Incomplete command lines, with offers that must be included and offers that must not.
const LINES: [(&[&str], &[&str], &[&str]); 14] = [
    (&["hpt", ""], &["probe", "latency"], &["timer"]),
    (&["hpt", "bench", "--source", "mono"], &["monotonic", "monotonic-raw"], &["tsc"]),
    (&["hpt", "bench", "--source", "tsc,boott"], &["tsc,boottime"], &["boottime"]),
    (&["hpt", "read", "realtime", "bootti"], &["boottime"], &["tsc"]),
    (&["hpt", "probe", "thread"], &["thread-cpu"], &["boottime"]),
    (&["hpt", "latency", "timer", "--format", ""], &["human", "json", "csv"], &["tsc"]),
    (&["hpt", "latency", "poll", "--cpu", ""], &["any", "all"], &["tsc"]),
    (&["hpt", "latency", "poll", "--cpu", "1-"], &[], &["1-0", "1-1", "1-any"]),
    (&["hpt", "bench", "--cpu", ""], &["any"], &["all"]),
    (&["hpt", "doctor", "--cpu", ""], &[], &["any", "all"]),
    (&["hpt", "watch", "--reference", "boo"], &["boottime"], &["tsc"]),
    (&["hpt", "report", "--part", "bench,ti"], &["bench,timer", "bench,timer-hpt"], &["bench,bench"]),
    (&["hpt", "sleep", "--strategy", "nano"], &["nanosleep"], &["busy"]),
    (&["hpt", "experiment", "ste"], &["steps"], &["all"]),
];

/// Creates a directory with a program `hpt`, which runs the built one, and the three scripts.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let hpt = folder.path().join("hpt");
    let quoted: Vec<_> = words().iter().map(|word| format!("'{word}'")).collect();
    write_program(&hpt, &format!("#!/bin/sh\nexec {} \"$@\"\n", quoted.join(" ")));
    for (shell, file) in [("bash", "hpt.bash"), ("fish", "hpt.fish"), ("zsh", "_hpt")] {
        let script = run(&["completions", shell]);
        assert_eq!(code(&script), 0, "{}", stderr(&script));
        fs::write(folder.path().join(file), &script.stdout).expect("it is written");
    }
    folder
}

/// Returns the output of `shell` with `arguments`, with that `hpt` first in its path; `None` if the
/// shell is not installed.
fn said(folder: &Path, shell: &str, arguments: &[&str]) -> Option<Output> {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(shell);
    command.args(arguments).env("PATH", format!("{}:{path}", folder.display())).env("TERM", "dumb");
    match command.current_dir(folder).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skipped!("there is no {shell}");
            None
        }
        output => Some(output.expect("the shell is run")),
    }
}

#[track_caller]
fn assert_offers(output: &Output, line: &[&str], wanted: &[&str], unwanted: &[&str]) {
    let text = stdout(output);
    let offers: Vec<_> = text.lines().map(|line| line.split('\t').next().unwrap_or("").trim()).collect();
    assert!(wanted.iter().all(|one| offers.contains(one)), "{line:?}: {offers:?}\n{}", stderr(output));
    assert!(!unwanted.iter().any(|one| offers.contains(one)), "{line:?}: {offers:?}");
}

#[test]
fn bash_completes_commands_and_options() {
    let folder = folder();
    let script = "source ./hpt.bash; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9; \
                  \"$(complete -p hpt | sed 's/.* -F \\([^ ]*\\) .*/\\1/')\" hpt \"${!#}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    // bash splits `--source=boott`, `--source=` and `--output-line=gpiochip9:` into words at these
    // characters, and completes the text after the last of them.
    let split: [(&[&str], &[&str], &[&str]); 3] = [
        (&["hpt", "bench", "--source", "=", "boott"], &["boottime"], &["tsc", "--source=boottime"]),
        (&["hpt", "bench", "--source", "="], &["boottime", "monotonic"], &["--source=boottime", "=boottime"]),
        (&["hpt", "latency", "gpio", "--output-line", "=", "gpiochip9", ":"], &[], &["--output-line", "tsc"]),
    ];
    for (line, wanted, unwanted) in LINES.into_iter().chain(split) {
        let arguments = [&["--norc", "-c", script, "bash"], line].concat();
        let Some(output) = said(folder.path(), "bash", &arguments) else { return };
        assert_offers(&output, line, wanted, unwanted);
    }
}

#[test]
fn fish_completes_commands_and_options() {
    let folder = folder();
    let joined: [(&[&str], &[&str], &[&str]); 1] =
        [(&["hpt", "bench", "--source=boott"], &["--source=boottime"], &["--source=tsc"])];
    for (line, wanted, unwanted) in LINES.into_iter().chain(joined) {
        let script = format!("source ./hpt.fish; complete -C'{}'", line.join(" "));
        let Some(output) = said(folder.path(), "fish", &["--no-config", "-c", &script]) else { return };
        // For a list, fish offers only the last name if it can separate it, otherwise the whole
        // list.
        assert_offers(&output, line, wanted, unwanted);
    }
}

/// zsh completes in its line editor only: in a terminal, where the key is pressed.
#[test]
fn zsh_completes_on_the_first_key_press() {
    let folder = folder();
    let script = r"
        zmodload zsh/zpty
        zpty shell 'zsh -f -i'
        expect() {
            local seen= part tries=0
            while [[ $seen != *$1* ]]; do
                if zpty -r -t shell part; then seen+=$part; else sleep 0.05; fi
                if (( tries++ > 12000 )); then print -r -- $seen; exit 1; fi
            done
        }
        zpty -w shell 'fpath=($PWD $fpath); PS1=; autoload -Uz compinit; compinit -u -d ./dump; zle_highlight=(none); echo rea''dy'
        expect ready
        zpty -w -n shell $'hpt bench --source bootti\t'
        expect 'boottime'
        zpty -w -n shell $'\C-uhpt bench --source=monotonic-c\t'
        expect 'monotonic-coarse'
    ";
    let Some(output) = said(folder.path(), "zsh", &["-f", "-c", script]) else { return };
    assert_eq!(code(&output), 0, "{}", stdout(&output));
}

#[test]
fn every_option_of_the_manual_pages_has_a_text() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert_eq!(code(&run(&["manual", folder.path().to_str().expect("UTF-8")])), 0);
    let mut options = 0;
    for entry in std::fs::read_dir(folder.path()).expect("written").flatten() {
        let page = std::fs::read_to_string(entry.path()).expect("written");
        for option in page.split(".TP\n").skip(1) {
            let (name, text) = option.split_once('\n').expect("a name and a text");
            assert!(!text.trim().is_empty() && !text.starts_with(".SH"), "{}: {name}", entry.path().display());
            options += 1;
        }
    }
    assert!(options > 200, "{options}");
}

#[test]
fn the_manual_pages_have_no_warnings() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let man1 = folder.path().join("share/man/man1");
    assert_eq!(code(&run(&["manual", man1.to_str().expect("UTF-8")])), 0);
    let pages: Vec<_> = fs::read_dir(&man1).expect("it was made").map(|page| page.expect("readable").path()).collect();
    let names: Vec<_> = pages.iter().filter_map(|page| page.file_name()?.to_str()).collect();
    for page in ["hpt.1", "hpt-probe.1", "hpt-latency-timer.1", "hpt-clocksource-set.1"] {
        assert!(names.contains(&page), "{names:?}");
    }
    for page in pages {
        let mut man = Command::new("man");
        man.args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8"]).arg(&page);
        // With the options of lintian.
        man.env("LC_ALL", "C.UTF-8").env("MANROFFSEQ", "").env("MANWIDTH", "80");
        match man.output() {
            Err(error) if error.kind() == ErrorKind::NotFound => return skipped!("there is no man"),
            output => {
                let output = output.expect("man is run");
                assert_eq!((code(&output), stderr(&output).as_str()), (0, ""), "{}", page.display());
                assert!(
                    fs::read_to_string(&page).expect("readable").contains(".SH \"EXIT STATUS\""),
                    "{}",
                    page.display()
                );
            }
        }
    }
}

#[test]
fn the_completion_variable_of_another_program_is_ignored() {
    let output = hpt().arg("--version").env("COMPLETE", "bash").output().expect("the binary was built");
    assert_eq!((code(&output), stdout(&output)), (0, format!("hpt {}\n", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn an_unusable_directory_and_an_unknown_shell_are_refused() {
    let output = run(&["manual", "/proc/none/man1"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("cannot write /proc/none/man1"), "{}", stderr(&output));
    let output = run(&["completions", "tcsh"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("bash, fish, zsh"), "{}", stderr(&output));
}
