//! Tables and text for people. The output is at most as wide as the terminal, or 80 columns if there is no terminal,
//! and can be colored.

use std::{io::IsTerminal, time::Duration};

use super::message::{is_colored, is_quiet};

use comfy_table::{Attribute, CellAlignment, Color, ContentArrangement, presets};

/// The number of columns to use if no terminal reports its width.
const USUAL_WIDTH: u16 = 80;
const NARROWEST: u16 = 40;

/// The minimum output width for wider gaps between table columns.
const ROOMY_WIDTH: u16 = 110;

/// A block of output.
#[derive(Debug)]
pub(crate) enum Block {
    /// Pairs of a name and a value, one pair per line.
    Facts(Vec<(&'static str, String)>),
    /// A table with a header.
    Table(Table),
    /// A heading with paragraphs below it.
    Section(String, Vec<Vec<Cell>>),
    /// A paragraph.
    Text(String),
}

/// A table with a header.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// A column's heading and alignment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column(pub(crate) &'static str, pub(crate) Align);

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// The meaning of a text, which determines its color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Bad,
    Faint,
    Strong,
}

/// A text and its tone.
#[derive(Clone, Debug)]
pub(crate) struct Cell(pub(crate) String, pub(crate) Tone);

impl Cell {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self(text.into(), Tone::Plain)
    }

    pub(crate) fn faint(text: impl Into<String>) -> Self {
        Self(text.into(), Tone::Faint)
    }

    /// Creates a cell with `text`, or with a dash if there is no text.
    pub(crate) fn or_dash<T: Into<String>>(text: Option<T>) -> Self {
        text.map_or_else(|| Self::faint("-"), Self::plain)
    }

    pub(crate) fn strong(text: impl Into<String>) -> Self {
        Self(text.into(), Tone::Strong)
    }
}

/// The width of the output, and whether it is colored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) width: u16,
    pub(crate) color: bool,
}

impl Look {
    /// Returns the look that standard output supports.
    pub(crate) fn of_stdout() -> Self {
        let terminal = std::io::stdout().is_terminal();
        let told = terminal.then(|| comfy_table::Table::new().width()).flatten();
        Self { width: usable_width(told), color: is_colored(terminal) }
    }
}

/// Returns the number of columns to use. A serial line reports a width of 0, which means unknown, until
/// its size is set.
fn usable_width(told: Option<u16>) -> u16 {
    told.filter(|&width| width > 0).unwrap_or(USUAL_WIDTH).max(NARROWEST)
}

/// Returns the remarks to print below the result of a measurement: a remark if the measurement was interrupted,
/// followed by the notes.
pub(crate) fn remarks(interrupted: bool, notes: &[String]) -> impl Iterator<Item = Block> {
    let cut_short = "Interrupted; the results above are partial.";
    let cut_short = interrupted.then(|| Block::Text(cut_short.to_owned()));
    let notes = notes.iter().filter(|_| !is_quiet()).map(|note| Block::Text(format!("Note: {note}")));
    cut_short.into_iter().chain(notes)
}

pub(super) fn render(blocks: &[Block], look: Look) -> String {
    let parts: Vec<String> =
        blocks.iter().map(|block| render_block(block, look)).filter(|part| !part.is_empty()).collect();
    let mut text = parts.join("\n");
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn render_block(block: &Block, look: Look) -> String {
    match block {
        Block::Facts(facts) => {
            let rows = facts.iter().map(|(name, value)| vec![Cell::faint(format!("{name} ")), Cell::plain(value)]);
            layout(None, rows.collect::<Vec<_>>().as_slice(), &[Align::Left, Align::Left], look)
        }
        Block::Table(table) => {
            let alignments: Vec<Align> = table.columns.iter().map(|column| column.1).collect();
            layout(Some(&table.columns), &table.rows, &alignments, look)
        }
        Block::Section(title, rows) => {
            let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
            let body = layout(None, rows, &vec![Align::Left; columns], look);
            format!("{}\n{body}", layout(None, &[vec![Cell::strong(title)]], &[Align::Left], look).trim_end())
        }
        Block::Text(text) => layout(None, &[vec![Cell::plain(text)]], &[Align::Left], look),
    }
}

fn layout(header: Option<&[Column]>, rows: &[Vec<Cell>], alignments: &[Align], look: Look) -> String {
    if rows.is_empty() {
        return String::new();
    }
    // On narrow terminals, columns are closer together.
    let gap = if look.width >= ROOMY_WIDTH { 3 } else { 1 };
    let mut table = comfy_table::Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(look.width);
    if look.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    if let Some(columns) = header {
        table.set_header(columns.iter().map(|column| styled(&Cell::faint(column.0), look)));
    }
    for row in rows {
        table.add_row(row.iter().map(|cell| styled(cell, look)));
    }
    for (index, (column, align)) in table.column_iter_mut().zip(alignments).enumerate() {
        column.set_cell_alignment(match align {
            Align::Left => CellAlignment::Left,
            Align::Right => CellAlignment::Right,
        });
        column.set_padding((if index == 0 { 0 } else { gap }, 0));
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    text
}

/// Sanitizes text that may come from a file from another system. Replaces control characters, which a terminal might
/// interpret, and truncates overlong words and texts.
fn harmless(text: &str) -> String {
    const LONGEST_TEXT: usize = 4_000;
    const LONGEST_WORD: usize = 300;
    let mut word = 0;
    let mut kept = String::new();
    for letter in text.chars().take(LONGEST_TEXT) {
        word = if letter.is_whitespace() { 0 } else { word + 1 };
        match word {
            LONGEST_WORD => kept.push('…'),
            length if length > LONGEST_WORD => {}
            _ if letter.is_control() && letter != '\n' => kept.push('\u{fffd}'),
            _ => kept.push(letter),
        }
    }
    kept
}

fn styled(cell: &Cell, look: Look) -> comfy_table::Cell {
    let text = comfy_table::Cell::new(harmless(&cell.0));
    match (look.color, cell.1) {
        (false, _) | (true, Tone::Plain) => text,
        (true, Tone::Good) => text.fg(Color::Green),
        (true, Tone::Bad) => text.fg(Color::Red),
        (true, Tone::Faint) => text.add_attribute(Attribute::Dim),
        (true, Tone::Strong) => text.add_attribute(Attribute::Bold),
    }
}

/// Formats nanoseconds with a suitable unit and about three digits.
pub(crate) fn short_time(nanoseconds: f64) -> String {
    let three_digits = |value: f64| match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    in_a_suitable_unit(nanoseconds, &[("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)], three_digits)
}

/// Formats a frequency in hertz with a suitable unit and at most four decimals.
pub(crate) fn short_frequency(hertz: f64) -> String {
    in_a_suitable_unit(hertz, &[("Hz", 1.0), ("kHz", 1e3), ("MHz", 1e6), ("GHz", 1e9)], |_| 4)
}

/// Formats a value in the smallest of these units in which it is below 1000 after rounding, or in the last unit.
fn in_a_suitable_unit(value: f64, units: &[(&str, f64)], decimals: impl Fn(f64) -> usize) -> String {
    let in_unit = |size: f64| {
        let text = format!("{:.*}", decimals(value / size), value / size);
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    };
    let mut shown = units.iter().map(|(unit, size)| (in_unit(*size), unit));
    // The rounded value determines the unit: 999.9 ns rounds to 1 µs.
    let is_small = |text: &str| text.parse::<f64>().is_ok_and(|rounded| rounded.abs() < 1_000.0);
    let last = units.len() - 1;
    let found = shown.by_ref().take(last).find(|(text, _)| is_small(text)).or_else(|| shown.next());
    let (text, unit) = found.expect("there are units");
    format!("{text} {unit}")
}

/// Formats a duration with all its digits, and with a space before the unit.
pub(crate) fn exact_time(duration: Duration) -> String {
    let text = format!("{duration:?}");
    let value = text.trim_end_matches(char::is_alphabetic);
    format!("{value} {}", &text[value.len()..])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::{prop_assert, proptest};

    use super::{
        Align, Block, Cell, Column, Look, Table, Tone, exact_time, harmless, render, short_frequency, short_time,
        usable_width,
    };

    const PLAIN: Look = Look { width: 40, color: false };

    fn table() -> Vec<Block> {
        let columns = vec![Column("source", Align::Left), Column("cost", Align::Right)];
        let rows = vec![
            vec![Cell("tsc".to_owned(), Tone::Good), Cell::plain("9.5 ns")],
            vec![Cell::plain("monotonic-raw"), Cell::plain("25 ns")],
        ];
        vec![Block::Table(Table { columns, rows })]
    }

    #[test]
    fn numbers_are_right_aligned_and_lines_have_no_trailing_blanks() {
        assert_eq!(render(&table(), PLAIN), "source          cost\ntsc           9.5 ns\nmonotonic-raw  25 ns\n");
    }

    #[test]
    fn color_is_used_only_on_request() {
        assert!(!render(&table(), PLAIN).contains('\u{1b}'));
        assert!(render(&table(), Look { color: true, ..PLAIN }).contains('\u{1b}'));
    }

    #[test]
    fn long_text_wraps_within_the_width() {
        let text = render(&[Block::Text("word ".repeat(40))], PLAIN);
        assert!(text.lines().count() > 4 && text.lines().all(|line| line.chars().count() <= 40), "{text}");
    }

    #[test]
    fn a_terminal_of_unknown_width_has_80_columns() {
        let widths = [None, Some(0), Some(20), Some(100)].map(usable_width);
        assert_eq!(widths, [80, 80, 40, 100]);
    }

    #[test]
    fn foreign_text_cannot_control_the_terminal_or_block_the_output() {
        assert_eq!(harmless("a\u{1b}[31mb\u{7}"), "a\u{fffd}[31mb\u{fffd}");
        assert_eq!(harmless(&"x".repeat(900_000)).chars().count(), 300);
        assert!(harmless(&"x ".repeat(900_000)).chars().count() <= 4_000);
    }

    #[test]
    fn times_have_about_three_significant_digits() {
        let shown: Vec<String> = [0.444, 9.5, 12.34, 999.0, 4e6, 1e9].into_iter().map(short_time).collect();
        assert_eq!(shown, ["0.44 ns", "9.5 ns", "12.3 ns", "999 ns", "4 ms", "1 s"]);
        let rounded: Vec<String> =
            [99.96, 999.4, 999.9, 999_900.0, 999_900_000.0].into_iter().map(short_time).collect();
        assert_eq!(rounded, ["100 ns", "999 ns", "1 µs", "1 ms", "1 s"]);
    }

    proptest! {
        #[test]
        fn a_time_never_has_a_thousand_of_a_unit(digits in 1.0..10_000.0_f64, power in -2..9) {
            let ns = digits * 10_f64.powi(power);
            let shown = short_time(ns);
            let (value, unit) = shown.split_once(' ').expect("a unit");
            let value: f64 = value.parse().expect("a number");
            let size = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)].iter().find(|(name, _)| *name == unit);
            let (_, size) = size.expect("a unit of time");
            prop_assert!(unit == "s" || value < 1_000.0, "{ns}: {shown}");
            prop_assert!(unit == "ns" || value >= 1.0, "{ns}: {shown}");
            // Three digits, or two decimals of a nanosecond.
            let error = (value * size - ns).abs();
            prop_assert!(error <= (ns * 5.1e-3).max(5.1e-3), "{ns}: {shown}");
        }
    }

    #[test]
    fn the_rounded_frequency_determines_the_unit() {
        let shown = [999.999_99, 999_999.99, 999_999_999.0, 2.25e9, 32_768.0, 1.0].map(short_frequency);
        assert_eq!(shown, ["1 kHz", "1 MHz", "1 GHz", "2.25 GHz", "32.768 kHz", "1 Hz"]);
    }

    proptest! {
        #[test]
        fn a_frequency_never_has_a_thousand_of_a_unit(digits in 1.0..10_000.0_f64, power in 0..7) {
            let hertz = digits * 10_f64.powi(power);
            let shown = short_frequency(hertz);
            let (value, unit) = shown.split_once(' ').expect("a unit");
            let value: f64 = value.parse().expect("a number");
            prop_assert!(unit == "GHz" || value < 1_000.0, "{hertz}: {shown}");
            prop_assert!(value >= 1.0, "{hertz}: {shown}");
        }
    }

    #[test]
    fn exact_times_have_all_digits() {
        let shown = [0, 1_500, 950_000_000, 1_000_000_001].map(|ns| exact_time(Duration::from_nanos(ns)));
        assert_eq!(shown, ["0 ns", "1.5 µs", "950 ms", "1.000000001 s"]);
    }
}
