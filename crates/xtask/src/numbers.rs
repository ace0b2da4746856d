//! Compares the numbers in the golden outputs with those of another commit. A change of wording
//! must not change one. Ignores the number of the JSON schema, and the order of numbers within a
//! file.

use std::{collections::BTreeMap, fs, io, path::Path, process::Command};

/// The golden outputs of the command.
const GOLDEN: &str = "crates/hpt-cli/tests/it/snapshots";

/// The differences between two texts: each number with how many times more it occurs in the second
/// one.
pub type Differences = BTreeMap<String, i64>;

/// Compares every golden output in `directory` with that of `commit`. Returns the number of files,
/// and those that differ.
///
/// # Errors
///
/// Git does not know `commit`, or a file cannot be read.
pub fn compare(directory: &Path, commit: &str) -> io::Result<(usize, Vec<(String, Differences)>)> {
    let listed = git(directory, &["ls-tree", "-r", "--name-only", commit, "--", GOLDEN])?;
    let mut paths: Vec<String> = listed.lines().map(ToOwned::to_owned).collect();
    for entry in fs::read_dir(directory.join(GOLDEN))? {
        paths.push(format!("{GOLDEN}/{}", entry?.file_name().to_string_lossy()));
    }
    paths.sort();
    paths.dedup();
    let mut differing = Vec::new();
    for path in &paths {
        let before = git(directory, &["show", &format!("{commit}:{path}")]).unwrap_or_default();
        let after = fs::read_to_string(directory.join(path)).unwrap_or_default();
        let differences = differences(&before, &after);
        if !differences.is_empty() {
            differing.push((path.clone(), differences));
        }
    }
    Ok((paths.len(), differing))
}

fn git(directory: &Path, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new("git").args(arguments).current_dir(directory).output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the numbers that occur more or less often in `after` than in `before`.
#[must_use]
pub fn differences(before: &str, after: &str) -> Differences {
    let mut counts = Differences::new();
    for (text, one) in [(before, -1), (after, 1)] {
        // insta's header names the source of a golden output.
        let body =
            text.strip_prefix("---\n").and_then(|text| text.split_once("\n---\n")).map_or(text, |(_, body)| body);
        for number in body.lines().filter(|line| !line.contains("\"schema\":")).flat_map(numbers) {
            *counts.entry(number).or_default() += one;
        }
    }
    counts.retain(|_, count| *count != 0);
    counts
}

/// Returns the numbers of a line. Digits within a name, such as `p99_ns`, are not numbers.
fn numbers(line: &str) -> Vec<String> {
    let mut numbers = Vec::new();
    let mut previous = ' ';
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_ascii_digit() && !previous.is_alphanumeric() && previous != '_' {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let number = rest[..end].trim_end_matches('.');
            // A path that a narrow table breaks within a name.
            if !rest[number.len()..].starts_with('/') {
                numbers.push(number.to_owned());
            }
            number.len()
        } else {
            first.len_utf8()
        };
        previous = rest[..length].chars().next_back().unwrap_or(first);
        rest = &rest[length..];
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::differences;

    #[test]
    fn other_words_around_the_same_numbers_are_equal() {
        assert!(differences("late by 3.5 µs, 2 missed\n", "2 deadline misses; latency 3.5 µs.\n").is_empty());
        assert!(differences("\"p50_ns\": 7\n\"schema\": 1\n", "\"median_ns\": 7\n\"schema\": 2\n").is_empty());
    }

    #[test]
    fn a_changed_a_new_and_a_missing_number_differ() {
        assert!(!differences("3.5", "3.6").is_empty());
        assert!(!differences("3", "3 3").is_empty());
        assert!(!differences("1 2", "1").is_empty());
    }
}
