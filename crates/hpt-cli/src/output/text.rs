//! Functions that format numbers and text in the same way for every output format.

use std::time::Duration;

/// Rounds a figure in machine-readable output to three decimals, which is finer than any measurement by hpt.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Converts a duration to whole nanoseconds for machine-readable output. Saturates at 584 years.
pub(crate) fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns `one` if the count is 1, and `many` otherwise.
pub(crate) fn one_or_many<'a, N: Copy + PartialEq + From<u8>>(count: N, one: &'a str, many: &'a str) -> &'a str {
    if count == N::from(1) { one } else { many }
}

/// Makes text safe for a terminal, because parts of the text may come from a file that another user created. Escapes
/// control characters and characters that change the writing direction.
pub(crate) fn without_escapes(text: &str) -> String {
    let is_obeyed = |letter: char| {
        let turns_around =
            matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns_around || letter.is_control() && letter != '\n'
    };
    let mut kept = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_obeyed(letter) { kept.extend(letter.escape_unicode()) } else { kept.push(letter) }
    }
    kept
}
