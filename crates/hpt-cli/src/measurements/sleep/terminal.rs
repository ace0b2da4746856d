//! The headline and the table of `hpt sleep`.

use std::time::Duration;

use hpt_document::{
    quantiles::SleepList,
    sleep::{SleepDocument, SleepRow},
};

use super::target::sentence;
use crate::{
    document_head::machine_line,
    output::{
        Align, Block, Cell, Column, Table, exact_time, one_or_many, quantiles, remarks, short_percent, short_time,
    },
    sampling::{
        conditions, cpu_absences, explain,
        limits::{self, verdict::MAX_LEGEND},
        realtime_settings::words,
    },
};

pub(super) fn page(data: &SleepDocument) -> Vec<Block> {
    let groups: Vec<Vec<&SleepRow>> =
        data.results.chunk_by(|one, other| one.duration_ns == other.duration_ns).map(best_first).collect();
    let mut blocks = Vec::from_iter(headline(data, &groups));
    blocks.extend(limits::table::blocks(&data.limits));
    blocks.push(table(&groups));
    blocks.extend(trade_off(&groups).map(Block::Text));
    let sentences = data.results.iter().filter_map(|row| sentence(&length(row), row.target.as_ref()?));
    blocks.extend(sentences.map(Block::Text));
    blocks.extend(explain::terminal::blocks(&data.explanation, ("sleep", "sleeps")));
    let samples = data.results.iter().map(|row| row.samples).min().unwrap_or(0);
    let thread = words(&data.thread, data.cpu) + &cpu_absences::except(&data.cpu_absences);
    blocks.push(Block::detail(format!(
        "Each row shows the overshoot of {samples} {}, timed with {}; the methods took turns. trim 1 %: mean without \
         the largest 1 % of the samples. CPU %: CPU time of this thread as a percentage of elapsed time. {MAX_LEGEND}. {thread}. {}",
        one_or_many(samples, "sleep", "sleeps"),
        data.source,
        machine_line(&data.head.machine)
    )));
    blocks.extend(conditions::details(&data.conditions));
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

fn length(row: &SleepRow) -> String {
    exact_time(Duration::from_nanos(row.duration_ns))
}

/// Sorts the methods for one length by their median overshoot.
fn best_first(rows: &[SleepRow]) -> Vec<&SleepRow> {
    let mut rows: Vec<&SleepRow> = rows.iter().collect();
    let p50 = |row: &SleepRow| row.quantiles.median().unwrap_or(f64::INFINITY);
    rows.sort_by(|one, other| p50(one).total_cmp(&p50(other)));
    rows
}

/// Names the method with the lowest median overshoot for each length.
fn headline(data: &SleepDocument, groups: &[Vec<&SleepRow>]) -> Option<Block> {
    let best: Vec<&SleepRow> = groups.iter().filter_map(|rows| rows.first().copied()).collect();
    let samples = data.results.iter().map(|row| row.samples);
    let (fewest, most) = (samples.clone().min()?, samples.max()?);
    let samples = if fewest == most { most.to_string() } else { format!("{fewest} to {most}") };
    let winners = best.chunk_by(|one, other| one.method == other.method).map(|rows| {
        let lengths: Vec<String> = rows
            .iter()
            .filter_map(|row| Some(format!("{} at {}", short_time(row.quantiles.median()?), length(row))))
            .collect();
        let price = rows.iter().filter_map(|row| row.cpu_share).reduce(f64::max);
        let price = price.map_or_else(String::new, |share| format!(" ({} of a CPU)", short_percent(share)));
        format!("{} {}{price}", rows[0].method, lengths.join(", "))
    });
    let winners: Vec<String> = winners.collect();
    let cpu = data.cpu.map_or_else(|| "not pinned".to_owned(), |cpu| format!("CPU {cpu}"));
    let sleeps = one_or_many(most, "sleep", "sleeps");
    Some(Block::Headline(format!(
        "Sleep overshoot, {cpu}, {samples} {sleeps} per method, lowest p50: {}",
        winners.join("; ")
    )))
}

fn table(groups: &[Vec<&SleepRow>]) -> Block {
    let named = |name| Column(name, Align::Right);
    let head = [Column("sleep", Align::Left), Column("method", Align::Left), named("mean"), named("trim 1 %")];
    let last = ["max", "early", "CPU %"].map(named);
    let columns = head.into_iter().chain(quantiles::columns::<SleepList>()).chain(last).collect();
    let rows = groups.iter().flatten();
    let mut before = None;
    let rows = rows.map(|row| {
        let time = |ns: Option<f64>| Cell::or_dash(ns.map(short_time));
        let first = before.replace(row.duration_ns) != Some(row.duration_ns);
        let head = [
            Cell::plain(if first { length(row) } else { String::new() }),
            Cell::plain(row.method.as_str()),
            time(row.mean_ns),
            time(row.trimmed_mean_ns),
        ];
        let last = [
            time(row.max_ns),
            Cell::plain(row.early.to_string()),
            Cell::or_dash(row.cpu_share.map(|share| format!("{:.2}", share * 100.0))),
        ];
        head.into_iter().chain(quantiles::cells(&row.quantiles)).chain(last).collect()
    });
    Block::Table(Table { columns, rows: rows.collect() }.without_empty_columns())
}

/// Compares the overshoot and the CPU time of the methods for a length in the middle; `None` if there are not two
/// methods.
fn trade_off(groups: &[Vec<&SleepRow>]) -> Option<String> {
    let rows = groups.get(groups.len() / 2).filter(|rows| rows.len() > 1)?;
    let methods = rows.iter().enumerate().filter_map(|(place, row)| {
        let (p50, cpu) = if place == 0 { ("p50 ", " CPU") } else { ("", "") };
        let share = row.cpu_share.map(|share| format!(" at {:.1} %{cpu}", share * 100.0)).unwrap_or_default();
        Some(format!("{} {p50}{}{share}", row.method, short_time(row.quantiles.median()?)))
    });
    Some(format!("At {}: {}.", length(rows[0]), methods.collect::<Vec<_>>().join("; ")))
}
