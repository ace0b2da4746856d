//! The output of `hpt probe` for people: the list of sources, and the description of one source.

use std::time::Duration;

use hpt_core::source::{ReadPath, Scope};
use hpt_document::probe::{InstantStatus, ProbeDocument, ProbeRow};

use crate::{
    document_head::{machine_facts, machine_line},
    output::{Align, Block, Cell, Column, Table, Tone, one_or_many, remarks, short_frequency, short_time},
};

/// The coarsest resolution of a clock that measures short times.
const COARSEST_NS: f64 = 10_000.0;

/// The columns that only the complete list has, so that the usual list fits in every terminal.
const ONLY_WITH_ALL: [&str; 2] = ["bits", "from"];

/// The reasons for which a source cannot exist on this machine, whatever its user does. Such a source is listed only
/// with `--all`.
const ABSENT: [&str; 6] = ["other-architecture", "no-counter", "no-device", "no-pmu", "needs-write", "not-built"];

/// The reasons that are faults of the machine or of hpt's environment.
const FAULTS: [&str; 5] = ["self-test", "malformed", "illegal-instruction", "forbidden-by-prctl", "unknown"];

/// Returns whether a source is a system-wide clock with a constant rate and a fine resolution.
fn is_clock(row: &ProbeRow) -> bool {
    let is_fine = row.resolution_ns.is_none_or(|resolution_ns| resolution_ns <= COARSEST_NS);
    row.constant_rate == Some(true) && row.scope.as_deref() == Some(Scope::System.name()) && is_fine
}

fn is_absent(row: &ProbeRow) -> bool {
    !row.available && row.reason_kind.as_deref().is_some_and(|kind| ABSENT.contains(&kind))
}

/// Formats the best source, its read overhead, and the error bound of `Instant`, the clock of the library.
fn headline(data: &ProbeDocument) -> String {
    let instant = data.instant.as_ref().map(|status| format!("; {}", instant(status))).unwrap_or_default();
    let chosen = data.recommendation.source.as_ref();
    let Some(row) = chosen.and_then(|id| data.sources.iter().find(|row| row.id == *id)) else {
        return if data.head.machine.live {
            format!("Best time source: none, because {}{instant}", data.recommendation.reason)
        } else {
            "Best time source: not tested, because this is a system snapshot".to_owned()
        };
    };
    let cost = row.read_cost_ns.map(|ns| format!(", {} per read", short_time(ns))).unwrap_or_default();
    let rate = if row.constant_rate == Some(true) { ", constant-rate" } else { "" };
    format!("Best time source: {}{cost}{rate}{instant}", row.id)
}

fn instant(status: &InstantStatus) -> String {
    if status.bound_ns == 0 {
        return format!("Instant reads {} ({})", status.source, status.reason);
    }
    let bound = short_time(Duration::from_nanos(status.bound_ns).as_secs_f64() * 1e9);
    format!("Instant within {bound} of CLOCK_MONOTONIC")
}

/// Returns the sources in the order of the table: the chosen one, other fine clocks with a constant rate, other
/// readable sources, and those that cannot be used. Equal sources are in the order of their read overhead.
pub(super) fn best_first<'a>(rows: impl Iterator<Item = &'a ProbeRow>, chosen: Option<&String>) -> Vec<&'a ProbeRow> {
    let mut rows: Vec<&ProbeRow> = rows.collect();
    let cost = |row: &ProbeRow| row.read_cost_ns.unwrap_or(f64::INFINITY);
    rows.sort_by(|one, other| {
        let place = |row: &ProbeRow| (chosen != Some(&row.id), !row.available, !is_clock(row));
        place(one).cmp(&place(other)).then(cost(one).total_cmp(&cost(other)))
    });
    rows
}

/// Formats the list of sources. With `all`, the list has every source, and the reasons for the choice follow it.
pub(super) fn page(data: &ProbeDocument, all: bool) -> Vec<Block> {
    let chosen = data.recommendation.source.as_ref();
    let columns = [
        Column("source", Align::Left),
        Column("use", Align::Left),
        Column("bits", Align::Right),
        Column("frequency", Align::Right),
        Column("from", Align::Left),
        Column("resol.", Align::Right),
        Column("granul.", Align::Right),
        Column("cost", Align::Right),
        Column("path", Align::Left),
        Column("attr", Align::Left),
    ];
    let is_kept = |column: &usize| all || !ONLY_WITH_ALL.contains(&columns[*column].0);
    let kept: Vec<usize> = (0..columns.len()).filter(is_kept).collect();
    let shown = best_first(data.sources.iter().filter(|row| all || !is_absent(row)), chosen);
    let cells = |row: &&ProbeRow| {
        let cells = table_row(row, chosen).into_iter().enumerate();
        cells.filter(|(column, _)| kept.contains(column)).map(|(_, cell)| cell).collect()
    };
    let table = Table {
        columns: kept.iter().map(|&column| columns[column]).collect(),
        rows: shown.iter().map(cells).collect(),
    };
    let mut blocks = vec![Block::Headline(headline(data)), Block::Table(table)];
    if !all {
        blocks.extend(left_out(data).map(Block::Text));
    }
    let reasons = reasons(data);
    blocks.extend(reasons.into_iter().map(|block| if all { block } else { Block::Detail(Box::new(block)) }));
    blocks.extend(remarks(false, &data.notes));
    blocks
}

/// Returns a sentence on the sources that the list leaves out, and on those that it lists although they cannot be used.
fn left_out(data: &ProbeDocument) -> Option<String> {
    let absent = data.sources.iter().filter(|row| is_absent(row)).count();
    let refused = data.sources.iter().any(|row| !row.available && !is_absent(row));
    let absent = (absent > 0).then(|| {
        let are = one_or_many(absent as u64, "source is", "sources are");
        format!("{absent} {are} not available here: hpt probe --all")
    });
    let refused = refused.then(|| "Reasons: hpt probe SOURCE".to_owned());
    let sentences: Vec<String> = absent.into_iter().chain(refused).collect();
    (!sentences.is_empty()).then(|| sentences.join(". "))
}

/// Returns the machine, the legend, and the reasons for which sources are not available or were not chosen.
fn reasons(data: &ProbeDocument) -> Vec<Block> {
    let mut facts = machine_facts(&data.head.machine);
    if let Some(path) = &data.clock_gettime_read_path {
        facts.push(("clock_gettime", served(path).to_owned()));
    }
    facts.push(("hpt's choice", data.recommendation.reason.clone()));
    let legend = "from: origin of the frequency (--all) · resol.: resolution (clock_getres) · granul.: smallest observed step · cost: read \
         overhead, in the fastest of a few short runs · path: how a read reaches the source · attr: S constant rate, never \
         stepped; W system-wide; A adjusted by a time daemon; Z counts in suspend; R access can be revoked";
    let mut blocks = vec![Block::Text(legend.to_owned()), Block::Facts(facts)];
    let refused = data.sources.iter().filter(|row| !row.available).map(|row| {
        let remedy = row.fix.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
        vec![Cell::plain(row.id.as_str()), Cell::plain(format!("{}{remedy}", row.reason.as_deref().unwrap_or("?")))]
    });
    let refused: Vec<Vec<Cell>> = refused.collect();
    if !refused.is_empty() {
        blocks.push(Block::Section("Not available".to_owned(), refused));
    }
    let others =
        data.sources.iter().filter(|row| row.available && Some(&row.id) != data.recommendation.source.as_ref());
    blocks.push(Block::Section(
        "Why hpt did not choose the other sources".to_owned(),
        others.map(|row| vec![Cell::plain(row.id.as_str()), Cell::plain(&row.suitability)]).collect(),
    ));
    blocks
}

fn served(read_path: &str) -> &'static str {
    match read_path {
        path if path == ReadPath::Vdso.name() => "served by the vDSO",
        path if path == ReadPath::SystemCall.name() => "a system call, not served by the vDSO",
        _ => "not tested",
    }
}

fn table_row(row: &ProbeRow, chosen: Option<&String>) -> Vec<Cell> {
    let is_chosen = chosen == Some(&row.id);
    let usable = match (row.available, is_chosen) {
        (true, true) => Cell("best".to_owned(), Tone::Good),
        (true, false) => Cell("yes".to_owned(), Tone::Good),
        (false, _) if row.reason_kind.as_deref().is_some_and(|kind| FAULTS.contains(&kind)) => {
            Cell("no".to_owned(), Tone::Bad)
        }
        (false, _) => Cell::faint("no"),
    };
    let name = match (row.available, is_chosen) {
        (_, true) => Cell::strong(row.id.as_str()),
        (true, _) => Cell::plain(row.id.as_str()),
        (false, _) => Cell::faint(row.id.as_str()),
    };
    vec![
        name,
        usable,
        Cell::or_dash(row.width_bits.map(|bits| bits.to_string())),
        Cell::or_dash(row.frequency_hz.map(short_frequency)),
        Cell::or_dash(row.frequency_origin.as_deref().map(short_word)),
        Cell::or_dash(row.resolution_ns.map(short_time)),
        Cell::or_dash(row.granularity_ns.map(short_time)),
        Cell::or_dash(row.read_cost_ns.map(short_time)),
        Cell::or_dash(row.read_path.as_deref().map(short_word)),
        Cell::or_dash(letters(row)),
    ]
}

/// Shortens a word of the JSON document to fit the table.
fn short_word(word: &str) -> &str {
    match word {
        "definition" => "defined",
        "hypervisor" => "hyperv.",
        "device-tree" => "dev.tree",
        "register" => "reg",
        "syscall" => "call",
        other => other,
    }
}

fn letters(row: &ProbeRow) -> Option<String> {
    let letter = |is: Option<bool>, letter: char| if is == Some(true) { Some(letter) } else { None };
    row.scope.as_ref().map(|scope| {
        [
            letter(row.constant_rate, 'S'),
            letter(Some(scope == "system"), 'W'),
            letter(row.disciplined, 'A'),
            letter(row.counts_in_suspend, 'Z'),
            letter(row.revocable, 'R'),
        ]
        .into_iter()
        .flatten()
        .collect()
    })
}

/// Formats one source in detail.
pub(super) fn explanation(data: &ProbeDocument, row: &ProbeRow) -> Vec<Block> {
    let yes_no = |is: Option<bool>| match is {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    };
    let mut facts = vec![("source", format!("{}: {}", row.id, row.description))];
    match &row.reason {
        None => facts.push(("available", "yes".to_owned())),
        Some(reason) => facts.push(("available", format!("no: {reason}"))),
    }
    facts.extend(row.fix.iter().map(|remedy| ("fix", remedy.clone())));
    let mut add = |name: &'static str, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    add("width", row.width_bits.map(|bits| format!("{bits} bits")));
    let stated_by = row.frequency_origin.as_deref().unwrap_or("unknown");
    add("frequency", row.frequency_hz.map(|hertz| format!("{} ({stated_by})", short_frequency(hertz))));
    add("resolution", row.resolution_ns.map(|ns| format!("{} (nominal)", short_time(ns))));
    add(
        "granularity",
        row.granularity_ns.map(|ns| {
            let multiple = row.step_multiple_ticks.unwrap_or(1);
            format!(
                "{} is the smallest observed step; steps are multiples of {multiple} {}",
                short_time(ns),
                one_or_many(multiple, "tick", "ticks")
            )
        }),
    );
    add("read overhead", row.read_cost_ns.map(short_time));
    add("read path", row.read_path.clone());
    add("scope", row.scope.clone());
    if row.scope.is_some() {
        add("constant rate", Some(yes_no(row.constant_rate).to_owned()));
        add("adjusted", Some(yes_no(row.disciplined).to_owned()));
        add(
            "in suspend",
            Some(match row.counts_in_suspend {
                Some(true) => "counts".to_owned(),
                Some(false) => "stops".to_owned(),
                None => "unknown".to_owned(),
            }),
        );
        add("revocable", Some(yes_no(row.revocable).to_owned()));
    }
    add("kernel", Some(format!("{}: {}", row.kernel_verdict, row.kernel_evidence)));
    // For a source that is not available, it repeats why.
    add("choice", row.available.then(|| row.suitability.clone()));
    let mut blocks = vec![Block::Headline(verdict(data, row)), Block::Facts(facts)];
    if !row.evidence.is_empty() {
        let lines = row.evidence.iter().map(|line| vec![Cell::plain(line)]).collect();
        blocks.push(Block::Section("Evidence".to_owned(), lines));
    }
    blocks.push(Block::detail(machine_line(&data.head.machine)));
    blocks.extend(remarks(false, &data.notes));
    blocks
}

/// Returns whether a source can be used, in one sentence.
fn verdict(data: &ProbeDocument, row: &ProbeRow) -> String {
    if !row.available {
        return format!("{} is not available", row.id);
    }
    let best = if data.recommendation.source.as_ref() == Some(&row.id) { ", the best time source" } else { "" };
    let cost = row.read_cost_ns.map(|ns| format!(": {} per read", short_time(ns)));
    let step = row.granularity_ns.map(|ns| format!(", granularity {}", short_time(ns)));
    format!("{} is available{best}{}{}", row.id, cost.unwrap_or_default(), step.unwrap_or_default())
}
