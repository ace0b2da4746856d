//! A comparison on a terminal: the differences first, all values as a detail.

use hpt_document::compare::{CompareDocument, ComparedFigureRow};

use super::shown::{RANKING_HEAD, UNSEEN, cells, differences, differs, headline, quantities, ranked, rule};
use crate::output::{Align, Block, Cell, Column, Table, Tone, one_or_many, remarks};

/// The number of quantities up to which all are shown.
const MOST_SHOWN: usize = 12;

pub(super) fn blocks(data: &CompareDocument) -> Vec<Block> {
    let mut blocks = vec![Block::Text(headline(data))];
    let found = differences(data);
    // Few values are all shown, with the changes that would not be seen.
    let is_short = data.quantities <= MOST_SHOWN;
    if is_short && data.quantities > 0 {
        blocks.push(values(data, quantities(data), false));
    } else if !found.is_empty() {
        blocks.push(values(data, found.into_iter(), false));
    }
    if data.sides.len() > 2 {
        let columns = RANKING_HEAD.iter().enumerate();
        let columns = columns.map(|(at, &name)| Column(name, if at == 1 { Align::Left } else { Align::Right }));
        let rows = data.ranking.iter().map(|row| {
            let tone = if row.outlier { Tone::Bad } else { Tone::Plain };
            ranked(row).into_iter().map(|text| Cell(text, tone)).collect()
        });
        blocks.push(Block::Text("Ranking by the worst wake-up of the kernel's timer:".to_owned()));
        blocks.push(Block::Table(Table { columns: columns.collect(), rows: rows.collect() }));
    }
    blocks.extend(settings(data));
    if data.coincidences.len() > 1 {
        // The headline names one of them.
        blocks.push(Block::Text(data.coincidences.join("\n")));
    }
    blocks.extend(rules(data));
    blocks.push(Block::Detail(Box::new(values(data, quantities(data), true))));
    blocks.push(Block::Detail(Box::new(Block::Text(rule(data.method).to_owned()))));
    let rows = data.sides.iter().map(|side| {
        let cpu = side.machine.cpu.as_ref().unwrap_or(&side.machine.architecture);
        let machine = side.machine.board.as_ref().unwrap_or(cpu);
        let (runs, kernel) = (side.runs, &side.machine.kernel_release);
        let start = side.started_at.as_ref().map_or_else(String::new, |start| format!(", {start}"));
        let count = one_or_many(runs, "run", "runs");
        let about = format!("{}: {runs} {count}, {machine}, Linux {kernel}{start}, hpt {}", side.file, side.hpt);
        vec![Cell::faint(format!("{} ", side.name)), Cell::plain(about)]
    });
    blocks.push(Block::Section("Sides".to_owned(), rows.collect()));
    blocks.extend(remarks(false, &data.notes));
    blocks
}

/// Returns each value, with the reports that have it.
fn by_value<'a>(
    data: &'a CompareDocument,
    values: &[Option<String>],
    missing: &'static str,
) -> Vec<(String, Vec<&'a str>)> {
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, value) in data.sides.iter().map(|side| side.name.as_str()).zip(values) {
        let value = value.as_deref().unwrap_or(missing);
        match found.iter_mut().find(|(known, _)| known == value) {
            Some((_, names)) => names.push(name),
            None => found.push((value.to_owned(), vec![name])),
        }
    }
    found
}

fn settings(data: &CompareDocument) -> impl Iterator<Item = Block> {
    let lists = [("Settings that differ", &data.settings), ("Conditions that differ", &data.conditions)];
    lists.into_iter().filter(|(_, settings)| !settings.is_empty()).map(|(title, settings)| {
        let rows = settings.iter().map(|row| {
            let said = by_value(data, &row.values, "unknown");
            let said: Vec<_> =
                said.into_iter().map(|(value, names)| format!("{value} ({})", names.join(", "))).collect();
            vec![Cell::faint(format!("{} ", row.setting)), Cell::plain(said.join("; "))]
        });
        Block::Section(title.to_owned(), rows.collect())
    })
}

fn rules(data: &CompareDocument) -> Vec<Block> {
    // Different machines have many rules with different results.
    let is_long = data.sides.len() > 2;
    let of_rule = data.rules.iter().map(|row| {
        let said = by_value(data, &row.verdicts, "not checked").into_iter();
        let rows = said.map(|(value, names)| vec![Cell::faint(format!("{} ", names.join(", "))), Cell::plain(value)]);
        let block = Block::Section(format!("{} ({})", row.about, row.rule), rows.collect());
        if is_long { Block::Detail(Box::new(block)) } else { block }
    });
    let mut blocks: Vec<Block> = of_rule.collect();
    if is_long && !data.rules.is_empty() {
        let count = data.rules.len();
        blocks.push(Block::Text(format!(
            "{count} {} of hpt doctor {} different results: see -v, or the page (--output).",
            one_or_many(count, "rule", "rules"),
            one_or_many(count, "has", "have")
        )));
    }
    blocks
}

/// Returns a table of quantities. Column headers are constants, so sides have numbers in them.
fn values<'a>(
    data: &CompareDocument,
    quantities: impl Iterator<Item = &'a [ComparedFigureRow]>,
    is_marked: bool,
) -> Block {
    const NUMBERED: [&str; 12] =
        ["1st", "2nd", "3rd", "4th", "5th", "6th", "7th", "8th", "9th", "10th", "11th", "12th"];
    let mut columns = vec![Column("part", Align::Left), Column("quantity", Align::Left)];
    let count = data.sides.len();
    let names: Vec<&str> = data.sides.iter().map(|side| side.name.as_str()).collect();
    // Letters are shorter than the names that users give.
    let letters: &[&'static str] = &["A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L"];
    let is_by_letter = names.iter().zip(letters).all(|(name, letter)| name == letter);
    let header = if is_by_letter { letters } else { &NUMBERED };
    columns.extend((0..count).map(|at| Column(header.get(at).copied().unwrap_or(""), Align::Right)));
    columns.push(Column(if count == 2 { "ratio" } else { "furthest ratio" }, Align::Right));
    columns.push(Column(UNSEEN, Align::Right));
    columns.push(Column("", Align::Left));
    let mut before = "";
    let rows = quantities.map(|rows| {
        let tone = if is_marked && differs(rows) { Tone::Strong } else { Tone::Plain };
        let part = if std::mem::replace(&mut before, &rows[0].part) == rows[0].part { "" } else { &rows[0].part };
        let cells = cells(rows, is_marked).into_iter().map(|text| Cell(text, tone));
        [Cell::plain(part), Cell(rows[0].quantity.clone(), tone)].into_iter().chain(cells).collect()
    });
    let rows = rows.collect();
    Block::Table(Table { columns, rows })
}
