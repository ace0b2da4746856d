//! Finds numbers, lines and panics in the output of programs.

/// Returns the first number between two texts.
pub(super) fn number_between(text: &str, before: &str, after: &str) -> Option<f64> {
    text.split(before).skip(1).find_map(|rest| rest.split_once(after)?.0.parse().ok())
}

/// Returns the whole numbers between consecutive texts, starting at the beginning of `text`.
/// Ignores everything after the last text.
pub(super) fn numbers_between(text: &str, texts: &[&str]) -> Option<Vec<u64>> {
    let (first, others) = texts.split_first()?;
    let mut rest = text.strip_prefix(first)?;
    let mut numbers = Vec::new();
    for other in others {
        let end = rest.find(|character: char| !character.is_ascii_digit())?;
        numbers.push(rest[..end].parse().ok()?);
        rest = rest[end..].strip_prefix(other)?;
    }
    Some(numbers)
}

/// Joins lines with semicolons.
pub(super) fn in_one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(";")
}

/// Returns the last line, or an empty string.
pub(super) fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default()
}

/// Returns whether one of the lines is `line`.
pub(super) fn has_line(text: &str, line: &str) -> bool {
    text.lines().any(|one| one == line)
}

/// Returns the location and the message of the first panic.
pub(super) fn panic(text: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| !line.contains("panicked at")).map(str::trim);
    // The message is on the next line.
    lines.next().map(|place| [place, lines.next().unwrap_or_default()].join(" ").trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{number_between, numbers_between, panic};

    #[test]
    fn a_panic_has_a_location_and_a_message() {
        let text =
            "running\nthread 'one' panicked at src/a.rs:1:2:\nleft is not right\nnote: run with RUST_BACKTRACE\n";
        assert_eq!(panic(text).as_deref(), Some("thread 'one' panicked at src/a.rs:1:2: left is not right"));
        assert_eq!(panic("it panicked at once").as_deref(), Some("it panicked at once"));
        assert_eq!(panic("all is well"), None);
    }

    #[test]
    fn a_number_between_two_texts_is_found() {
        assert_eq!(number_between("shift 24 to run at 62.5 MHz", "to run at ", " MHz"), Some(62.5));
        assert_eq!(number_between("to run at once, to run at 7 MHz", "to run at ", " MHz"), Some(7.0));
        assert_eq!(number_between("to run at all", "to run at ", " MHz"), None);
    }

    #[test]
    fn numbers_between_consecutive_texts_are_found() {
        assert_eq!(numbers_between("a 1 b 22 c", &["a ", " b ", " c"]), Some(vec![1, 22]));
        assert_eq!(numbers_between("a 1 b x c", &["a ", " b ", " c"]), None);
        assert_eq!(numbers_between("ba 1 b", &["a ", " b"]), None);
        assert_eq!(numbers_between("a 1", &["a ", " b"]), None);
    }
}
