//! Captured machines that were damaged on their way: every command that explains one answers or refuses, and none panics.

use std::{
    fs,
    path::{Path, PathBuf},
};

use proptest::{
    collection::vec,
    prelude::{Strategy, any, prop_oneof},
    sample::Index,
    test_runner::{Config, TestRunner},
};

use crate::support::{code, files, host, hosts, run, runner, stderr, stdout};

/// All that take `--host`.
const COMMANDS: [&[&str]; 6] = [
    &["probe"],
    &["probe", "tsc"],
    &["clocksource"],
    &["doctor"],
    &["doctor", "--cpu", "0"],
    &["doctor", "--cpu", "3", "--format", "json"],
];

/// What was done to a file.
#[derive(Clone, Debug)]
enum Damage {
    Removed,
    Emptied,
    CutOff(Index),
    /// In the place of all of it.
    Replaced(Vec<u8>),
    /// A byte of it.
    Changed(Index, u8),
    /// Each of its digits.
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
    fn to(&self, file: &Path) {
        let content = fs::read(file).unwrap_or_default();
        let changed = match self {
            Self::Removed => {
                // It may have been removed before.
                let _ = fs::remove_file(file);
                return;
            }
            Self::Emptied => Vec::new(),
            Self::CutOff(at) => content[..at.index(content.len() + 1)].to_vec(),
            Self::Replaced(bytes) => bytes.clone(),
            Self::Changed(at, byte) => {
                let mut changed = content;
                if !changed.is_empty() {
                    let at = at.index(changed.len());
                    changed[at] = *byte;
                }
                changed
            }
            Self::Digits(by) => {
                let text = String::from_utf8_lossy(&content).into_owned();
                text.replace(|letter: char| letter.is_ascii_digit(), &by.to_string()).into_bytes()
            }
            Self::Doubled => [content.as_slice(), &content].concat(),
        };
        fs::write(file, changed).expect("ours");
    }
}

/// A copy of a captured machine, and its files.
fn copy_of(name: &str) -> (tempfile::TempDir, Vec<PathBuf>) {
    let copy = tempfile::tempdir().expect("a temporary folder");
    let original = PathBuf::from(host(name));
    let copied = files(&original).into_iter().map(|file| {
        let target = copy.path().join(file.strip_prefix(&original).expect("below it"));
        fs::create_dir_all(target.parent().expect("a folder")).expect("ours");
        fs::copy(&file, &target).expect("it can be copied");
        target
    });
    let copied = copied.collect();
    (copy, copied)
}

#[track_caller]
fn is_answered(folder: &Path, what: &str) {
    for command in COMMANDS {
        let output = run(&[command, &["--host", folder.to_str().expect("UTF-8")]].concat());
        let said = stderr(&output);
        assert!((0..=2).contains(&code(&output)) && !said.contains("panicked"), "{command:?} on {what}: {said}");
        assert!(!stdout(&output).is_empty() || !said.is_empty(), "{command:?} on {what} says nothing");
    }
}

#[test]
fn a_machine_of_which_every_file_is_empty_or_cut_off_is_explained() {
    // An emulator takes its time for each command.
    let step = if runner().is_empty() { 1 } else { 8 };
    for (number, name) in hosts().iter().enumerate().step_by(step) {
        let (copy, files) = copy_of(name);
        let facts = copy.path().join("facts.json");
        for file in files.iter().filter(|file| **file != facts) {
            let content = fs::read(file).expect("ours");
            let kept = if number % 2 == 0 { 0 } else { content.len() / 2 };
            fs::write(file, &content[..kept]).expect("ours");
        }
        is_answered(copy.path(), name);
    }
}

#[test]
fn a_machine_of_which_any_file_is_damaged_is_explained_or_refused() {
    let cases = if runner().is_empty() { 48 } else { 4 };
    let mut tests = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let names = hosts();
    let what = (any::<Index>(), vec((any::<Index>(), damage()), 1..24));
    let came = tests.run(&what, |(machine, damages)| {
        let name = machine.get::<String>(&names);
        let (copy, files) = copy_of(name);
        for (file, damage) in &damages {
            damage.to(file.get::<PathBuf>(&files));
        }
        is_answered(copy.path(), name);
        Ok(())
    });
    if let Err(failed) = came {
        panic!("{failed}");
    }
}
