//! The headline and the tables of `hpt bench`.

use hpt_core::source::Scope;
use hpt_document::{
    bench::{BenchDocument, BenchRow},
    quantiles::SingleReadList,
};

use crate::{
    document_head::machine_line,
    output::{Align, Block, Cell, Column, Table, quantiles, remarks, short_time},
    read_cost::{deviation, per_read},
    sampling::{
        conditions, cpu_absences,
        limits::{self, verdict::MAX_LEGEND},
        realtime_settings::pinned_to,
    },
};

/// The granularity from which on a clock is coarse: it advances only with the kernel's tick.
const COARSE_NS: f64 = 1e5;

/// Returns the name of a source. Two sources can have the same name if one of them needs a system call.
pub(super) fn name(row: &BenchRow) -> String {
    let by_call = ["monotonic", "perf-cycles"].contains(&row.id.as_str()) && row.read_path == "syscall";
    if by_call { format!("{} (syscall)", row.id) } else { row.id.clone() }
}

/// Returns the headline, the tables and the text. `cycles_scope` is the scope of the source that counted cycles.
pub(super) fn page(data: &BenchDocument, cycles_scope: Option<Scope>) -> Vec<Block> {
    let mut rows: Vec<&BenchRow> = data.results.iter().collect();
    let cost = |row: &BenchRow| row.repeated.per_read_ns.unwrap_or(f64::INFINITY);
    rows.sort_by(|one, other| cost(one).total_cmp(&cost(other)));
    let mut blocks = Vec::from_iter(headline(data, &rows));
    blocks.extend(limits::table::blocks(&data.limits));
    blocks.push(costs(&rows));
    blocks.push(singles(&rows, data.cycles_source.is_some()));
    blocks.push(Block::Detail(Box::new(times(&rows))));
    blocks.push(Block::detail(legend(data, cycles_scope)));
    blocks.extend(conditions::details(&data.conditions));
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

/// Names the fastest source that is suitable for measuring intervals, and CLOCK_MONOTONIC for comparison.
fn headline(data: &BenchDocument, rows: &[&BenchRow]) -> Option<Block> {
    let is_suitable = |row: &BenchRow| {
        let is_fine = row.granularity_ns.is_none_or(|ns| ns < COARSE_NS) && !row.id.ends_with("-coarse");
        row.constant_rate == Some(true) && is_fine
    };
    // Without a spread of batches, a figure is little more than the overhead of timing it.
    let described = |row: &BenchRow| {
        deviation(&row.repeated)?;
        Some(format!("{} {}", name(row), per_read(&row.repeated)?))
    };
    let fastest = rows.iter().find(|row| is_suitable(row)).filter(|_| rows.len() > 1);
    let monotonic = rows.iter().find(|row| row.id == "monotonic").filter(|row| fastest != Some(row));
    let mut parts = Vec::new();
    parts.extend(fastest.and_then(|row| Some(format!("{} (fastest constant-rate source)", described(row)?))));
    parts.extend(monotonic.and_then(|row| described(row)));
    if parts.is_empty() {
        parts.extend(rows.first().and_then(|row| described(row)));
    }
    if parts.is_empty() && rows.iter().any(|row| row.repeated.reads > 0) {
        parts.push("too few reads for a headline; use a larger --count".to_owned());
    }
    let cpu = data.cpu.map_or_else(|| "not pinned".to_owned(), |cpu| format!("CPU {cpu}"));
    (!parts.is_empty()).then(|| Block::Headline(format!("Read overhead, {cpu}: {}", parts.join(", "))))
}

/// Returns the table of the time per read.
fn costs(rows: &[&BenchRow]) -> Block {
    let columns = [
        Column("source", Align::Left),
        Column("per read", Align::Right),
        Column("±", Align::Right),
        Column("vs fastest", Align::Right),
        Column("vs CLOCK_MONOTONIC", Align::Right),
    ];
    let ratio = |ratio: Option<f64>| Cell::or_dash(ratio.map(|ratio| format!("{ratio:.2}")));
    let rows = rows.iter().map(|row| {
        vec![
            Cell::plain(name(row)),
            Cell::or_dash(row.repeated.per_read_ns.map(short_time)),
            Cell::or_dash(deviation(&row.repeated)),
            ratio(row.ratio_to_cheapest),
            ratio(row.ratio_to_monotonic),
        ]
    });
    Block::Table(Table { columns: columns.to_vec(), rows: rows.collect() }.without_empty_columns())
}

fn singles(rows: &[&BenchRow], with_cycles: bool) -> Block {
    let mut columns = vec![Column("single reads", Align::Left)];
    columns.extend(quantiles::columns::<SingleReadList>());
    columns.extend(["max", "resol.", "granul."].map(|name| Column(name, Align::Right)));
    if with_cycles {
        columns.push(Column("cycles", Align::Right));
    }
    let rows = rows.iter().map(|row| {
        let time = |ns: Option<f64>| Cell::or_dash(ns.map(short_time));
        let mut cells = vec![Cell::plain(name(row))];
        cells.extend(quantiles::cells(&row.single.quantiles));
        cells.extend([time(row.single.single_max_ns), time(row.resolution_ns), time(row.granularity_ns)]);
        if with_cycles {
            cells.push(Cell::or_dash(row.cycles_per_read.map(|cycles| format!("{cycles:.1}"))));
        }
        cells
    });
    Block::Table(Table { columns, rows: rows.collect() }.without_empty_columns())
}

/// Returns the table of the batches and of the CPU time.
fn times(rows: &[&BenchRow]) -> Block {
    let columns = [
        Column("back to back", Align::Left),
        Column("reads", Align::Right),
        Column("batches", Align::Right),
        Column("fastest", Align::Right),
        Column("mean", Align::Right),
        Column("total s", Align::Right),
        Column("user s", Align::Right),
        Column("sys s", Align::Right),
    ];
    let rows = rows.iter().map(|row| {
        vec![
            Cell::plain(name(row)),
            Cell::plain(row.repeated.reads.to_string()),
            Cell::plain(row.repeated.batches.to_string()),
            Cell::or_dash(row.repeated.per_read_min_ns.map(short_time)),
            Cell::or_dash(row.repeated.mean_read_ns.map(short_time)),
            Cell::plain(format!("{:.4}", row.repeated.total_s)),
            Cell::plain(format!("{:.4}", row.repeated.user_s)),
            Cell::plain(format!("{:.4}", row.repeated.system_s)),
        ]
    });
    Block::Table(Table { columns: columns.to_vec(), rows: rows.collect() })
}

fn legend(data: &BenchDocument, cycles_scope: Option<Scope>) -> String {
    let cpu = pinned_to(data.cpu) + &cpu_absences::except(&data.cpu_absences);
    let empty = data.results.first().and_then(|row| row.stopwatch_overhead_ns).map(short_time);
    let empty = empty.map(|empty| format!(", whose overhead of {empty} (p50) is included")).unwrap_or_default();
    let bound =
        data.stopwatch_bound_ppm.filter(|&ppm| ppm > 0.0).map(|ppm| format!(", ± {ppm:.2} ppm")).unwrap_or_default();
    let samples = data.results.iter().map(|row| row.single.single_samples.unwrap_or(0));
    let samples = match (samples.clone().min().unwrap_or(0), samples.max().unwrap_or(0)) {
        (fewest, most) if fewest == most => most.to_string(),
        (fewest, most) => format!("{fewest} to {most}"),
    };
    let counted = data.cycles_source.as_ref().zip(cycles_scope).map(|(id, scope)| {
        let whose = if scope == Scope::Thread { "of this thread in user mode" } else { "of the core" };
        format!(" cycles: cycles {whose} per back-to-back read, counted by {id}.")
    });
    let counted = counted.unwrap_or_default();
    format!(
        "per read: median of the batches of back-to-back reads, timed with CLOCK_MONOTONIC_RAW. ±: at least half of \
         the batches are within this distance of the median. fastest: the fastest batch. mean: total divided by reads. user, sys: CPU time as \
         accounted by the kernel, with a granularity of up to one tick. single reads: {samples} of each source, timed with {}{empty} \
         (frequency: {}{bound}). {MAX_LEGEND}. resol.: resolution. granul.: observed granularity.{counted} {cpu}. {}",
        data.stopwatch,
        data.stopwatch_frequency_origin.name(),
        machine_line(&data.head.machine)
    )
}
