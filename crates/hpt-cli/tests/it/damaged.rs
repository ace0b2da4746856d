//! Damaged captures: every command that reads one gives a result or an error, and none panics.

use proptest::{
    collection::vec,
    prelude::{Strategy, any, prop_oneof},
    sample::Index,
    test_runner::{Config, TestRunner},
};

use crate::support::{capture_of, code, contents, host, hosts, run, runner, set, stderr, stdout, written};

/// All commands that accept `--host`.
const COMMANDS: [&[&str]; 6] = [
    &["probe"],
    &["probe", "tsc"],
    &["clocksource"],
    &["doctor"],
    &["doctor", "--cpu", "0"],
    &["doctor", "--cpu", "3", "--format", "json"],
];

/// A modification of the content of a file.
#[derive(Clone, Debug)]
enum Damage {
    Removed,
    Emptied,
    CutOff(Index),
    /// The whole content is replaced.
    Replaced(Vec<u8>),
    /// One byte is changed.
    Changed(Index, u8),
    /// All digits are changed.
    Digits(char),
    Doubled,
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        any::<bool>().prop_map(|all| if all { Damage::Removed } else { Damage::Emptied }),
        any::<Index>().prop_map(Damage::CutOff),
        vec(any::<u8>(), 0..64).prop_map(Damage::Replaced),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Changed(at, byte)),
        any::<bool>().prop_map(|nine| Damage::Digits(if nine { '9' } else { '-' })),
        any::<bool>().prop_map(|_| Damage::Doubled),
    ]
}

impl Damage {
    /// Returns the damaged content; `None` if the file is removed.
    fn to(&self, content: &[u8]) -> Option<Vec<u8>> {
        Some(match self {
            Self::Removed => return None,
            Self::Emptied => Vec::new(),
            Self::CutOff(at) => content[..at.index(content.len() + 1)].to_vec(),
            Self::Replaced(bytes) => bytes.clone(),
            Self::Changed(at, byte) => {
                let mut changed = content.to_vec();
                if !changed.is_empty() {
                    let at = at.index(changed.len());
                    changed[at] = *byte;
                }
                changed
            }
            Self::Digits(by) => {
                let text = String::from_utf8_lossy(content).into_owned();
                text.replace(|letter: char| letter.is_ascii_digit(), &by.to_string()).into_bytes()
            }
            Self::Doubled => [content, content].concat(),
        })
    }
}

#[track_caller]
fn is_answered(capture: impl AsRef<[u8]>, what: &str) {
    let (_folder, path) = written(capture);
    for command in COMMANDS {
        let output = run(&[command, &["--host", &path]].concat());
        let said = stderr(&output);
        assert!((0..=3).contains(&code(&output)) && !said.contains("panicked"), "{command:?} on {what}: {said}");
        assert!(!stdout(&output).is_empty() || !said.is_empty(), "{command:?} on {what} says nothing");
    }
}

#[test]
fn a_machine_with_only_empty_or_truncated_files_is_explained() {
    // Commands are slow under an emulator.
    let step = if runner().is_empty() { 1 } else { 8 };
    for (number, name) in hosts().iter().enumerate().step_by(step) {
        let mut capture = capture_of(name);
        for (path, content) in contents(&capture) {
            let kept = if number % 2 == 0 { 0 } else { content.len() / 2 };
            set(&mut capture, &path, &content[..kept]);
        }
        is_answered(capture.to_string(), name);
    }
}

/// Runs a test on damaged captures.
fn for_damaged(most: usize, test: impl Fn(&str, &[(Index, Damage)])) {
    let cases = if runner().is_empty() { 48 } else { 4 };
    let mut tests = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let names = hosts();
    let what = (any::<Index>(), vec((any::<Index>(), damage()), 1..most));
    let came = tests.run(&what, |(machine, damages)| {
        test(machine.get::<String>(&names), &damages);
        Ok(())
    });
    if let Err(failed) = came {
        panic!("{failed}");
    }
}

#[test]
fn a_machine_with_any_damaged_file_is_explained_or_refused() {
    for_damaged(24, |name, damages| {
        let mut capture = capture_of(name);
        let files = contents(&capture);
        for (file, damage) in damages {
            // The last index selects the facts.
            let Some((path, content)) = files.get(file.index(files.len() + 1)) else {
                let facts = damage.to(capture.facts().as_bytes()).unwrap_or_default();
                capture.set_facts(String::from_utf8_lossy(&facts));
                continue;
            };
            match damage.to(content) {
                Some(changed) => set(&mut capture, path, changed),
                // It may already have been removed.
                None => drop(capture.remove(path)),
            }
        }
        is_answered(capture.to_string(), name);
    });
}

#[test]
fn a_capture_with_damaged_text_is_explained_or_refused() {
    for_damaged(6, |name, damages| {
        let mut text = std::fs::read(host(name)).expect("readable");
        for (_, damage) in damages {
            text = damage.to(&text).unwrap_or_default();
        }
        is_answered(text, name);
    });
}
