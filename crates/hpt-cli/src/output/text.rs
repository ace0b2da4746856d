//! Figures and text that are the same in every format.

use std::time::Duration;

/// A figure for programs: three decimals are below anything that is measured here.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// A duration for programs: whole nanoseconds, 584 years at most.
pub(crate) fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Text of which parts may come from a file that another user made, as a terminal may have it: what a terminal obeys, and what turns the direction of
/// writing around, is written as its number.
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
