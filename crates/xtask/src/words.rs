//! The text check: retired phrases in tracked files, and Markdown lines that are too long.
//! Judges text only; `main` chooses the files.

use std::{fs, io, path::Path, process::Command};

use crate::violation::Violation;

/// Phrases with a plain replacement, in lower case. They are found across the lines of a comment.
const PHRASES: [(&str, &str); 12] = [
    ("whoever", "name the subject"),
    ("bites", "affects"),
    ("storey", "layer"),
    ("storeys", "layers"),
    ("so often", "interval, or number of times"),
    ("for so long", "run time, or duration"),
    ("so many", "number of …"),
    ("is told", "use the active voice: reports, shows"),
    ("to be had", "available"),
    ("kept back", "throttled, or reserved"),
    ("nobody", "name the subject: no program, no process"),
    ("somebody", "name the subject: another program, another process"),
];

/// First words of documentation comments with a plain replacement.
const OPENINGS: [(&str, &str); 3] =
    [("Who", "name the subject"), ("What", "begin with a verb or a noun"), ("The same", "say what it is")];

/// The width of Markdown, in characters.
const WIDTH: usize = 100;

/// Text that is quoted, recorded or licensed, and the list of phrases itself.
const EXEMPT: [&str; 7] = [
    "LICENSE-",
    "docs/records/",
    "crates/hpt-sys/tests/hosts/",
    "crates/xtask/src/words.rs",
    "crates/xtask/tests/it/words.rs",
    "kmod/LICENSE",
    "Cargo.lock",
];

/// Checks the text files that Git lists in `directory`, whether committed or not.
///
/// # Errors
///
/// `git ls-files` fails, or a file cannot be read.
pub fn check(directory: &Path) -> io::Result<Vec<Violation>> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = Command::new("git").args(arguments).current_dir(directory).output()?;
    if !listed.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&listed.stderr)));
    }
    let mut violations = Vec::new();
    for path in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
        let file = directory.join(path);
        if !file.is_file() || file.is_symlink() || EXEMPT.iter().any(|exempt| path.starts_with(exempt)) {
            continue;
        }
        // A file that is not UTF-8 is not text.
        if let Ok(text) = String::from_utf8(fs::read(&file)?) {
            violations.extend(check_text(path, &text));
        }
    }
    Ok(violations)
}

/// Checks the text of one file.
#[must_use]
pub fn check_text(path: &str, text: &str) -> Vec<Violation> {
    let mut violations = phrases(path, text);
    if has_extension(path, "rs") {
        violations.extend(openings(path, text));
    }
    if has_extension(path, "md") {
        violations.extend(long_lines(path, text));
    }
    violations.sort();
    violations
}

fn has_extension(path: &str, wanted: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == wanted)
}

/// Finds retired phrases, in names too: `_` separates words as a space does.
fn phrases(path: &str, text: &str) -> Vec<Violation> {
    // The lines without comment markers, joined, and the offset of each.
    let mut joined = String::new();
    let mut begins = Vec::new();
    for line in text.lines() {
        begins.push(joined.len());
        let line = line.trim().trim_start_matches(['/', '!', '#', '*', '>']).trim();
        joined.push_str(&line.to_lowercase().replace('_', " "));
        joined.push(' ');
    }
    let mut violations = Vec::new();
    for (phrase, instead) in PHRASES {
        for (at, _) in joined.match_indices(phrase) {
            let (before, after) = (&joined[..at], &joined[at + phrase.len()..]);
            if before.ends_with(is_part_of_word) || after.starts_with(is_part_of_word) || is_user(phrase, before, after)
            {
                continue;
            }
            let line = begins.partition_point(|&begin| begin <= at);
            violations.push(Violation::new(path, line, format!("`{phrase}` is retired: {instead}")));
        }
    }
    violations
}

fn is_part_of_word(character: char) -> bool {
    character.is_alphanumeric() || character == '\''
}

/// Returns whether `phrase` is the name of the user nobody: quoted, in code, or after an option or
/// `=`.
fn is_user(phrase: &str, before: &str, after: &str) -> bool {
    let quotes = ['"', '\'', '`', ':', '=', '/'];
    let is_quoted = before.ends_with(quotes) || after.starts_with(quotes);
    let last_word = before.trim_end().rsplit(' ').next().unwrap_or_default();
    let names_a_user = last_word.starts_with('-') || ["user", "su", "runuser", "chown"].contains(&last_word);
    phrase == "nobody" && (is_quoted || names_a_user)
}

/// Finds documentation comments that begin with a clause instead of a verb or a noun.
fn openings(path: &str, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(words) = line.trim_start().strip_prefix("/// ") else { continue };
        for (opening, instead) in OPENINGS {
            let is_opening = words.strip_prefix(opening).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric));
            if is_opening {
                violations.push(Violation::new(path, number, format!("`/// {opening}` is retired: {instead}")));
            }
        }
    }
    violations
}

/// Finds lines of Markdown that are too long. Tables, links, code and generated blocks may be.
fn long_lines(path: &str, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    let (mut is_code, mut is_generated) = (false, false);
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if line.starts_with("<!--") {
            let mark = line.trim_start_matches("<!--").trim_start().split([' ', ',']).next().unwrap_or_default();
            is_generated = mark.ends_with(":begin") || (is_generated && !mark.ends_with(":end"));
        }
        let may_be_long = is_code || is_generated || line.starts_with('|') || line.starts_with("<!--");
        let width = without_links(line).chars().count();
        if !may_be_long && width > WIDTH {
            let message = format!("this line has {width} characters without links; wrap it at {WIDTH}");
            violations.push(Violation::new(path, number, message));
        }
    }
    violations
}

/// Returns a line of Markdown without the targets of its links.
fn without_links(line: &str) -> String {
    let mut short = String::new();
    let mut rest = line;
    while let Some((before, target)) = rest.split_once("](") {
        short.push_str(before);
        short.push(']');
        rest = target.split_once(')').map_or("", |(_, after)| after);
    }
    short.push_str(rest);
    let words = short.split(' ').filter(|word| !word.contains("://"));
    words.collect::<Vec<_>>().join(" ")
}
