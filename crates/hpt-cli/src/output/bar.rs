//! Horizontal bars of charts in text, drawn with block characters in steps of an eighth of a column.

/// The length of the longest bar, in columns.
pub(super) const LONGEST_BAR: usize = 40;

/// A whole column, and the parts of a column from one eighth to seven eighths.
const WHOLE: char = '█';
const PARTS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];
const EIGHTHS: usize = 8;

/// Returns a bar for a share of the longest bar. A share above zero is never invisible.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "for drawing")]
pub(crate) fn bar(share: f64) -> String {
    if share <= 0.0 {
        return String::new();
    }
    let longest = LONGEST_BAR * EIGHTHS;
    drawn(((share * longest as f64).round() as usize).clamp(1, longest))
}

fn drawn(eighths: usize) -> String {
    let mut text: String = std::iter::repeat_n(WHOLE, eighths / EIGHTHS).collect();
    text.extend((eighths % EIGHTHS).checked_sub(1).map(|part| PARTS[part]));
    text
}

/// Shortens a bar to a chart whose longest bar has this width. Text other than a bar is not changed.
pub(super) fn shortened_bar(bar: &str, width: usize) -> String {
    let eighths = |letter: char| {
        if letter == WHOLE { Some(EIGHTHS) } else { PARTS.iter().position(|part| *part == letter).map(|part| part + 1) }
    };
    let Some(length) = bar.chars().map(eighths).sum::<Option<usize>>().filter(|&length| length > 0) else {
        return bar.to_owned();
    };
    if width >= LONGEST_BAR {
        return bar.to_owned();
    }
    drawn(((length * width + LONGEST_BAR / 2) / LONGEST_BAR).max(1))
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_BAR, bar, shortened_bar};

    #[test]
    fn a_bar_has_a_resolution_of_an_eighth_of_a_column() {
        assert_eq!([0.0, 1e-9, 0.1, 0.5].map(bar), ["", "▏", "████", &"█".repeat(20)]);
        assert_eq!(bar(1.5 / LONGEST_BAR as f64), "█▌");
        assert_eq!([1.0, 7.0].map(bar), [(); 2].map(|()| "█".repeat(LONGEST_BAR)));
    }

    #[test]
    fn bars_are_shortened_in_proportion() {
        assert_eq!(
            ["█".repeat(40), "█".repeat(21), "▏".to_owned(), String::new()].map(|bar| shortened_bar(&bar, 10)),
            ["█".repeat(10), "█████▎".to_owned(), "▏".to_owned(), String::new()]
        );
        assert_eq!((shortened_bar("██▏", 40).as_str(), shortened_bar("a word", 3).as_str()), ("██▏", "a word"));
    }
}
