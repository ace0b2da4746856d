//! Two reports side by side: which figures differ by more than their spread.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::{
    data_file::Report,
    files::ReportFiles,
    page::{Gallery, WAKES},
};
use crate::{
    context::Context,
    exit::{Failure, causes},
    output::{
        Align, Block, Cell, Column, Document, Table, Tone,
        chart::{self, Figures, Pair, Unreadable},
        html::{self, Page, Piece, Section},
        rounded, short_time,
    },
};

/// A figure of one report: its middle, and the range that most samples lie in.
#[derive(Clone, Debug, PartialEq)]
struct One {
    part: &'static str,
    what: String,
    unit: String,
    value: f64,
    range: Option<(f64, f64)>,
    samples: u64,
    /// Of a rate: who states what it is held against, and that. Statements of two origins differ by more than clocks do.
    against: Option<(String, f64)>,
    /// How many figures of this name come before it in its report. `bench` measures a clock by its system call in two rows where the kernel offers no vDSO.
    earlier: usize,
}

/// The same figure of both.
#[derive(Clone, Debug, Serialize)]
struct Row {
    part: &'static str,
    what: String,
    unit: String,
    first: Option<f64>,
    first_low: Option<f64>,
    first_high: Option<f64>,
    first_samples: Option<u64>,
    second: Option<f64>,
    second_low: Option<f64>,
    second_high: Option<f64>,
    second_samples: Option<u64>,
    ratio: Option<f64>,
    verdict: &'static str,
}

/// A rule of `hpt doctor` that says something else.
#[derive(Clone, Debug, Serialize)]
struct Changed {
    rule: String,
    about: String,
    first: Option<String>,
    second: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Side {
    name: String,
    title: String,
    made: String,
    hpt: String,
    interrupted: bool,
    emulated_by: Option<String>,
    machine: Value,
}

#[derive(Debug, Serialize)]
struct Data {
    schema: u32,
    kind: &'static str,
    hpt: &'static str,
    first: Side,
    second: Side,
    differing: usize,
    results: Vec<Row>,
    rules: Vec<Changed>,
    notes: Vec<String>,
}

/// The words of a verdict; the first is the one that is marked.
const DIFFERS: &str = "differs";
const WITHIN: &str = "within the spread";
const NO_SPREAD: &str = "no spread to judge by";
const NOT_ALIKE: &str = "held against other rates";
/// A name that is longer would be cut off beside a curve, and two that begin alike would be one.
const LONGEST_NAME: usize = 24;
const ONLY_FIRST: &str = "only in the first";
const ONLY_SECOND: &str = "only in the second";

pub(super) fn run(
    (one, other): (&Path, &Path),
    keeping: &ReportFiles<'_>,
    context: &Context,
) -> Result<Document, Failure> {
    keeping.spare(&[one, other])?;
    let (first, second) = (sound(one)?, sound(other)?);
    if keeping.page.is_none() && keeping.pictures.is_some() {
        return Err(Failure::Usage("pictures of a comparison are those of its page; --out names it"));
    }
    let data = data(&first, &second, context);
    let (page, files) = page(&first, &second, &data).map_err(|why| Failure::NotAReport {
        path: format!("{} or {}", one.display(), other.display()).into(),
        why: causes(&why),
    })?;
    let written = keeping.page.is_some().then(|| keeping.keep(&html::page(&page), "", &files)).transpose()?;
    let mut blocks = blocks(&data);
    if let Some(path) = written.and_then(|kept| kept.page) {
        blocks.insert(0, Block::Facts(vec![("page", path.display().to_string())]));
    }
    Ok(Document::new(&data, "results", blocks))
}

/// A report that a page could be made of: figures of others would be missing without a word.
fn sound(path: &Path) -> Result<Report, Failure> {
    let report = Report::read(path)?;
    let made = super::page::page(&report);
    made.map_err(|why| Failure::NotAReport { path: path.to_owned(), why: causes(&why) })?;
    Ok(report)
}

fn data(first: &Report, second: &Report, context: &Context) -> Data {
    let (of_first, of_second) = (figures(first), figures(second));
    let results = rows(&of_first, &of_second);
    let names = match (&first.name, &second.name) {
        (Some(one), Some(other)) if one != other => (one.clone(), other.clone()),
        _ => ("A".to_owned(), "B".to_owned()),
    };
    let mut notes = context.notes();
    if first.hpt != second.hpt {
        notes.push(format!("hpt {} made the one and hpt {} the other", first.hpt, second.hpt));
    }
    if first.machine.get("cpu") != second.machine.get("cpu") {
        notes.push("the machines are of different kinds".to_owned());
    }
    notes.extend(other_commands(first, second));
    notes.extend(of_first.iter().filter_map(|one| {
        let other = of_second.iter().find(|other| is_same(one, other) && !is_alike(one, other))?;
        let against = |one: &One| {
            one.against
                .as_ref()
                .map_or_else(|| "an unnamed rate".to_owned(), |(by, hz)| format!("{} MHz by {by}", rounded(hz / 1e6)))
        };
        Some(format!(
            "{}: the first is held against {}, the second against {}; the two are not compared",
            one.what,
            against(one),
            against(other)
        ))
    }));
    Data {
        schema: 1,
        kind: "report-compare",
        hpt: env!("CARGO_PKG_VERSION"),
        first: side(first, names.0),
        second: side(second, names.1),
        differing: results.iter().filter(|row| row.verdict == DIFFERS).count(),
        results,
        rules: rules(first, second),
        notes,
    }
}

/// Parts that were not measured by the same command line.
fn other_commands(first: &Report, second: &Report) -> Vec<String> {
    let both = first.parts.iter().map(|part| (part.command.as_str(), second.command(&part.name)));
    both.filter(|(one, other)| !other.is_empty() && one != other)
        .map(|(one, other)| format!("the first was measured by `{one}`, the second by `{other}`"))
        .collect()
}

fn side(report: &Report, name: String) -> Side {
    Side {
        name,
        title: report.title(),
        made: report.began.clone(),
        hpt: report.hpt.clone(),
        interrupted: report.interrupted,
        emulated_by: report.emulated_by.clone(),
        machine: report.machine.clone(),
    }
}

/// All figures of a report that can be compared.
fn figures(report: &Report) -> Vec<One> {
    let mut found = Vec::new();
    let rows = |part: &str, key: &str| -> Vec<&Value> {
        report.document(part).and_then(|document| document.get(key)?.as_array()).into_iter().flatten().collect()
    };
    let text = |row: &Value, key: &str| row.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let number = |row: &Value, key: &str| row.get(key).and_then(Value::as_f64);
    let whole = |row: &Value, key: &str| row.get(key).and_then(Value::as_u64);
    // From p50 to p99: what lies below is for a read or a wake-up the same on every run.
    let spread = |row: &Value, keys: (&str, &str)| Some((number(row, keys.0)?, number(row, keys.1)?));
    let mut add = |part, what: String, unit: &str, value: Option<f64>, range, samples: Option<u64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            let unit = unit.to_owned();
            found.push(One {
                part,
                what,
                unit,
                value,
                range,
                samples: samples.unwrap_or(0),
                against: None,
                earlier: 0,
            });
        }
    };
    for row in rows("bench", "results") {
        let by_call = row["read_path"] == "syscall" && ["monotonic", "perf-cycles"].contains(&text(row, "id").as_str());
        let name = format!("{}{}", text(row, "id"), if by_call { " (syscall)" } else { "" });
        let range = spread(row, ("single_p50_ns", "single_p99_ns"));
        add(
            "bench",
            format!("{name}, single read"),
            "ns",
            number(row, "single_p50_ns"),
            range,
            whole(row, "single_samples"),
        );
        add("bench", format!("{name}, in a row"), "ns", number(row, "per_call_ns"), None, whole(row, "calls"));
    }
    for part in ["timer", "timer-hpt", "poll", "stall"] {
        let all = rows(part, "results");
        for row in &all {
            let cpu =
                whole(row, "cpu").filter(|_| all.len() > 1).map_or_else(String::new, |cpu| format!(", CPU {cpu}"));
            let what = match part {
                "timer" => "kernel's timer",
                "timer-hpt" => "hpt's Sleeper",
                "poll" => "looking",
                _ => "stalls",
            };
            let samples = whole(row, "samples").or_else(|| whole(row, "stalls"));
            add(part, format!("{what}{cpu}"), "ns", number(row, "p50_ns"), spread(row, ("p50_ns", "p99_ns")), samples);
        }
    }
    for row in rows("sleep", "results") {
        let what = format!("{}, {}", short_time(number(row, "duration_ns").unwrap_or(0.0)), text(row, "method"));
        add("sleep", what, "ns", number(row, "p50_ns"), spread(row, ("p50_ns", "p99_ns")), whole(row, "samples"));
    }
    let reference = report.document("watch").map_or_else(String::new, |document| text(document, "reference"));
    for row in rows("watch", "sources") {
        let end = |ppm: &str, bound: &str, sign: f64| Some(number(row, ppm)? + sign * number(row, bound)?);
        let range = end("lowest_ppm", "lowest_bound_ppm", -1.0).zip(end("highest_ppm", "highest_bound_ppm", 1.0));
        let middle = range.map(|(low, high)| rounded(f64::midpoint(low, high)));
        add(
            "watch",
            format!("{}, rate beside {reference}", text(row, "source")),
            "ppm",
            middle,
            range,
            whole(row, "bursts"),
        );
    }
    for row in rows("experiment", "results") {
        let what = format!("{}: {}", text(row, "experiment"), text(row, "what"));
        let middle = number(row, "p50").or_else(|| number(row, "measured"));
        add("experiment", what, &text(row, "unit"), middle, spread(row, ("p50", "p99")), whole(row, "samples"));
    }
    for row in rows("watch", "sources") {
        let begin = format!("{}, rate beside", text(row, "source"));
        let against = number(row, "expected_hz").map(|hz| (text(row, "expected_by"), hz));
        found
            .iter_mut()
            .filter(|one| one.part == "watch" && one.what.starts_with(&begin))
            .for_each(|one| one.against.clone_from(&against));
    }
    numbered(found)
}

/// Numbers the figures that have one name.
fn numbered(mut found: Vec<One>) -> Vec<One> {
    for at in 0..found.len() {
        let (before, rest) = found.split_at_mut(at);
        rest[0].earlier = before.iter().filter(|other| is_named_alike(&rest[0], other)).count();
    }
    found
}

/// The same figure.
fn is_same(one: &One, other: &One) -> bool {
    is_named_alike(one, other) && one.earlier == other.earlier
}

fn is_named_alike(one: &One, other: &One) -> bool {
    one.part == other.part && one.what == other.what && one.unit == other.unit
}

/// Whether both are held against the same, as far as they say.
fn is_alike(one: &One, other: &One) -> bool {
    let by = |one: &One| one.against.as_ref().map(|(by, _)| by.clone());
    by(one) == by(other)
}

fn rows(first: &[One], second: &[One]) -> Vec<Row> {
    let mut rows: Vec<Row> =
        first.iter().map(|one| row(Some(one), second.iter().find(|other| is_same(one, other)))).collect();
    rows.extend(
        second.iter().filter(|other| !first.iter().any(|one| is_same(one, other))).map(|other| row(None, Some(other))),
    );
    rows
}

fn row(first: Option<&One>, second: Option<&One>) -> Row {
    let either = first.or(second).expect("a row is of one of them at least");
    let ratio = first.zip(second).filter(|(one, _)| either.unit != "ppm" && one.value > 0.0);
    let low = |one: Option<&One>| one.and_then(|one| one.range).map(|range| range.0);
    let high = |one: Option<&One>| one.and_then(|one| one.range).map(|range| range.1);
    Row {
        part: either.part,
        what: either.what.clone(),
        unit: either.unit.clone(),
        first: first.map(|one| one.value),
        first_low: low(first),
        first_high: high(first),
        first_samples: first.map(|one| one.samples),
        second: second.map(|one| one.value),
        second_low: low(second),
        second_high: high(second),
        second_samples: second.map(|one| one.samples),
        ratio: ratio.map(|(one, other)| rounded(other.value / one.value)),
        verdict: verdict(first, second),
    }
}

/// They differ where the ranges have nothing in common.
fn verdict(first: Option<&One>, second: Option<&One>) -> &'static str {
    match (first, second) {
        (Some(one), Some(other)) if !is_alike(one, other) => NOT_ALIKE,
        (Some(one), Some(other)) => match (one.range, other.range) {
            (Some(one), Some(other)) if one.1 < other.0 || other.1 < one.0 => DIFFERS,
            (Some(_), Some(_)) => WITHIN,
            _ => NO_SPREAD,
        },
        (Some(_), None) => ONLY_FIRST,
        (None, _) => ONLY_SECOND,
    }
}

fn rules(first: &Report, second: &Report) -> Vec<Changed> {
    let of = |report: &Report| -> Vec<(String, String, String)> {
        let rules = report.document("doctor").and_then(|document| document["rules"].as_array());
        let text = |rule: &Value, key: &str| rule[key].as_str().unwrap_or_default().to_owned();
        let said = |rule: &Value| match rule["verdict"].as_str() {
            Some("found") => format!("{}: {}", text(rule, "severity"), text(rule, "seen")),
            _ => text(rule, "verdict"),
        };
        rules.into_iter().flatten().map(|rule| (text(rule, "rule"), text(rule, "about"), said(rule))).collect()
    };
    let (first, second) = (of(first), of(second));
    let find = |rules: &[(String, String, String)], name: &str| {
        rules.iter().find(|rule| rule.0 == name).map(|rule| rule.2.clone())
    };
    let mut names: Vec<_> = first.iter().chain(&second).map(|rule| (rule.0.clone(), rule.1.clone())).collect();
    let mut seen = Vec::new();
    names.retain(|(name, _)| {
        let is_new = !seen.contains(name);
        seen.push(name.clone());
        is_new
    });
    let both = !first.is_empty() && !second.is_empty();
    let changed = names.into_iter().map(|(rule, about)| Changed {
        first: find(&first, &rule),
        second: find(&second, &rule),
        rule,
        about,
    });
    changed.filter(|changed| both && changed.first != changed.second).collect()
}

fn shown(value: Option<f64>, unit: &str) -> String {
    match (value, unit) {
        (None, _) => "-".to_owned(),
        (Some(ns), "ns") => short_time(ns),
        (Some(value), _) => format!("{} {unit}", rounded(value)),
    }
}

fn cells(row: &Row) -> Vec<String> {
    let with_range = |value, high, unit| match high {
        Some(high) => format!("{} to {}", shown(value, unit), shown(Some(high), unit)),
        None => shown(value, unit),
    };
    let middle = |value: Option<f64>, low: Option<f64>| if row.unit == "ppm" { low } else { value };
    vec![
        row.what.clone(),
        with_range(middle(row.first, row.first_low), row.first_high, &row.unit),
        with_range(middle(row.second, row.second_low), row.second_high, &row.unit),
        row.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("× {ratio:.2}")),
        row.verdict.to_owned(),
    ]
}

const RULE: &str = "A figure counts as different where the ranges of the two have nothing in common: for times from p50 to p99, for rates all that their bounds allow. Rates are compared where the same one states what they are held against.";

fn blocks(data: &Data) -> Vec<Block> {
    let columns = vec![
        Column("part", Align::Left),
        Column("figure", Align::Left),
        Column("first", Align::Right),
        Column("second", Align::Right),
        Column("ratio", Align::Right),
        Column("", Align::Left),
    ];
    let mut before = "";
    let rows = data.results.iter().map(|row| {
        let tone = if row.verdict == DIFFERS { Tone::Strong } else { Tone::Plain };
        let part = if std::mem::replace(&mut before, row.part) == row.part { "" } else { row.part };
        let cells = cells(row).into_iter().map(|text| Cell(text, tone));
        std::iter::once(Cell::plain(part)).chain(cells).collect()
    });
    let mut blocks = vec![Block::Table(Table { columns, rows: rows.collect() })];
    for changed in &data.rules {
        let side = |said: &Option<String>| said.clone().unwrap_or_else(|| "not asked".to_owned());
        let rows = vec![
            vec![Cell::plain(format!("first: {}", side(&changed.first)))],
            vec![Cell::plain(format!("second: {}", side(&changed.second)))],
        ];
        blocks.push(Block::Section(format!("{} ({})", changed.about, changed.rule), rows));
    }
    let side = |side: &Side| format!("{}, {}, hpt {}", side.title, side.made, side.hpt);
    blocks.push(Block::Text(format!(
        "{} of {} figures differ. {RULE} first: {}. second: {}.",
        data.differing,
        data.results.len(),
        side(&data.first),
        side(&data.second)
    )));
    blocks.extend(crate::output::remarks(false, &data.notes));
    blocks
}

fn page(first: &Report, second: &Report, data: &Data) -> Result<(Page, Vec<(String, String)>), Unreadable> {
    let mut gallery = Gallery::default();
    let names = (data.first.name.as_str(), data.second.name.as_str());
    let is_long = |name: &str| name.chars().count() > LONGEST_NAME;
    let names = if is_long(names.0) || is_long(names.1) { ("A", "B") } else { names };
    let both = [(names.0, first, &data.first), (names.1, second, &data.second)];
    let mut sections = vec![Section {
        id: "sides",
        title: "The two".to_owned(),
        pieces: vec![
            Piece::Facts(
                both.iter()
                    .map(|(name, report, side)| ((*name).to_owned(), format!("{}: {}", side.title, report.lead())))
                    .collect(),
            ),
            Piece::Text(RULE.to_owned()),
        ],
    }];
    sections[0].pieces.extend(data.notes.iter().map(|note| Piece::Text(format!("Note: {note}."))));
    if !data.rules.is_empty() {
        let side = |said: &Option<String>| said.clone().unwrap_or_else(|| "not asked".to_owned());
        let rows = data.rules.iter().map(|rule| vec![rule.about.clone(), side(&rule.first), side(&rule.second)]);
        let head = ["", names.0, names.1].map(str::to_owned).to_vec();
        let table = html::Table {
            caption: "Rules of hpt doctor that say something else".to_owned(),
            head,
            rows: rows.collect(),
            marked: Vec::new(),
        };
        sections.push(Section {
            id: "findings",
            title: "What is in the way".to_owned(),
            pieces: vec![Piece::Table(table)],
        });
    }
    let mut of_parts: Vec<(&'static str, Vec<&Row>)> = Vec::new();
    for row in &data.results {
        match of_parts.last_mut() {
            Some((part, rows)) if *part == row.part => rows.push(row),
            _ => of_parts.push((row.part, vec![row])),
        }
    }
    for (part, rows) in of_parts {
        let head = ["", names.0, names.1, "ratio", ""].map(str::to_owned).to_vec();
        let table = Figures { head: head.clone(), rows: rows.iter().map(|row| cells(row)).collect() };
        let differing = rows.iter().filter(|row| row.verdict == DIFFERS).count();
        let says = format!("{differing} of {} figures differ by more than their spread.", rows.len());
        let mut pieces = Vec::new();
        let times: Vec<_> =
            rows.iter().filter(|row| row.unit == "ns" && row.first.is_some() && row.second.is_some()).collect();
        let pairs: Vec<Pair> = times
            .iter()
            .map(|row| Pair {
                what: row.what.clone(),
                first: row.first,
                second: row.second,
                words: if row.verdict == DIFFERS { DIFFERS.to_owned() } else { String::new() },
            })
            .collect();
        let provenance = both.iter().filter_map(|(name, report, _)| {
            Some((format!("{name}: {}", report.command(part)), report.document(part)?))
        });
        let provenance = chart::about_all(&provenance.collect::<Vec<_>>());
        if let Some((_, name)) = WAKES.iter().find(|(wake, _)| *wake == part) {
            let labels = (format!("{}, {name}", names.0), format!("{}, {name}", names.1));
            let documents = [(labels.0.as_str(), first.document(part)), (labels.1.as_str(), second.document(part))];
            let documents: Vec<_> =
                documents.into_iter().filter_map(|(label, document)| Some((label, document?))).collect();
            pieces.extend(gallery.show(chart::distribution(&documents))?);
        } else if !pairs.is_empty() {
            pieces.extend(gallery.show(Ok(chart::pairs_of(names, &pairs, table.clone(), says.clone(), provenance)))?);
        } else {
            pieces.extend([Piece::Text(says.clone()), Piece::Provenance(provenance)]);
        }
        pieces.push(Piece::Table(html::Table {
            caption: format!("{}: {says}", title(part)),
            head,
            marked: rows.iter().map(|row| row.verdict == DIFFERS).collect(),
            rows: table.rows,
        }));
        sections.push(Section { id: part, title: title(part).to_owned(), pieces });
    }
    let page = Page {
        title: format!("{} beside {}", data.first.name, data.second.name),
        lead: format!("Two reports of hpt side by side: {} of {} figures differ.", data.differing, data.results.len()),
        first: Vec::new(),
        sections,
        style: chart::style(),
    };
    Ok((page, gallery.files))
}

fn title(part: &str) -> &str {
    match part {
        "bench" => "Cost of a read",
        "timer" => "Latency by the kernel's timer",
        "timer-hpt" => "Latency by hpt's Sleeper",
        "poll" => "Latency of looking",
        "stall" => "Stalls",
        "sleep" => "Sleeps",
        "watch" => "Rates of clocks",
        "experiment" => "Published experiments",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::{DIFFERS, NO_SPREAD, NOT_ALIKE, ONLY_FIRST, ONLY_SECOND, One, WITHIN, numbered, rows};

    fn one(what: &str, value: f64, range: Option<(f64, f64)>) -> One {
        let (what, unit) = (what.to_owned(), "ns".to_owned());
        One { part: "bench", what, unit, value, range, samples: 9, against: None, earlier: 0 }
    }

    #[test]
    fn rates_are_compared_that_are_held_against_the_same() {
        let rate = |by: &str, hz, ppm: f64| One {
            against: Some((by.to_owned(), hz)),
            ..one("rate", ppm, Some((ppm - 0.1, ppm + 0.1)))
        };
        let kernel = rate("kernel", 2.4e9, 0.0);
        for (other, verdict) in [
            (rate("kernel", 2.2e9, 5.0), DIFFERS),
            (rate("kernel", 2.4e9, 0.1), WITHIN),
            (rate("cpuid", 2.4e9, 5.0), NOT_ALIKE),
            (One { against: None, ..kernel.clone() }, NOT_ALIKE),
        ] {
            assert_eq!(rows(std::slice::from_ref(&kernel), &[other])[0].verdict, verdict);
        }
    }

    #[test]
    fn figures_of_one_name_are_compared_in_their_order() {
        let figures = numbered(vec![
            one("monotonic (syscall)", 470.0, Some((470.0, 594.0))),
            one("monotonic (syscall)", 408.0, Some((408.0, 453.0))),
            one("monotonic (syscall)", 300.0, Some((300.0, 310.0))),
        ]);
        let rows = rows(&figures, &figures[..2]);
        let verdicts: Vec<_> = rows.iter().map(|row| (row.ratio, row.verdict)).collect();
        assert_eq!(verdicts, [(Some(1.0), WITHIN), (Some(1.0), WITHIN), (None, ONLY_FIRST)]);
    }

    #[test]
    fn what_has_nothing_in_common_differs_and_nothing_else_is_marked() {
        let first = [
            one("apart", 10.0, Some((10.0, 12.0))),
            one("below", 30.0, Some((30.0, 40.0))),
            one("touching", 10.0, Some((10.0, 12.0))),
            one("wide", 10.0, Some((10.0, 900.0))),
            one("unjudged", 10.0, None),
            one("gone", 1.0, None),
        ];
        let second = [
            one("apart", 13.0, Some((13.0, 14.0))),
            one("below", 5.0, Some((5.0, 29.0))),
            one("touching", 12.0, Some((12.0, 14.0))),
            one("wide", 500.0, Some((500.0, 600.0))),
            one("unjudged", 20.0, Some((20.0, 21.0))),
            one("new", 1.0, None),
        ];
        let rows = rows(&first, &second);
        let verdicts: Vec<_> = rows.iter().map(|row| (row.what.as_str(), row.verdict)).collect();
        assert_eq!(
            verdicts,
            [
                ("apart", DIFFERS),
                ("below", DIFFERS),
                ("touching", WITHIN),
                ("wide", WITHIN),
                ("unjudged", NO_SPREAD),
                ("gone", ONLY_FIRST),
                ("new", ONLY_SECOND)
            ]
        );
        assert_eq!((rows[0].ratio, rows[5].ratio), (Some(1.3), None));
    }
}
