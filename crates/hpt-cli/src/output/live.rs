//! Text on standard output that is redrawn in place, with other text above it that remains. Only a terminal has it.

use std::io::{self, IsTerminal, Write};

use console::{Term, measure_text_width};

use super::{
    human::{self, Block, Look},
    message::{can_draw, is_colored},
};

/// The number of columns that the text leaves free. The `^C` that a terminal echoes therefore stays on the last line,
/// and is erased with it.
const FREE_COLUMNS: u16 = 3;

/// Text that is redrawn in place. It is erased at the end of its life.
#[derive(Debug)]
pub(crate) struct Live {
    /// The width of each line on the terminal.
    drawn: Vec<usize>,
}

impl Live {
    /// Returns `None` if standard output is not a terminal, or if neither colors nor other control sequences are
    /// wanted.
    pub(crate) fn on_terminal() -> Option<Self> {
        (can_draw(io::stdout().is_terminal()) && is_colored(true)).then_some(Self { drawn: Vec::new() })
    }

    /// Replaces the text with the first of these layouts that needs the fewest lines.
    pub(crate) fn draw(&mut self, layouts: impl Iterator<Item = Vec<Block>>) {
        let whole = Look::of_stdout();
        let look = Look { width: whole.width.saturating_sub(FREE_COLUMNS), verbose: false, ..whole };
        let texts = layouts.map(|blocks| human::render(&blocks, look));
        let Some(text) = texts.min_by_key(|text| text.lines().count()) else { return };
        let height = usize::from(Term::stdout().size().0);
        let lines = fitting(text.lines().collect(), height.saturating_sub(1).max(1));
        write(&(begin(&self.drawn, width_of_terminal()) + &replacement(&lines)));
        self.drawn = lines.iter().map(|line| measure_text_width(line)).collect();
    }

    /// Prints text that remains on the terminal. The next redrawn text is below it.
    pub(crate) fn print_above(&mut self, blocks: &[Block]) {
        let look = Look::of_stdout();
        write(&above(&self.drawn, width_of_terminal(), &human::render(blocks, look)));
        self.drawn.clear();
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if !self.drawn.is_empty() {
            write(&above(&self.drawn, width_of_terminal(), ""));
        }
    }
}

/// Returns the number of columns of the terminal, which can be smaller than the width of the text.
fn width_of_terminal() -> usize {
    usize::from(Term::stdout().size().1).max(1)
}

/// Returns the first lines and the last line, if there are too many.
fn fitting(mut lines: Vec<&str>, most: usize) -> Vec<&str> {
    let last = lines.pop();
    lines.truncate(most - 1);
    lines.extend(last);
    lines
}

/// Returns the sequence that moves the cursor from the end of the last drawn line to the first column of the first one.
/// A terminal that is narrower than before shows a line in several rows.
fn begin(drawn: &[usize], width: usize) -> String {
    let rows: usize = drawn.iter().map(|length| length.div_ceil(width).max(1)).sum();
    match rows.saturating_sub(1) {
        0 => "\r".to_owned(),
        up => format!("\r\x1b[{up}A"),
    }
}

/// Returns the sequence that replaces the drawn lines with text that ends with a line break.
fn above(drawn: &[usize], width: usize, text: &str) -> String {
    format!("{}\x1b[J{text}", begin(drawn, width))
}

/// Returns the lines in one piece. What was on the terminal is overwritten and not erased before, so that nothing
/// flickers.
fn replacement(lines: &[&str]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| format!("{line}\x1b[K")).collect();
    lines.join("\r\n") + "\x1b[J"
}

/// Writes to the terminal. Ignores errors, because the text is only shown while a run lasts.
fn write(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::{above, begin, fitting, replacement};

    #[test]
    fn the_cursor_returns_to_the_first_line_even_if_the_terminal_became_narrower() {
        assert_eq!(
            [&[][..], &[10], &[10, 0, 40], &[10, 41, 10]].map(|drawn| begin(drawn, 40)),
            ["\r".to_owned(), "\r".to_owned(), "\r\x1b[2A".to_owned(), "\r\x1b[3A".to_owned()]
        );
    }

    #[test]
    fn lines_are_overwritten_and_the_rest_is_erased() {
        assert_eq!(replacement(&["a", "b"]), "a\x1b[K\r\nb\x1b[K\x1b[J");
        assert_eq!(above(&[1, 1], 40, "event\n"), "\r\x1b[1A\x1b[Jevent\n");
    }

    #[test]
    fn a_low_terminal_shows_the_first_lines_and_the_last() {
        assert_eq!(fitting(vec!["a", "b", "c", "d"], 3), ["a", "b", "d"]);
        assert_eq!(fitting(vec!["a", "b"], 3), ["a", "b"]);
        assert_eq!(fitting(vec!["a", "b"], 1), ["b"]);
    }
}
