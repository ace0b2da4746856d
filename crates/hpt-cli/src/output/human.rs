//! Tables and text for people. The output is at most as wide as the terminal, or 80 columns if there is no terminal,
//! and can be colored.

use std::{io::IsTerminal, time::Duration};

use super::{
    bar::shortened_bar,
    message::{is_colored, is_quiet, is_verbose},
    text::is_obeyed,
};

use comfy_table::{Attribute, CellAlignment, Color, ColumnConstraint, ContentArrangement, Width, presets};

/// The number of columns to use if no terminal reports its width.
const USUAL_WIDTH: u16 = 80;
const NARROWEST: u16 = 40;

/// The minimum output width for wider gaps between table columns.
const ROOMY_WIDTH: u16 = 110;

/// The least length to which narrow terminals shorten the longest bar of a chart.
const SHORTEST_BAR: usize = 8;
/// The length up to which a column is as wide as its words. Longer words, for example paths, may be broken.
const LONGEST_WORD: usize = 20;
/// Stands for a space at which no line may end. It is replaced by a space before printing.
const NO_BREAK: char = '\u{e000}';
/// The maximum number of characters of one text.
const LONGEST_TEXT: usize = 4_000;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// Pairs of a name and a value, one pair per line.
    Facts(Vec<(&'static str, String)>),
    /// A table with a header.
    Table(Table),
    /// A heading with paragraphs below it.
    Section(String, Vec<Vec<Cell>>),
    /// A paragraph.
    Text(String),
    /// The result in one sentence, at the top of the output.
    Headline(String),
    /// A block that is printed only with `--verbose`, for example a legend or the origin of the figures.
    Detail(Box<Block>),
}

impl Block {
    /// Creates a paragraph that is printed only with `--verbose`.
    pub(crate) fn detail(text: impl Into<String>) -> Self {
        Self::Detail(Box::new(Self::Text(text.into())))
    }
}

/// A table with a header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Removes the columns in which every value is missing.
    pub(crate) fn without_empty_columns(mut self) -> Self {
        let is_empty = |column: usize| self.rows.iter().all(|row| row.get(column).is_some_and(|cell| cell.0 == "-"));
        let kept: Vec<bool> = (0..self.columns.len()).map(|column| self.rows.is_empty() || !is_empty(column)).collect();
        retain(&mut self.columns, &kept);
        self.rows.iter_mut().for_each(|row| retain(row, &kept));
        self
    }
}

/// Keeps the elements whose place is marked with `true`.
fn retain<T>(of: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    of.retain(|_| kept.next().copied().unwrap_or(true));
}

/// A column's heading and alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column(pub(crate) &'static str, pub(crate) Align);

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
    /// A bar that `bar` returned. Narrow terminals show all bars shorter.
    Bar,
}

/// The meaning of a text, which determines its color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Bad,
    Faint,
    Strong,
    /// A command to copy. As the last cell of a row in a section, it is printed on one line, however long.
    Command,
}

/// A text and its tone.
#[derive(Clone, Debug, PartialEq, Eq)]
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

    pub(crate) fn command(text: impl Into<String>) -> Self {
        Self(text.into(), Tone::Command)
    }

    pub(crate) fn strong(text: impl Into<String>) -> Self {
        Self(text.into(), Tone::Strong)
    }
}

/// The width of the output, whether it is colored, and whether it contains details.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) width: u16,
    pub(crate) color: bool,
    pub(crate) verbose: bool,
}

impl Look {
    /// Returns the look that standard output supports.
    pub(crate) fn of_stdout() -> Self {
        let terminal = std::io::stdout().is_terminal();
        let told = terminal.then(|| comfy_table::Table::new().width()).flatten();
        Self { width: usable_width(told), color: is_colored(terminal), verbose: is_verbose() }
    }

    /// Returns the look that standard error supports. Its width is that of standard output if both are terminals.
    pub(crate) fn of_stderr() -> Self {
        let color = is_colored(std::io::stderr().is_terminal());
        Self { color, ..Self::of_stdout() }
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
            let header = table.columns.iter().map(|column| Cell::faint(column.0)).collect();
            layout(Some(header), &table.rows, &alignments, look)
        }
        Block::Section(title, rows) => {
            let body = section_body(rows, look);
            format!("{}\n{body}", layout(None, &[vec![Cell::strong(title)]], &[Align::Left], look).trim_end())
        }
        Block::Text(text) => {
            layout(None, &[vec![Cell::plain(unaligned(text, look.width.into()))]], &[Align::Left], look)
        }
        Block::Headline(text) => layout(None, &[vec![Cell::strong(text)]], &[Align::Left], look),
        Block::Detail(block) if look.verbose => render_block(block, look),
        Block::Detail(_) => String::new(),
    }
}

/// Replaces the runs of spaces that align the lines of a text, if a line with such a run is too long.
fn unaligned(text: &str, width: usize) -> String {
    if !text.lines().any(|line| line.contains("  ") && line.chars().count() > width) {
        return text.to_owned();
    }
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

/// Lays out the rows of a section. A command is never wrapped, because it could not be copied.
fn section_body(rows: &[Vec<Cell>], look: Look) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let is_command = |row: &[Cell]| matches!(row, [.., Cell(_, Tone::Command)]);
    let mut body = String::new();
    for run in rows.chunk_by(|row, next| is_command(row) == is_command(next)) {
        if is_command(&run[0]) {
            run.iter().for_each(|row| body.push_str(&on_one_line(row, look)));
        } else {
            body.push_str(&layout(None, run, &vec![Align::Left; columns], look));
        }
    }
    body
}

/// Formats a row whose last cell is a command. The cells before it are the indentation or a label.
fn on_one_line(row: &[Cell], look: Look) -> String {
    let mut line = String::new();
    for Cell(text, tone) in row {
        let text = without_control(text);
        match (look.color, tone) {
            (true, Tone::Command) => line.push_str(&format!("\x1b[32m{text}\x1b[0m")),
            (true, Tone::Faint) => line.push_str(&format!("\x1b[2m{text}\x1b[0m")),
            _ => line.push_str(&text),
        }
    }
    line.push('\n');
    line
}

/// Replaces the characters that a terminal interprets, and truncates overlong text.
fn without_control(text: &str) -> String {
    let shown = |letter: char| if is_obeyed(letter) { '\u{fffd}' } else { letter };
    text.chars().take(LONGEST_TEXT).map(shown).collect()
}

/// Arranges cells in columns. If the columns are too narrow for a number or a word, leaves out the columns without
/// values, and prints records if that is not enough.
fn layout(header: Option<Vec<Cell>>, rows: &[Vec<Cell>], alignments: &[Align], look: Look) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let header = header.map(|cells| cells.iter().map(|cell| Cell(unbreakable(&cell.0), cell.1)).collect::<Vec<_>>());
    let whole = |cell: &Cell| Cell(unbreakable(&harmless(&cell.0)), cell.1);
    let mut rows: Vec<Vec<Cell>> = rows.iter().map(|row| row.iter().map(whole).collect()).collect();
    let columns = rows.iter().map(Vec::len).chain(header.iter().map(Vec::len)).max().unwrap_or(0);
    let space = usize::from(look.width).saturating_sub(usize::from(gap(look)) * columns.saturating_sub(1));
    let cells = |column: usize| header.iter().chain(&rows).filter_map(move |row| row.get(column));
    let mut needs: Vec<ColumnWidth> = (0..columns)
        .map(|column| {
            let widths = cells(column).map(|cell| ColumnWidth::of(cell, alignments.get(column)));
            widths.fold(ColumnWidth::default(), ColumnWidth::max)
        })
        .collect();
    let widths = match arranged(&needs, space) {
        Some(widths) => {
            // If all lines of a column break before its end, other columns get the rest.
            for (column, (need, width)) in needs.iter_mut().zip(&widths).enumerate() {
                let longest = cells(column).map(|cell| longest_line(&cell.0, *width)).max().unwrap_or(0);
                if longest < *width && *width < need.whole && alignments.get(column) != Some(&Align::Bar) {
                    need.whole = longest.max(need.least);
                }
            }
            arranged(&needs, space).unwrap_or(widths)
        }
        None if columns > 1 => return layout_of_known(header.as_deref(), &rows, alignments, look),
        // A single column has no other arrangement.
        None => vec![space],
    };
    for row in &mut rows {
        for ((cell, width), align) in row.iter_mut().zip(&widths).zip(alignments) {
            if *align == Align::Bar {
                cell.0 = shortened_bar(&cell.0, *width);
            }
        }
    }
    printed(header.as_deref(), &rows, alignments.iter().copied().zip(widths), look)
}

/// Arranges only the columns with values. If all have values, prints records.
fn layout_of_known(header: Option<&[Cell]>, rows: &[Vec<Cell>], alignments: &[Align], look: Look) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0).max(header.map_or(0, <[Cell]>::len));
    let has_values = |column: &usize| rows.iter().filter_map(|row| row.get(*column)).any(|cell| !is_missing(cell));
    let kept: Vec<usize> = (0..columns).filter(has_values).collect();
    let Some(header) = header.filter(|_| kept.len() < columns) else { return records(header, rows, look) };
    let of = |row: &[Cell]| kept.iter().filter_map(|&column| row.get(column).cloned()).collect();
    let rows: Vec<_> = rows.iter().map(|row| of(row)).collect();
    let alignments: Vec<Align> = kept.iter().filter_map(|&column| alignments.get(column).copied()).collect();
    layout(Some(of(header)), &rows, &alignments, look)
}

/// Prints cells in columns with the given alignments and widths.
fn printed(
    header: Option<&[Cell]>,
    rows: &[Vec<Cell>],
    columns: impl Iterator<Item = (Align, usize)>,
    look: Look,
) -> String {
    let mut table = comfy_table::Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(look.width);
    if look.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    if let Some(header) = header {
        table.set_header(header.iter().map(|cell| styled(cell, look)));
    }
    for row in rows {
        table.add_row(row.iter().map(|cell| styled(cell, look)));
    }
    let gap = gap(look);
    for (index, (column, (align, width))) in table.column_iter_mut().zip(columns).enumerate() {
        column.set_cell_alignment(match align {
            Align::Left | Align::Bar => CellAlignment::Left,
            Align::Right => CellAlignment::Right,
        });
        let padding = if index == 0 { 0 } else { gap };
        column.set_padding((padding, 0));
        let width = u16::try_from(width).unwrap_or(look.width).max(1);
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width.saturating_add(padding))));
    }
    let mut text = table.trim_fmt().replace(NO_BREAK, " ");
    text.push('\n');
    text
}

/// Returns the distance between columns. On narrow terminals, columns are closer together.
const fn gap(look: Look) -> u16 {
    if look.width >= ROOMY_WIDTH { 3 } else { 1 }
}

/// The smallest width of a column that breaks no number and no usual word, and the width at which no cell has a
/// line break.
#[derive(Clone, Copy, Debug, Default)]
struct ColumnWidth {
    least: usize,
    whole: usize,
}

impl ColumnWidth {
    fn of(cell: &Cell, align: Option<&Align>) -> Self {
        let length = |text: &str| text.chars().count();
        let whole = cell.0.lines().map(length).max().unwrap_or(0);
        let least = if align == Some(&Align::Bar) {
            whole.min(SHORTEST_BAR)
        } else {
            let words = cell.0.split_whitespace();
            words
                .map(|word| if is_number(word) { length(word) } else { length(word).min(LONGEST_WORD) })
                .max()
                .unwrap_or(0)
        };
        Self { least, whole }
    }

    fn max(self, other: Self) -> Self {
        Self { least: self.least.max(other.least), whole: self.whole.max(other.whole) }
    }
}

/// Divides `space` among the columns. Each column gets at least its least width; the rest is divided equally among
/// the columns that can use it. Returns `None` if there is too little space.
fn arranged(columns: &[ColumnWidth], space: usize) -> Option<Vec<usize>> {
    let mut left = space.checked_sub(columns.iter().map(|column| column.least).sum())?;
    let mut widths: Vec<usize> = columns.iter().map(|column| column.least).collect();
    loop {
        let wanting = widths.iter().zip(columns).filter(|(width, column)| **width < column.whole).count();
        let Some(share) = left.checked_div(wanting) else { return Some(widths) };
        let (share, mut single) = (share, if share == 0 { left } else { 0 });
        for (width, column) in widths.iter_mut().zip(columns) {
            let more = (column.whole - *width).min(share.max(usize::from(single > 0)));
            single = single.saturating_sub(more);
            *width += more;
            left -= more;
        }
        if left == 0 {
            return Some(widths);
        }
    }
}

/// Returns the length of the longest line of a text in a column of this width.
fn longest_line(text: &str, width: usize) -> usize {
    let of_line = |line: &str| {
        let (mut longest, mut length) = (0, 0_usize);
        for word in line.split(' ').map(|word| word.chars().count()) {
            let joined = if length == 0 { word } else { length + 1 + word };
            length = if joined <= width { joined } else { word.min(width) };
            longest = longest.max(length);
        }
        longest
    };
    text.lines().map(of_line).max().unwrap_or(0)
}

fn is_missing(cell: &Cell) -> bool {
    ["", "-"].contains(&cell.0.as_str())
}

/// Prints a record for each row: a line for each cell, with the name of its column. Leaves out missing values.
fn records(header: Option<&[Cell]>, rows: &[Vec<Cell>], look: Look) -> String {
    let Some(header) = header else {
        let join = |row: &Vec<Cell>| row.iter().map(|cell| cell.0.trim()).collect::<Vec<_>>().join("  ");
        let rows: Vec<Vec<Cell>> = rows.iter().map(|row| vec![Cell::plain(join(row))]).collect();
        return layout(None, &rows, &[Align::Left], look);
    };
    let mut first = String::new();
    let records = rows.iter().map(|row| {
        // An empty first cell repeats the cell above it.
        if let Some(cell) = row.first().filter(|cell| !cell.0.is_empty()) {
            first.clone_from(&cell.0);
        }
        let start =
            row.first().map(|cell| Cell(first.clone(), if cell.1 == Tone::Plain { Tone::Strong } else { cell.1 }));
        let cells = start.into_iter().chain(row.iter().skip(1).cloned());
        let lines = header.iter().zip(cells).filter(|(_, cell)| !is_missing(cell));
        let lines: Vec<Vec<Cell>> = lines.map(|(name, cell)| vec![Cell::faint(format!("{} ", name.0)), cell]).collect();
        layout(None, &lines, &[Align::Left, Align::Left], look)
    });
    records.collect::<Vec<_>>().join("\n")
}

/// Returns the text on one line of a table, for example a command. If the terminal is too narrow for it, the table is
/// arranged as records.
pub(crate) fn unbroken(text: &str) -> String {
    text.replace(' ', &NO_BREAK.to_string())
}

/// Replaces the indentation, and the space between a number and its unit, so that no line ends there.
fn unbreakable(text: &str) -> String {
    const UNITS: [&str; 24] = [
        "ns", "µs", "ms", "s", "min", "h", "Hz", "kHz", "MHz", "GHz", "ppm", "ppb", "%", "°C", "V", "mV", "B", "kB",
        "KiB", "MiB", "GiB", "bit", "bits", "x",
    ];
    let is_unit = |word: &str| {
        let word = word.split('\n').next().unwrap_or_default();
        let bare = word.trim_end_matches(['.', ',', ';', ':', ')', ']', '*']);
        UNITS.contains(&bare) || (bare.len() == 3 && bare.bytes().all(|digit| digit.is_ascii_digit()))
    };
    let mut joined = String::with_capacity(text.len());
    let mut words = text.split(' ').peekable();
    while let Some(word) = words.next() {
        joined.push_str(word);
        let Some(next) = words.peek() else { break };
        let last = word.rsplit('\n').next().unwrap_or_default();
        let is_whole_number = is_number(last) && last.ends_with(|end: char| end.is_ascii_digit());
        let is_sign = ["±", "<", ">", "≤", "≥", "-"].contains(&last.trim_start_matches('(')) && is_number(next);
        let is_indentation = joined.chars().all(|letter| letter == NO_BREAK);
        joined.push(if is_indentation || (is_whole_number && is_unit(next)) || is_sign { NO_BREAK } else { ' ' });
    }
    joined
}

/// Returns whether a word is a number, possibly with a sign, a parenthesis or a unit.
fn is_number(word: &str) -> bool {
    let bare = word.trim_start_matches(['(', '[', '"', '±', '<', '>', '≤', '≥', '~', '-', '+', NO_BREAK]);
    bare.starts_with(|first: char| first.is_ascii_digit())
}

/// Sanitizes text that may come from a file from another system. Replaces the characters that a terminal
/// interprets, and truncates overlong words and texts.
fn harmless(text: &str) -> String {
    const LONGEST_WORD: usize = 300;
    let mut word = 0;
    let mut kept = String::new();
    for letter in text.chars().take(LONGEST_TEXT) {
        word = if letter.is_whitespace() { 0 } else { word + 1 };
        match word {
            LONGEST_WORD => kept.push('…'),
            length if length > LONGEST_WORD => {}
            _ if letter != '\n' && is_obeyed(letter) => kept.push('\u{fffd}'),
            _ => kept.push(letter),
        }
    }
    kept
}

fn styled(cell: &Cell, look: Look) -> comfy_table::Cell {
    let text = comfy_table::Cell::new(&cell.0);
    match (look.color, cell.1) {
        (false, _) | (true, Tone::Plain) => text,
        (true, Tone::Good | Tone::Command) => text.fg(Color::Green),
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
        Align, Block, Cell, Column, ColumnWidth, Look, Table, Tone, arranged, exact_time, harmless, render,
        short_frequency, short_time, unbreakable, usable_width,
    };

    const PLAIN: Look = Look { width: 40, color: false, verbose: false };

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
    fn a_command_is_one_line_however_long() {
        let long = format!("sudo sh -c 'for file in {}; do echo 0 >$file; done'", "/sys/a ".repeat(60).trim_end());
        let rows = vec![
            vec![Cell::plain("fix"), Cell::plain("word ".repeat(20))],
            vec![Cell::plain("    "), Cell::command(&long)],
            vec![Cell::plain("    "), Cell::command("echo \u{1b}[31m\n")],
            vec![Cell::plain("see"), Cell::plain("more")],
        ];
        let text = render(&[Block::Section("title".to_owned(), rows)], PLAIN);
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().position(|line| line.trim_start() == long).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(lines[at + 1..], ["    echo \u{fffd}[31m\u{fffd}", "see more"]);
        assert!(lines.iter().filter(|line| line.chars().count() > 40).count() == 1, "{text}");
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

    #[test]
    fn a_number_and_its_unit_stay_on_one_line() {
        let whole = |text: &str| unbreakable(text).replace(super::NO_BREAK, "_");
        assert_eq!(whole("took 1.5 µs, (± 63.5 ns) of 2 000 s"), "took 1.5_µs, (±_63.5_ns) of 2_000_s");
        assert_eq!(whole("  indented text"), "__indented text");
        assert_eq!(whole("1 193 182 Hz; < 10 µs; p99 s; 4 CPUs"), "1_193_182_Hz; <_10_µs; p99 s; 4 CPUs");
        let text = render(&[Block::Text("a word, then 123456.789 ms and 1 s ".repeat(20))], PLAIN);
        assert!(text.lines().all(|line| !line.ends_with(|end: char| end.is_ascii_digit())), "{text}");
        assert_eq!(text.matches("123456.789 ms").count(), 20, "{text}");
    }

    #[test]
    fn a_table_that_is_too_wide_becomes_records() {
        let columns = ["source", "frequency", "", "±", "bracket"].map(|name| Column(name, Align::Right));
        let row = ["tsc", "2250000000.125 Hz", "-", "1234567.5 ppm", "49.25 ns"].map(Cell::plain);
        let again = ["", "19200000 Hz", "yes", "1 ppm", "49 ns"].map(Cell::plain);
        let table = Table { columns: columns.to_vec(), rows: vec![row.to_vec(), again.to_vec()] };
        assert_eq!(
            render(&[Block::Table(table)], PLAIN),
            "source     tsc\nfrequency  2250000000.125 Hz\n±          1234567.5 ppm\nbracket    49.25 ns\n\n\
             source     tsc\nfrequency  19200000 Hz\n           yes\n±          1 ppm\nbracket    49 ns\n"
        );
    }

    #[test]
    fn a_table_that_is_too_wide_loses_columns_without_values() {
        let columns = ["CPU", "samples", "p50", "p99", "p99.9", "p99.99", "p99.999", "max"];
        let row = ["1", "1000000", "19.6 µs", "41.1 µs", "-", "-", "-", "3.85 ms"].map(Cell::plain);
        let columns = columns.map(|name| Column(name, Align::Right)).to_vec();
        assert_eq!(
            render(&[Block::Table(Table { columns, rows: vec![row.to_vec()] })], PLAIN),
            "CPU samples     p50     p99     max\n  1 1000000 19.6 µs 41.1 µs 3.85 ms\n"
        );
    }

    #[test]
    fn a_column_without_a_value_is_removed() {
        let columns = ["CPU", "p50", "p99", "max"].map(|name| Column(name, Align::Right)).to_vec();
        let rows = [["0", "-", "-", "3"], ["1", "5", "-", "-"]].map(|row| row.map(Cell::plain).to_vec()).to_vec();
        let table = Table { columns: columns.clone(), rows }.without_empty_columns();
        assert_eq!(render(&[Block::Table(table)], PLAIN), "CPU p50 max\n  0   -   3\n  1   5   -\n");
        assert_eq!(Table { columns, rows: Vec::new() }.without_empty_columns().columns.len(), 4);
    }

    #[test]
    fn a_text_that_is_too_wide_is_not_aligned() {
        let text = "     time source              offset     bracket\n    0.3 s tsc                 -12 ns       49 ns";
        let render = |width| render(&[Block::Text(text.to_owned())], Look { width, color: false, verbose: false });
        assert_eq!(render(60), format!("{text}\n"));
        assert_eq!(render(40), "time source offset bracket\n0.3 s tsc -12 ns 49 ns\n");
    }

    #[test]
    fn columns_share_the_space_that_is_left() {
        let columns = [(3, 3), (4, 10), (2, 30)].map(|(least, whole)| ColumnWidth { least, whole });
        assert_eq!(arranged(&columns, 8), None);
        assert_eq!(arranged(&columns, 9), Some(vec![3, 4, 2]));
        assert_eq!(arranged(&columns, 12), Some(vec![3, 6, 3]));
        assert_eq!(arranged(&columns, 30), Some(vec![3, 10, 17]));
        assert_eq!(arranged(&columns, 100), Some(vec![3, 10, 30]));
    }

    proptest! {
        #[test]
        fn no_table_breaks_a_number_or_exceeds_the_width(
            rows in proptest::collection::vec(proptest::collection::vec(0.001..1e13_f64, 9), 1..4),
            columns in 1..9_usize,
            width in 40..160_u16,
        ) {
            let names = ["a", "time lost %", "p99.9", "a longer name", "±", "", "min", "max ppm", "kernel"];
            let cells = |row: &Vec<f64>| row.iter().take(columns).map(|ns| Cell::plain(short_time(*ns))).collect();
            let table = Table {
                columns: names.iter().take(columns).map(|name| Column(name, Align::Right)).collect(),
                rows: rows.iter().map(cells).collect(),
            };
            let text = render(&[Block::Table(table)], Look { width, color: false, verbose: false });
            prop_assert!(text.lines().all(|line| line.chars().count() <= width.into()), "{text}");
            for ns in rows.iter().flat_map(|row| row.iter().take(columns)) {
                prop_assert!(text.contains(&short_time(*ns)), "{ns}: {text}");
            }
        }

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
