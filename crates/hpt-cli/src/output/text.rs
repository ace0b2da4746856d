//! Functions that format numbers and text in the same way for every output format.

use std::time::Duration;

pub(crate) use hpt_document::round::{rounded, rounded_share};

/// Rounds a share of CPU time in machine-readable output. A sleep of 100 ms that only blocks takes less than 0.1 %.
pub(crate) fn rounded_cpu_share(share: f64) -> f64 {
    (share * 1e6).round() / 1e6
}

/// Formats a share with two significant digits: `23 %`, `0.031 %`.
pub(crate) fn short_percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 9.95 || percent <= 0.0 {
        return format!("{percent:.0} %");
    }
    let exponent = format!("{percent:.1e}").rsplit('e').next().and_then(|power| power.parse::<i32>().ok());
    let decimals = usize::try_from(1 - exponent.unwrap_or(0)).unwrap_or(0);
    format!("{percent:.decimals$} %")
}

/// Returns whether at least ten of `samples` samples lie beyond the quantile `part`. With fewer samples, the
/// quantile would depend on little more than the maximum. Every command decides with this function which quantiles it
/// prints. The median, which needs no tail, is always printed.
#[expect(clippy::cast_precision_loss, reason = "a share of samples")]
pub(crate) fn has_tail(samples: u64, part: f64) -> bool {
    const BEYOND: f64 = 10.0;
    // Ensures that a thousandth of ten thousand is at least ten, despite rounding errors.
    samples as f64 * (1.0 - part) + 1e-6 >= BEYOND
}

/// Returns the quantile `part`, or `None` if fewer than ten of `samples` samples lie beyond it.
pub(crate) fn tail<T>(samples: u64, part: f64, value: T) -> Option<T> {
    has_tail(samples, part).then_some(value)
}

/// Converts a duration to whole nanoseconds for machine-readable output. Saturates at 584 years.
pub(crate) fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns `one` if the count is 1, and `many` otherwise.
pub(crate) fn one_or_many<'a, N: Copy + PartialEq + From<u8>>(count: N, one: &'a str, many: &'a str) -> &'a str {
    if count == N::from(1) { one } else { many }
}

/// Returns whether a terminal interprets a character instead of showing it: a control character, or a character that
/// changes the writing direction. Also returns true for the two code points that are not characters.
pub(super) fn is_obeyed(letter: char) -> bool {
    let turns_around = matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // XML does not allow these two characters. XML 1.0, section 2.2, Char.
    let is_none = matches!(letter, '\u{fffe}' | '\u{ffff}');
    turns_around || is_none || letter.is_control()
}

/// Makes text safe for a terminal, because parts of the text may come from a file that another user created. Escapes
/// control characters and characters that change the writing direction.
pub(crate) fn without_escapes(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter != '\n' && is_obeyed(letter) { kept.extend(letter.escape_unicode()) } else { kept.push(letter) }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::{has_tail, short_percent, tail};

    #[test]
    fn a_share_has_two_digits() {
        let of = [1.0, 0.229_3, 0.0953, 0.01, 0.000_312, 1.0 / 10_001.0, 0.0].map(short_percent);
        assert_eq!(of, ["100 %", "23 %", "9.5 %", "1.0 %", "0.031 %", "0.010 %", "0 %"]);
    }

    #[test]
    fn text_is_harmless_in_a_terminal_in_a_page_and_in_xml() {
        assert_eq!(
            super::without_escapes("a\u{202e}b\u{fffe}c\u{ffff}\u{1b}\n"),
            "a\\u{202e}b\\u{fffe}c\\u{ffff}\\u{1b}\n"
        );
    }

    #[test]
    fn ten_samples_must_lie_beyond_a_quantile() {
        for (part, enough) in [(0.9, 100), (0.99, 1_000), (0.999, 10_000), (0.9999, 100_000), (0.99999, 1_000_000)] {
            assert!(has_tail(enough, part) && !has_tail(enough - 1, part), "{part}");
        }
        assert_eq!((tail(0, 0.99, 5), tail(1_000, 0.99, 5)), (None, Some(5)));
    }
}
